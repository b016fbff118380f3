"""What each retriever must do, whatever its framework; FRAMEWORK names it. The home has the demo's handbook."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

NAME = os.environ["FRAMEWORK"]
WhenceRetriever = importlib.import_module(f"whence.integrations.{NAME}").WhenceRetriever
WHENCE = Path(sys.executable).parent / "whence"
QUESTION = "What are the salary bands for engineers?"
LIMIT = {"langchain": "k", "llama_index": "similarity_top_k", "haystack": "top_k"}[NAME]


def plain(found: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Return id, text and metadata of what a retriever returned."""
    if NAME == "langchain":
        rows = [(one.id, one.page_content, dict(one.metadata)) for one in found]
    elif NAME == "llama_index":
        rows = [(one.node.node_id, one.node.text, dict(one.node.metadata)) for one in found]
    else:
        rows = [(one.id, one.content, dict(one.meta)) for one in found["documents"]]
    for _, _, metadata in rows:
        metadata.pop("score", None)
    return rows


def call(retriever: Any, query: str) -> Any:
    if NAME == "haystack":
        return retriever.run(query=query)
    return retriever.invoke(query) if NAME == "langchain" else retriever.retrieve(query)


async def acall(retriever: Any, query: str) -> Any:
    if NAME == "haystack":
        return await retriever.run_async(query=query)
    wait = retriever.ainvoke if NAME == "langchain" else retriever.aretrieve
    return await wait(query)


def find(query: str = QUESTION, **options: Any) -> list[tuple[str, str, dict[str, Any]]]:
    retriever = WhenceRetriever(**{"collection": "handbook", **options})
    with contextlib.closing(retriever):
        return plain(call(retriever, query))


def whence(*words: str) -> Any:
    done = subprocess.run([WHENCE, *words, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve the home; yield its address, and a token that may read the documents of finance."""
    tokens = str(tmp_path_factory.mktemp("server") / "tokens.toml")
    token = whence("tokens", "new", "reader", "--acl", "finance", "--tokens", tokens)["token"]
    command = [WHENCE, "serve", "--port", "0", "--tokens", tokens]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[1], token
        process.terminate()


def test_passages_are_those_of_search() -> None:
    """Ids, texts and order are those of `whence search`; metadata has place, rank and trace."""
    hits = whence("search", QUESTION, "--collection", "handbook", "--top-k", "4")["hits"]
    found = find(**{LIMIT: 4})

    assert [one[:2] for one in found] == [
        (one["chunk"]["id"], one["chunk"]["content"]) for one in hits
    ]
    for (_, text, metadata), hit in zip(found, hits, strict=True):
        shown = whence("show", metadata["document_id"], "--collection", "handbook")["text"]
        place = metadata["location"]
        assert shown[place["char_start"] : place["char_end"]] == text
        assert place["line_start"] >= 1
        assert len(metadata["trace_id"]) == 32
        assert metadata["source_file"] == hit["chunk"]["metadata"]["source_file"]


def test_rights_come_first() -> None:
    """Without access only public passages are found; with it those of the reader's groups, too."""
    hidden = {one[2]["document_id"] for one in find(acl=["finance"])} - {
        one[2]["document_id"] for one in find()
    }

    assert any("salary" in one for one in hidden)


def test_cited_passages_have_the_answer() -> None:
    """With `cited_only` passages are the quotes of an answer that `whence explain` knows."""
    found = find(acl=["finance"], cited_only=True)
    trace = whence("explain", found[0][2]["answer_id"], "--acl", "finance")

    assert trace["complete"] is True
    assert all(one[2]["location"]["char_start"] is not None for one in found)
    assert find(cited_only=True) == []


async def test_within_a_running_loop() -> None:
    """Both ways work in a running event loop, at the same time."""
    retriever = WhenceRetriever(collection="handbook")
    with contextlib.closing(retriever):
        both = await asyncio.gather(acall(retriever, QUESTION), acall(retriever, "annual leave"))
        blocking = plain(call(retriever, "annual leave"))

    assert [one[:2] for one in plain(both[1])] == [one[:2] for one in blocking]


def test_a_server_gives_the_same(server: tuple[str, str]) -> None:
    """By a server's address the passages are the same, with the rights of the token or narrower ones."""
    url, token = server[0], cast("Any", server[1])
    if NAME == "haystack":
        token = importlib.import_module("haystack.utils").Secret.from_token(token)

    def without_trace(found: Any) -> Any:
        return [(one, text, {**meta, "trace_id": ""}) for one, text, meta in found]

    assert without_trace(find(url=url)) == without_trace(find())
    assert without_trace(find(url=url, token=token, acl=["finance"])) == without_trace(
        find(acl=["finance"])
    )
    assert find(url=url, token=token, acl=["finance"], cited_only=True)[0][2]["answer_id"]


def test_errors_say_what_to_do(server: tuple[str, str]) -> None:
    """A collection that is not there and a server that does not answer are errors with a message."""
    for options in ({"collection": "nothing"}, {"collection": "nothing", "url": server[0]}):
        with pytest.raises(Exception, match="there is no collection 'nothing'"):
            find(**options)
    with pytest.raises(Exception, match="does not answer as Whence"):
        find(url="http://127.0.0.1:9")
