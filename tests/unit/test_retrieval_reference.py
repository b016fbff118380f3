"""Retrieval as a whole: decisions over many small cases, and ranking against plain references."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import asdict
from tests.support.expected import assert_expected

from whence.answering.plain_services import read_match
from whence.operations.search import Search
from whence.retrieval.diversity import diversify
from whence.retrieval.duplicates import NearDuplicates, without_duplicates
from whence.retrieval.editions import newer_editions, newest_first, old_editions, outdated
from whence.retrieval.fusion import FUSIONS, lexical_score, score_of
from whence.retrieval.hybrid import (
    HybridSearch,
    QueryRetriever,
    kept_candidates,
    parse_symbol_query,
)
from whence.retrieval.links import (
    Neighbourhood,
    PassageGraph,
    is_linked_enough,
    page_rank,
    walk_scores,
)
from whence.retrieval.pipeline import (
    MAX_BUDGET_S,
    check_budget,
    check_search,
    search,
    search_match,
    search_mode,
)
from whence.retrieval.pooling import fuse_rankings, pool_candidates
from whence.retrieval.rerank import CheckedReranking, read_reranking, score_documents, text_to_read
from whence.retrieval.services import (
    Deadline,
    Embedded,
    PlannedQuery,
    RetrievalClients,
    Vector,
    as_whence_error,
)
from whence.schema.access import Access
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, Unavailable, WhenceError
from whence.schema.passages import Passage
from whence.schema.rerank import RerankerResult, RerankItem, RerankRequest, RerankResponse
from whence.schema.search import Candidate, Correction, Degradation, GraphUse, SearchResponse
from whence.schema.texts import ChunkText, TextRequest, TextResponse
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.symbol_names import SymbolMatch
from whence.text.analysis import document_terms, is_stop_term

unit = st.floats(0, 1, width=32)


# --- fusion ---------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(st.none() | st.floats(-1, 1, width=32), st.none() | unit),
    )
)
def test_fusions_follow_their_formulas(found: dict[str, tuple[float | None, float | None]]) -> None:
    """Each of the three, by the formula of its documentation, chunk by chunk."""
    chunks = {}
    for key, (dense, lexical) in found.items():
        chunks[key] = _candidate(key, 0.0, dense_score=dense, sparse_score=lexical)
    sides = [
        {key: pair[0] for key, pair in found.items() if pair[0] is not None},
        {key: pair[1] for key, pair in found.items() if pair[1]},
    ]
    for key, (dense, lexical) in found.items():
        total = 0.35 * max(0.0, dense or 0.0) + 0.65 * (lexical or 0.0)
        ranks, place = 0.0, 0.0
        for side in sides:
            if key in side:
                order = sorted(side, key=lambda one: (-side[one], one))
                ranks += 61 / 2 / (61 + order.index(key))
                low, high = min(side.values()), max(side.values())
                place += 0.5 if low == high else (side[key] - low) / (high - low) / 2
        assert FUSIONS["absolute"](chunks)[key] == pytest.approx(1.42 * total / (total + 0.42))
        assert FUSIONS["rrf"](chunks)[key] == pytest.approx(ranks)
        assert FUSIONS["min_max"](chunks)[key] == pytest.approx(place)


def test_scores_are_at_most_one() -> None:
    """Both curves reach 1 at 1 and do not pass it."""
    assert (score_of(0.0), score_of(1.0), score_of(1.5)) == (0.0, 1.0, 1.0)
    assert (lexical_score(0.0), lexical_score(0.5), lexical_score(1.0)) == (0.0, 0.75, 1.0)
    assert lexical_score(2.0) == 1.0


# --- diversity and duplicates -----------------------------------------------------------------------

WORDS = ["apple", "pear", "plum", "fig", "kiwi", "the", "lime"]
texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


@given(st.lists(st.tuples(texts, st.floats(-2, 2, width=16)), max_size=6), st.integers(0, 6), unit)
def test_diversity_is_that_of_its_paper(
    given_texts: list[tuple[str, float]], limit: int, weight: float
) -> None:
    """Choices of maximal marginal relevance, by a plain loop over sets."""
    scores = [score for _, score in given_texts]
    sets = [
        {one for one in document_terms(text) if not is_stop_term(one)} for text, _ in given_texts
    ]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    relevance = [(one - low) / (high - low) if high > low else 0.5 for one in scores]
    left, kept = list(range(len(scores))), []
    overlap = [0.0] * len(scores)
    value = [weight * one for one in relevance]
    while left and len(kept) < limit:
        for place in left if kept else ():
            either = sets[place] | sets[kept[-1]]
            same = len(sets[place] & sets[kept[-1]]) / len(either) if either else 0.0
            overlap[place] = max(overlap[place], same)
            value[place] = weight * relevance[place] - (1 - weight) * overlap[place]
        best = max(left, key=lambda place: (value[place], -place))
        kept.append(best)
        left.remove(best)
    found = diversify([text for text, _ in given_texts], scores, limit, weight)

    assert found.overlaps == pytest.approx(overlap)
    if len({round(one, 9) for one in value}) == len(value):  # rounding may part equal values
        assert found.kept == tuple(kept)
        assert found.scores == pytest.approx(value)


@given(st.lists(st.lists(st.sampled_from("abc12"), max_size=24).map(" ".join), max_size=5))
def test_near_duplicates_are_those_of_all_pairs(passages: list[str]) -> None:
    """Signatures change nothing: comparing each passage with every one kept before gives the same."""
    near = NearDuplicates()
    kept: list[tuple[set[tuple[str, ...]], set[str]]] = []
    for text in passages:
        words = re.findall(r"\w+", text)
        runs = {tuple(words[at : at + 3]) for at in range(len(words) - 2)} or {tuple(words)}
        figures = {word for word in words if word.isdigit()}
        best, most = None, 0
        for number, (known, known_figures) in enumerate(kept):
            if figures - known_figures and known_figures - figures:
                continue
            share = 0.9 if figures - known_figures else 0.85
            if len(runs & known) > most and len(runs & known) >= share * len(runs):
                best, most = number, len(runs & known)
        assert near.original(text) == best
        if best is None:
            kept.append((runs, figures))


def test_short_passages_are_kept() -> None:
    """A passage of fewer words than asked for is neither compared nor compared with."""
    rows = [Passage(chunk_id=f"{place}", text=text) for place, text in enumerate(["a b c"] * 3)]

    assert without_duplicates(rows) == (rows[:1], {"1": "0", "2": "0"})
    assert without_duplicates(rows, least_words=3) == (rows[:1], {"1": "0", "2": "0"})
    empty = [Passage(chunk_id=f"{place}", text=text) for place, text in enumerate(["", "!"])]
    assert without_duplicates(empty) == (empty[:1], {"1": "0"})
    assert without_duplicates(rows, least_words=4) == (rows, {})


# --- editions ---------------------------------------------------------------------------------------

BODY = "leave is granted for thirty days of every calendar year without exception"
DOCUMENTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "plain": ("leave.md", {"title": "Leave", "heading": "Days"}, BODY),
    "path 2022": ("leave-2022.md", {"title": "Leave", "heading": "Days"}, BODY),
    "path 2023": ("leave-2023.md", {"title": "Leave", "heading": "Days"}, BODY),
    "release 1.2": ("leave_v1.2.rst", {"title": "Leave", "heading": "Days"}, BODY),
    "release 1.10": ("leave_v1.10.rst", {"title": "Leave", "heading": "Days"}, BODY),
    "title 2024": ("x.md", {"title": "Leave (2024)", "heading": "Days"}, BODY),
    "status": ("a.md", {"title": "Leave", "heading": "Days", "status": " Superseded "}, BODY),
    "replaced": ("b.md", {"title": "Old leave", "heading": "Days", "replaced_by": "Leave"}, BODY),
    "replaced id": ("c.md", {"title": "C", "heading": "Else", "superseded_by": "leave.MD"}, BODY),
    "version key": ("d.md", {"title": "Leave", "heading": "Days", "version": "v3.1-rc"}, BODY),
    "date key": ("e.md", {"title": "Leave", "heading": "Days", "updated": "2021-03-04"}, BODY),
    "date later": ("f.md", {"title": "Leave", "heading": "Days", "date": "2021-03-05"}, BODY),
    "heading 2": (
        "g.md",
        {"title": "Leave", "heading": "Days 2.0", "section_path": "A > Days 2.0"},
        BODY,
    ),
    "heading 3": (
        "g.md",
        {"title": "Leave", "heading": "Days 3.0", "section_path": "A > Days 3.0"},
        BODY,
    ),
    "other heading": ("leave-2020.md", {"title": "Leave", "heading": "Pay"}, BODY),
    "other words": ("leave-2019.md", {"title": "Leave", "heading": "Days"}, "nothing of that sort"),
    "half the words": (
        "leave-2018.md",
        {"title": "Leave", "heading": "Days"},
        "leave granted thirty days; dogs cats mice birds",
    ),
    "no words": ("leave-2017.md", {"title": "Leave", "heading": "Days"}, ""),
    "no title": ("leave-2016.md", {}, BODY),
    "odd values": ("leave.md", {"title": 5, "heading": None, "status": 7, "version": "x"}, BODY),
}
QUESTIONS = (
    "how many days of leave?",
    "how many days in 2022?",
    "days of version 1.2",
    "leave v1",
    "leave of 1.10",
    "release 3.1 days",
    "50.5 % of 1 day",
)


def _document(name: str) -> Passage:
    path, metadata, text = DOCUMENTS[name]
    return Passage(chunk_id=name, document_id=path, metadata=metadata, text=text)


def test_editions_of_all_pairs() -> None:
    """Which of two passages is the newer edition, for each pair in both orders and several questions."""
    found: dict[str, dict[str, str]] = {}
    for question in QUESTIONS:
        rows: dict[str, str] = {}
        for names in itertools.permutations(DOCUMENTS, 2):
            passages = [_document(name) for name in names]
            newer, old = newer_editions(question, passages), old_editions(question, passages)
            if newer or old:
                rows[" | ".join(names)] = f"{newer} {newest_first(question, passages)} {old}"
        found[question] = rows

    assert_expected("editions_pairs.json", found)


def test_editions_of_many() -> None:
    """All at once: chains, ties and the order of the ranking."""
    names = list(DOCUMENTS)
    orders = (names, names[::-1], names[::2] + names[1::2], names[5:] + names[:5])
    found = [
        [
            question,
            newer_editions(question, rows),
            newest_first(question, rows),
            old_editions(question, rows),
        ]
        for question in QUESTIONS
        for order in orders
        for rows in [[_document(name) for name in order]]
    ]

    assert_expected("editions_many.json", found)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, ""),
        ({"status": "deprecated"}, "deprecated"),
        ({"status": " WITHDRAWN\n"}, "withdrawn"),
        ({"status": "draft"}, ""),
        ({"status": 1}, ""),
        ({"superseded_by": "B", "status": "archived"}, "replaced by B"),
        ({"replaced_by": "", "superseded_by": "C"}, "replaced by C"),
        ({"replaced_by": ["B"]}, ""),
    ],
)
def test_outdated_documents(metadata: dict[str, Any], why: str) -> None:
    """By a successor, else by a status that says so."""
    assert outdated(metadata) == why


# --- search -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", None),
        ("   ", None),
        ("the the the the the the the Cart", "Cart"),
        ("the the the the the the the the Cart", None),
        ("`Cart.total()`", "Cart.total"),
        ("the (Cart)", "Cart"),
        ("Cart total", None),
        ("ns::Cart#total:x", "ns::Cart#total:x"),
        ("a.b..c", None),
        ("the of", None),
        ("$x @y", None),
        ("$x", "$x"),
        ("x-y", None),
        ("x" * 2000, None),
    ],
)
def test_queries_that_are_a_name(query: str, name: str | None) -> None:
    """One word that is a symbol, besides stop words, in at most eight words."""
    assert parse_symbol_query(query) == name


def _candidate(chunk_id: str, score: float, **fields: Any) -> Candidate:
    known: dict[str, Any] = {"document_id": f"D{chunk_id}", **fields}
    return Candidate(chunk_id=chunk_id, score=score, rank=0, **known)


def test_kept_candidates() -> None:
    """The first that reach the threshold; a score below 0 counts as 0, and 0 stays what it is."""
    ranking = [_candidate(f"{n}", score) for n, score in enumerate((0.5, -0.25, 0.0, 0.25, -0.0))]

    assert [one.score for one in kept_candidates(ranking, 9, 0.0)] == [0.5, 0.0, 0.0, 0.25, -0.0]
    assert kept_candidates(ranking, 9, 0.0)[4] is ranking[4]
    assert [one.chunk_id for one in kept_candidates(ranking, 9, 0.25)] == ["0", "3"]
    assert [one.chunk_id for one in kept_candidates(ranking, 1, 0.25)] == ["0"]


class Side:
    """A retriever of prepared scores; an error fails its ranking or its scores."""

    def __init__(
        self, field: str, scores: Mapping[str, float], fail: str = "", *, is_large: bool = False
    ) -> None:
        self.field, self.by_id, self.fail = field, dict(scores), fail
        self.is_large = is_large
        self.asked: list[Any] = []

    async def search(self, *, limit: int) -> list[Candidate]:
        self.asked.append(limit)
        if "search" in self.fail:
            raise Unavailable(f"no {self.field}")
        best = sorted(self.by_id, key=lambda one: (-self.by_id[one], one))[:3]
        found = [
            _candidate(one, self.by_id[one] / 2, **{self.field: self.by_id[one]}) for one in best
        ]
        # Of a side with fewer hits than are wanted no more scores are asked for.
        others = range(limit - len(found) if self.is_large else 0)
        return [*found, *(_candidate(f"z{n}", 0.0, **{self.field: 0.0}) for n in others)]

    async def scores(self, chunk_ids: Sequence[str]) -> dict[str, float]:
        self.asked.append(sorted(chunk_ids))
        if "scores" in self.fail:
            raise DeadlineExceeded(f"late {self.field}")
        return {one: self.by_id[one] for one in chunk_ids if one in self.by_id}


TITLES = [
    LinkTitle(
        name="alpha",
        titled_passages=(PassageRef("g", "Dg"),),
        mentions=(PassageRef("a", "Da"), PassageRef("b", "Db")),
        in_query=False,
    ),
    LinkTitle(
        name="beta",
        titled_passages=(PassageRef("h", "Dh"), PassageRef("c", "Dc")),
        mentions=(),
        in_query=True,
    ),
    LinkTitle(name="gamma", titled_passages=(PassageRef("i", "Di"),), mentions=(), in_query=False),
]


@pytest.mark.parametrize("fusion", ["absolute", "rrf", "min_max"])
async def test_searches_of_all_kinds(fusion: Any) -> None:
    """Candidates, degradations and what was asked, for retrievers, symbols and graphs that answer or fail."""
    dense = {"a": 0.9, "b": 0.7, "c": 0.65, "d": 0.6, "g": 0.3, "s": 0.1}
    words = {"d": 0.8, "a": 0.5, "e": 0.25, "f": 0.2, "s": 0.15, "h": 0.05}
    found: dict[str, Any] = {}
    for fail, query, symbols, graph in itertools.product(
        ("", "dense search", "lexical search", "dense scores", "lexical scores", "no dense"),
        ("total of cart items", "Cart"),
        ("two", "fail", "none"),
        ("titles", "fail", "none", "few"),
    ):
        if (query != "Cart" and symbols != "two") or (query == "Cart" and graph == "few"):
            continue
        is_large = symbols != "fail" and graph != "fail"
        sides = [
            Side("sparse_score", words, fail if "lexical" in fail else "", is_large=is_large),
            Side("dense_score", dense, fail if "dense" in fail else "", is_large=is_large),
        ]

        async def find_symbols(name: str, how: str = symbols) -> list[SymbolMatch]:
            if how == "fail":
                raise Unavailable("no symbols")
            return [SymbolMatch("s", "Ds", 2), SymbolMatch("a", "Da", 1)]

        async def find_titles(chunk_ids: Sequence[str], text: str) -> list[LinkTitle]:
            return TITLES if text else [msgspec.structs.replace(TITLES[0], in_query=True)]

        async def find_graph(how: str = graph, text: str = query) -> PassageGraph | None:
            if how == "fail":
                raise Unavailable("no links")
            if how == "few":
                return None
            return PassageGraph(find_titles=find_titles, query_text=text, linked_share=0.456)

        search = HybridSearch(
            query_text=query,
            lexical=QueryRetriever(sides[0].search, sides[0].scores),
            dense=None if fail == "no dense" else QueryRetriever(sides[1].search, sides[1].scores),
            limit=5,
            threshold=0.1,
            fusion=fusion,
            finds_all=symbols != "none",
            find_symbols=None if symbols == "none" else find_symbols,
            find_graph=None if graph == "none" else find_graph,
        )
        response = await search.search()
        found[f"{fail}, {query}, symbols {symbols}, graph {graph}"] = [
            " ".join(f"{one.chunk_id}{one.rank}:{one.score:.6f}" for one in response.candidates),
            [
                [one.dense_score, one.sparse_score, one.graph_score, one.name_score]
                for one in response.candidates
            ]
            if symbols == "two"
            else [],
            [f"{one.stage} {one.code}: {one.reason}" for one in response.degraded],
            msgspec.to_builtins(response.graph),
            [[_short(one) for one in side.asked] for side in sides],
        ]

    assert_expected(f"searches_{fusion}.json", found)


def _short(asked: Any) -> Any:
    return [one for one in asked if not one.startswith("z")] if isinstance(asked, list) else asked


async def test_a_search_without_retrievers_fails() -> None:
    """With the error of the vectors, or of the words where no vectors were asked."""
    sides = [Side("sparse_score", {}, "search"), Side("dense_score", {}, "search")]
    words, vectors = (QueryRetriever(side.search, side.scores) for side in sides)
    both = HybridSearch(query_text="q", lexical=words, dense=vectors, limit=200)
    with pytest.raises(Unavailable, match="no dense_score"):
        await both.search()
    with pytest.raises(Unavailable, match="no sparse_score"):
        await HybridSearch(query_text="q", lexical=words, limit=5).search()
    assert sides[0].asked == [200, 100]


# --- links ------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] < p[1]), unique=True
    ),
    st.lists(st.floats(0, 1, width=16), min_size=6, max_size=6),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
)
def test_walks_follow_their_series(
    links: list[tuple[int, int]], own: list[float], named: set[int], silent: set[int]
) -> None:
    """The sum of forty steps over a matrix, its fourth root, and at least the evidence itself."""
    matrix = np.zeros((6, 6))
    for one, other in links:
        matrix[one, other] = matrix[other, one] = 1.0
    degrees = matrix.sum(axis=0)
    matrix = np.divide(matrix, degrees, where=degrees > 0, out=np.zeros((6, 6)))
    start = np.array([max(own) if one in named else own[one] for one in range(6)])
    passed = start**4 * [one in named or one not in silent for one in range(6)]
    total, step = passed.copy(), passed
    for _ in range(40):
        step = 0.5 * matrix @ step
        total = total + step
    expected = np.minimum(1.0, np.maximum((start**4 + total - passed) ** 0.25, start))
    names = "abcdef"
    around = Neighbourhood(
        documents={name: f"D{name}" for name in reversed(names)},
        links=tuple((names[one], names[other]) for one, other in links),
        named=frozenset(names[one] for one in named),
    )
    evidence = {name: own[place] for place, name in enumerate(names)}
    found = walk_scores(evidence, around, {names[one] for one in silent})

    assert [found[name] for name in names] == pytest.approx(expected.tolist(), abs=1e-9)
    assert page_rank(passed, links, 0.5) == pytest.approx(total, abs=1e-9)


# --- pooling and reranking --------------------------------------------------------------------------


class Odd:
    """A match of a client, with whatever it likes."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


def _rankings() -> list[tuple[str, SearchResponse]]:
    nan = _candidate("n", math.nan, dense_score=0.5)
    rows = [
        [_candidate("a", 0.9), _candidate("b", 0.5), _candidate("a", 1.0), nan],
        [_candidate("c", 0.9), _candidate("a", 0.95, sparse_score=0.25), _candidate("d", 0.05)],
        [
            Odd(chunk_id="b", score="x"),
            Odd(chunk_id=5),
            Odd(),
            Odd(chunk_id="e", document_id=7, score=2),
        ],
        [_candidate("f", 0.9, graph_score=0.5, name_score=0.25), _candidate("e", 0.3)],
    ]
    return [
        (f"q{place}", SearchResponse(candidates=tuple(map(read_match, row))))
        for place, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("limit", "threshold"), [(9, 0.0), (3, 0.0), (3, 0.4), (0, 0.0), (1, 2.5)])
def test_pools_of_rankings(limit: int, threshold: float) -> None:
    """Each chunk once, interleaved, with all its scores, its queries and why it was dropped."""
    rows = _rankings()
    pooled = pool_candidates(rows, limit=limit, threshold=threshold)
    fused = [
        fuse_rankings(
            rows[:2], rows[2:], weights, limit=limit, threshold=threshold / 2, cut_code="over_limit"
        )
        for weights in ((1.0, 1.0), (3.0, 1.0), (0.0, 2.0))
    ]

    assert not any(one.text or one.metadata or one.token_codes for one in pooled)
    without_text = {"text", "metadata", "token_codes"}
    rows_found = [
        [{k: v for k, v in asdict(one).items() if k not in without_text} for one in ranking]
        for ranking in (pooled, *fused)
    ]
    assert_expected(f"pools_{limit}_{threshold:g}.json", rows_found)


def _scored(reranking: CheckedReranking) -> dict[str, Any]:
    """Return a reranking with places and scores of its passages alone."""

    def rows(passages: Sequence[Passage]) -> list[dict[str, Any]]:
        return [
            {
                "index": int(one.chunk_id),
                "raw_score": one.raw_score,
                "final_score": one.final_score,
            }
            for one in passages
        ]

    kept, rest = rows(reranking.kept), rows(reranking.rest)
    return {"kept": kept, "rest": rest, "faults": reranking.faults}


def test_replies_of_rerankers() -> None:
    """What is kept of a reply and what is wrong with the rest, entry by entry."""
    replies: list[Any] = [
        None,
        "no",
        7,
        [],
        [Odd(document_id="0", score=0.5), Odd(document_id="2", score=0.75)],
        [Odd(document_id="0", score=0.5, final_score=0.1), Odd(document_id="1", score=0.25)],
        [Odd(document_id="1", score=0.5), Odd(document_id="0", score=0.5)],
        [
            Odd(document_id="3", score=0.5),
            Odd(document_id=0, score=0.5),
            Odd(),
            Odd(document_id="00"),
        ],
        [
            Odd(document_id="0", score=True),
            Odd(document_id="1", score=math.inf),
            Odd(document_id="2"),
        ],
        [
            Odd(document_id="0", score=1, final_score="x"),
            Odd(document_id="0", score=2),
            Odd(document_id="1", score=0),
        ],
        (Odd(document_id=f"{place}", score=place / 4) for place in range(3)),
    ]
    others = [Odd(document_id="2", score=0.9), Odd(document_id="1", score=0.95)]
    sent = [Passage(chunk_id=str(place)) for place in range(3)]
    found = [
        [
            _scored(read_reranking([*one] if isinstance(one, list) else one, sent, limit, rest))
            for limit in (1, 3)
        ]
        for one in replies
        for rest in ((), others)
        if isinstance(one, list) or rest == ()
    ]

    assert_expected("rerank_replies.json", found)


class Model:
    """A reranker that scores a text by its length, and one word by its codes."""

    model = "m"

    def __init__(self, share: float | None, *, coded: bool) -> None:
        if share is not None:
            self.share = share
        if coded:
            self.score_coded = self._coded

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [len(text) / 16 - (0.25 if query == "low" else 0.0) for text in texts]

    async def _coded(self, query: str, texts: Sequence[str], codes: Sequence[bytes]) -> list[float]:
        return [len(code) / 8 for code in codes]


async def test_scores_of_documents() -> None:
    """Best of all queries, share of retrieval, order, limit and model, with and without codes."""
    found = []
    for share, coded, retrieved, queries in itertools.product(
        (None, 0.25, 1.0),
        (False, True),
        ((0.9, 0.1, 0.5), (0.9, None, 0.5)),
        (("a",), ("low", "b"), ()),
    ):
        request = RerankRequest(
            queries=tuple(RerankItem(id=f"q{one}", text=one) for one in queries),
            documents=tuple(
                RerankItem(
                    id=f"{place}",
                    text="x" * (place * 2 % 5),
                    retrieval_score=score,
                    token_codes=code,
                )
                for place, (score, code) in enumerate(
                    zip(retrieved, (b"", b"12", b"1"), strict=True)
                )
            ),
            limit=2,
        )
        found.append(await score_documents(Model(share, coded=coded), request))  # type: ignore[arg-type]

    assert_expected("rerank_scores.json", found)
    assert isinstance(found[0].results[0], RerankerResult)


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "body"),
        ({"title": "T", "heading": "H"}, "T\nH\nbody"),
        ({"title": "T", "heading": "T"}, "T\nbody"),
        ({"title": "bo", "heading": "H"}, "H\nbody"),
        ({"title": 5, "heading": ""}, "body"),
        ({"heading": "H"}, "H\nbody"),
    ],
)
def test_what_a_reranker_reads(metadata: dict[str, Any], text: str) -> None:
    """Title and heading before the text, once each, unless the text begins with them."""
    assert text_to_read("body", metadata) == text


# --- time -------------------------------------------------------------------------------------------


async def test_deadlines() -> None:
    """Each call has its own time within that of the whole; errors say what was not done."""
    now = [100.0]
    whole = Deadline(10.0, monotonic=lambda: now[0])

    async def call() -> str:
        return "done"

    async def late() -> None:
        raise TimeoutError("own")

    assert await whole.limit("it", call) == "done"
    now[0] = 110.0
    with pytest.raises(DeadlineExceeded, match="the time of the question was over before it"):
        await whole.limit("it", call)
    with pytest.raises(DeadlineExceeded, match="over before that"):
        await Deadline().limit("that", call, 0)
    with pytest.raises(DeadlineExceeded, match="over before less"):
        await Deadline(5.0, monotonic=lambda: now[0]).limit("less", call, share=0.0)
    inner = whole.within(5.0)
    with pytest.raises(DeadlineExceeded):
        await inner.limit("it", call)
    longer = Deadline(monotonic=lambda: now[0]).within(5.0)
    now[0] = 114.9
    assert await longer.limit("it", call) == "done"
    now[0] = 115.1
    with pytest.raises(DeadlineExceeded):
        await longer.limit("it", call)
    with pytest.raises(Unavailable, match="it timed out: own"):
        await Deadline().limit("it", late)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("bad"), "internal", "it failed: ValueError: bad"),
        (ValueError(), "internal", "it failed: ValueError"),
        (TimeoutError(), "unavailable", "it timed out"),
        (TimeoutError("slow"), "unavailable", "it timed out: slow"),
        (Unavailable("gone"), "unavailable", "gone"),
    ],
)
def test_errors_are_never_without_words(error: Exception, kind: str, message: str) -> None:
    """Any exception becomes one of ours, with what was being done."""
    found = as_whence_error(error, "it")

    assert isinstance(found, WhenceError)
    assert (found.code, found.message) == (kind, message)


# --- one search -------------------------------------------------------------------------------------

STORED = {
    "a": ("leave-2022.md", "Leave", f"{BODY} {BODY}"),
    "b": ("leave-2023.md", "Leave", f"{BODY} {BODY} now"),
    "c": ("copy.md", "Copy", f"{BODY} {BODY}"),
    "d": ("other.md", "Other", "something else entirely"),
    "e": ("more.md", "More", "and more of that"),
    "x": ("gone.md", "Gone", ""),
}


class Services:
    """Finds prepared chunks by query; what it is asked for is noted."""

    def __init__(self, mode: str, fault: str) -> None:
        self.mode, self.fault = mode, fault
        self.asked: list[Any] = []

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        self.asked.append(["embed", *texts, what])
        if "embed" in self.fault:
            raise ModelMissing("no model")
        return Embedded([f"vector of {texts[0]}"])

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        self.asked += [[one.text, one.vector, one.limit, one.spelling] for one in queries]
        found = []
        for one in queries:
            misspelt = one.spelling and "leaf" in one.text
            corrections = (Correction(source="leaf", target="leave"),) if misspelt else ()
            rows = [
                _candidate(
                    key,
                    0.95 - place / 8,
                    document_id=path,
                    dense_score=0.5,
                    graph_score=place / 64,
                )
                for place, (key, (path, _, _)) in enumerate(STORED.items())
            ]
            rows[3] = msgspec.structs.replace(rows[3], name_score=0.125, graph_score=None)
            late = Degradation(stage="search", code="late", reason="the words were late")
            degraded = (late,) if "late" in self.fault else ()
            found.append(
                SearchResponse(
                    candidates=tuple(rows[: one.limit]),
                    degraded=degraded,
                    graph=GraphUse(passages=3, links=2, named=1, linked_share=0.5),
                    corrections=corrections,
                )
            )
        return found

    async def fetch(self, chunk_ids: Sequence[str], **_: Any) -> dict[str, Any]:
        self.asked.append(["fetch", *chunk_ids])
        texts: dict[str, Any] = {}
        for one in chunk_ids:
            path, title, text = STORED[one]
            metadata = {"title": title, "heading": "Days"}
            if text:
                texts[one] = ChunkText(
                    chunk_id=one, document_id=path, content=text, metadata=metadata
                )
        return texts

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankResponse:
        self.asked.append(
            ["rerank", query, [one.chunk_id for one in passages], list(scores), limit]
        )
        if "rerank" in self.fault:
            raise Unavailable("no reranker")
        rows = [
            RerankerResult(f"{place}", "0", place / 4, (place / 4 - 0.25) * 2)
            for place in range(len(passages) - ("short" in self.fault))
        ]
        return RerankResponse(results=tuple(rows), model="m")


async def test_searches_from_query_to_report() -> None:
    """The report and everything that was asked for, over modes, options and faults."""
    options: list[dict[str, Any]] = [
        {},
        {"threshold": 0.6},
        {"rerank": True},
        {"rerank": True, "threshold": 0.3},
        {"rerank": True, "no_reranker": "none"},
        {"exact": True},
        {"distinct": False},
        {"distinct": False, "rerank": True},
    ]
    found: dict[str, Any] = {}
    for mode, fault, query, option, top_k in itertools.product(
        ("hybrid", "dense", "bm25"),
        ("", "embed late", "rerank", "short"),
        ("days of leaf", "days of leave in 2022"),
        options,
        (1, 4),
    ):
        if fault and (top_k == 1 or mode == "bm25" or ("re" in fault) > ("rerank" in option)):
            continue
        if (mode != "hybrid" and len(option) > 1) or (top_k == 1 and option not in options[:3]):
            continue
        services = Services(mode, fault)
        try:
            fields = {name: one for name, one in option.items() if name != "no_reranker"}
            absent = option.get("no_reranker", "")
            asked = Search(query, top_k=top_k, **fields)
            report = await search(services, asked, no_reranker=absent)  # type: ignore[arg-type]
        except WhenceError as error:
            shown: Any = f"{error.code}: {error.message}"
        else:
            assert report.latency_ms.keys() - {"rerank"} == {
                "embedding",
                "search",
                "texts",
                "total",
            }
            assert ("rerank" in report.latency_ms) == ("rerank" in option)
            shown = msgspec.to_builtins(msgspec.structs.replace(report, latency_ms={}))
            shown = {key: value for key, value in shown.items() if value}
            for one in shown["results"]:
                one["chunk"] = one["chunk"]["id"]
        words = ",".join(f"{key}={value}" for key, value in option.items())
        found[f"{mode} {fault} {query[:12]} {words} {top_k}"] = json.dumps([shown, services.asked])

    assert_expected("searches_whole.json", {key: _digits(value) for key, value in found.items()})


def _digits(text: str) -> str:
    return re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.6f}", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 1, 0.0), "query_text must be a string, not int"),
        ((" ", 1, 0.0), "query_text cannot be empty"),
        (("a\0", 1, 0.0), "query_text holds a NUL character"),
        (("\ud800", 1, 0.0), "query_text is not valid UTF-8"),
        ((" ab ", 1, 0.0), "query_text must have at least 3 characters"),
        (("abc", True, 0.0), "top_k must be an integer, not True"),
        (("abc", 1.0, 0.0), "top_k must be an integer, not 1.0"),
        (("abc", 0, 0.0), "top_k must be positive, not 0"),
        (("abc", 1, False), "the similarity threshold must be a number, not False"),
        (("abc", 1, "0"), "the similarity threshold must be a number, not '0'"),
        (("abc", 1, -0.1), "the similarity threshold must be 0 to 1, not -0.1"),
        (("abc", 1, 1.1), "the similarity threshold must be 0 to 1, not 1.1"),
    ],
)
def test_arguments_out_of_range(arguments: tuple[Any, ...], message: str) -> None:
    """Each is refused by name, and the edges of each range are taken."""
    with pytest.raises(BadInput) as caught:
        check_search(*arguments, min_characters=3)
    assert caught.value.message == message
    check_search("abc", 1, 0.0, min_characters=3)
    check_search(" a ", 1, 1)


def test_names_of_modes_and_matches() -> None:
    """Unknown ones are refused with those that there are."""
    assert (search_mode("semantic"), search_match("all")) == ("dense", "all")
    for look_up, what, names in (
        (search_mode, "mode", "hybrid, dense, semantic, bm25"),
        (search_match, "match", "any, all"),
    ):
        with pytest.raises(BadInput) as caught:
            look_up("x")
        assert (caught.value.message, caught.value.hint) == (
            f"unknown {what} 'x'",
            f"use one of {names}",
        )
    check_budget(MAX_BUDGET_S)
    check_budget(0.001)
    for bad in (0.0, MAX_BUDGET_S + 0.1):
        with pytest.raises(BadInput, match="the time for reranking must be above 0 and at most"):
            check_budget(bad)


# --- requests over the bus --------------------------------------------------------------------------


class Bus:
    """Answers each request with a prepared reply, and notes what was sent."""

    def __init__(self, *, fault: bool = False, found: int = 1) -> None:
        self.sent: list[Any] = []
        self.fault, self.found = fault, found

    async def call(self, port: str, message: Any, reply: type[Any]) -> Any:
        self.sent.append([port, type(message).__name__, msgspec.to_builtins(message)])
        if self.fault:
            raise Unavailable("away")
        if isinstance(message, TextRequest):
            texts = [
                ChunkText(chunk_id=one, document_id="d", content="A Red Lake")
                for one in message.chunk_ids
            ]
            return TextResponse(texts=tuple(texts))
        rows = [_candidate(f"{place}", 0.5) for place in range(self.found)]
        return SearchResponse(
            candidates=tuple(rows),
            corrections=(Correction(source="lak", target="lake"),),
            absent=("xyz",),
        )


async def test_what_is_asked_of_services() -> None:
    """Spelling and terms are looked up by words alone, without the filters of the search, with its rights."""
    shown = []
    for fault, found in ((False, 1), (False, 100), (True, 1), (False, 0)):
        bus = Bus(fault=fault, found=found)
        clients = RetrievalClients(
            caller=bus,
            collection="c",
            access=Access({"hr"}),
            mode="hybrid",
            filters={"year": 2022},
            match="all",
        )
        spelling = await clients.check_spelling("a lak")
        occurs = [await clients.occurs(term) for term in ("red LAKE", "blue")]
        both = await clients.search(
            [PlannedQuery("q", Vector(b"1234"), 3, spelling=True), PlannedQuery("r", None, 4)]
        )
        replies = [
            str(one) if isinstance(one, WhenceError) else len(one.candidates) for one in both
        ]
        shown.append([spelling, occurs, replies, bus.sent if found < 100 else len(bus.sent)])

    assert_expected("requests.json", shown)


@pytest.mark.parametrize(
    ("chunks", "linked", "documents", "enough"),
    [(15, 6, 10, True), (15, 5, 10, False), (16, 16, 10, False), (10, 4, 10, True)],
)
def test_collections_that_are_linked_enough(
    chunks: int, linked: int, documents: int, *, enough: bool
) -> None:
    """Two fifths of the passages with a link, and three passages for two documents, suffice."""
    statistics = LinkStatistics(chunks=chunks, linked=linked, documents=documents)

    assert is_linked_enough(statistics) is enough
