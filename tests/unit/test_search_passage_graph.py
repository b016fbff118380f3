"""Hybrid search over the passage graph: when it is used and what it reports."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema import Access, Candidate, SearchRequest
from whence.schema.access import DocumentTags
from whence.schema.errors import Unavailable
from whence.schema.search import SearchResponse
from whence.store.linked_titles import LinkTitle
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.index_samples import EVERYTHING, MODEL, PUBLIC, SECRET
from whence.testing.passages_suite import titled
from whence.testing.stub_context import StubContext

QUERY = "when did the maker of the red fox die"
VECTOR = np.array([1, 0], "<f4").tobytes()


def corpus(*, hidden: str = "") -> list[EmbeddedDocument]:
    """Return a film that names its maker, the maker, and documents that resemble the question."""
    texts = {
        "film": ("Red Fox", "A film about a fox that was made by Ada Bloom in the woods."),
        "maker": ("Ada Bloom", "Was a painter of landscapes."),
        "near": ("Winter", "Snow falls, and many leaves die in it."),
        "far": ("Bread", "Flour and water."),
    }
    return [
        titled(one, title, text, tags=SECRET if one == hidden else DocumentTags())
        for one, (title, text) in texts.items()
    ]


async def searched(
    documents: list[EmbeddedDocument], access: Access = PUBLIC, **fields: object
) -> SearchResponse:
    """Search a fresh store."""
    parameters = SearchParameters(passage_graph=fields.pop("passage_graph", "auto"))  # type: ignore[arg-type]
    store = fields.pop("store", None) or MemoryStore()
    await store.ensure_collection("c", MODEL)  # type: ignore[attr-defined]
    await store.replace_documents("c", documents)  # type: ignore[attr-defined]
    default = {
        "access": access,
        "collection": "c",
        "limit": 9,
        "vector": VECTOR,
        "query_text": QUERY,
        "mode": "hybrid",
    }
    processor = SearchProcessor(parameters, store=store)  # type: ignore[arg-type]
    return await processor.handle(SearchRequest(**{**default, **fields}), StubContext())


def scores(response: SearchResponse) -> dict[str, float]:
    """Return the score of each document."""
    return {one.document_id: one.score for one in response.candidates}


async def test_a_document_that_the_best_one_names_ranks_higher() -> None:
    """The maker has no word of the question; the film in the question names her."""
    without = await searched(corpus(), passage_graph="off")
    with_graph = await searched(corpus())

    assert [one.document_id for one in without.candidates][-1] == "maker"
    assert [one.document_id for one in with_graph.candidates][:2] == ["film", "maker"]
    assert without.graph is None
    assert all(one.graph_score is None for one in without.candidates)


async def test_the_reply_reports_the_use_of_the_graph() -> None:
    """Passages, links and named ones are counted; a score is its own part and that of the graph."""
    own = scores(await searched(corpus(), passage_graph="off"))
    response = await searched(corpus())

    assert response.graph is not None
    use = response.graph
    assert (use.passages, use.links, use.named, use.linked_share) == (2, 1, 1, 0.5)
    assert response.degraded == ()
    for one in response.candidates:
        assert one.graph_score == pytest.approx(one.score - own[one.document_id])
    assert [one.score for one in response.candidates] == sorted(
        (one.score for one in response.candidates), reverse=True
    )


async def test_a_collection_with_few_links_uses_no_graph_by_default() -> None:
    """`auto` looks at the share of linked passages; `on` walks wherever there is a link."""
    more = [titled(f"d{n}", f"Topic {n}n", "Nothing to see.") for n in range(9)]

    assert (await searched([*corpus(), *more])).graph is None
    assert (await searched([*corpus(), *more], passage_graph="on")).graph is not None


async def test_a_collection_of_long_documents_uses_no_graph_by_default() -> None:
    """A title names a document: where that has many passages, `auto` does not walk."""
    long = [
        titled("film", "Red Fox", "Made by Ada Bloom.", "Shown in Winter Hall.", "It was cold."),
        titled("maker", "Ada Bloom", "Made the Red Fox.", "Lived in Winter Hall."),
        titled("hall", "Winter Hall", "Where the Red Fox was shown.", "Ada Bloom lived there."),
    ]

    assert (await searched(long)).graph is None
    use = (await searched(long, passage_graph="on")).graph
    assert use is not None
    assert use.linked_share > 0.4


async def test_the_only_document_with_a_rare_word_is_not_pushed_out() -> None:
    """Documents that only resemble the query raise no passage above one with its word."""
    crowd = [
        titled(f"d{n}", f"Topic {n}n", f"About topic {(n + 1) % 9}n and topic {(n + 4) % 9}n.")
        for n in range(9)
    ]
    documents = [*crowd, titled("hit", "Other", "Ask Ledgerly.")]
    plain = await searched(documents, query_text="Ledgerly", passage_graph="off", limit=10)
    walked = await searched(documents, query_text="Ledgerly", passage_graph="on", limit=10)

    assert walked.graph is not None
    assert walked.graph.links > 0
    assert scores(walked) == pytest.approx(scores(plain))
    assert walked.candidates[0].document_id == "hit"


async def test_only_hybrid_searches_walk() -> None:
    """A single retriever gives its own ranking."""
    for mode in ("dense", "bm25"):
        response = await searched(corpus(), mode=mode)
        assert response.graph is None


async def test_a_graph_that_cannot_be_read_degrades() -> None:
    """The fused ranking stays, and the reply says so."""

    async def fail(*_: object, **__: object) -> list[LinkTitle]:
        raise Unavailable("the store is down")

    broken = MemoryStore()
    broken.linked_titles = fail  # type: ignore[method-assign]

    without = await searched(corpus(), passage_graph="off")
    response = await searched(corpus(), store=broken)

    assert response.candidates == without.candidates
    assert [one.code for one in response.degraded] == ["passage_graph_missing"]


@pytest.mark.parametrize("hidden", ["film", "maker", "near"])
async def test_hidden_documents_pass_no_weight(hidden: str) -> None:
    """Beside the statistics of words, a hidden document changes a ranking as little as a missing one."""
    response = await searched(corpus(hidden=hidden), passage_graph="on")
    seen = await searched(corpus(hidden=hidden), EVERYTHING, passage_graph="on")

    assert hidden not in scores(response)
    assert hidden in scores(seen)
    if hidden in ("film", "maker"):
        assert response.graph is not None
        assert response.graph.links == 0
        assert {one.graph_score for one in response.candidates if one.document_id != "film"} <= {0}


_title = st.sampled_from(["Red Fox", "Blue Lake", "Green Hill", ""])
_text = st.lists(
    st.sampled_from(["red fox", "blue lake", "green hill", "die", "maker", "."]),
    min_size=1,
    max_size=4,
).map(" ".join)
_documents = st.lists(st.tuples(_title, _text), min_size=1, max_size=6)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(shown=_documents, hidden=_documents)
async def test_the_graph_of_a_reader_is_that_of_the_visible_documents_alone(
    shown: list[tuple[str, str]], hidden: list[tuple[str, str]]
) -> None:
    """With any hidden documents beside them, the visible part of the graph has the same size."""
    visible = [titled(f"v{n}", title, text) for n, (title, text) in enumerate(shown)]
    secret = [titled(f"s{n}", title, text, tags=SECRET) for n, (title, text) in enumerate(hidden)]
    alone = await searched(visible, passage_graph="on")
    beside = await searched([*visible, *secret], passage_graph="on")

    def size(response: SearchResponse) -> tuple[int, int, int] | None:
        use = response.graph
        return None if use is None else (use.passages, use.links, use.named)

    def candidates(response: SearchResponse) -> set[str]:
        return {one.document_id for one in response.candidates}

    assert size(beside) == size(alone)
    assert candidates(beside) == candidates(alone)


async def test_filters_keep_linked_documents_out() -> None:
    """With a filter only what fulfils it is found, also over links."""
    store = MemoryStore()
    response = await searched(corpus(), store=store, filters={"title": "Red Fox"})

    assert [one.document_id for one in response.candidates] == ["film"]
    assert all(isinstance(one, Candidate) for one in response.candidates)
