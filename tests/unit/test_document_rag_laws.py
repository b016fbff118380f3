"""Laws of the pure steps of a question: pooling, reading a reranker's reply, citations, concepts."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from whence.answering.evidence import read_concepts
from whence.answering.plain_services import read_match
from whence.answering.writing import map_citations, markers_of
from whence.retrieval.pipeline import pool_candidates
from whence.retrieval.rerank import read_reranking
from whence.schema import Quote, RerankerResult
from whence.schema.passages import Passage
from whence.schema.search import SearchResponse
from whence.testing.stub_clients import ChunkMatch, candidate

chunk_ids = st.sampled_from([f"urn:chunk:{n}" for n in range(12)])


def _ranking(found: list[Any]) -> SearchResponse:
    return SearchResponse(candidates=tuple(map(read_match, found)))


plain = st.builds(ChunkMatch, chunk_ids)
scored = st.builds(candidate, chunk_ids, st.floats(0, 1))
nameless = st.builds(ChunkMatch, st.sampled_from(["", None, 7]))
matches = st.lists(st.one_of(plain, scored, nameless), max_size=10)
rankings = st.lists(st.tuples(st.sampled_from("abcd"), st.builds(_ranking, matches)), max_size=5)
Named = tuple[str, SearchResponse]
limits = st.integers(1, 8)


def ids_of(named: Named) -> list[str]:
    matches = named[1].candidates
    return [m.chunk_id for m in matches if isinstance(m.chunk_id, str) and m.chunk_id]


@settings(deadline=None)
@given(rankings, limits)
def test_a_pool_has_each_chunk_once_and_nothing_else(some: list[Named], limit: int) -> None:
    """The pool is a permutation of what was retrieved, ranked from 1 without gaps."""
    records = pool_candidates(some, limit=limit)

    assert {a.chunk_id for a in records} == {i for one in some for i in ids_of(one)}
    assert len({a.chunk_id for a in records}) == len(records)
    assert [a.rank for a in records] == list(range(1, len(records) + 1))


@settings(deadline=None)
@given(rankings, limits, st.floats(0, 1))
def test_a_pool_never_keeps_more_than_its_limit(
    some: list[Named], limit: int, threshold: float
) -> None:
    """A pool keeps as many as fit; candidates below the threshold do not count."""
    records = pool_candidates(some, limit=limit, threshold=threshold)
    good = [a for a in records if a.score is None or a.score >= threshold]

    assert [a for a in records if not a.reason_code] == good[:limit]


@settings(deadline=None)
@given(rankings, limits)
def test_a_pool_is_the_same_every_time(some: list[Named], limit: int) -> None:
    """Order is a function of the rankings."""
    assert pool_candidates(some, limit=limit) == pool_candidates(some, limit=limit)


@settings(deadline=None)
@given(st.lists(chunk_ids, unique=True, max_size=10))
def test_a_single_ranking_keeps_its_order(ids: list[str]) -> None:
    """With one search, or several that agree, the pool is the ranking."""
    named = ("a", _ranking([ChunkMatch(chunk_id) for chunk_id in ids]))

    for some in ([named], [named, named]):
        assert [a.chunk_id for a in pool_candidates(some, limit=99)] == ids


@settings(deadline=None)
@given(rankings)
def test_a_pool_is_fair(some: list[Named]) -> None:
    """No chunk ranks before one with a better best rank."""
    best: dict[str, int] = {}
    for one in some:
        for rank, chunk_id in enumerate(dict.fromkeys(ids_of(one)), start=1):
            best[chunk_id] = min(rank, best.get(chunk_id, rank))
    order = [best[a.chunk_id] for a in pool_candidates(some, limit=99)]

    assert order == sorted(order)


@settings(deadline=None)
@given(rankings)
def test_a_candidate_has_its_best_score_and_all_concepts(some: list[Named]) -> None:
    """A candidate has its best score and every concept that found it."""
    for record in pool_candidates(some, limit=99):
        found = [
            (concept, match)
            for concept, ranking in some
            for match in ranking.candidates
            if match.chunk_id == record.chunk_id
        ]
        scores = [m.score for _, m in found if getattr(m, "score", None) is not None]
        first = {}
        for place, (_, ranking) in enumerate(
            some
        ):  # Of a chunk found twice the first place counts.
            for match in ranking.candidates:
                if match.chunk_id == record.chunk_id:
                    first.setdefault(place, getattr(match, "score", None))
                    break
        known = [score for score in first.values() if score is not None]

        assert set(record.concepts) == {concept for concept, _ in found}
        assert record.score == (max(known) if known else None)
        assert record.score is None or record.score in scores


ids = st.one_of(
    st.integers(-2, 9).map(str), st.sampled_from(["", "x", "01", " 1", "1.0", "\u0661"]), st.none()
)
numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.booleans(), st.none(), st.text(max_size=2)
)
replies = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.lists(
        st.one_of(st.builds(RerankerResult, ids, st.just("0"), numbers), st.none()), max_size=12
    ),
)


def _sent(count: int) -> list[Passage]:
    return [Passage(chunk_id=str(place)) for place in range(count)]


@settings(deadline=None)
@given(replies, st.integers(1, 8), limits)
def test_any_reply_of_a_reranker_is_safe(reply: Any, count: int, limit: int) -> None:
    """Only known documents are kept, each once, with finite scores, sorted and cut."""
    reranking = read_reranking(reply, _sent(count), limit)
    items = (*reranking.kept, *reranking.rest)
    indices = [int(item.chunk_id) for item in items]

    assert len(reranking.kept) <= limit
    assert len(set(indices)) == len(indices)
    assert all(0 <= index < count for index in indices)
    assert all(math.isfinite(item.order_score) for item in items)
    order = [(-item.order_score, int(item.chunk_id)) for item in items]
    assert order == sorted(order)
    assert [item.rerank_rank for item in items] == list(range(1, len(items) + 1))
    assert {item.reason_code for item in reranking.kept} <= {""}
    assert {item.reason_code for item in reranking.rest} <= {"reranked_out"}
    if isinstance(reply, list):
        assert len(items) + len(reranking.faults) == len(reply)
    else:
        assert reranking.faults


@settings(deadline=None)
@given(st.permutations(range(8)), limits)
def test_a_valid_reply_is_used_unchanged(order: list[int], limit: int) -> None:
    """A sorted reply with known ids keeps its order, without faults."""
    reply = [RerankerResult(str(i), "0", 1.0 - place / 10) for place, i in enumerate(order)]
    reranking = read_reranking(reply, _sent(8), limit)

    assert [int(item.chunk_id) for item in reranking.kept] == order[:limit]
    assert reranking.faults == ()


texts = st.text(alphabet="ab []0123456789,;\n", max_size=40)
passages = st.lists(
    st.builds(Passage, chunk_id=chunk_ids, text=st.text(alphabet="ab ", max_size=10)), max_size=5
)
quotes = st.lists(
    st.builds(Quote, st.integers(-1, 7), st.text(alphabet="ab ", max_size=3)), max_size=5
)


@settings(deadline=None)
@given(texts, quotes, passages)
def test_citations_have_known_markers_and_verbatim_quotes(
    text: str, some: list[Quote], given_: list[Passage]
) -> None:
    """For any text, citations have known markers, in order, and verbatim quotes."""
    citations, _ = map_citations(text, some, given_)
    markers = [c.marker for c in citations]

    assert markers == sorted(markers)
    assert set(markers) == {m for m in markers_of(text) if 1 <= m <= len(given_)}
    for citation in citations:
        passage = given_[citation.marker - 1]
        assert citation.chunk_id == passage.chunk_id
        assert citation.quote in passage.text


@settings(deadline=None)
@given(texts, passages)
def test_every_marker_is_cited_or_reported(text: str, given_: list[Passage]) -> None:
    """Each marker becomes a citation or a degradation."""
    citations, faults = map_citations(text, (), given_)

    assert len(citations) + len(faults) == len(markers_of(text))


def test_markers_are_read_as_models_write_them() -> None:
    """Single, grouped and repeated markers count; other brackets do not."""
    text = "A [2]. B [1, 3][2]. C [ 4 ; 5 ]. Not [a], [1.5], [-1] or [1234567]; a link [6](x)."

    assert markers_of(text) == (2, 1, 3, 4, 5, 6)


@settings(deadline=None)
@given(st.text(max_size=80), limits)
def test_concepts_are_clean(text: str, limit: int) -> None:
    """Concepts are not blank, unique, within the limit and without NUL."""
    concepts = read_concepts(text, limit=limit)

    assert len(concepts) <= limit
    assert all(concept.strip() == concept and concept for concept in concepts)
    assert not any("\0" in concept for concept in concepts)
    assert len({concept.casefold() for concept in concepts}) == len(concepts)


def test_concepts_lose_the_bullets_that_models_add() -> None:
    """A list is read as its items; numbers inside a phrase stay."""
    text = "- return policy\n* 30 days\n\u2022 refund\n2) ISO 9001\n3. Return Policy\n"

    assert read_concepts(text, limit=9) == ("return policy", "30 days", "refund", "ISO 9001")
