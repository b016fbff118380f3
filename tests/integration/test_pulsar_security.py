"""A broker with tokens and TLS: which clients it accepts, and the errors of the others."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.pulsar_broker import TestBroker, running_broker

from whence.broker.pulsar.transport import PulsarOptions, PulsarTransport
from whence.schema.errors import ConfigError, Unavailable
from whence.testing.transport_factory import acked, fresh_topic

pytestmark = [pytest.mark.pulsar, pytest.mark.slow, pytest.mark.timeout(300)]

_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
_KEY = b"a key of this test, of 32 bytes or more"


def token(role: str, key: bytes = _KEY) -> str:
    """Sign a JSON web token (RFC 7519) for a role with a key that the broker shares, HS256."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    signed = f"{head}.{part(json.dumps({'sub': role}).encode())}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"


@dataclass(frozen=True)
class SecureBroker:
    """A broker with two doors: plain and TLS, both for those with a token."""

    broker: TestBroker
    tls_url: str
    certificate: Path

    def connect(self, url: str = "", **options: Any) -> PulsarTransport:
        """Return a client; without an address at the port without TLS."""
        return PulsarTransport(
            url or self.broker.url,
            options=PulsarOptions(**{"operation_timeout_s": 30, **options}),
        )


def certify(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself; gives it and its key, both PEM."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=whence.example", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Any
) -> Iterator[SecureBroker]:
    """Yield a broker that requires tokens, on a port without and one with TLS."""
    certificate, key = certify(tmp_path_factory.mktemp("tls"))
    tls_port = unused_tcp_port_factory()
    admin = token("admin")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": _PROVIDER,
        "tokenSecretKey": f"data:;base64,{base64.b64encode(_KEY).decode()}",
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{admin}",
        "brokerServicePortTls": tls_port,
        "tlsCertificateFilePath": certificate,
        "tlsKeyFilePath": key,
    }
    with running_broker(own=True, settings=settings, token=admin) as broker:
        yield SecureBroker(broker, f"pulsar+ssl://127.0.0.1:{tls_port}", certificate)


async def passes(transport: PulsarTransport) -> None:
    """Send a message there and back."""
    topic = fresh_topic()
    try:
        await transport.health()
        subscription = await transport.subscribe(topic, "g")
        await transport.publish(topic, b"x")
        assert await acked(subscription, 1) == [b"x"]
    finally:
        await transport.aclose()


async def test_a_token_grants_access(secure: SecureBroker, tmp_path: Path) -> None:
    """With a token, given directly or in a file, messages and admin statistics are available."""
    file = tmp_path / "token"
    file.write_text(token("admin") + "\n", "utf-8")

    await passes(secure.connect(token=token("admin")))
    await passes(secure.connect(token_file=str(file)))
    transport = secure.connect(token=token("admin"), admin_url=secure.broker.admin_url)
    topic = fresh_topic()
    await (await transport.subscribe(topic, "g")).aclose()
    await transport.publish(topic, b"x")
    stats = await transport.stats(topic, "g")
    await transport.aclose()

    assert stats.backlog == 1


@pytest.mark.parametrize("name", ["none", "forged", "stranger"])
async def test_invalid_tokens_are_refused(secure: SecureBroker, name: str) -> None:
    """No token, a token of another key and a role without rights are refused; no secret is shown."""
    given = {"none": "", "forged": token("admin", b"x" * 32), "stranger": token("stranger")}[name]
    transport = secure.connect(token=given, operation_timeout_s=1)

    # Before a connection stands the client library tries again, until its time is up.
    kind = ConfigError if name == "stranger" else Unavailable
    with pytest.raises(kind) as told:
        await transport.publish(fresh_topic(), b"x")
    with pytest.raises(kind):
        await transport.subscribe(fresh_topic(), "g")
    await transport.aclose()

    assert "WHENCE_PULSAR_" in told.value.hint
    assert not given or given not in f"{told.value} {told.value.hint}"


async def test_tls_with_a_trusted_certificate(secure: SecureBroker) -> None:
    """A client that trusts the broker's certificate works over TLS."""
    options = {"token": token("admin"), "tls_trust_certs": str(secure.certificate)}

    await passes(secure.connect(secure.tls_url, **options))


async def test_tls_with_an_unknown_certificate(secure: SecureBroker) -> None:
    """A broker with an untrusted certificate receives nothing, not even the token."""
    transport = secure.connect(secure.tls_url, token=token("admin"))

    # Where nobody listens the client library would try again until its time is up, and say so.
    with pytest.raises(Unavailable, match="ConnectError"):
        await transport.publish(fresh_topic(), b"x")
    await transport.aclose()


async def test_tls_for_another_host(secure: SecureBroker) -> None:
    """A trusted certificate of another host is refused."""
    port = urlsplit(secure.tls_url).port
    options = {
        "token": token("admin"),
        "tls_trust_certs": str(secure.certificate),
    }
    transport = secure.connect(f"pulsar+ssl://localhost:{port}", **options)

    # Where nobody listens the client library would try again until its time is up, and say so.
    with pytest.raises(Unavailable, match="ConnectError"):
        await transport.publish(fresh_topic(), b"x")
    await transport.aclose()
