"""Merge policy: which segments to merge, within a write or in the background.

A write merges the segments of the newest few thousand chunks. One process at a time merges the older segments
while writes go on. The two plans never overlap as long as chunks are added; if removals make them overlap, the
write wins, see `merging`. A merge replaces consecutive whole segments by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

__all__ = (
    "MAX_SEGMENT_CHUNKS",
    "Segment",
    "packed",
    "plan_all_merges",
    "plan_background_merges",
    "plan_inline_merges",
)

#: Most chunks in one segment, as many as two bytes count.
MAX_SEGMENT_CHUNKS = 65_536
#: Small segments that a query may have to look into.
_MOST_SEGMENTS = 8
#: Chunks that writes merge themselves, the newest.
_MERGED_IN_PLACE = 10_000


class Segment(msgspec.Struct, frozen=True):
    """Postings of the slots `first` to `last`."""

    first: int
    last: int
    chunks: int
    """Chunks it was made of."""
    dead: int = 0
    """How many of them are gone."""

    @property
    def live(self) -> int:
        """Chunks that are still there."""
        return self.chunks - self.dead


def plan_all_merges(segments: Sequence[Segment]) -> list[Segment]:
    """Return which ranges of slots to write again, as segments that are not there yet.

    A segment that is half dead is written again by itself. When there are too many small ones, the newest are
    merged: all after the last that is at least twice as large as everything behind it. Each range leaves fewer
    segments or fewer dead, so that planning and merging in turn comes to an end.

    Args:
        segments: All of a collection, in the order of their slots.
    """
    return list(_ranges(segments, _merge_start(segments)))


def plan_inline_merges(segments: Sequence[Segment]) -> list[Segment]:
    """Return what a write is to merge: as `plan_all_merges`, of the newest segments and of no other."""
    own = _first_own(segments)
    start = _merge_start(segments)
    if start < own:
        # That is for the other, and takes its time: meanwhile these must stay few by themselves.
        start = own + _merge_start(segments[own:])
    return list(_ranges(segments[own:], start - own))


def plan_background_merges(segments: Sequence[Segment]) -> list[Segment]:
    """Plan the merges that run while writes go on: all that `plan_inline_merges` leaves."""
    own = _first_own(segments)
    return list(_ranges(segments[:own], min(_merge_start(segments), own)))


def packed(segments: Sequence[Segment]) -> list[Segment]:
    """Make segments as few as can be, each of whole ones; those that stay as they are are left out."""
    return list(_ranges(segments, 0))


def _first_own(segments: Sequence[Segment]) -> int:
    """Return the place of the first of the segments that are the writes' own."""
    place, behind = len(segments), 0
    while place and behind + segments[place - 1].live <= _MERGED_IN_PLACE:
        place -= 1
        behind += segments[place].live
    return place


def _merge_start(segments: Sequence[Segment]) -> int:
    """Return the place of the first segment to merge with all behind it; the end when none has to be."""
    small = [place for place in range(len(segments)) if _is_small(segments, place)]
    if len(small) <= _MOST_SEGMENTS:
        return len(segments)
    behind = sum(one.live for one in segments[small[0] :])
    # However the sizes are spread, half of the small ones are merged: the next merge is some writes away.
    latest = small[_MOST_SEGMENTS // 2]
    for place in range(small[0], latest):
        behind -= segments[place].live
        if _is_small(segments, place) and segments[place].live < 2 * behind:
            return place
    return latest


def _is_small(segments: Sequence[Segment], place: int) -> bool:
    """Return whether a segment is less than half full, and fits into one with the next."""
    live = segments[place].live
    behind = segments[place + 1].live if place + 1 < len(segments) else 0
    return 2 * live < MAX_SEGMENT_CHUNKS and live + behind <= MAX_SEGMENT_CHUNKS


def _ranges(segments: Sequence[Segment], start: int) -> Iterator[Segment]:
    """Yield each segment before a place that is half dead, and what to make of those behind it."""
    alone = ([one] for one in segments[:start])
    for some in (*alone, *_that_fit(segments[start:])):
        if len(some) > 1 or some[0].dead * 2 >= some[0].chunks:
            yield Segment(some[0].first, some[-1].last, sum(one.live for one in some))


def _that_fit(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Yield segments that follow one another, as many at a time as one can hold."""
    some: list[Segment] = []
    live = 0
    for one in segments:
        if some and live + one.live > MAX_SEGMENT_CHUNKS:
            yield some
            some, live = [], 0
        some.append(one)
        live += one.live
    if some:
        yield some
