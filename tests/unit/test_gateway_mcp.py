"""The Model Context Protocol: what the tools are, and how messages that break its rules are met."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from whence.operations.documents import ListDocuments, Show
from whence.schema import Access
from whence.schema.errors import NotFound
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.server import serve_stdio
from whence.surfaces.mcp.offer import DocumentOffer
from whence.surfaces.mcp.protocol import HANDSHAKE_REVISIONS, REVISIONS, Mcp

CALLER = Caller("", Access.public())
MODERN = "2026-07-28"
MODERN_KEY = "io.modelcontextprotocol/protocolVersion"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class StubService:
    """Searches at once, and never finds a trace."""

    collection = "notes"

    async def search(self, caller: Caller, body: Any) -> dict[str, Any]:
        chunk = {"id": "c1", "content": body.query, "metadata": {"title": "T", "heading": "H"}}
        return {"hits": [{"document_id": "a b.md", "chunk": chunk}]}

    async def ask(self, caller: Caller, body: Any, *, on_stage: Any) -> dict[str, Any]:
        for stage in ("", "/grounding", "/exploration", "/focus", "/synthesis"):
            await on_stage((), f"urn:trustgraph:docrag:a1{stage}")
        return {"answer": body.question}

    async def collections(self, access: Access) -> list[Any]:
        return [SimpleNamespace(name=name) for name in ("b", "a")]

    async def has_collection(self, access: Access, name: str) -> bool:
        return True

    async def run(self, caller: Caller, operation: Any) -> Any:
        if isinstance(operation, ListDocuments):
            ids = [f"{n:03}" for n in range(150)]
            rest = [one for one in ids if one > operation.after][: operation.limit]
            return [SimpleNamespace(key=one, title="") for one in rest]
        if isinstance(operation, Show):
            raise NotFound(f"no document {operation.item!r}")
        raise NotFound(f"no answer {operation.answer_id}", hint="ask first")


def message(method: str, params: Any = None, **more: Any) -> bytes:
    """Return a request on the wire."""
    document = {"jsonrpc": "2.0", "id": 1, "method": method} | more
    if params is not None:
        document["params"] = params
    return json.dumps(document).encode()


async def call(
    raw: bytes, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any] | None]:
    """Return the status and document of a reply."""
    reply = await Mcp(DocumentOffer(StubService())).answer(raw, CALLER, headers)  # type: ignore[arg-type]
    return reply.status, reply.document


async def result(raw: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the result of a request that works."""
    status, document = await call(raw, headers)
    assert status == 200
    assert document is not None
    return document["result"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("asked", [*HANDSHAKE_REVISIONS, "1999-01-01", MODERN])
async def test_handshake_agrees_on_a_revision(asked: str) -> None:
    """A supported revision is accepted; any other is answered with the newest one that has a handshake."""
    told = await result(message("initialize", {"protocolVersion": asked, "capabilities": {}}))
    assert told["protocolVersion"] == (
        asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
    )
    assert told["serverInfo"]["name"] == "whence"
    assert "resultType" not in told


async def test_tools_are_listed_with_schemas() -> None:
    """Every tool has a name, a description and a schema whose references resolve."""
    tools = (await result(message("tools/list")))["tools"]
    names = ["search", "fetch", "ask", "explain", "why_not", "documents", "stale", "expand"]
    assert [tool["name"] for tool in tools] == names
    for tool in tools:
        schema = tool["inputSchema"]
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert tool["description"]
        for reference in json.dumps(schema).split('"#/$defs/')[1:]:
            assert reference.split('"')[0] in schema["$defs"]


async def test_enveloped_results_have_their_required_fields() -> None:
    """Results of the newest revision have their type, and lists the time that they may be cached."""
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    told = await result(message("tools/list", {"_meta": META}), headers)
    assert (told["resultType"], told["cacheScope"]) == ("complete", "public")
    assert told["ttlMs"] > 0
    headers["mcp-method"] = "server/discover"
    told = await result(message("server/discover", {"_meta": META}), headers)
    assert told["supportedVersions"] == [MODERN]


async def test_results_of_a_tool() -> None:
    """The result of a tool has both forms; a result of a search has a URL also where its document has none."""
    params = {"name": "search", "arguments": {"query": "leave"}}
    told = await result(message("tools/call", params))
    expected = {"id": "c1", "title": "T: H", "url": "whence://notes/a%20b.md", "text": "leave"}
    assert told["structuredContent"] == {"results": [expected]}
    assert json.loads(told["content"][0]["text"]) == told["structuredContent"]
    assert told["isError"] is False


async def test_resources_come_in_pages() -> None:
    """Pages of resources have each document once, by collection and id."""
    found: list[str] = []
    cursor, pages = {}, 0
    while pages == 0 or cursor:
        told = await result(message("resources/list", cursor))
        found += [one["uri"] for one in told["resources"]]
        cursor = {"cursor": told["nextCursor"]} if "nextCursor" in told else {}
        pages += 1
    assert pages == 3
    assert found == [f"whence://{name}/{n:03}" for name in "ab" for n in range(150)]


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("resources/read", {"uri": "whence://notes/x"}, "no document 'x'"),
        ("resources/read", {"uri": "file:///etc/passwd"}, "is no document"),
        ("resources/read", {"uri": 3}, "uri must be a text"),
        ("resources/read", {}, "uri must be a text"),
        ("resources/list", {"cursor": "x"}, "is no document"),
        ("prompts/get", {"name": "x"}, "unknown prompt 'x'"),
        ("prompts/get", {"name": "answer_with_citations"}, "argument `question`"),
        ("prompts/get", {"name": "answer_with_citations", "arguments": []}, "argument `question`"),
        ("prompts/get", {"name": "answer_with_citations", "arguments": [1]}, "must be an object"),
    ],
)
async def test_failures_of_resources_and_prompts(
    method: str, params: dict[str, Any], words: str
) -> None:
    """What cannot be read is an error of the protocol with a reason, in every revision."""
    status, document = await call(message(method, params))
    assert document is not None
    assert words in document["error"]["message"]
    assert document["error"]["code"] == (-32002 if words.startswith("no document") else -32602)
    name = params.get("uri") or params.get("name")
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": str(name)}
    status, document = await call(message(method, params | {"_meta": META}), headers)
    assert (status, document and document["error"]["code"]) == (400, -32602)


async def test_names_in_headers_may_be_encoded() -> None:
    """The header that repeats an address may have it in base64; another address is refused."""
    uri = "whence://notes/gebühren.md"
    params = {"uri": uri, "_meta": META}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "resources/read"}
    codes = []
    for name in (f"=?base64?{base64.b64encode(uri.encode()).decode()}?=", "=?base64?!?=", "other"):
        _, document = await call(message("resources/read", params), headers | {"mcp-name": name})
        codes.append(document and document["error"]["code"])
    assert codes == [-32602, -32020, -32020]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "search", "arguments": {"qery": "x"}}, "qery"),
        ({"name": "search"}, "query"),
        ({"name": "explain", "arguments": {"answer_id": "a9"}}, "no answer a9"),
    ],
)
async def test_failures_of_tools_are_results(params: dict[str, Any], words: str) -> None:
    """An error of a tool is a result for the assistant, not an error of the protocol."""
    told = await result(message("tools/call", params))
    assert told["isError"] is True
    assert words in told["content"][0]["text"]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": 1, "jsonrpc": "2.0", "result": {}}', -32600),
        (message("ping", jsonrpc="1.0"), -32600),
        (message("ping", id=None), -32600),
        (message("ping", []), None),
        (message("ping", [1]), -32602),
        (message("tools/call", {"name": "rm"}), -32602),
        (message("tools/call", {"name": ["a"]}), -32602),
        (message("logging/setLevel"), -32601),
        (message("server/discover"), -32601),
    ],
)
async def test_invalid_messages(raw: bytes, code: int | None) -> None:
    """Every message gets a reply of the protocol, whatever its content."""
    _, document = await call(raw)
    assert document is not None
    assert document.get("error", {}).get("code") == code


async def test_notifications_get_no_answer() -> None:
    """A message without an id is accepted and not answered."""
    raw = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    assert await call(raw) == (202, None)


@pytest.mark.parametrize(
    ("meta", "headers", "code", "status"),
    [
        (META, {"mcp-method": "tools/list"}, -32020, 400),
        (META, {"mcp-protocol-version": "2025-11-25", "mcp-method": "tools/list"}, -32020, 400),
        (META, {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}, -32020, 400),
        (
            META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"},
            {"mcp-protocol-version": "2099-01-01", "mcp-method": "tools/list"},
            -32022,
            400,
        ),
        ({"io.modelcontextprotocol/protocolVersion": MODERN}, {}, -32602, 400),
    ],
)
async def test_envelope_and_headers_must_agree(
    meta: dict[str, Any], headers: dict[str, str], code: int, status: int
) -> None:
    """A request whose body and headers differ is refused."""
    found, document = await call(message("tools/list", {"_meta": meta}), headers)
    assert document is not None
    assert (found, document["error"]["code"]) == (status, code)
    if code == -32022:
        assert document["error"]["data"]["supported"] == [MODERN]


async def test_unknown_revision_in_the_header() -> None:
    """A client that claims an unknown revision gets 400 and the list of supported ones."""
    status, document = await call(message("tools/list"), {"mcp-protocol-version": "1.0"})
    assert document is not None
    assert (status, document["error"]["code"]) == (400, -32022)
    assert document["error"]["data"] == {"supported": list(REVISIONS), "requested": "1.0"}


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": {**META, MODERN_KEY: 3}}])
async def test_a_header_demands_its_envelope(params: dict[str, Any] | None) -> None:
    """A request whose header names the newest revision and that has no envelope is malformed."""
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    status, document = await call(message("tools/list", params), headers)
    assert (status, document and document["error"]["code"]) == (400, -32602)


async def test_a_missing_resource_is_named() -> None:
    """The error of a resource that does not exist has its address."""
    _, document = await call(message("resources/read", {"uri": "whence://notes/x"}))
    assert document is not None
    assert document["error"]["data"] == {"uri": "whence://notes/x"}


PROMPT = {"type": "ref/prompt", "name": "answer_with_citations"}
TEMPLATE = {"type": "ref/resource", "uri": "whence://{collection}/{+document}"}


@pytest.mark.parametrize(
    ("ref", "argument", "known", "values"),
    [
        (PROMPT, ("collection", ""), {}, ["a", "b"]),
        (PROMPT, ("collection", "b"), {}, ["b"]),
        (PROMPT, ("question", "b"), {}, []),
        (TEMPLATE, ("collection", "a"), {}, ["a"]),
        (TEMPLATE, ("document", "14"), {"collection": "a"}, [f"14{n}" for n in range(10)]),
        (TEMPLATE, ("document", "14"), {}, []),
    ],
)
async def test_completions(
    ref: dict[str, Any], argument: tuple[str, str], known: dict[str, Any], values: list[str]
) -> None:
    """Arguments of the prompt and the template are completed by what the caller may see."""
    params = {"ref": ref, "argument": dict(zip(("name", "value"), argument, strict=True))}
    told = await result(message("completion/complete", params | {"context": {"arguments": known}}))
    assert told == {"completion": {"values": values, "hasMore": False}}


async def test_completions_end_at_a_hundred() -> None:
    """At most a hundred values are told, and that there are more."""
    argument = {"name": "document", "value": ""}
    params = {"ref": TEMPLATE, "argument": argument, "context": {"arguments": {"collection": "a"}}}
    told = (await result(message("completion/complete", params)))["completion"]
    assert (told["values"], told["hasMore"]) == ([f"{n:03}" for n in range(100)], True)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"ref": {"type": "ref/prompt", "name": "x"}}, "unknown prompt"),
        ({"ref": {"type": "ref/resource", "uri": "x"}}, "ref names no"),
        ({"ref": "x"}, "ref must be an object"),
        ({"ref": PROMPT, "argument": {"name": "collection"}}, "value must be a text"),
        ({"ref": PROMPT, "argument": {"value": ""}}, "name must be a text"),
    ],
)
async def test_malformed_completions(params: dict[str, Any], words: str) -> None:
    """A completion of something unknown is refused with the reason."""
    asked = {"argument": {"name": "collection", "value": ""}} | params
    _, document = await call(message("completion/complete", asked))
    assert document is not None
    assert (document["error"]["code"], words in document["error"]["message"]) == (-32602, True)


ASKED = {"name": "ask", "arguments": {"question": "q"}, "_meta": {"progressToken": "t"}}


async def test_stages_of_a_question_are_told() -> None:
    """Each stage of a question is told to a client that gave a token; others get the reply alone."""
    told: list[dict[str, Any]] = []

    async def notify(notification: dict[str, Any]) -> None:
        told.append(notification)

    mcp = Mcp(DocumentOffer(StubService()))  # type: ignore[arg-type]
    for meta in ({}, {"progressToken": None}, {"progressToken": True}):
        await mcp.answer(message("tools/call", ASKED | {"_meta": meta}), CALLER, None, notify)
    assert told == []
    await mcp.answer(message("tools/call", ASKED), CALLER, None, notify)
    assert {one["method"] for one in told} == {"notifications/progress"}
    shown = [tuple(one["params"].values()) for one in told]
    labels = ("query processing", "retrieval", "reranking", "generation")
    assert shown == [("t", n, 4, label) for n, label in enumerate(labels, 1)]


class SlowService(StubService):
    """Never ends a search; records that it was cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled: list[str] = []

    async def search(self, caller: Caller, body: Any) -> dict[str, Any]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(body.query)
            raise
        raise AssertionError


async def test_a_request_that_is_taken_back_ends() -> None:
    """On standard input a client ends its request by a notification, and gets no reply to it."""
    service, sink = SlowService(), io.BytesIO()
    source, feed = os.pipe()
    search = {"name": "search", "arguments": {"query": "q"}}
    with os.fdopen(source, "rb") as reading, os.fdopen(feed, "wb", buffering=0) as writing:
        serving = asyncio.create_task(serve_stdio(service, CALLER, reading, sink))  # type: ignore[arg-type]
        writing.write(message("tools/call", search, id=7) + b"\n")
        await service.begun.wait()
        for params in (
            {"requestId": 8},
            {"requestId": [7]},
            {"requestId": "7"},
            [],
            {"requestId": 7},
        ):
            assert service.cancelled == []
            notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            writing.write(json.dumps(notification).encode() + b"\n" + message("ping") + b"\n")
            while sink.getvalue().count(b"\n") == 0:
                await asyncio.sleep(0)
            sink.seek(0)
            sink.truncate()
        writing.close()
        await asyncio.wait_for(serving, 10)
    assert service.cancelled == ["q"]
    assert sink.getvalue() == b""


async def test_lines_are_answered_until_the_end() -> None:
    """Each request on standard input gets one line; the end of the input ends the server."""
    source, feed = os.pipe()
    with os.fdopen(source, "rb") as reading, os.fdopen(feed, "wb") as writing:
        writing.write(message("ping") + b"\n\n" + message("ping", id="two") + b"\n{\n")
        writing.close()
        sink = io.BytesIO()
        await serve_stdio(StubService(), CALLER, reading, sink)  # type: ignore[arg-type]
    told = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert {one["id"] for one in told} == {1, "two", None}
