"""A query that is a document costs no more than its first pages, and the answer says that these counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.processors.search import SearchProcessor
from whence.schema import Access, Candidate, EmbeddingModel, SearchRequest
from whence.schema.search import (
    MAX_QUERY_CHARS,
    MAX_QUERY_WORDS,
    SearchResponse,
    truncate_query,
)
from whence.store.protocols import CollectionInfo, VectorShare
from whence.testing.stub_context import StubContext

VECTOR = np.array([0.6, 0.8], "<f4").tobytes()
HIT = Candidate(
    chunk_id="urn:c", document_id="d", score=0.9, rank=1, dense_score=0.9, sparse_score=0.1
)


class RecordingStore:
    """A store that records the words it is searched for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def collection(self, name: str) -> CollectionInfo:
        return CollectionInfo(name=name, model=EmbeddingModel(name="m", dimension=2))

    async def search_dense(self, *_: Any, **__: Any) -> list[Candidate]:
        return [HIT]

    async def search_lexical(self, collection: str, text: str, **_: Any) -> list[Candidate]:
        self.texts.append(text)
        return [HIT]

    async def lexical_scores(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}

    async def dense_scores(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}

    async def find_symbols(self, *_: Any, **__: Any) -> list[Any]:
        return []

    async def collection_model(self, *_: Any) -> None:
        return None

    async def vector_share(self, *_: Any) -> VectorShare:
        return VectorShare(pending=0, passages=0)

    async def vector_statistics(self, *_: Any) -> None:
        return None

    async def link_statistics(self, *_: Any) -> None:
        return None


async def searched(store: RecordingStore, mode: str, text: str) -> SearchResponse:
    """Search once."""
    request = SearchRequest(
        access=Access.public(),
        collection="c",
        limit=3,
        vector=VECTOR,
        query_text=text,
        mode=mode,  # type: ignore[arg-type]
    )
    return await SearchProcessor(store=store).handle(request, StubContext())  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
async def test_the_first_pages_of_a_long_query_count(mode: str) -> None:
    """A megabyte reaches the store as its first pages, and the reply says how much of it counted."""
    store = RecordingStore()
    response = await searched(store, mode, "red lake " * 120_000)

    assert [len(one) for one in store.texts] == [MAX_QUERY_CHARS]
    assert [one.code for one in response.degraded] == ["query_cut"]
    assert f"{MAX_QUERY_CHARS:,}" in response.degraded[0].reason
    assert len(response.candidates) == 1


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
async def test_words_that_do_not_count_are_reported(mode: str) -> None:
    """Of more different words than are looked up the reply says so, and of as many not."""
    words = [f"w{n}" for n in range(MAX_QUERY_WORDS + 1)]

    whole = await searched(RecordingStore(), mode, " ".join(words[:-1]))
    cut = await searched(RecordingStore(), mode, " ".join(words))

    assert whole.degraded == ()
    assert [one.code for one in cut.degraded] == ["query_cut"]


async def test_a_search_by_vectors_says_nothing_of_words() -> None:
    """Words take no part in it, so none are missing."""
    assert (await searched(RecordingStore(), "dense", "red " * 100_000)).degraded == ()


@given(st.text(max_size=50), st.integers(0, MAX_QUERY_CHARS + 5))
def test_what_fits_is_left_as_it_is(text: str, spaces: int) -> None:
    """A query within the limit counts as a whole, and nothing is reported."""
    padded = " " * spaces + text + " " * spaces
    part, cut = truncate_query(padded)

    assert part.strip() == text.strip()
    assert cut == ()
