"""Sign-in with an identity provider: the check of its tokens, and what clients are told about it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from whence.flow.hosts import host_name
from whence.schema.errors import ConfigError, missing_extra
from whence.surfaces.http.code_flow import CodeFlow
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import IssuerKeys, KeyFile

if TYPE_CHECKING:
    from starlette.requests import Request

    from whence.flow.settings import Settings

#: Where clients look up which issuer a server trusts (RFC 9728, section 3); paths of the server follow.
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
#: Paths that are resources of their own: clients of the Model Context Protocol are given the address with it.
RESOURCES: Final = ("", "/mcp")
#: Most seconds by which clocks may be said to differ.
_MOST_SKEW_S: Final = 600


class ProtectedResource(NamedTuple):
    """What clients are told about the issuer."""

    issuer: str
    scopes: tuple[str, ...] = ()
    """Scopes that clients should ask the issuer for."""
    public_url: str = ""
    """Address of this server for its callers; empty for that of each request."""

    def metadata(self, request: Request, path: str) -> dict[str, Any]:
        """Return the metadata of the server, or of one of its paths (RFC 9728, section 2)."""
        document: dict[str, Any] = {
            "resource": self._base(request) + path,
            "resource_name": "Whence",
            "bearer_methods_supported": ["header"],
        }
        if "://" in self.issuer:
            document["authorization_servers"] = [self.issuer]
        if self.scopes:
            document["scopes_supported"] = list(self.scopes)
        return document

    def challenge(self, request: Request) -> dict[str, str]:
        """Return the parameters of `WWW-Authenticate` that lead a client to the issuer."""
        path = request.url.path if request.url.path in RESOURCES else ""
        found = {"resource_metadata": self._base(request) + METADATA_PATH + path}
        return found | ({"scope": " ".join(self.scopes)} if self.scopes else {})

    def _base(self, request: Request) -> str:
        return base_url(request, self.public_url)


def base_url(request: Request, public_url: str) -> str:
    """Return the address of this server: the public one, else that of a request."""
    return public_url or f"{request.url.scheme}://{_authority(request)}"


def _authority(request: Request) -> str:
    """Return host and port of a request, without any other character of its header."""
    host = request.headers.get("host", "")
    name = host_name(host)
    name = f"[{name}]" if ":" in name else name
    try:
        port = urlsplit(f"//{host}").port
    except ValueError:
        port = None
    return name if port is None else f"{name}:{port}"


def public_url_of(settings: Settings) -> str:
    """Return the address of this server for its callers, without a slash at the end; empty when not set.

    Raises:
        ConfigError: It has a query, a fragment or a user.
    """
    url = settings.get("public_url") or ""
    parts = urlsplit(url)
    is_plain = url.isascii() and not set(url) & set('@?#"\\ ') and (parts.hostname or not url)
    if not is_plain:
        raise ConfigError("public_url is no plain address", hint="use https://answers.example")
    return url.rstrip("/")


def sign_in(settings: Settings) -> tuple[JwtCheck, ProtectedResource, IssuerKeys | None] | None:
    """Return the check of tokens that the settings describe, or None when they name no issuer.

    Returns:
        The check, what clients are told, and the keys when they are fetched from the issuer.

    Raises:
        ConfigError: A setting is missing or malformed, a file cannot be read, or the extra `oidc` is absent.
    """
    issuer, audience = settings.get("oidc_issuer"), settings.get("oidc_audience")
    given = [name for name in _OTHERS if settings.origin(name) != "default"]
    if not issuer:
        if given:
            raise ConfigError(f"{given[0]} needs an issuer", hint="add --oidc-issuer URL")
        return None
    if not audience:
        raise ConfigError(
            "the audience of tokens is not set: those for other servers would be accepted",
            hint="add --oidc-audience, the name of this server at the issuer",
        )
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise missing_extra("oidc", "checking tokens of an issuer")
    mapping, file = settings.get("oidc_mapping"), settings.get("oidc_jwks")
    fetched = None if file else IssuerKeys(issuer)
    rights = GroupRights(
        settings.get("oidc_groups_claim") or "", Path(mapping).expanduser() if mapping else None
    )
    keys = fetched or KeyFile(Path(file or "").expanduser())
    check = JwtCheck(issuer, audience, keys, rights, skew_s=_skew(settings))
    scopes = tuple((settings.get("oidc_scopes") or "").split())
    if not all(one.isascii() and one.isprintable() and not set(one) & set('"\\') for one in scopes):
        raise ConfigError(f"oidc_scopes {scopes!r} holds a character that no scope has")
    return check, ProtectedResource(issuer, scopes, public_url_of(settings)), fetched


def code_flow(settings: Settings, check: JwtCheck | None) -> CodeFlow | None:
    """Return the sign-in of the page; None without an issuer that has an address."""
    issuer, audience = settings.get("oidc_issuer") or "", settings.get("oidc_audience") or ""
    if check is None or "://" not in issuer:
        return None
    return CodeFlow(
        issuer,
        settings.get("oidc_client_id") or audience,
        check,
        client_secret=settings.get("oidc_client_secret") or "",
        scopes=tuple((settings.get("oidc_scopes") or "").split()),
    )


_OTHERS: Final = (
    "oidc_audience",
    "oidc_groups_claim",
    "oidc_mapping",
    "oidc_jwks",
    "oidc_clock_skew",
    "oidc_scopes",
    "oidc_client_id",
    "oidc_client_secret",
)


def _skew(settings: Settings) -> int:
    value = settings.get("oidc_clock_skew") or ""
    if not (
        value.isascii() and value.isdecimal() and len(value) <= 3 and int(value) <= _MOST_SKEW_S
    ):
        raise ConfigError(f"oidc_clock_skew must be 0 to {_MOST_SKEW_S} seconds, not {value!r}")
    return int(value)
