"""Keys of an issuer over real HTTP: discovery, rotation, outages, and what is never trusted."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from tests.support.issuer import AUDIENCE, Issuer, public_jwk, running_issuer

from whence.flow.settings import Settings
from whence.schema.access import Access
from whence.schema.errors import ConfigError, Unavailable
from whence.surfaces.http.auth import InvalidToken
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import GRACE_S, INTERVAL_S, REFRESH_S, IssuerKeys
from whence.surfaces.http.oidc import ProtectedResource, public_url_of, sign_in


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Return a running issuer with one key."""
    with running_issuer() as running:
        yield running


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the keys."""
    return Clock()


@pytest.fixture
def check(issuer: Issuer, clock: Clock) -> JwtCheck:
    """Return a check of the issuer's tokens."""
    return JwtCheck(issuer.url, AUDIENCE, IssuerKeys(issuer.url, clock), GroupRights("groups"))


async def is_refused(check: JwtCheck, token: str) -> bool:
    """Return whether a token is refused."""
    try:
        await check.caller(token)
    except InvalidToken:
        return True
    return False


def fetches(issuer: Issuer) -> int:
    """Return how often the keys were fetched."""
    return issuer.asked.count("/keys")


async def test_keys_are_fetched_once(issuer: Issuer, check: JwtCheck) -> None:
    """Many requests at once wait for one fetch, and later ones need none."""
    tokens = [issuer.token(sub=f"reader-{number}") for number in range(20)]
    callers = await asyncio.gather(*(check.caller(token) for token in tokens))
    assert [one.name for one in callers] == [f"oidc:reader-{number}" for number in range(20)]
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    assert issuer.encodings == {"identity"}


async def test_rotation_under_load(issuer: Issuer, check: JwtCheck, clock: Clock) -> None:
    """A token of a new key is accepted after one fetch, and a removed key counts no more."""
    old, new = issuer.token(), issuer.token("b")
    await check.caller(old)
    issuer.keys.append(public_jwk("b"))
    callers = await asyncio.gather(*(check.caller(one) for one in [old, new] * 10))
    assert {one.name for one in callers} == {"oidc:anna"}
    assert fetches(issuer) == 2
    issuer.keys = [public_jwk("b")]
    assert not await is_refused(check, old)
    clock.now += REFRESH_S + 1
    results = await asyncio.gather(*(is_refused(check, one) for one in [old, new] * 10))
    assert results == [True, False] * 10
    # One because the keys were old, one because that of the old token is unknown now.
    assert fetches(issuer) == 4


async def test_ages_to_the_second(issuer: Issuer, check: JwtCheck, clock: Clock) -> None:
    """Keys are fetched again when they are older than their age, and used until the end of the grace."""
    token = issuer.token()
    await check.caller(token)
    clock.now += REFRESH_S
    await check.caller(token)
    assert fetches(issuer) == 1
    assert await is_refused(check, issuer.token("b"))
    clock.now += INTERVAL_S
    assert await is_refused(check, issuer.token("b"))
    assert fetches(issuer) == 3
    issuer.is_down = True
    clock.now += GRACE_S
    await check.caller(token)
    clock.now += 1
    with pytest.raises(Unavailable):
        await check.caller(token)


async def test_keys_of_the_start_are_used(issuer: Issuer) -> None:
    """The server that fetched the keys when it started does not ask again with the first token."""
    keys = IssuerKeys(issuer.url)
    await keys.check()
    assert await keys.matching("a", "RS256")
    assert fetches(issuer) == 1


async def test_a_slash_at_the_end(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documents of an issuer with a path and a slash at its end lie below the path."""
    url = f"{issuer.url}/realms/X/"
    about = {"issuer": url, "jwks_uri": f"{issuer.url}/keys"}
    published = {
        "/realms/X/.well-known/openid-configuration": about,
        "/keys": {"keys": issuer.keys},
    }
    monkeypatch.setattr(issuer, "documents", lambda: published)
    assert await IssuerKeys(url).matching("a", "RS256")


async def test_a_slow_issuer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An issuer that does not answer in time is as one that is down; the log says why."""
    monkeypatch.setattr("whence.surfaces.http.key_sets._TIMEOUT_S", 0.05)
    issuer.delay_s = 0.3
    with pytest.raises(Unavailable):
        await IssuerKeys(issuer.url).matching("a", "RS256")
    assert "TimeoutError" in caplog.text


async def test_a_proxy_leads_to_an_issuer_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer on the network is reached through the proxy that the environment names."""
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("https_proxy", raising=False)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(Unavailable):
            await IssuerKeys("https://id.example").matching("a", "RS256")
    assert asked[0].startswith(b"CONNECT id.example:443")


async def test_a_set_without_keys(issuer: Issuer, check: JwtCheck, clock: Clock) -> None:
    """An issuer that withdraws all of its keys is believed."""
    await check.caller(issuer.token())
    issuer.keys = []
    clock.now += REFRESH_S + 1
    assert await is_refused(check, issuer.token())


async def test_unknown_keys_cost_one_fetch_in_a_while(
    issuer: Issuer, check: JwtCheck, clock: Clock
) -> None:
    """Tokens that name keys nobody has do not make the server ask the issuer again and again."""
    await check.caller(issuer.token())
    for number in range(50):
        assert await is_refused(check, issuer.token(f"unknown-{number % 2}"))
        clock.now += INTERVAL_S / 100
    assert fetches(issuer) == 2
    clock.now += INTERVAL_S
    assert await is_refused(check, issuer.token("unknown-0"))
    assert fetches(issuer) == 3
    # Tokens that are refused for another reason cost none.
    clock.now += INTERVAL_S
    for token in ("x.y.z", issuer.token("unknown-0").replace(".", "..", 1)[:20] + "..", "..."):
        assert await is_refused(check, token)
    assert fetches(issuer) == 3


async def test_an_issuer_that_is_down(
    issuer: Issuer, check: JwtCheck, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Without keys nobody is let in; known keys are used for a day; then nobody is let in again."""
    issuer.is_down = True
    for _ in range(3):
        with pytest.raises(Unavailable) as refused:
            await check.caller(issuer.token())
        assert 1 <= (refused.value.retry_after_s or 0) <= INTERVAL_S
        assert issuer.url not in refused.value.message
    assert issuer.asked == ["/.well-known/openid-configuration"]
    assert "status 503" in caplog.text

    issuer.is_down = False
    clock.now += INTERVAL_S
    await check.caller(issuer.token())
    issuer.is_down = True
    clock.now += GRACE_S - 1
    await check.caller(issuer.token())
    # Of a key that is not known nothing can be said.
    with pytest.raises(Unavailable):
        await check.caller(issuer.token("b"))
    clock.now += 2
    with pytest.raises(Unavailable):
        await check.caller(issuer.token())
    issuer.is_down = False
    clock.now += INTERVAL_S
    await check.caller(issuer.token())


async def test_a_request_that_ends_early_leaves_the_keys_to_others(
    issuer: Issuer, check: JwtCheck
) -> None:
    """A cancelled request does not count as a fetch."""
    first = asyncio.create_task(check.caller(issuer.token()))
    others = [asyncio.create_task(check.caller(issuer.token())) for _ in range(3)]
    while not issuer.asked:
        await asyncio.sleep(0)
    first.cancel()
    assert {one.name for one in await asyncio.gather(*others)} == {"oidc:anna"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"issuer": "https://evil.example"}, "calls itself 'https://evil.example'"),
        ({"issuer": None}, "calls itself None"),
        ({"issuer": "{url}/"}, "calls itself"),
        ({"jwks_uri": "http://keys.example/keys"}, r"^the address of its keys \(jwks_uri\) is"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
        ({"jwks_uri": "https://user:secret@keys.example"}, "jwks_uri"),
        ({"jwks_uri": 3}, "jwks_uri"),
        (
            {"jwks_uri": "{url}/.well-known/openid-configuration"},
            "^http://.*/openid-configuration is no JSON Web Key Set: it has no list `keys`",
        ),
    ],
)
async def test_documents_that_are_not_the_issuers(
    issuer: Issuer, check: JwtCheck, change: dict[str, Any], words: str
) -> None:
    """Documents of another issuer, or with keys at an unsafe address, end the start, and grant nothing."""
    for name, value in change.items():
        issuer.about[name] = value.format(url=issuer.url) if isinstance(value, str) else value
    with pytest.raises(ConfigError, match=words):
        await IssuerKeys(issuer.url).check()
    with pytest.raises(Unavailable):
        await check.caller(issuer.token())


async def test_no_proxy_leads_to_this_machine(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An issuer on this machine is asked directly, whatever proxy the environment names."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert await IssuerKeys(issuer.url).matching("a", "RS256")


async def test_an_issuer_elsewhere_has_no_keys_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An issuer that is reached by https cannot make the server ask itself for keys."""
    about = {"issuer": "https://id.example", "jwks_uri": "http://127.0.0.1:9/keys"}

    async def get(client: object, url: str) -> Any:
        assert url == "https://id.example/.well-known/openid-configuration"
        return about

    monkeypatch.setattr("whence.surfaces.http.key_sets._get", get)
    with pytest.raises(ConfigError, match="without https"):
        await IssuerKeys("https://id.example").check()

    async def get_more(client: object, url: str) -> Any:
        return {"keys": [public_jwk("a")]} if url == "https://keys.example" else about

    about["jwks_uri"] = "https://keys.example"
    monkeypatch.setattr("whence.surfaces.http.key_sets._get", get_more)
    assert await IssuerKeys("https://id.example").matching("a", "RS256")


async def test_a_huge_document_is_not_read(issuer: Issuer) -> None:
    """A document over a megabyte, a nested one and one that is no JSON are refused."""
    huge = json.dumps(issuer.about | {"x": "x" * 2**20}).encode()
    for data, words in ((huge, "more than 1048576 bytes"), (b"[" * 9999, "JSON"), (b"<a>", "JSON")):
        issuer.about = data  # type: ignore[assignment]
        with pytest.raises(ConfigError, match=words):
            await IssuerKeys(issuer.url).check()
    issuer.about = [3]  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="calls itself None"):
        await IssuerKeys(issuer.url).check()
    about = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys", "x": ""}
    about["x"] = "x" * (2**20 - len(json.dumps(about)))
    issuer.about = about
    issuer.keys = []
    with pytest.raises(ConfigError, match=f"^{issuer.url} has no key"):
        await IssuerKeys(issuer.url).check()


async def test_an_issuer_that_is_down_at_the_start(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts without the issuer, says so, and asks it with the first token."""
    issuer.is_down = True
    keys = IssuerKeys(issuer.url)
    with caplog.at_level(logging.WARNING):
        await keys.check()
    assert "refused until it answers" in caplog.text
    issuer.is_down = False
    assert await keys.matching("a", "RS256")


@pytest.mark.parametrize(
    "url",
    ["http://id.example", "ftp://id.example", "id.example", "https://", "https://a@id.example", "http://127.0.0.1.evil.example",
     "ftp://127.0.0.1", "127.0.0.1"],
)  # fmt: skip
def test_the_address_of_an_issuer(url: str) -> None:
    """The issuer is reached by https, or on this machine."""
    with pytest.raises(ConfigError, match=r"^the issuer is"):
        IssuerKeys(url)


SET = {"oidc_issuer": "https://id.example", "oidc_audience": "whence"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"oidc_issuer": "https://id.example"}, "audience"),
        ({"oidc_audience": "whence"}, "needs an issuer"),
        ({"oidc_jwks": "keys.json"}, "needs an issuer"),
        ({**SET, "oidc_jwks": "/nowhere/keys.json"}, "nowhere"),
        ({**SET, "oidc_mapping": "/nowhere/groups.toml"}, "nowhere"),
        ({**SET, "oidc_clock_skew": "-1"}, "oidc_clock_skew"),
        ({**SET, "oidc_clock_skew": "601"}, "oidc_clock_skew"),
        ({**SET, "oidc_clock_skew": "1m"}, "oidc_clock_skew"),
        ({**SET, "oidc_clock_skew": "0060"}, "oidc_clock_skew"),
        ({**SET, "oidc_scopes": 'a "b"'}, "oidc_scopes"),
        ({**SET, "oidc_scopes": "ä"}, "oidc_scopes"),
        ({**SET, "public_url": "https://a@wiki.example/"}, "public_url"),
        ({**SET, "public_url": "https://wiki.example/?x=1"}, "public_url"),
        ({**SET, "public_url": "https:///wiki"}, "public_url"),
        ({**SET, "public_url": 'https://wiki.example/"'}, "public_url"),
    ],
)
def test_settings_that_do_not_fit(values: dict[str, str], words: str) -> None:
    """A missing or malformed setting is an error that names it."""
    with pytest.raises(ConfigError, match=words):
        sign_in(Settings(values, dict.fromkeys(values, "option")))


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_without_its_packages_the_extra_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An issuer needs the packages of an extra, and the error names it before anything is served."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'whence\[oidc\]'"):
        sign_in(Settings({"oidc_issuer": "https://id.example", "oidc_audience": AUDIENCE}))


async def test_a_file_in_place_of_discovery(issuer: Issuer, tmp_path: Path) -> None:
    """With a file of keys the issuer is asked nothing, and need not be an address."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": issuer.keys}))
    values = {"oidc_issuer": "our-issuer", "oidc_audience": AUDIENCE, "oidc_jwks": str(file)}
    found = sign_in(Settings(values))
    assert found is not None
    check, resource, keys = found
    assert keys is None
    assert (await check.caller(issuer.token(iss="our-issuer"))).name == "oidc:anna"
    assert await is_refused(check, issuer.token())
    assert issuer.asked == []
    assert (resource.issuer, resource.scopes) == ("our-issuer", ())
    more = {"oidc_groups_claim": "roles", "oidc_scopes": "openid X", "oidc_clock_skew": "600"}
    check, resource, _ = sign_in(Settings(values | more)) or (None, None, None)
    assert check is not None
    assert resource is not None
    late = issuer.token(iss="our-issuer", roles=["a"], exp=int(time.time()) - 500)
    assert (await check.caller(late)).access == Access(frozenset({"a"}))
    assert resource.scopes == ("openid", "X")


def test_the_address_in_the_metadata() -> None:
    """The address of a server is that of the request, with the brackets of an address of version 6."""
    known = ProtectedResource("https://id.example")
    for host, base in (
        (b"[::1]:9420", "http://[::1]:9420"),
        (b"wiki.example", "http://wiki.example"),
        (b"wiki.example:x", "http://wiki.example"),
        (None, "http://"),
    ):
        headers = [] if host is None else [(b"host", host)]
        scope = {
            "type": "http",
            "scheme": "http",
            "path": "/",
            "headers": headers,
            "query_string": b"",
        }
        scope |= {"server": ("127.0.0.1", 9420), "method": "GET"}
        assert known.metadata(Request(scope), "/mcp")["resource"] == f"{base}/mcp"


def test_without_an_issuer_nothing_is_checked() -> None:
    """Without settings there is no check, and the address of the server is that of each request."""
    assert sign_in(Settings({})) is None
    assert public_url_of(Settings({})) == ""
    for path in ("", "/X"):
        url = f"https://wiki.example{path}"
        assert public_url_of(Settings({"public_url": f"{url}/"})) == url
