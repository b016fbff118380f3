"""The walk over the passage graph: weights add up, isolated passages keep theirs, order is nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.retrieval.links import (
    Neighbourhood,
    PassageGraph,
    is_linked_enough,
    page_rank,
    walk_scores,
)
from whence.schema.search import Candidate
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef

_SIZE = 12
_weights = st.lists(
    st.floats(min_value=0, max_value=1, width=32), min_size=_SIZE, max_size=_SIZE
).map(lambda values: np.array(values, dtype=np.float64))
_links = st.sets(
    st.tuples(st.integers(0, _SIZE - 1), st.integers(0, _SIZE - 1)).filter(lambda p: p[0] < p[1]),
    max_size=20,
)
_walks = st.floats(min_value=0, max_value=0.5)


def _ids(*numbers: int) -> dict[str, str]:
    return {f"c{n}": f"d{n}" for n in numbers}


def graph(links: Sequence[tuple[int, int]], named: Sequence[int] = ()) -> Neighbourhood:
    """Return a graph of all nodes with these links."""
    return Neighbourhood(
        documents=_ids(*range(_SIZE)),
        links=tuple(sorted((min(f"c{a}", f"c{b}"), max(f"c{a}", f"c{b}")) for a, b in links)),
        named=frozenset(f"c{n}" for n in named),
    )


@given(start=_weights, links=_links, walk=_walks)
def test_weights_add_up(start: np.ndarray, links: set[tuple[int, int]], walk: float) -> None:
    """The weights of linked nodes add up to their start times 1 / (1 - walk)."""
    linked = sorted({node for pair in links for node in pair})
    result = page_rank(start, sorted(links), walk)

    assert result[linked].sum() == pytest.approx(start[linked].sum() / (1 - walk), abs=1e-9)


@given(start=_weights, links=_links, walk=_walks)
def test_no_node_loses_and_isolated_ones_keep_their_weight(
    start: np.ndarray, links: set[tuple[int, int]], walk: float
) -> None:
    """A node without links has exactly its own weight, every other at least its own."""
    linked = {node for pair in links for node in pair}
    result = page_rank(start, sorted(links), walk)

    assert (result >= start).all()
    assert all(result[node] == start[node] for node in range(_SIZE) if node not in linked)


@given(start=_weights, links=_links, walk=_walks, seed=st.integers(0, 99))
def test_order_and_direction_of_links_change_no_bit(
    start: np.ndarray, links: set[tuple[int, int]], walk: float, seed: int
) -> None:
    """Links are a set without direction."""
    rng = random.Random(seed)
    shuffled = [pair if rng.random() < 0.5 else pair[::-1] for pair in sorted(links)]
    rng.shuffle(shuffled)

    expected = page_rank(start, sorted(links), walk)
    assert page_rank(start, shuffled, walk).tobytes() == expected.tobytes()


@given(start=_weights, links=_links, walk=_walks)
def test_the_sum_of_steps_solves_the_equation_of_page_rank(
    start: np.ndarray, links: set[tuple[int, int]], walk: float
) -> None:
    """The result is that of `x = p + c W x`, solved directly."""
    matrix = np.zeros((_SIZE, _SIZE))
    for a, b in links:
        matrix[a, b] = matrix[b, a] = 1.0
    degrees = matrix.sum(axis=0)
    spread = matrix / np.where(degrees > 0, degrees, 1.0)
    expected = np.linalg.solve(np.eye(_SIZE) - walk * spread, start)

    assert page_rank(start, sorted(links), walk) == pytest.approx(expected, abs=1e-9)


@given(own=_weights, links=_links, named=st.sets(st.integers(0, _SIZE - 1), max_size=2))
def test_scores_stay_on_their_scale(
    own: np.ndarray, links: set[tuple[int, int]], named: set[int]
) -> None:
    """Evidence is at least its own and at most 1; without links and without being named it is its own."""
    evidence = {f"c{n}": float(own[n]) for n in range(_SIZE)}
    linked = {node for pair in links for node in pair}
    walked = walk_scores(evidence, graph(sorted(links), sorted(named)))

    assert all(evidence[key] <= score <= 1 for key, score in walked.items())
    alone = [n for n in range(_SIZE) if n not in linked and n not in named]
    assert all(walked[f"c{n}"] == pytest.approx(evidence[f"c{n}"], rel=1e-12) for n in alone)


def test_what_a_good_passage_names_overtakes_what_only_resembles() -> None:
    """A passage with little evidence of its own that the best one names passes a mediocre one."""
    own = {"c0": 0.6, "c1": 0.05, "c2": 0.3}
    walked = walk_scores(own, graph([(0, 1)]))

    assert walked["c0"] > walked["c1"] > own["c2"]
    assert walked["c2"] == pytest.approx(0.3)


def test_a_named_passage_starts_from_the_evidence_of_the_best() -> None:
    """A passage whose title the query contains starts from the best evidence."""
    walked = walk_scores({"c0": 0.4}, graph([], named=[5]))

    assert walked["c5"] == pytest.approx(0.4)


async def test_the_neighbourhood_has_two_links_around_the_best() -> None:
    """The second look is from what the first one found; names of both are joined once."""
    asked: list[tuple[list[str], str]] = []
    answers = [
        [
            name("a", titled_passages=[1], mentions=[0]),
            name("q", titled_passages=[9], in_query=True),
        ],
        [
            name("a", titled_passages=[1], mentions=[0]),
            name("b", titled_passages=[2], mentions=[1]),
        ],
    ]

    async def find(chunk_ids: Sequence[str], text: str) -> list[LinkTitle]:
        asked.append((list(chunk_ids), text))
        return answers[len(asked) - 1]

    passages = PassageGraph(find_titles=find, query_text="who is q", linked_share=1.0)
    around = await passages.neighbourhood(
        {"c0": Candidate(chunk_id="c0", document_id="d0", score=0.0, rank=0, dense_score=0.5)}
    )

    assert asked == [(["c0"], "who is q"), (["c1", "c9"], "")]
    assert around.documents == _ids(0, 1, 2, 9)
    assert around.links == (("c0", "c1"), ("c1", "c2"))
    assert around.named == {"c9"}


def test_a_narrowed_neighbourhood_has_no_link_to_what_is_outside() -> None:
    """Filters keep passages out, and their weight with them."""
    narrowed = graph([(0, 1), (1, 2)], named=[2, 0]).within({"c0", "c1"})

    assert narrowed.documents == _ids(0, 1)
    assert narrowed.links == (("c0", "c1"),)
    assert narrowed.named == {"c0"}


def name(
    text: str,
    titled_passages: Sequence[int],
    mentions: Sequence[int] = (),
    *,
    in_query: bool = False,
) -> LinkTitle:
    """Return a title with passages by number."""
    return LinkTitle(
        name=text,
        titled_passages=tuple(PassageRef(f"c{n}", f"d{n}") for n in titled_passages),
        mentions=tuple(PassageRef(f"c{n}", f"d{n}") for n in mentions),
        in_query=in_query,
    )


@given(own=_weights, links=_links, silent=st.sets(st.integers(0, _SIZE - 1)))
def test_what_has_no_word_of_the_query_hands_nothing_on(
    own: np.ndarray, links: set[tuple[int, int]], silent: set[int]
) -> None:
    """Silent passages keep their evidence and raise no other; when all are silent nothing changes."""
    evidence = {f"c{n}": float(own[n]) for n in range(_SIZE)}
    quiet = {f"c{n}" for n in silent}
    around = graph(sorted(links))
    loud = walk_scores(evidence, around)
    some = walk_scores(evidence, around, quiet)
    none = walk_scores(evidence, around, evidence.keys())

    assert all(evidence[key] <= some[key] <= loud[key] + 1e-9 for key in evidence)
    assert none == pytest.approx(evidence, rel=1e-12)


@given(links=_links)
def test_the_only_hit_of_a_word_stays_first(links: set[tuple[int, int]]) -> None:
    """What one passage raises gets at most two thirds of its weight, for any links."""
    own = {f"c{n}": 0.0 for n in range(_SIZE)} | {"c0": 0.5}
    walked = walk_scores(own, graph(sorted(links)), own.keys() - {"c0"})

    most = max(score for key, score in walked.items() if key != "c0")
    assert most**4 <= 2 / 3 * walked["c0"] ** 4 + 1e-12


def test_few_links_or_long_documents_are_not_worth_a_walk() -> None:
    """A collection is walked where most passages are documents of their own, and enough of them linked."""

    def worth(linked: int, documents: int) -> bool:
        return is_linked_enough(LinkStatistics(chunks=100, linked=linked, documents=documents))

    assert worth(57, 91)
    assert not worth(39, 91)
    assert not worth(86, 20)
    assert not is_linked_enough(LinkStatistics(chunks=0, linked=0, documents=0))
