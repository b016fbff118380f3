"""An identity provider for tests: real keys, real tokens, and an HTTP server that publishes the keys."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "whence"


def private_key(name: str, kind: str = "RS256") -> Any:
    """Return the private key of a name that signs with an algorithm, made once for the run."""
    return _private_key(name, "RSA" if kind[0] in "RP" else kind)


@cache
def _private_key(name: str, kind: str) -> Any:
    if kind == "RSA":
        return rsa.generate_private_key(65_537, 2048)
    if kind == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    return ec.generate_private_key(curves[kind])


def public_jwk(name: str, kind: str = "RS256", **members: Any) -> dict[str, Any]:
    """Return the public key of a name as an issuer publishes it."""
    key = private_key(name, kind).public_key()
    form = RSAAlgorithm if kind[0] in "RP" else OKPAlgorithm if kind == "EdDSA" else ECAlgorithm
    return form.to_jwk(key, as_dict=True) | {"kid": name, "use": "sig"} | members


def part(value: Any) -> str:
    """Return a part of a token; bytes as they are, anything else as JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(claims: Any, name: str = "a", kind: str = "RS256", **header: Any) -> str:
    """Return a token with exactly these claims, signed by the key of a name; bytes are signed as they are."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    stated = {"kid": name, "typ": "JWT"} | header
    given = {key: value for key, value in stated.items() if value is not None}
    return str(jwt.PyJWS().encode(payload, private_key(name, kind), kind, given))


class Issuer:
    """What the provider publishes; tests change it while it runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.about: dict[str, Any] = {"issuer": url, "jwks_uri": f"{url}/keys"}
        self.keys: list[dict[str, Any]] = [public_jwk("a")]
        self.is_down = False
        self.asked: list[str] = []
        self.encodings: set[str | None] = set()
        self.delay_s = 0.0
        self.exchange: Callable[[dict[str, str], str], tuple[int, Any]] = lambda _, __: (400, {})
        """Returns status and tokens for the form of an exchange and its `Authorization` header."""

    def claims(self, **claims: Any) -> dict[str, Any]:
        """Return claims that are valid now, with those given; None leaves one out."""
        now = int(time.time())
        every = {"iss": self.url, "aud": AUDIENCE, "sub": "anna", "iat": now, "exp": now + 300}
        return {key: value for key, value in (every | claims).items() if value is not None}

    def token(self, name: str = "a", kind: str = "RS256", **claims: Any) -> str:
        """Return a token."""
        return sign(self.claims(**claims), name, kind)

    def documents(self) -> Mapping[str, Any]:
        """Return what is published, by path."""
        return {"/.well-known/openid-configuration": self.about, "/keys": {"keys": self.keys}}


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Serve an issuer on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.encodings.add(self.headers.get("Accept-Encoding"))
            if self.path.startswith("/authorize?"):
                self._send_back()
                return
            time.sleep(issuer.delay_s)
            found = None if issuer.is_down else issuer.documents().get(self.path)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(503 if issuer.is_down else 200 if found is not None else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _send_back(self) -> None:
            """Redirect back with a code, without a question."""
            asked = {
                name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()
            }
            answer = urlencode({"code": "the code", "state": asked["state"]})
            self.send_response(303)
            self.send_header("Location", f"{asked['redirect_uri']}?{answer}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = dict(parse_qsl(body, keep_blank_values=True))
            status, tokens = issuer.exchange(form, self.headers.get("Authorization", ""))
            data = json.dumps(tokens).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
