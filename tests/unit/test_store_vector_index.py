"""When the graph over vectors is asked, and when every visible row is looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.dense.vector_index import graph_search, max_exact_rows

_limits = st.integers(1, 10_000)
_sizes = st.integers(1, 10_000_000)


@given(limit=_limits, chunks=_sizes, visible=_sizes)
def test_few_visible_rows_are_scanned(limit: int, chunks: int, visible: int) -> None:
    """The graph is used above the bound only, and then for more rows than the limit."""
    way = graph_search(limit, visible, chunks)

    assert (way is not None) == (visible > max_exact_rows(limit, chunks))
    assert way is None or (way.fetched > limit and 100 <= way.ef_search <= 1000)


@given(limit=st.integers(1, 10), chunks=_sizes, visible=_sizes)
def test_the_graph_returns_no_more_rows_than_needed(limit: int, chunks: int, visible: int) -> None:
    """For a limit of ten the walk stops early when most rows are visible."""
    way = graph_search(limit, visible, chunks)

    if way is not None and visible >= 0.45 * chunks:
        assert 4 * limit <= way.fetched <= 0.45 * way.ef_search
    elif way is not None:
        assert way.fetched >= 100


@given(limit=_limits, chunks=_sizes)
def test_the_bound_grows_with_collection_and_ranking(limit: int, chunks: int) -> None:
    """A larger collection or limit makes a walk longer; the bound covers the limit."""
    bound = max_exact_rows(limit, chunks)

    assert max(limit, 12_000) <= bound <= max_exact_rows(limit, 2 * chunks)
    assert bound <= max_exact_rows(2 * limit, chunks)


def test_the_bound_is_where_both_ways_cost_the_same() -> None:
    """Top 10 of 200,000: with a twentieth visible a scan is used, with a half the graph."""
    assert graph_search(10, 10_000, 200_000) is None
    assert graph_search(10, 100_000, 200_000) is not None


def test_ef_search_grows_with_the_graph() -> None:
    """A larger graph has a larger `ef_search`, up to pgvector's maximum."""
    seen = [graph_search(10, chunks, chunks) for chunks in (20_000, 200_000, 2_000_000)]

    assert [way.ef_search for way in seen if way] == [100, 120, 140]
