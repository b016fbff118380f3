"""Which segments are merged, by whom and how often."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whence.store.postgres.lexical import merge_policy
from whence.store.postgres.lexical.merge_policy import (
    MAX_SEGMENT_CHUNKS,
    Segment,
    plan_background_merges,
    plan_inline_merges,
)

Plan = Callable[[Sequence[Segment]], list[Segment]]


def _laid_out(sizes: Sequence[tuple[int, int]]) -> list[Segment]:
    segments, first = [], 0
    for chunks, dead in sizes:
        segments.append(Segment(first, first + chunks - 1, chunks, min(dead, chunks)))
        first += chunks + 3
    return segments


def _covered(segments: Sequence[Segment], ranges: Sequence[Segment]) -> list[Segment]:
    return [s for s in segments if any(r.first <= s.first and s.last <= r.last for r in ranges)]


def _after(segments: Sequence[Segment], ranges: Sequence[Segment]) -> list[Segment]:
    """Return the segments after merges."""
    left = [one for one in segments if one not in _covered(segments, ranges)]
    made = [Segment(one.first, one.last, one.live) for one in ranges if one.live]
    return sorted([*left, *made], key=lambda one: one.first)


def _small(segments: Sequence[Segment]) -> int:
    """Count the segments of less than half the size that fit into one with the next."""
    behind = [*(one.live for one in segments[1:]), 0]
    return sum(
        one.live * 2 < MAX_SEGMENT_CHUNKS and one.live + live <= MAX_SEGMENT_CHUNKS
        for one, live in zip(segments, behind, strict=False)
    )


_sizes = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 50), st.integers(1, MAX_SEGMENT_CHUNKS)),
        st.one_of(st.just(0), st.integers(0, MAX_SEGMENT_CHUNKS)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("plan", [plan_inline_merges, plan_background_merges])
@given(sizes=_sizes)
def test_planned_ranges_are_whole_segments(plan: Plan, sizes: list[tuple[int, int]]) -> None:
    """Ranges are disjoint whole segments, fit into one, and leave fewer segments or fewer deleted chunks."""
    segments = _laid_out(sizes)
    ranges = plan(segments)
    covered = _covered(segments, ranges)

    assert all(a.last < b.first for a, b in itertools.pairwise(ranges))
    assert {r.first for r in ranges} <= {s.first for s in segments}
    assert {r.last for r in ranges} <= {s.last for s in segments}
    assert sum(r.live for r in ranges) == sum(s.live for s in covered)
    assert all(r.live <= MAX_SEGMENT_CHUNKS for r in ranges)
    for one in ranges:
        within = _covered(segments, [one])
        assert len(within) > 1 or within[0].deleted > 0


@given(_sizes)
def test_writes_and_the_background_merge_different_segments(sizes: list[tuple[int, int]]) -> None:
    """A write merges small segments only, after all that the background merges, now and later."""
    segments = _laid_out(sizes)
    beside = plan_background_merges(segments)
    for _ in range(20):
        own = plan_inline_merges(segments)
        assert sum(one.live for one in own) <= merge_policy._INLINE_CHUNKS
        assert not beside or not own or beside[-1].last < own[0].first
        segments = _after(segments, own)
        end = segments[-1].last + 1 if segments else 0
        segments.append(Segment(end, end + 499, 500))


@given(_sizes)
@example([(10_000, 0), (60_000, 0)] * 9)
def test_both_kinds_of_merges_terminate(sizes: list[tuple[int, int]]) -> None:
    """Alternating both ends with no half-deleted segment and few small ones."""
    segments = _laid_out(sizes)
    turns = 0
    while ranges := plan_inline_merges(segments) or plan_background_merges(segments):
        segments = _after(segments, ranges)
        turns += 1
        assert turns <= 2 * len(sizes)

    assert all(one.deleted * 2 < one.chunks for one in segments)
    assert _small(segments) <= 2 * merge_policy._MAX_SMALL_SEGMENTS


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=200))
def test_appends_keep_segments_few_and_rewrites_rare(batches: list[int]) -> None:
    """After every write there are few small segments, and each chunk was rewritten O(log n) times."""
    segments: list[Segment] = []
    written = end = 0
    for batch in batches:
        segments.append(Segment(end, end + batch - 1, batch))
        end += batch
        written += batch
        for plan in (plan_inline_merges, plan_background_merges):
            while ranges := plan(segments):
                segments = _after(segments, ranges)
                written += sum(one.live for one in ranges)
        assert _small(segments) <= 2 * merge_policy._MAX_SMALL_SEGMENTS

    assert written <= end * (3 + 2 * math.log2(len(batches) + 1))


def test_a_merged_collection_is_not_rewritten() -> None:
    """Without changes nothing is rewritten."""
    for plan in (plan_inline_merges, plan_background_merges):
        assert plan([]) == []
        assert plan(_laid_out([(1000, 0)] * 8)) == []
        assert plan(_laid_out([(65_536, 30_000)] * 50)) == []
        assert plan(_laid_out([(10_000, 0), (60_000, 0)] * 20)) == []
