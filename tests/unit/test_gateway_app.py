"""The gateway over HTTP, with an engine that answers at once."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.gateway import FINANCE, SECRET, StubEngine, client_of

from whence.schema import Access
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    NotFound,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator, Caller, Forbidden, token_digest
from whence.surfaces.http.events import stream_events
from whence.surfaces.http.failures import STATUSES
from whence.surfaces.http.oidc import ProtectedResource
from whence.surfaces.http.openapi import openapi
from whence.surfaces.http.requests import decode_json
from whence.surfaces.http.server import listen
from whence.surfaces.http.service import Service


@pytest.fixture
def engine() -> StubEngine:
    """Return the engine behind the gateway."""
    return StubEngine()


@pytest.fixture
async def http(engine: StubEngine) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a gateway with one token, two places, and bodies up to a kilobyte."""
    async with client_of(engine) as client:
        yield client


async def test_search_returns_the_document_of_the_command_line(
    http: httpx.AsyncClient, engine: StubEngine
) -> None:
    """A search uses the server's collection with public rights, and returns `hits`."""
    found = await http.post("/v1/search", json={"query": "how long"})
    assert found.status_code == 200
    document = found.json()
    assert document["hits"][0]["chunk"]["content"] == "Text \N{SNOWMAN}"
    assert (document["query"], document["mode"], document["message"]) == (
        "how long",
        "hybrid",
        "1 result",
    )
    assert engine.asked[0]["collection"] == "wiki"
    assert engine.asked[0]["access"] == Access.public()


async def test_token_reads_with_its_rights(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A token's rights reach the engine on every path, narrowed where the request asks for less."""
    head = {"Authorization": f"Bearer {SECRET}"}
    await http.post("/v1/search", json={"query": "how long"}, headers=head)
    await http.post("/v1/ask", json={"question": "how long"}, headers=head)
    await http.get("/v1/answers/a1/why-not?item=x", headers=head)
    assert [one["access"] for one in engine.asked] == [FINANCE] * 3
    body = {"query": "how long", "access": {"acl": ["finance", "board"], "clearance": 9}}
    await http.post("/v1/search", json=body, headers=head)
    assert engine.asked[-1]["access"] == FINANCE
    await http.get("/v1/answers/a1/why-not?item=x&acl=board&clearance=1", headers=head)
    assert engine.asked[-1]["access"] == Access(clearance=1)


async def test_a_request_without_a_token_is_public(
    http: httpx.AsyncClient, engine: StubEngine
) -> None:
    """A caller without a token reads public documents, also when naming tags."""
    await http.post("/v1/search", json={"query": "how long", "access": {"acl": ["finance"]}})
    await http.get("/v1/answers/a1/why-not?item=x&acl=finance&clearance=5")
    assert [one["access"] for one in engine.asked] == [Access.public()] * 2


async def test_wrong_token_is_refused(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """401 with the required scheme, before the body is read."""
    head = {"Authorization": "Bearer wrong"}
    for path in ("/v1/search", "/v1/ask", "/mcp"):
        refused = await http.post(path, json={}, headers=head)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == (
            'Bearer error="invalid_token", error_description="unknown token"'
        )
    assert (await http.get("/v1/answers/a1", headers=head)).status_code == 401
    twice = [("Authorization", f"Bearer {SECRET}"), ("Authorization", "Bearer wrong")]
    assert (await http.get("/v1/answers/a1", headers=twice)).status_code == 400
    assert engine.asked == []


RESOURCE = ProtectedResource("https://id.example/", ("openid", "whence"))
METADATA = "/.well-known/oauth-protected-resource"


async def answer_of(
    path: str,
    *,
    resource: ProtectedResource | None = RESOURCE,
    failure: WhenceError | None = None,
    **headers: str,
) -> httpx.Response:
    """Send a request to a gateway that requires a token."""
    engine = StubEngine()
    engine.failure = failure
    service = Service(engine, "wiki", concurrent=2)  # type: ignore[arg-type]
    rights = Authenticator(
        Access.public(), {token_digest(SECRET): Caller("desk", FINANCE)}, require_token=True
    )
    app = gateway(service, rights, hosts={"wiki.example"}, resource=resource)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9420") as client:
        return await client.request(
            "GET" if path.startswith((METADATA, "/v1/answers")) else "POST", path, headers=headers
        )


@pytest.mark.parametrize(
    ("path", "suffix"), [("/v1/ask", ""), ("/v1/answers/a", ""), ("/mcp", "/mcp")]
)
async def test_a_refused_client_is_told_where_to_sign_in(path: str, suffix: str) -> None:
    """401 names the metadata of the resource that was asked for, and says nothing of an absent token."""
    refused = await answer_of(path)
    metadata = f"http://127.0.0.1:9420{METADATA}{suffix}"
    told = f'Bearer resource_metadata="{metadata}", scope="openid whence"'
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, told)
    refused = await answer_of(path, Authorization="Bearer wrong")
    told += ', error="invalid_token", error_description="unknown token"'
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, told)


async def test_a_token_without_the_right_is_forbidden() -> None:
    """403 with `insufficient_scope` for a token that does not allow what was asked, and 401 without one."""
    head = {"Authorization": f"Bearer {SECRET}"}
    refused = await answer_of("/v1/answers/a/why-not?item=x", failure=Forbidden("no"), **head)
    assert refused.status_code == 403
    assert refused.headers["WWW-Authenticate"].endswith('error="insufficient_scope"')


@pytest.mark.parametrize("path", ["", "/mcp"])
async def test_metadata_names_the_issuer(path: str) -> None:
    """The metadata of each resource has its address, the issuer and the scopes; it needs no token."""
    told = await answer_of(METADATA + path, Host="wiki.example:9")
    assert told.json() == {
        "resource": f"http://wiki.example:9{path}",
        "resource_name": "Whence",
        "authorization_servers": ["https://id.example/"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["openid", "whence"],
    }
    public = RESOURCE._replace(public_url="https://wiki.example/whence")
    told = await answer_of(METADATA + path, resource=public)
    assert told.json()["resource"] == f"https://wiki.example/whence{path}"


@pytest.mark.parametrize("path", ["/", "/v1/ask", "/mcp/", "mcp", "/mcp/x"])
async def test_other_resources_have_no_metadata(path: str) -> None:
    """Only the server and its `/mcp` have metadata, and only with an issuer."""
    assert (await answer_of(METADATA + path)).status_code == 404
    assert (await answer_of(METADATA, resource=None)).status_code == 404
    assert (await answer_of("/mcp", resource=None)).headers["WWW-Authenticate"] == "Bearer"


async def test_a_host_cannot_add_to_the_challenge() -> None:
    """Of the `Host` header only name and port are sent back."""
    for host in ('127.0.0.1:80", error="x', '127.0.0.1:8"', "u@127.0.0.1:80"):
        told = await answer_of("/mcp", Host=host, resource=ProtectedResource("https://id.example"))
        metadata = told.headers.get("WWW-Authenticate", "").partition("=")[2].strip('"')
        assert metadata in (
            "",
            f"http://127.0.0.1{METADATA}/mcp",
            f"http://127.0.0.1:80{METADATA}/mcp",
        )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "query"),
        ({"query": 3}, "query"),
        ({"query": "how long", "top_k": 0}, "top_k"),
        ({"query": "how long", "treshold": 0.5}, "treshold"),
        ({"query": "how long", "threshold": 1.5}, "threshold"),
        ({"query": "how long", "access": {"acl": "finance"}}, "acl"),
        ([], "object"),
    ],
)
async def test_malformed_requests_name_the_field(
    http: httpx.AsyncClient, engine: StubEngine, body: Any, named: str
) -> None:
    """A malformed request is refused, and the message names the field."""
    refused = await http.post("/v1/search", json=body)
    assert refused.status_code == 400
    assert named in refused.json()["error"]["message"]
    assert engine.asked == []


@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b'{"query": "\\ud800x"}', b"NaN"])
async def test_invalid_json(http: httpx.AsyncClient, raw: bytes) -> None:
    """Any invalid body is an error document that says what to send."""
    head = {"Content-Type": "application/json"}
    refused = await http.post("/v1/search", content=raw, headers=head)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "bad_input"
    assert "JSON object" in refused.json()["error"]["hint"]


@pytest.mark.parametrize("levels", [33, 100, 512])
@pytest.mark.parametrize("path", ["/v1/search", "/v1/ask", "/mcp"])
async def test_deeply_nested_messages_are_refused(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, path: str, levels: int
) -> None:
    """A nested body is an error of the caller on every path, and writes nothing to the log."""
    head = {"Content-Type": "application/json"}
    for raw in (
        b"[" * levels,
        b"[" * levels + b"]" * levels,
        b'{"a":' * levels + b"1" + b"}" * levels,
    ):
        refused = await http.post(path, content=raw[:1024], headers=head)
        assert refused.status_code == 400
    assert caplog.records == []


@pytest.mark.parametrize("levels", [33, 3000, 500_000])
def test_decoding_ends_at_any_depth(levels: int) -> None:
    """No depth ends the process or takes more stack than there is."""
    with pytest.raises(BadInput, match="nested more than 32"):
        decode_json(b"[" * levels + b"]" * levels)


async def test_nesting_that_filters_need_is_accepted(http: httpx.AsyncClient) -> None:
    """A message may be 32 levels deep."""
    lists: Any = "x"
    for _ in range(30):
        lists = [lists]
    refused = await http.post("/v1/search", json={"query": "x", "unknown": lists})
    assert "unknown" in refused.json()["error"]["message"]


@pytest.mark.parametrize("level", ["9" * 5000, "-1", "\N{SUPERSCRIPT TWO}", "x", ""])
async def test_a_malformed_clearance_in_a_query_is_refused(
    http: httpx.AsyncClient, engine: StubEngine, level: str
) -> None:
    """Only decimal digits are a number, and few of them are read."""
    refused = await http.get("/v1/answers/a1", params={"clearance": level})
    assert refused.status_code == 400
    assert engine.asked == []


async def test_other_content_types_are_refused(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A body of another content type, which any page could send, is not read."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        head = {"Content-Type": kind} if kind else {}
        refused = await http.post("/v1/ask", content=b'{"question": "x y"}', headers=head)
        assert refused.status_code == 400
    assert engine.asked == []


@pytest.mark.parametrize("host", ["192.168.0.7:9420", "[::1]:9420", "127.0.0.1"])
async def test_plain_addresses_are_served(http: httpx.AsyncClient, host: str) -> None:
    """Plain IP addresses are always allowed."""
    found = await http.post("/v1/search", json={"query": "how long"}, headers={"Host": host})
    assert found.status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "1", "", "[::1"])
async def test_foreign_names_are_refused(
    http: httpx.AsyncClient, engine: StubEngine, host: str
) -> None:
    """A foreign host name is refused (DNS rebinding)."""
    refused = await http.post("/v1/search", json={"query": "how long"}, headers={"Host": host})
    assert refused.status_code == 421
    assert engine.asked == []


async def test_foreign_pages_are_refused(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A request of a foreign page is refused; one of this server's page is served."""
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        head = {"Origin": origin}
        refused = await http.post("/v1/search", json={"query": "how long"}, headers=head)
        assert refused.status_code == 403
    assert engine.asked == []
    head = {"Origin": "http://127.0.0.1:9420"}
    assert (await http.post("/v1/search", json={"query": "how"}, headers=head)).status_code == 200


async def test_huge_bodies_are_refused(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A body over the limit is refused, also a chunked one."""
    refused = await http.post("/v1/search", json={"query": "x" * 2000})
    assert refused.status_code == 413

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 100

    head = {"Content-Type": "application/json"}
    refused = await http.post("/v1/search", content=pieces(), headers=head)
    assert refused.status_code == 400
    assert "1024 bytes" in refused.json()["error"]["message"]
    assert engine.asked == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NotFound("no such"), 404),
        (DeadlineExceeded("too late"), 504),
        (Unavailable("no database"), 503),
        (Unavailable("no keys", retry_after_s=7), 503),
        (Overloaded("full", retry_after_s=7), 503),
        (WhenceError("other"), 500),
    ],
)
async def test_errors_keep_their_messages(
    http: httpx.AsyncClient, engine: StubEngine, failure: WhenceError, status: int
) -> None:
    """An error has a status, code, message and hint."""
    engine.failure = failure
    told = await http.post("/v1/ask", json={"question": "how long"})
    assert told.status_code == status
    error = told.json()["error"]
    assert (error["code"], error["message"]) == (failure.code, failure.message)
    wanted = None if failure.retry_after_s is None else f"{failure.retry_after_s}"
    assert told.headers.get("Retry-After") == wanted


async def test_internal_errors_are_hidden(
    http: httpx.AsyncClient, engine: StubEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is logged, and its message is not sent."""
    engine.failure = RuntimeError("password=hunter2")
    told = await http.post("/v1/ask", json={"question": "how long"})
    assert told.status_code == 500
    assert "hunter2" not in told.text
    assert told.json()["error"]["code"] == "internal"
    assert "hunter2" in caplog.text


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_too_many_requests_are_refused(
    http: httpx.AsyncClient, engine: StubEngine, accept: str
) -> None:
    """A question that could not be answered in time is refused with its status; one that could be waits."""
    engine.gate = asyncio.Event()
    body = {"question": "how long", "timeout_s": 60}
    head = {"Accept": accept}
    sent = [asyncio.create_task(http.post("/v1/ask", json=body)) for _ in range(3)]
    while len(engine.asked) < 2:
        await asyncio.sleep(0)
    refused = await http.post("/v1/ask", json=body | {"timeout_s": 1}, headers=head)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json()["error"]["code"] == "too_many_requests"
    engine.gate.set()
    assert {one.status_code for one in await asyncio.gather(*sent)} == {200}
    assert engine.asked[2]["timeout_s"] < 60


async def test_unknown_paths_and_methods(http: httpx.AsyncClient) -> None:
    """Unknown paths and methods are error documents."""
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", "/mcp", 405),
        ("PUT", "/v1/ask", 405),
    ):
        told = await http.request(method, path)
        assert told.status_code == status
        assert set(told.json()["error"]) == {"code", "message", "hint"}
    assert (await http.get("/page/../rights.py")).status_code == 404
    assert (await http.get("/page/%2e%2e/rights.py")).status_code == 404


async def test_unknown_format(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """An unknown format is refused before the trace is read."""
    assert (await http.get("/v1/answers/a1?format=xml")).status_code == 400
    assert (await http.get("/v1/answers/a1?clearance=high")).status_code == 400
    assert engine.asked == []


async def test_the_page_has_security_headers(http: httpx.AsyncClient) -> None:
    """The page is served with a policy that excludes foreign scripts."""
    page = await http.get("/")
    assert "<title>Whence</title>" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for name in ("page.js", "page.css", "icon.svg"):
        part = await http.get(f"/page/{name}")
        assert part.status_code == 200
        assert part.headers["X-Content-Type-Options"] == "nosniff"
        assert f'"page/{name}"' in page.text
    assert (await http.get("/page/texts.de.json")).json()
    # Neither scripts nor styles stand in the page itself: the policy would refuse them.
    assert "<style" not in page.text
    assert " style=" not in page.text
    assert " onclick=" not in page.text


async def test_events_come_in_order(http: httpx.AsyncClient) -> None:
    """Stages and text are sent in order, the answer last."""
    head = {"Accept": "text/event-stream"}
    told = await http.post("/v1/ask", json={"question": "how long"}, headers=head)
    assert told.headers["Content-Type"].startswith("text/event-stream")
    events = read_events(told.content)
    assert [name for name, _ in events] == ["stage", "text", "text", "answer"]
    assert events[0][1]["stage"] == "question"
    assert events[0][1]["triples"][0]["g"] == "urn:graph:retrieval"
    assert "".join(data["text"] for name, data in events if name == "text") == "Thirty days."
    assert events[-1][1]["answer_id"] == "a1"


async def test_a_late_failure_is_the_last_event(
    http: httpx.AsyncClient, engine: StubEngine
) -> None:
    """A question that fails after the first event ends with an `error` event."""
    engine.failure = NotFound("no such collection", hint="index first")
    head = {"Accept": "text/event-stream"}
    told = await http.post("/v1/ask", json={"question": "how long"}, headers=head)
    assert read_events(told.content) == [
        (
            "error",
            {
                "error": {
                    "code": "not_found",
                    "message": "no such collection",
                    "hint": "index first",
                }
            },
        )
    ]


async def test_leaving_cancels_the_question() -> None:
    """A disconnected client cancels its question; comments bridge silence."""
    cancelled = asyncio.Event()

    async def question(*_: Any) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    events = stream_events(question, ping_s=0.01)
    assert (await anext(events)).startswith(b": ")
    await events.aclose()  # type: ignore[attr-defined]
    assert cancelled.is_set()


async def test_description_is_of_what_is_served(http: httpx.AsyncClient) -> None:
    """Every path of the description exists with its methods and schemas."""
    described = (await http.get("/openapi.json")).json()
    assert described == json.loads(json.dumps(openapi()))
    for path, methods in described["paths"].items():
        for method in methods:
            names = {
                "answer_id": "a1",
                "model": "wiki",
                "collection": "wiki",
                "document_id": "a.md",
                "other_id": "a2",
                "citation": "0",
            }
            told = await http.request(method.upper(), path.format(**names), json={})
            assert told.status_code != 405, path
            assert "there is no path" not in told.text, path
    wire = json.dumps(described)
    for name in wire.split('"#/components/schemas/')[1:]:
        assert name.split('"')[0] in described["components"]["schemas"]


def test_every_error_class_has_a_status() -> None:
    """Every class of errors has a status; other errors are 500."""
    named = {kind for kind, _ in STATUSES}
    rest = {
        kind.code
        for kind in WhenceError.__subclasses__()
        if kind.__module__.startswith(("whence.schema.", "whence.surfaces.http."))
        and not any(issubclass(kind, k) for k in named)
    }
    assert rest == {"internal"}


def read_events(raw: bytes) -> list[tuple[str, Any]]:
    """Return the events of a body, without comments."""
    events = []
    for block in raw.decode().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


def test_connections_send_at_once() -> None:
    """Nagle's algorithm is off for each connection, so that a response does not wait for an acknowledgement."""
    with listen("127.0.0.1", 0) as listening:
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
