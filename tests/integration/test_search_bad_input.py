"""Odd questions, numbers, filters and tags: each is answered or refused by name, in every mode."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.odd_searches import QUERIES, TAGS

from whence import Access, Engine
from whence.operations.search import Search
from whence.schema.errors import BadInput
from whence.testing.stub_models import HashEmbedder
from whence.text.normalization import is_blank


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Path]
) -> AsyncIterator[Engine]:
    """One engine over a document for everybody, and one for each odd tag."""
    folder = tmp_path_factory.mktemp("documents")
    records: list[dict[str, Any]] = [
        {
            "_id": "open",
            "text": "Annual leave is 27 days.",
            "metadata": {"lang": "en", "year": 2024},
        }
    ]
    records += [
        {"_id": f"acl-{n}", "text": "Annual leave of a few.", "acl": [tag]}
        for n, tag in enumerate(TAGS)
    ]
    records += [
        {"_id": f"label-{n}", "text": "Annual leave of some.", "labels": [tag]}
        for n, tag in enumerate(TAGS)
    ]
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    async with Engine(
        home=new_home(folder / "home"), embedder=HashEmbedder(), reranker="none"
    ) as engine:
        report = await engine.index([corpus])
        assert report.documents.added == len(records), report.failures
        yield engine


@pytest.mark.parametrize("name", [name for name in QUERIES if not is_blank(QUERIES[name])])
@pytest.mark.asyncio(loop_scope="module")
async def test_any_text_is_a_query(engine: Engine, name: str) -> None:
    """Any text is searched, and only public documents are returned."""
    results = await engine.search(QUERIES[name], threshold=0.0, top_k=100)

    assert {one.document_id for one in results} <= {"open"}
    assert all(0 <= one.similarity_score <= 1 for one in results)


@pytest.mark.parametrize(
    "name",
    ["quotes", "operators", "SQL", "patterns", "line ends", "other blanks", "direction marks"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_words_between_punctuation_are_found(engine: Engine, name: str) -> None:
    """Punctuation around words is not an operator and hides nothing."""
    results = await engine.search(QUERIES[name], mode="bm25", threshold=0.0)

    assert [one.document_id for one in results] == ["open"]


@pytest.mark.parametrize(
    "given",
    [
        {"top_k": 0},
        {"top_k": -1},
        {"top_k": -(10**30)},
        {"top_k": 10**9},
        {"top_k": 1.5},
        {"top_k": True},
        {"top_k": "5"},
        {"threshold": float("nan")},
        {"threshold": float("inf")},
        {"threshold": -0.001},
        {"threshold": 1.001},
        {"threshold": "0.5"},
        {"threshold": None},
        {"mode": "psychic"},
        {"match": "some"},
        {"match": None},
        {"match": "all", "mode": "dense"},
        {"query": ""},
        {"query": " \u00a0\u3000"},
        {"query": " \n"},
        {"query": "\u200b\u200c\u200d\ufeff"},
        {"query": "nul \0 inside"},
        {"query": "half \ud83d a pair"},
        {"query": None},
        {"query": b"annual leave"},
        {"filters": {"nobody": 1}},
        {"filters": {"lang": {"like": "e%"}}},
        {"filters": {"lang": []}},
        {"filters": {"lang": None}},
        {"filters": {"lang": {}}},
        {"filters": {"lang": "e\0n"}},
        {"filters": {"lang": "\ud800"}},
        {"filters": {"year": {"gte": float("nan")}}},
        {"filters": {"year": {"gte": "soon"}}},
        {"filters": {"year": {"gte": 1, "lte": "2024-01-01"}}},
        {"filters": {"year": {"gt": 1, "gte": 1}}},
        {"filters": {"": 1}},
        {"filters": {"'; DROP TABLE whence.document; --": 1}},
        {"filters": {"lang": {"prefix": ""}}},
        {"filters": {"lang": {"prefix": "x" * 201}}},
        {"filters": {"lang": list(range(10_001))}},
        {"filters": {f"k{n}": 1 for n in range(65)}},
        {"filters": {"chunk_index": {"prefix": "0"}}},
        {"filters": {"heading": {"gte": 3}}},
        {"filters": ["lang=en"]},
        {"filters": {"acl": "hr"}},
        {"filters": {"not": {"lnag": "en"}}},
        {"rerank": True, "rerank_budget_s": 0},
        {"rerank": True, "rerank_budget_s": float("nan")},
    ],
    ids=lambda given: str(given)[:60],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_arguments_out_of_range_are_refused(engine: Engine, given: dict[str, Any]) -> None:
    """An argument out of its range is a ValueError with a message."""
    query = given.pop("query", "annual leave")
    try:
        with pytest.raises(BadInput) as caught:
            await engine.search(query, **given)
    finally:
        if query != "annual leave":
            given["query"] = query

    assert isinstance(caught.value, ValueError)
    assert caught.value.message


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reader_may_hold_thousands_of_tags(engine: Engine) -> None:
    """5,000 tags, some odd and long, work in searches and questions."""
    access = Access({*(f"group {n}" for n in range(5000)), *TAGS}, set(TAGS), 2**31 - 1)
    results = await engine.search("annual leave", threshold=0.0, top_k=999, access=access)
    answer = await engine.ask("How long is annual leave?", access=access, doc_limit=5)

    assert len(results) == 1 + 2 * len(TAGS)
    assert answer.found, answer.refusal


@pytest.mark.parametrize("tag", ["", "nul \0", 5, None, b"bytes"])
def test_an_invalid_tag_is_refused(tag: Any) -> None:
    """A tag is a non-empty text without NUL; a text is not a list of tags."""
    with pytest.raises(ValueError, match="acl_tags"):
        Access({tag})
    with pytest.raises(ValueError, match="labels"):
        Access(labels={tag})


@pytest.mark.asyncio(loop_scope="module")
async def test_a_tag_with_a_lone_surrogate_is_refused(engine: Engine) -> None:
    """Half of a surrogate pair, as invalid UTF-8 is decoded, is bad input."""
    with pytest.raises(BadInput, match="not Unicode text"):
        await engine.search("annual leave", access=Access({"\ud800"}))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_disabled_reranker_is_reported(engine: Engine) -> None:
    """Asking for a reranker that the settings disable adds a note to the result."""
    report = await engine.run(Search(query="annual leave", threshold=0.0, rerank=True))

    assert [one.document_id for one in report.results] == ["open"]
    assert [one.code for one in report.degraded] == ["no_reranker"]
