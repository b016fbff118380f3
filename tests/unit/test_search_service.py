"""What the search service asks a store, to the argument, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whence.retrieval.hybrid import SearchParameters, SearchService
from whence.schema import Access, Candidate, EmbeddingModel, SearchQuery, SearchRequest
from whence.schema.errors import BadInput, Unavailable
from whence.schema.filters import parse_filters
from whence.schema.search import MAX_QUERY_WORDS, GraphUse
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.protocols import VectorShare
from whence.store.symbol_names import SymbolMatch
from whence.store.vector_statistics import VectorStatistics
from whence.store.vocabulary import AbsentWords

ACCESS = Access({"hr"}, {"internal"}, 2)
MODEL = EmbeddingModel(name="m", revision="r", dimension=2)
VECTOR = np.array([0.6, 0.8], "<f4")
FILTERS = parse_filters({"year": 2022})
#: A title of one passage that another passage mentions.
TITLE = LinkTitle(
    name="t",
    titled_passages=(PassageRef("urn:t", "T"),),
    mentions=(PassageRef("urn:d", "D"),),
    in_query=False,
)


class Asked:
    """A store that notes what it is asked."""

    def __init__(
        self,
        *,
        links: LinkStatistics | None = None,
        vectors: VectorStatistics | None = None,
        fault: str = "",
    ) -> None:
        self.links, self.vectors, self.fault = links, vectors, fault
        self.calls: list[tuple[Any, ...]] = []

    def _note(self, name: str, *given: Any, **options: Any) -> None:
        self.calls.append((name, *given, options))
        if name == self.fault:
            raise Unavailable(f"no {name}")

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    async def collection_model(self, name: str) -> EmbeddingModel:
        self._note("collection_model", name)
        return MODEL

    async def collection_version(self, collection: str) -> int:
        self._note("collection_version", collection)
        return 7

    async def version_at(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def changes(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def was_hidden(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def store_at(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def search_dense(self, collection: str, vector: Any, **options: Any) -> list[Candidate]:
        self._note("search_dense", collection, vector.tolist(), **options)
        others = [_hit(f"urn:v{n}", 0.2, dense_score=0.2) for n in range(options["limit"] - 1)]
        return [_hit("urn:d", 0.9, dense_score=0.9), *others]

    async def dense_scores(
        self, collection: str, vector: Any, chunk_ids: Sequence[str], **options: Any
    ) -> dict[str, float]:
        self._note("dense_scores", collection, vector.tolist(), sorted(chunk_ids), **options)
        return dict.fromkeys(chunk_ids, 0.1)

    async def search_lexical(self, collection: str, text: str, **options: Any) -> list[Candidate]:
        self._note("search_lexical", collection, text, **options)
        others = [_hit(f"urn:w{n}", 0.2, sparse_score=0.2) for n in range(options["limit"] - 1)]
        return [_hit("urn:w", 0.5, sparse_score=0.5), *others]

    async def lexical_scores(
        self, collection: str, text: str, chunk_ids: Sequence[str], **options: Any
    ) -> dict[str, float]:
        self._note("lexical_scores", collection, text, sorted(chunk_ids), **options)
        return dict.fromkeys(chunk_ids, 0.1)

    async def find_symbols(self, collection: str, name: str, **options: Any) -> list[SymbolMatch]:
        self._note("find_symbols", collection, name, **options)
        return [SymbolMatch("urn:s", "S", 2)]

    async def vector_share(self, *_: Any) -> VectorShare:
        return VectorShare(pending=0, passages=0)

    async def vector_statistics(self, *given: Any) -> VectorStatistics | None:
        self._note("vector_statistics", *given)
        return self.vectors

    async def link_statistics(self, *given: Any) -> LinkStatistics | None:
        self._note("link_statistics", *given)
        return self.links

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, **options: Any
    ) -> list[LinkTitle]:
        self._note("linked_titles", collection, access, **options)
        return [TITLE]

    async def absent_words(
        self, collection: str, words: Sequence[str], access: Access
    ) -> AbsentWords:
        self._note("absent_words", collection, list(words), access)
        return AbsentWords(frozenset(words) - {"lake"}, ("english",))

    async def similar_words(self, collection: str, word: str, access: Access) -> dict[str, int]:
        self._note("similar_words", collection, word, access)
        return {"lake": 3}


def _hit(chunk_id: str, score: float, **fields: Any) -> Candidate:
    return Candidate(chunk_id=chunk_id, document_id="D", score=score, rank=1, **fields)


async def _search(store: Any, parameters: dict[str, Any] | None = None, **fields: Any) -> Any:
    service = SearchService(store, SearchParameters(**(parameters or {})))
    default = {"access": ACCESS, "collection": "c", "limit": 3, "query_text": "red lake"}
    return await service.search(SearchRequest(**{**default, **fields}))


ALL: dict[str, Any] = {
    "vector": VECTOR.tobytes(),
    "model": MODEL,
    "threshold": 0.05,
    "filters": {"year": 2022},
    "match": "all",
}
VALUES = pytest.approx([0.6, 0.8])
FOUND_BY_WORDS = ["urn:w", *(f"urn:w{n}" for n in range(99))]
FOUND_BY_VECTOR = ["urn:d", *(f"urn:v{n}" for n in range(99))]


async def test_what_a_hybrid_search_asks() -> None:
    """Collection, query, rights and filters reach every look-up, each retriever returns a hundred."""
    store = Asked(links=LinkStatistics(chunks=10, linked=5, documents=10))
    reply = await _search(store, **ALL, mode="hybrid")
    rights = {"access": ACCESS, "filters": FILTERS}

    assert store.named("collection_model") == [("c", {})]
    assert store.named("search_lexical") == [
        ("c", "red lake", {"limit": 100, "match": "all", **rights})
    ]
    assert store.named("search_dense") == [("c", VALUES, {"limit": 100, "model": MODEL, **rights})]
    words, vector = store.named("lexical_scores")[0], store.named("dense_scores")[0]
    assert words == ("c", "red lake", sorted(FOUND_BY_VECTOR), {"access": ACCESS, "match": "all"})
    assert vector == ("c", VALUES, sorted(FOUND_BY_WORDS), {"access": ACCESS, "model": MODEL})
    assert store.named("link_statistics") == [("c", ACCESS, {})]
    assert [one[:2] for one in store.named("linked_titles")][:1] == [("c", ACCESS)]
    assert {one[2]["query_text"] for one in store.named("linked_titles")} <= {"", "red lake"}
    assert store.named("find_symbols") == store.named("absent_words") == []
    assert [one.chunk_id for one in reply.candidates][:2] == ["urn:d", "urn:w"]
    assert reply.settings == {"fusion": "absolute", "passage_graph": "auto"}
    assert (reply.corrections, reply.absent, reply.collection_version) == ((), (), 0)


async def test_what_other_searches_ask() -> None:
    """Vectors alone with threshold and limit, words alone with their limit."""
    store = Asked()
    dense = await _search(store, **{**ALL, "match": "any"}, mode="dense")
    words = await _search(store, **ALL, mode="bm25")
    rights = {"limit": 3, "access": ACCESS, "filters": FILTERS}

    assert store.named("search_dense") == [
        ("c", VALUES, {"threshold": 0.05, "model": MODEL, **rights})
    ]
    assert store.named("search_lexical") == [("c", "red lake", {"match": "all", **rights})]
    assert len(dense.candidates) == len(words.candidates) == 3
    assert dense.settings == words.settings == {}
    assert {call[0] for call in store.calls} == {
        *("collection_model", "search_dense", "search_lexical")
    }


@pytest.mark.parametrize(("limit", "most"), [(3, 100), (250, 250)])
async def test_a_name_is_looked_up_among_definitions(limit: int, most: int) -> None:
    """A hundred at least; what it finds goes first. No other query looks for a definition."""
    store = Asked()
    reply = await _search(
        store, query_text="the `Lake`", mode="bm25", limit=limit, filters=ALL["filters"]
    )

    rights = {"access": ACCESS, "filters": FILTERS}
    assert store.named("find_symbols") == [("c", "Lake", {"limit": most, **rights})]
    assert reply.candidates[0].chunk_id == "urn:s"


@pytest.mark.parametrize(
    ("parameters", "links", "asked", "used"),
    [
        ({}, (10, 5, 10), True, True),
        ({}, (10, 3, 10), True, False),
        ({}, None, True, False),
        ({"passage_graph": "on"}, (10, 3, 10), True, True),
        ({"passage_graph": "on"}, None, True, False),
        ({"passage_graph": "off"}, (10, 5, 10), False, False),
        ({"fusion": "rrf"}, (10, 5, 10), False, False),
    ],
)
async def test_when_links_are_followed(
    parameters: dict[str, Any], links: tuple[int, ...] | None, *, asked: bool, used: bool
) -> None:
    """When enough passages have one or the setting says so, with the one scale of scores alone."""
    known = LinkStatistics(chunks=links[0], linked=links[1], documents=links[2]) if links else None
    store = Asked(links=known)
    reply = await _search(store, parameters, vector=VECTOR.tobytes(), mode="hybrid")

    assert bool(store.named("link_statistics")) is asked
    assert bool(store.named("linked_titles")) is used
    assert (reply.graph is not None) is used
    assert reply.graph is None or reply.graph.linked_share == links[1] / links[0]  # type: ignore[index]
    assert reply.settings == {"fusion": "absolute", "passage_graph": "auto"} | parameters


@pytest.mark.parametrize(("filters", "added"), [({}, True), ({"year": 2022}, False)])
async def test_links_add_no_passage_to_a_filtered_search(
    filters: dict[str, Any], *, added: bool
) -> None:
    """A passage that links lead to might not meet the filters."""
    store = Asked(links=LinkStatistics(chunks=10, linked=5, documents=10))
    reply = await _search(store, vector=VECTOR.tobytes(), mode="hybrid", limit=300, filters=filters)

    assert ("urn:t" in {one.chunk_id for one in reply.candidates}) is added


async def test_several_queries_are_searched_with_their_own_vectors() -> None:
    """Each with the rights of all; each result has what was degraded and what links did."""
    links = LinkStatistics(chunks=10, linked=5, documents=10)
    store = Asked(links=links, fault="lexical_scores")
    other = np.array([1.0, 0.0], "<f4").tobytes()
    more = (SearchQuery(limit=2, vector=other, query_text="blue lake"),)
    reply = await _search(store, **ALL, mode="hybrid", more=more, spelling=True)

    assert [one[:2] for one in store.named("search_dense")] == [("c", VALUES), ("c", [1.0, 0.0])]
    assert [one[1] for one in store.named("search_lexical")] == ["red lake", "blue lake"]
    assert {one[-1]["access"] for one in store.named("search_dense")} == {ACCESS}
    assert [len(one.candidates) for one in reply.results] == [3, 2]
    assert [[lost.code for lost in one.degraded] for one in reply.results] == [
        ["lexical_leg_missing"]
    ] * 2
    assert [type(one.graph) for one in reply.results] == [GraphUse] * 2
    assert store.named("absent_words") == []
    assert reply.settings["fusion"] == "absolute"
    with pytest.raises(BadInput, match="101 queries"):
        await _search(store, more=more * 100)
    assert len((await _search(Asked(), **ALL, mode="bm25", more=more * 99)).results) == 100


async def test_one_of_several_queries_may_be_of_words_alone() -> None:
    """A further query without a vector is ranked by words, which is no loss; so is that of a whole request."""
    store = Asked()
    more = (SearchQuery(limit=2, query_text="blue lake"),)
    reply = await _search(store, **ALL, mode="hybrid", more=more)

    assert len(store.named("search_dense")) == 1
    assert [one.degraded for one in reply.results] == [(), ()]
    alone = await _search(Asked(), query_text="red lake", mode="hybrid", more=more)
    assert [one.code for one in alone.results[1].degraded] == ["dense_leg_missing"]


async def test_misspelt_words_are_looked_up_when_asked() -> None:
    """With the rights of the reader."""
    store = Asked()
    found = await _search(store, query_text="red laek", mode="bm25", spelling=True)
    unasked = await _search(Asked(), query_text="red laek", mode="bm25")

    assert store.named("absent_words")[0] == ("c", ["red", "laek"], ACCESS, {})
    assert ("c", "laek", ACCESS, {}) in store.named("similar_words")
    assert [(one.source, one.target) for one in found.corrections] == [("laek", "lake")]
    assert found.absent == ("red",)
    assert [one.chunk_id for one in found.candidates] == ["urn:w", "urn:w0", "urn:w1"]
    assert (unasked.corrections, unasked.absent) == ((), ())


@pytest.mark.parametrize("text", ["red laek", "red lake"])
async def test_a_misspelt_query_is_not_searched_for_when_it_may_stop(text: str) -> None:
    """Who searches again with the corrections needs no candidates; a query without any is searched for."""
    store = Asked()
    found = await _search(
        store, query_text=text, mode="bm25", spelling=True, stop_when_misspelt=True
    )

    assert bool(found.corrections) is (text == "red laek")
    assert bool(found.candidates) is bool(store.named("search_lexical")) is (text == "red lake")


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_version_is_stated_when_it_is_asked_for(*, wanted: bool) -> None:
    """As the store counts it."""
    store = Asked()
    found = await _search(store, mode="bm25", with_version=wanted)

    assert store.named("collection_version") == ([("c", {})] if wanted else [])
    assert found.collection_version == 7 * wanted


async def test_a_long_query_is_cut() -> None:
    """Its first words count, and the reply says so."""
    words = [f"w{n}" for n in range(MAX_QUERY_WORDS + 1)]
    store = Asked()
    whole = await _search(store, query_text=" ".join(words[:-1]), mode="bm25")
    cut = await _search(store, query_text=" ".join(words), mode="bm25")

    assert whole.degraded == ()
    assert len(cut.degraded) == 1
    assert f"{MAX_QUERY_WORDS:,}" in cut.degraded[0].reason


@pytest.mark.parametrize(("remaining", "allowed"), [(None, "0.04"), (0.04, "0.02")])
async def test_a_retriever_has_its_time_or_half_of_the_callers(
    remaining: float | None, allowed: str
) -> None:
    """The other one answers."""

    class Late(Asked):
        async def search_lexical(self, *_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

    request = SearchRequest(
        access=ACCESS,
        collection="c",
        limit=3,
        query_text="red lake",
        vector=VECTOR.tobytes(),
        mode="hybrid",
    )
    service = SearchService(Late(), SearchParameters(leg_timeout_s=0.04))  # type: ignore[arg-type]
    reply = await service.search(request, remaining)

    assert [one.code for one in reply.degraded] == ["lexical_leg_missing"]
    assert f"within {allowed} s" in reply.degraded[0].reason
    assert reply.candidates[0].chunk_id == "urn:d"
