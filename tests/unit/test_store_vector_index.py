"""When the graph over vectors is asked, and when every visible row is looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.dense.vector_index import fewest_visible, graph_search

_limits = st.integers(1, 10_000)
_sizes = st.integers(1, 10_000_000)


@given(limit=_limits, chunks=_sizes, visible=_sizes)
def test_few_visible_rows_are_scanned(limit: int, chunks: int, visible: int) -> None:
    """The graph is asked above the bound only, and then for more rows than the ranking has places."""
    way = graph_search(limit, visible, chunks)

    assert (way is not None) == (visible > fewest_visible(limit, chunks))
    assert way is None or (way.fetched > limit and 100 <= way.ef_search <= 1000)


@given(limit=st.integers(1, 10), chunks=_sizes, visible=_sizes)
def test_few_rows_are_asked_for_where_the_first_hold_them(
    limit: int, chunks: int, visible: int
) -> None:
    """For ten places the walk never goes on for more rows than it needs where many are visible."""
    way = graph_search(limit, visible, chunks)

    if way is not None and visible >= 0.45 * chunks:
        assert 4 * limit <= way.fetched <= 0.45 * way.ef_search
    elif way is not None:
        assert way.fetched >= 100


@given(limit=_limits, chunks=_sizes)
def test_the_bound_grows_with_collection_and_ranking(limit: int, chunks: int) -> None:
    """A larger collection makes the way longer, a longer ranking makes it longer too; all places fit."""
    bound = fewest_visible(limit, chunks)

    assert max(limit, 12_000) <= bound <= fewest_visible(limit, 2 * chunks)
    assert bound <= fewest_visible(2 * limit, chunks)


def test_the_bound_lies_where_both_ways_cost_the_same() -> None:
    """Top 10 of 200,000: a twentieth is scanned, a half is asked of the graph."""
    assert graph_search(10, 10_000, 200_000) is None
    assert graph_search(10, 100_000, 200_000) is not None


def test_a_larger_graph_is_looked_at_wider() -> None:
    """The larger the graph, the more of it a walk keeps in sight, up to what pgvector allows."""
    seen = [graph_search(10, chunks, chunks) for chunks in (20_000, 200_000, 2_000_000)]

    assert [way.ef_search for way in seen if way] == [100, 120, 140]
