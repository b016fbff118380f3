"""Collections and documents over HTTP, on a real engine and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.access import Access
from whence.schema.prompt import PromptResult
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator, Caller, token_digest
from whence.surfaces.http.service import Service
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

FINANCE = Access(frozenset({"finance", "hr"}), frozenset({"pii"}), 2)
CALLERS = {
    "open": Caller("open", Access.public(), may_write=True),
    "finance": Caller("finance", FINANCE, may_write=True),
    "intranet": Caller("intranet", Access.public(), speaks_for_others=True, may_write=True),
    "reader": Caller("reader", FINANCE),
}
WIKI = "/v1/collections/wiki/documents"


class Client:
    """Sends requests with tokens."""

    def __init__(self, http: httpx.AsyncClient, engine: Engine) -> None:
        self._http, self.engine = http, engine

    async def __call__(
        self, method: str, path: str, token: str = "", **options: Any
    ) -> httpx.Response:
        """Return the response."""
        head = {"Authorization": f"Bearer {token}"} if token else {}
        return await self._http.request(method, path, headers=head, **options)

    async def store(
        self, token: str, *files: tuple[str, str], collection: str = "wiki", **fields: Any
    ) -> httpx.Response:
        """Store files, names and texts."""
        parts = [("file", (name, text.encode())) for name, text in files]
        path = f"/v1/collections/{collection}/documents"
        return await self("POST", path, token, files=parts, data=fields)

    async def ids(self, token: str = "", query: str = "") -> list[str]:
        """Return the documents of the collection, none when it is not visible."""
        found = await self("GET", WIKI + query, token)
        return [one["document_id"] for one in found.json().get("documents", [])]


class Model:
    """A language model that completes questions and answers from the first document."""

    model = "llm"
    is_language_model = True

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield pieces and the result."""
        pieces = {
            "complete-question": ["How many days ", "do contractors get?"],
            "extract-concepts": ["leave"],
        }.get(request.template_id, ["Employees get thirty ", "days of leave a year [1", "][9]."])
        for piece in pieces:
            yield WritePiece(text=piece)
        text = "".join(pieces)
        yield WritePiece(result=PromptResult(text=text, in_token=7, out_token=2, model=self.model))

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture
def writer() -> Any:
    """Return the writer of the gateway."""
    return "extractive"


@pytest.fixture
async def client(tmp_path: Path, database_url: str, writer: Any) -> AsyncIterator[Client]:
    """Return a client of a gateway with an empty database."""
    models: dict[str, Any] = {
        "embedder": HashEmbedder(),
        "reranker": "none",
        "writer": writer,
    }
    async with Engine(home=tmp_path / "home", database_url=database_url, **models) as engine:
        tokens = {token_digest(name): caller for name, caller in CALLERS.items()}
        rights = Authenticator(Access.public(), tokens)
        app = gateway(Service(engine, "wiki", concurrent=2), rights, hosts={"127.0.0.1"})
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            yield Client(http, engine)


async def test_a_document_is_stored_listed_shown_replaced_and_removed(client: Client) -> None:
    """The life of a document; its id is the path that the form names."""
    stored = await client.store("open", ("guides/a b.md", "# Leave\n\nThirty days."))
    assert stored.status_code == 201
    assert stored.json()["documents"]["added"] == 1
    listed = (await client("GET", WIKI)).json()
    (row,) = listed["documents"]
    assert (row["document_id"], row["title"], row["chunks"]) == ("guides/a b.md", "Leave", 1)
    assert listed["next"] is None
    collections = (await client("GET", "/v1/collections")).json()["collections"]
    assert [(one["name"], one["documents"]) for one in collections] == [("wiki", 1)]
    shown = (await client("GET", f"{WIKI}/guides/a%20b.md")).json()
    assert "Thirty days." in shown["text"]
    chunk = quote(shown["chunks"][0]["id"])
    assert (await client("GET", f"{WIKI}/{chunk}")).json() == shown
    found = await client("POST", "/v1/search", json={"query": "thirty days"})
    assert found.json()["hits"][0]["document_id"] == "guides/a b.md"
    again = await client.store("open", ("guides/a b.md", "# Leave\n\nThirty days."))
    assert (again.status_code, again.json()["documents"]["unchanged"]) == (200, 1)
    changed = await client.store("open", ("guides/a b.md", "Forty days."))
    assert (changed.status_code, changed.json()["documents"]["updated"]) == (200, 1)
    removed = await client("DELETE", f"{WIKI}/guides/a%20b.md", "open")
    assert removed.json() == {
        "collection": "wiki",
        "document_id": "guides/a b.md",
        "removed": True,
    }
    gone = await client("GET", f"{WIKI}/guides/a%20b.md")
    assert gone.status_code == 404


async def test_pages_of_documents(client: Client) -> None:
    """Pages follow one another by id, without gaps."""
    names = [f"{n}.md" for n in range(5)]
    await client.store("open", *((name, f"Text {name}.") for name in names))
    seen: list[str] = []
    page = (await client("GET", f"{WIKI}?limit=2")).json()
    while True:
        seen += [one["document_id"] for one in page["documents"]]
        if page["next"] is None:
            break
        page = (await client("GET", WIKI, params={"limit": 2, "after": page["next"]})).json()
    assert seen == names
    for limit in ("0", "-1", "x", "1001", "9" * 20):
        assert (await client("GET", f"{WIKI}?limit={limit}")).status_code == 400


async def test_writing_needs_a_token_that_may_write(client: Client) -> None:
    """Others are refused, and nothing is stored or removed."""
    await client.store("open", ("a.md", "Text."))
    for token, status in (("", 401), ("reader", 403), ("wrong", 401)):
        assert (await client.store(token, ("b.md", "Text."))).status_code == status
        assert (await client("DELETE", f"{WIKI}/a.md", token)).status_code == status
    assert await client.ids() == ["a.md"]


async def test_a_writer_stores_for_readers_of_its_own_tags(client: Client) -> None:
    """Without fields the documents need a tag of the token; fields and front matter only narrow that."""
    await client.store("finance", ("a.md", "A."))
    await client.store("finance", ("b.md", "B."), acl="hr", label="pii", clearance="2")
    await client.store("finance", ("c.md", "---\nacl: [hr]\n---\nC."))
    hidden = await client.store("finance", ("d.md", "---\nlabels: [secret]\n---\nD."))
    assert hidden.status_code == 422
    assert "hide it" in hidden.json()["failures"][0]["reason"]
    assert hidden.json()["error"]["code"] == "bad_input"
    for fields in ({"acl": "board"}, {"label": "secret"}, {"clearance": "3"}):
        assert (await client.store("finance", ("e.md", "E."), **fields)).status_code == 403
    assert (await client.store("open", ("e.md", "E."), acl="hr")).status_code == 403
    assert await client.ids() == []
    assert (await client("GET", WIKI)).status_code == 404
    assert await client.ids("finance") == ["a.md", "b.md", "c.md"]
    assert await client.ids("finance", "?acl=finance") == ["a.md"]
    assert await client.ids("intranet", "?acl=hr") == ["a.md", "c.md"]
    await client.store("intranet", ("f.md", "F."), acl="board")
    assert await client.ids("intranet", "?acl=board") == ["f.md"]


async def test_hidden_documents_look_as_if_missing(client: Client) -> None:
    """What a caller may not see can be neither shown, removed nor replaced; counts leave it out."""
    await client.store("finance", ("a.md", "Hidden words."))
    await client.store("open", ("b.md", "Public words."))
    (row,) = (await client("GET", "/v1/collections")).json()["collections"]
    assert row["documents"] == 1
    for method in ("GET", "DELETE"):
        told = [await client(method, f"{WIKI}/{name}", "open") for name in ("a.md", "z.md")]
        assert [one.status_code for one in told] == [404, 404]
        assert told[0].text.replace("a.md", "z.md") == told[1].text
    refused = await client.store("open", ("a.md", "Other words."))
    assert refused.status_code == 422
    assert "Hidden words." in (await client("GET", f"{WIKI}/a.md", "finance")).json()["text"]


async def test_an_invisible_collection_looks_as_if_missing(client: Client) -> None:
    """A collection of hidden documents is told as one that does not exist, on every path."""
    await client.store("finance", ("a.md", "Hidden words."), collection="books")
    paths = (
        "/v1/collections/{}/documents",
        "/v1/collections/{}/documents/a.md",
        "/v1/collections/{}/stale",
        "/v1/models/{}",
    )
    for path in paths:
        told = [await client("GET", path.format(name)) for name in ("books", "never")]
        assert [one.status_code for one in told] == [404, 404]
        assert told[0].text.replace("books", "never") == told[1].text
    texts = await _tool_texts(client, "books")
    assert texts == await _tool_texts(client, "never")
    assert '"values":[]' in texts[-1]
    chat = {"messages": [{"role": "user", "content": "Which words?"}]}
    told = [
        await client("POST", "/v1/chat/completions", json=chat | {"model": name})
        for name in ("books", "never")
    ]
    assert told[0].text.replace("books", "never") == told[1].text
    seen = (await client("GET", "/v1/models", "finance")).json()["data"]
    assert [one["id"] for one in seen] == ["books"]


async def _tool_texts(client: Client, collection: str) -> list[str]:
    """Return what tools report of a collection, by a name that stands for it."""
    texts = []
    for tool in ("documents", "stale"):
        params = {"name": tool, "arguments": {"collection": collection}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = (await client("POST", "/mcp", json=call)).json()["result"]
        assert result["isError"]
        texts.append(result["content"][0]["text"].replace(collection, "NAME"))
    named = {"ref": {"type": "ref/resource", "uri": "whence://{collection}/{+document}"}}
    known = {"context": {"arguments": {"collection": collection}}}
    params = {"argument": {"name": "document", "value": ""}} | named | known
    call = {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": params}
    texts.append((await client("POST", "/mcp", json=call)).text)
    return texts


async def test_a_collection_of_unread_files_is_listed(client: Client, tmp_path: Path) -> None:
    """A file that could not be read is listed although its collection has no document."""
    (folder := tmp_path / "f").mkdir()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    await client.engine.index([folder], collection="broken")
    rows = (await client("GET", "/v1/collections/broken/documents")).json()["documents"]
    assert [(one["path"], one["state"]) for one in rows] == [("broken.pdf", "failed")]


async def test_names_that_are_no_relative_paths(client: Client) -> None:
    """A name that leaves the folder, or that indexing would pass over, is refused."""
    outside = ("../a.md", "/a.md", ".a.md", "a/../b.md", "a//b.md", "a\\b.md", " ", "n" * 256)
    for name in (*outside, "node_modules/a.md"):
        refused = await client.store("open", ("ok.md", "Text."), (name, "Text."))
        assert refused.status_code == 400, name
    assert await client.ids() == []


async def test_malformed_forms(client: Client) -> None:
    """A form without files, with unknown fields, twice the same name, or of another type is refused."""
    one = ("a.md", "Text.")
    assert (await client.store("open", one, acll="x")).status_code == 400
    assert (await client.store("open", one, one)).status_code == 400
    assert (await client.store("open", one, ("a.md/b.md", "Text."))).status_code == 400
    assert (await client.store("open", one, clearance="high")).status_code == 400
    assert (await client("POST", WIKI, "open", data={"acl": "x"})).status_code == 400
    assert (await client("POST", WIKI, "open", json={})).status_code == 400
    assert (await client.store("open", one, collection="A B")).status_code == 400
    assert (await client.store("open", ("a.exe", "\0\1\2\3"))).status_code == 422
    assert (await client.store("open", ("a.pdf", "no PDF"))).status_code == 422
    assert await client.ids() == []


async def test_reports_name_no_path_of_the_server(client: Client) -> None:
    """A failure names the file as the form does; where the server keeps it meanwhile is not told."""
    told = await client.store("open", ("guides/a.pdf", "no PDF"), ("b.md", "Text."))
    assert told.status_code == 201
    assert [one["path"] for one in told.json()["failures"]] == ["guides/a.pdf"]
    assert "whence-upload" not in told.text


async def test_a_chat_is_the_answer_of_ask(client: Client) -> None:
    """Text, citations and trace of a chat equal those of `/v1/ask`; a follow-up has both questions."""
    await client.store("open", ("a.md", "# Leave\n\nEmployees get thirty days of leave a year."))
    question = "How many days of leave do employees get?"
    plain = (await client("POST", "/v1/ask", json={"question": question})).json()
    chat = {"model": "wiki", "messages": [{"role": "user", "content": question}]}
    told = (await client("POST", "/v1/chat/completions", json=chat)).json()
    assert told["choices"][0]["message"]["content"] == plain["answer"]
    assert told["whence"]["citations"] == plain["citations"]
    first, second = [
        (await client("GET", f"/v1/answers/{one['answer_id']}?format=tree")).text
        for one in (plain, told["whence"])
    ]
    assert _stages(first) == _stages(second)
    chat["messages"] += [
        {"role": "assistant", "content": plain["answer"]},
        {"role": "user", "content": "And for contractors?"},
    ]
    told = (await client("POST", "/v1/chat/completions", json=chat)).json()["whence"]
    assert told["question"] == "And for contractors?"
    assert told["question_used"] == f"{question} And for contractors?"


@pytest.mark.parametrize("writer", [Model()])
async def test_a_chat_with_a_language_model(client: Client, writer: Any) -> None:
    """It completes the follow-up; its tokens are the usage; pieces of a stream are the checked answer."""
    await client.store("open", ("a.md", "# Leave\n\nEmployees get thirty days of leave a year."))
    asked = ("How many days of leave do we get?", "And contractors?")
    chat: dict[str, Any] = {
        "model": "wiki",
        "messages": [{"role": "user", "content": one} for one in asked],
    }
    told = (await client("POST", "/v1/chat/completions", json=chat)).json()
    assert told["whence"]["question_used"] == "How many days do contractors get?"
    assert told["usage"] == {"prompt_tokens": 14, "completion_tokens": 4, "total_tokens": 18}
    text = told["choices"][0]["message"]["content"]
    assert text == "Employees get thirty days of leave a year [1]."
    streamed = (await client("POST", "/v1/chat/completions", json=chat | {"stream": True})).text
    chunks = [json.loads(one[6:]) for one in streamed.split("\n\n") if one.startswith("data: {")]
    deltas = [one["choices"][0]["delta"] for one in chunks]
    assert "".join(one.get("content", "") for one in deltas) == text


def _stages(tree: str) -> list[str]:
    """Return the lines of a trace without ids and durations."""
    lines = [
        line.split("  ")[0].strip(" \u2502\u251c\u2514\u2500") for line in tree.splitlines()[1:]
    ]
    return [line for line in lines if line and not line.startswith("answer ")]


async def test_documents_that_answers_stand_on(client: Client) -> None:
    """The list has what answers cite, for their readers; MCP has the same tool."""
    await client.store("open", ("leave.md", "# Leave\n\nStaff have thirty days of leave."))
    asked = {"question": "How many days of leave do staff have?", "collection": "wiki"}
    answer = (await client("POST", "/v1/ask", json=asked)).json()
    assert {"document_date", "indexed_at", "changed"} <= answer["citations"][0].keys()
    path = "/v1/collections/wiki/stale"
    listed = (await client("GET", f"{path}?since=1d&limit=5")).json()
    (row,) = listed["documents"]
    assert (row["document_id"], row["answers"], row["root"]) == ("leave.md", 1, "uploads")
    assert (await client("GET", f"{path}?since=soon")).status_code == 400
    assert (await client("GET", f"{path}?limit=0")).status_code == 400
    call = {"name": "stale", "arguments": {"collection": "wiki"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    told = (await client("POST", "/mcp", json=body)).json()["result"]["structuredContent"]
    assert told["documents"] == [row]
