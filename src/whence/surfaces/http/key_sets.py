"""Public keys that check tokens: read from a file, or fetched from the issuer, again as it rotates them.

A key is used for signatures only, with the algorithms of its kind. What a token says of its own key (`jku`,
`x5u`, `jwk`) is never read, and symmetric keys are left out: no token chooses how it is checked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from whence.flow.hosts import LOOPBACK
from whence.schema.errors import BadInput, ConfigError, Unavailable
from whence.surfaces.http.requests import decode_json
from whence.surfaces.http.watched_file import WatchedFile

if TYPE_CHECKING:
    import httpx
    from jwt.algorithms import AllowedPublicKeys

logger = logging.getLogger(__name__)

#: Algorithms by kind of key: the type of an RSA key, the curve of any other (RFC 7518, section 3.1; RFC 8037).
_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "Ed25519": ("EdDSA",),
}
ALGORITHMS: Final = frozenset(name for names in _ALGORITHMS.values() for name in names)
#: Members of a public key by its type.
_MEMBERS: Final = {
    "RSA": ("kty", "n", "e"),
    "EC": ("kty", "crv", "x", "y"),
    "OKP": ("kty", "crv", "x"),
}
#: Least bits of an RSA key (RFC 7518, section 3.3).
_LEAST_RSA_BITS: Final = 2048
#: Age in seconds after which keys are fetched again before they are used.
REFRESH_S: Final = 900.0
#: Age up to which they are used while the issuer does not answer.
GRACE_S: Final = 86_400.0
#: Least seconds between two fetches because of unknown keys, and after one that failed.
INTERVAL_S: Final = 5.0
#: Longest time of a fetch, in seconds.
_TIMEOUT_S: Final = 5.0
#: Largest document of an issuer, in bytes.
_MOST_BYTES: Final = 2**20
_DISCOVERY: Final = "/.well-known/openid-configuration"


class PublicKey(NamedTuple):
    """A key and what it may check."""

    kid: str | None
    """Its name; None when it has none."""
    algorithms: frozenset[str]
    key: AllowedPublicKeys

    def fits(self, kid: str | None, algorithm: str) -> bool:
        """Return whether it may check a token that names this key and algorithm."""
        return algorithm in self.algorithms and (kid is None or kid == self.kid)


class KeySet(Protocol):
    """Where keys come from."""

    async def matching(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Return the keys that may check a token; those of every name when it names none.

        Raises:
            Unavailable: No keys can be had at present.
        """
        ...


class KeyFile:
    """Keys of a file with a JSON Web Key Set, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(
            path,
            lambda data: _some(_parse_keys(decode_json(data), str(path)), str(path)),
            what="keys",
            hint='a JSON Web Key Set is {"keys": [...]}',
        )
        self._file.read()

    async def matching(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Return the keys that may check a token."""
        return [key for key in self._file.current() if key.fits(kid, algorithm)]


class IssuerKeys:
    """Keys that an issuer publishes (OpenID Connect Discovery 1.0, section 4).

    They are fetched when they are first needed, when they are older than `REFRESH_S`, and when a token names
    an unknown one, for that no more often than every `INTERVAL_S`. While the issuer does not answer, those that
    are known are used up to the age of `GRACE_S`. A key that is gone from the set counts no longer.

    Args:
        issuer: Its address, exactly as it stands in its documents and tokens.
        clock: Seconds that never go back.

    Raises:
        ConfigError: The address is neither https nor of this machine.
    """

    def __init__(self, issuer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._address = checked_url(issuer, "the issuer")
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched = self._tried = self._searched = -float("inf")
        self._is_failing = False
        self._lock = asyncio.Lock()

    async def matching(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Return the keys that may check a token."""
        if self._age() > REFRESH_S:
            await self._refresh(is_unknown=False)
        found = self._known(kid, algorithm)
        if not found:
            await self._refresh(is_unknown=True)
            found = self._known(kid, algorithm)
        if self._age() > GRACE_S or (self._is_failing and not found):
            raise Unavailable(
                "the identity provider does not answer, so tokens cannot be checked",
                hint="try again later",
                retry_after_s=max(1.0, self._tried + INTERVAL_S - self._clock()),
            )
        return found

    async def check(self) -> None:
        """Fetch the keys for the first time; an issuer that does not answer is logged only.

        Raises:
            ConfigError: The issuer is another one, or its documents are malformed.
        """
        try:
            self._keys = _some(await self._fetch(), self._issuer)
        except Unavailable as error:
            logger.warning("%s; its tokens are refused until it answers", error.message)
        else:
            self._fetched = self._clock()

    def _known(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        return [key for key in self._keys if key.fits(kid, algorithm)]

    def _age(self) -> float:
        return self._clock() - self._fetched

    async def _refresh(self, *, is_unknown: bool) -> None:
        """Fetch the keys, unless another request just did; requests that need them wait for one fetch.

        Args:
            is_unknown: Whether a key is unknown; else the keys are old.
        """
        async with self._lock:
            now = self._clock()
            is_done = now - self._searched < INTERVAL_S if is_unknown else self._age() <= REFRESH_S
            if is_done or (self._is_failing and now - self._tried < INTERVAL_S):
                return
            try:
                self._keys = await self._fetch()
            except (Unavailable, ConfigError) as error:
                self._is_failing = True
                logger.error("the keys stay as they are: %s", error.message)  # noqa: TRY400 - it says all
            else:
                self._is_failing = False
                self._fetched = self._clock()
            self._tried = self._clock()
            if is_unknown:
                self._searched = self._tried

    async def _fetch(self) -> tuple[PublicKey, ...]:
        import httpx

        try:
            async with asyncio.timeout(_TIMEOUT_S), issuer_client(self._address) as client:
                keys_url = self._keys_url(await describe_issuer(client, self._issuer))
                return _parse_keys(await _get(client, keys_url), keys_url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            words = str(error) or type(error).__name__
            raise Unavailable(f"the issuer {self._issuer} does not answer: {words}") from error

    def _keys_url(self, about: dict[str, Any]) -> str:
        url = checked_url(about.get("jwks_uri"), "the address of its keys (jwks_uri)")
        if self._issuer.startswith("https:") and not url.startswith("https:"):
            raise ConfigError(f"the issuer {self._issuer} publishes its keys without https")
        return url


def issuer_client(address: str) -> httpx.AsyncClient:
    """Return a client for an address of an issuer."""
    import httpx

    # No proxy leads to an issuer on this machine.
    is_remote = address.startswith("https:")
    return httpx.AsyncClient(headers={"Accept-Encoding": "identity"}, trust_env=is_remote)


async def describe_issuer(client: httpx.AsyncClient, issuer: str) -> dict[str, Any]:
    """Return what an issuer says of itself (OpenID Connect Discovery 1.0, section 4).

    Raises:
        ConfigError: It calls itself by another name, or its document is malformed.
    """
    about = await _get(client, issuer.rstrip("/") + _DISCOVERY)
    named = about.get("issuer") if isinstance(about, dict) else None
    if named != issuer:
        raise ConfigError(
            f"the issuer at {issuer} calls itself {named!r}",
            hint="give --oidc-issuer exactly as the provider states it, with or without a slash at the end",
        )
    found: dict[str, Any] = about
    return found


async def _get(client: Any, url: str) -> Any:
    """Return the JSON document at an address."""
    import httpx

    async with client.stream("GET", url) as response:
        if response.status_code != 200:
            raise httpx.HTTPError(f"{url} returned status {response.status_code}")
        data = b""
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > _MOST_BYTES:
                raise ConfigError(f"{url} returned more than {_MOST_BYTES} bytes")
    try:
        return decode_json(data)
    except BadInput as error:
        raise ConfigError(f"{url} returned no JSON: {error.message}") from error


def checked_url(url: object, what: str) -> str:
    """Return an address that is https, or of this machine."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
        if (parts.scheme == "https" or is_local) and parts.hostname and "@" not in parts.netloc:
            return str(url)
    except ValueError:
        pass
    raise ConfigError(
        f"{what} is {url!r}", hint="it must be an https address without user, query and fragment"
    )


def _parse_keys(document: Any, where: str) -> tuple[PublicKey, ...]:
    """Return the usable keys of a JSON Web Key Set (RFC 7517, section 5)."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ConfigError(f"{where} is no JSON Web Key Set: it has no list `keys`")
    return tuple(key for each in keys if (key := _public_key(each)) is not None)


def _some(keys: tuple[PublicKey, ...], where: str) -> tuple[PublicKey, ...]:
    if not keys:
        algorithms = ", ".join(sorted(ALGORITHMS))
        raise ConfigError(
            f"{where} has no key for signatures", hint=f"the algorithms are {algorithms}"
        )
    return keys


class _Jwk(msgspec.Struct, frozen=True):
    """The members of a key that are read (RFC 7517, section 4; RFC 7518, section 6; RFC 8037)."""

    kty: str
    kid: str | None = None
    use: str = "sig"
    key_ops: tuple[str, ...] = ("verify",)
    alg: str | None = None
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


def _public_key(stated: Any) -> PublicKey | None:
    """Return a key, or None when it is not for signatures, of another kind, too small or malformed."""
    from jwt import InvalidKeyError, PyJWK

    try:
        one = msgspec.convert(stated, _Jwk)
    except msgspec.ValidationError:
        return None
    names = _ALGORITHMS.get("RSA" if one.kty == "RSA" else one.crv, ())
    algorithms = frozenset(name for name in names if one.alg in (None, name))
    if one.use != "sig" or "verify" not in one.key_ops or not algorithms:
        return None
    try:
        # Only what is public: with a private member it would be another kind of key.
        members = {name: getattr(one, name) for name in _MEMBERS[one.kty]}
        key = PyJWK(members).key
    except (InvalidKeyError, ValueError, KeyError):
        return None
    if one.kty == "RSA" and key.key_size < _LEAST_RSA_BITS:
        return None
    return PublicKey(one.kid, algorithms, key)
