"""Endpoints: which server a role asks, and with which key.

A key belongs to one server. A role's own key goes to the role's own server. A fallback key goes to the server
that it was given for, and to no other: `OPENAI_API_KEY` is sent to the origin of `OPENAI_BASE_URL` alone.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from whence.schema.errors import ConfigError

Role = Literal["embedder", "reranker", "writer"]

#: Longest time of a request with all its attempts, in seconds.
TIMEOUT_S: Final = 27.0
#: Requests that wait for one server at the same time.
CONCURRENCY: Final = 4
#: What a server listens on to be reached from everywhere.
_ALL: Final = "0.0.0.0"  # noqa: S104 - nothing listens on it here
_PORTS: Final = {"http": 80, "https": 443}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A server at a base address, with the key for it."""

    url: str
    """Address with path, e.g. `https://host/v1`; may hold a user and a password, and a query."""
    key: str | None = None
    """Sent as a bearer token, or in the header `api-key` when the address has `api-version`; never shown."""
    key_name: str = ""
    """Variable of the key, for hints."""
    role: str = "model"
    """What the server is asked for; named in errors."""
    timeout_s: float = TIMEOUT_S
    """Longest time of a request with all its attempts, in seconds."""
    timeout_is_set: bool = False
    """Whether somebody chose this time; otherwise the first bytes of a text may take longer."""
    concurrency: int = CONCURRENCY
    """Most requests at the same time."""

    def __repr__(self) -> str:
        return f"Endpoint({self.role!r})"


class _Provider(NamedTuple):
    """A kind of service, and where its fallbacks stand in the settings."""

    address: str
    """Its address when none is set; empty when one must be set."""
    url: str = ""
    """Setting of the fallback address."""
    key: str = ""
    """Setting of the fallback key."""


_PROVIDERS: Final = {
    "openai": _Provider("https://api.openai.com/v1", "openai_base_url", "openai_api_key"),
    "cohere": _Provider("https://api.cohere.com", "cohere_base_url", "cohere_api_key"),
    "ollama": _Provider("http://localhost:11434/v1", "ollama_host"),
    "http": _Provider(""),
}


def endpoint_of(role: Role, provider: str, settings: Any) -> Endpoint:
    """Return the server of a role, and the key that belongs to it.

    Args:
        role: Its settings `ROLE_url` and `ROLE_api_key` come first.
        provider: `openai`, `cohere`, `ollama` or `http`; its fallbacks come next.
        settings: A `ModelSettings`.

    Raises:
        ConfigError: No address is set and the provider has none, or an address is malformed.
    """
    kind = _PROVIDERS[provider]
    fallback = (getattr(settings, kind.url) if kind.url else None) or kind.address
    if provider == "ollama":
        fallback = ollama_url(fallback)
    url = getattr(settings, f"{role}_url") or fallback
    key, key_name = getattr(settings, f"{role}_api_key"), f"WHENCE_{role.upper()}_API_KEY"
    if not url:
        raise ConfigError(
            f"no address of the {role}'s server is set",
            hint=f"set WHENCE_{role.upper()}_URL, e.g. to http://localhost:8080",
        )
    if not key and kind.key and same_origin(url, fallback):
        key, key_name = getattr(settings, kind.key), kind.key.upper()
    return Endpoint(
        url=url,
        key=key or None,
        key_name=key_name,
        role=role,
        timeout_s=float(settings.model_timeout or TIMEOUT_S),
        timeout_is_set=bool(settings.model_timeout),
        concurrency=settings.model_concurrency or CONCURRENCY,
    )


def ollama_url(host: str) -> str:
    """Return the address of Ollama's OpenAI-compatible API for a value of `OLLAMA_HOST`.

    As Ollama's own client reads it: scheme and port may be missing, and an address to listen on all interfaces
    is asked on this machine.

    >>> ollama_url("0.0.0.0"), ollama_url("gpu:1234"), ollama_url("https://ollama.example")
    ('http://127.0.0.1:11434/v1', 'http://gpu:1234/v1', 'https://ollama.example:443/v1')
    """
    scheme, mark, rest = host.strip().rpartition("://")
    parts = _split(f"{scheme if mark else 'http'}://{rest}")
    port = parts.port or (_PORTS.get(parts.scheme, 11434) if mark else 11434)
    name = parts.hostname or "127.0.0.1"
    name = {_ALL: "127.0.0.1", "::": "[::1]"}.get(name, f"[{name}]" if ":" in name else name)
    login = parts.netloc.rpartition("@")[0]
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{login}{'@' if login else ''}{name}:{port}{path}/v1"


def same_origin(one: str, other: str) -> bool:
    """Return whether two addresses have one scheme, host and port."""
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = _split(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _split(url: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        ConfigError: It is malformed; the message does not hold it, because it may hold a password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError("the address of a model server is malformed") from error
    return parts
