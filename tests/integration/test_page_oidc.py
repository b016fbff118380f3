"""Sign-in of the page with an identity provider over real HTTP: authorization code with PKCE."""

from __future__ import annotations

import hashlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.page_server import PageServer, page_server

from whence.flow.settings import Settings
from whence.surfaces.http import code_flow as code_flow_module
from whence.surfaces.http.code_flow import CodeFlow
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import IssuerKeys
from whence.surfaces.http.oidc import code_flow

CODE = "the code"
START = "/v1/reader/oidc"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Return a running issuer that knows the page."""
    with running_issuer() as running:
        running.about |= {
            "authorization_endpoint": f"{running.url}/authorize",
            "token_endpoint": f"{running.url}/token",
        }
        yield running


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[PageServer]:
    """Return a server."""
    async with page_server(tmp_path / "home") as running:
        yield running


class Clock:
    """Seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def flow_of(issuer: Issuer, **options: Any) -> CodeFlow:
    """Return the sign-in of a page called `page`."""
    check = JwtCheck(issuer.url, AUDIENCE, IssuerKeys(issuer.url), GroupRights("groups"))
    return CodeFlow(issuer.url, "page", check, **options)


async def begin(browser: httpx.AsyncClient) -> dict[str, str]:
    """Begin a sign-in, and return what the issuer is asked for."""
    sent = await browser.get(START)
    assert sent.status_code == 303, sent.text
    return dict(parse_qsl(urlsplit(sent.headers["location"]).query))


async def finish(browser: httpx.AsyncClient, state: str, **answer: str) -> httpx.Response:
    """Come back from the issuer, as from a page of another site."""
    head = {"Sec-Fetch-Site": "cross-site", "X-Whence-Page": ""}
    query = {"state": state, "code": CODE} | answer
    query = {name: value for name, value in query.items() if value}
    return await browser.get(f"{START}/callback", params=query, headers=head)


async def test_a_reader_signs_in_with_the_issuer(issuer: Issuer, server: PageServer) -> None:
    """The code is exchanged with the verifier of its challenge, and the groups of the token are the rights."""
    forms: list[tuple[dict[str, str], str]] = []

    def exchange(form: dict[str, str], authorization: str) -> tuple[int, Any]:
        forms.append((form, authorization))
        return 200, {"access_token": issuer.token(groups=["finance"]), "token_type": "Bearer"}

    issuer.exchange = exchange
    flow = flow_of(issuer, scopes=("groups",))
    async with server.browser(code_flow=flow) as browser:
        assert (await browser.get("/v1/reader")).json()["sign_in"]["oidc"] == START
        asked = await begin(browser)
        assert asked["redirect_uri"] == f"http://127.0.0.1:9420{START}/callback"
        assert (asked["response_type"], asked["client_id"]) == ("code", "page")
        assert (asked["scope"], asked["code_challenge_method"]) == ("openid groups", "S256")
        done = await finish(browser, asked["state"])
        assert done.status_code == 303
        assert browser.base_url.join(f"{START}/callback").join(done.headers["location"]).path == "/"
        assert "whence_sign_in" not in browser.cookies
        (form, authorization) = forms[0]
        assert (form["grant_type"], form["code"], authorization) == ("authorization_code", CODE, "")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        assert form["redirect_uri"] == asked["redirect_uri"]
        reader = (await browser.get("/v1/reader")).json()
        assert (reader["name"], reader["rights"]["acl"]) == ("oidc:anna", ["finance"])
        (session,) = server.store._sessions.values()
        assert session.ends_at.timestamp() <= issuer.claims()["exp"]
        await browser.delete("/v1/reader/session")
        assert not (await browser.get("/v1/reader")).json()["signed_in"]


async def test_a_token_of_identity_signs_in_where_the_other_is_opaque(
    issuer: Issuer, server: PageServer
) -> None:
    """It must be for the page, and of the very sign-in; a client with a secret sends it."""
    nonce = ""
    audience = "page"
    sent: list[str] = []

    def exchange(_: dict[str, str], authorization: str) -> tuple[int, Any]:
        sent.append(authorization)
        identity = issuer.token(aud=audience, nonce=nonce, groups=["finance"])
        return 200, {"access_token": "opaque", "id_token": identity}

    issuer.exchange = exchange
    async with server.browser(code_flow=flow_of(issuer, client_secret="s3cret")) as browser:
        for nonce_given, named in (("another", "page"), ("", "somebody else")):
            audience = named
            asked = await begin(browser)
            nonce = nonce_given or asked["nonce"]
            assert (await finish(browser, asked["state"])).status_code == 401
            assert not (await browser.get("/v1/reader")).json()["signed_in"]
        audience = "page"
        asked = await begin(browser)
        nonce = asked["nonce"]
        assert (await finish(browser, asked["state"])).status_code == 303
        assert (await browser.get("/v1/reader")).json()["signed_in"]
    assert set(sent) == {f"Basic {b64encode(b'page:s3cret').decode()}"}


async def test_a_sign_in_of_another_browser_is_refused(issuer: Issuer, server: PageServer) -> None:
    """Whoever leads a reader to the address with the own code signs nobody in; a state counts once."""
    issuer.exchange = lambda _, __: (200, {"access_token": issuer.token()})
    flow = flow_of(issuer)
    async with server.browser(code_flow=flow) as mine, server.browser(code_flow=flow) as other:
        asked = await begin(mine)
        await begin(other)
        assert (await finish(other, asked["state"])).status_code == 401
        # The state is used up by that.
        assert (await finish(mine, asked["state"])).status_code == 401
        assert (await finish(mine, "unknown")).status_code == 401
        asked = await begin(mine)
        assert (await finish(mine, asked["state"])).status_code == 303
        assert (await finish(mine, asked["state"])).status_code == 401


@pytest.mark.parametrize(
    "answer",
    [{"error": "access_denied"}, {"code": ""}, {"iss": "https://other.example"}],
)
async def test_what_the_issuer_refuses_is_refused(
    issuer: Issuer, server: PageServer, answer: dict[str, str]
) -> None:
    """An error, no code, or the name of another issuer."""
    issuer.exchange = lambda _, __: (200, {"access_token": issuer.token()})
    async with server.browser(code_flow=flow_of(issuer)) as browser:
        asked = await begin(browser)
        assert (await finish(browser, asked["state"], **answer)).status_code == 401
        assert "whence_session" not in browser.cookies


@pytest.mark.parametrize("reply", [(400, {"error": "invalid_grant"}), (200, {}), (200, [])])
async def test_an_exchange_without_tokens_signs_nobody_in(
    issuer: Issuer, server: PageServer, reply: tuple[int, Any]
) -> None:
    """Whatever the issuer answers instead."""
    issuer.exchange = lambda _, __: reply
    async with server.browser(code_flow=flow_of(issuer)) as browser:
        asked = await begin(browser)
        assert (await finish(browser, asked["state"])).status_code == 401


async def test_a_sign_in_takes_ten_minutes_at_most(issuer: Issuer, server: PageServer) -> None:
    """Later it has to begin again."""
    issuer.exchange = lambda _, __: (200, {"access_token": issuer.token()})
    clock = Clock()
    async with server.browser(code_flow=flow_of(issuer, clock=clock)) as browser:
        asked = await begin(browser)
        clock.now += code_flow_module.PENDING_S + 1
        assert (await finish(browser, asked["state"])).status_code == 401


async def test_an_issuer_that_is_down_is_unavailable(issuer: Issuer, server: PageServer) -> None:
    """The page can say so, and signing in with a token goes on."""
    issuer.is_down = True
    async with server.browser(code_flow=flow_of(issuer)) as browser:
        assert (await browser.get(START)).status_code == 503
        begun = await browser.post("/v1/reader/session", json={"token": "reader"})
        assert begun.status_code == 204


async def test_without_an_issuer_there_is_no_such_sign_in(server: PageServer) -> None:
    """Neither the page nor its paths offer it."""
    async with server.browser() as browser:
        assert (await browser.get("/v1/reader")).json()["sign_in"]["oidc"] is None
        assert (await browser.get(START)).status_code == 404
        assert (await browser.get(f"{START}/callback")).status_code == 404


async def test_many_sign_ins_push_out_the_oldest(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody fills the memory by beginning sign-ins, and the latest ones can be finished."""
    monkeypatch.setattr(code_flow_module, "_MOST_PENDING", 3)
    flow = flow_of(issuer)
    for _ in range(5):
        await flow.begin("http://127.0.0.1/callback")
    assert len(flow._pending) == 3


def test_settings_make_the_sign_in() -> None:
    """With an issuer that has an address; the page is called as the audience unless it has a name."""
    keys = JwtCheck(
        "https://id.example", AUDIENCE, IssuerKeys("https://id.example"), GroupRights("groups")
    )
    given = {"oidc_issuer": "https://id.example", "oidc_audience": AUDIENCE}
    found = code_flow(Settings(given), keys)
    assert found is not None
    assert found._client_id == AUDIENCE
    named = code_flow(Settings(given | {"oidc_client_id": "page"}), keys)
    assert named is not None
    assert named._client_id == "page"
    assert code_flow(Settings(given), None) is None
    assert code_flow(Settings(given | {"oidc_issuer": "staff"}), keys) is None
