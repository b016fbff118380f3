"""Merge policy: which segments to merge, within a write or in the background.

A write merges the segments of the newest few thousand chunks. One process at a time merges the older segments
while writes go on. The two plans never overlap as long as chunks are added; if removals make them overlap, the
write wins, see `merging`. A merge replaces consecutive whole segments by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

#: Most chunks in a segment: their places in it take two bytes.
MAX_SEGMENT_CHUNKS = 65_536
#: Small segments above which the newest are merged.
_MAX_SMALL_SEGMENTS = 8
#: The newest chunks, whose segments are merged by the writes themselves.
_INLINE_CHUNKS = 10_000


class Segment(msgspec.Struct, frozen=True):
    """A segment: the postings of the slots `first` to `last`."""

    first: int
    last: int
    chunks: int
    """Chunks with postings."""
    deleted: int = 0
    """Those of them that were deleted since."""

    @property
    def live(self) -> int:
        """Chunks that are not deleted."""
        return self.chunks - self.deleted


def plan_inline_merges(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments that a write makes by merging, as ranges of slots.

    A segment of which half is deleted is rewritten alone. When there are too many small ones, the newest are
    merged: all after the last that is at least twice as large as everything behind it. Each merge leaves fewer
    segments or fewer deleted chunks, so that planning and merging in turn terminates.

    Args:
        segments: All segments of a collection, in the order of their slots.
    """
    own = _first_inline(segments)
    start = _merge_start(segments)
    if start < own:
        # The background merges those before `own`; until then the newest must stay few.
        start = own + _merge_start(segments[own:])
    return list(_ranges(segments[own:], start - own))


def plan_background_merges(segments: Sequence[Segment]) -> list[Segment]:
    """Plan the merges that run while writes go on: all that `plan_inline_merges` leaves."""
    own = _first_inline(segments)
    return list(_ranges(segments[:own], min(_merge_start(segments), own)))


def _first_inline(segments: Sequence[Segment]) -> int:
    """Return the index of the first segment that writes merge themselves."""
    place, behind = len(segments), 0
    while place and behind + segments[place - 1].live <= _INLINE_CHUNKS:
        place -= 1
        behind += segments[place].live
    return place


def _merge_start(segments: Sequence[Segment]) -> int:
    """Return the index of the first segment to merge with all behind it; the end when none has to be."""
    small = [place for place in range(len(segments)) if _is_small(segments, place)]
    if len(small) <= _MAX_SMALL_SEGMENTS:
        return len(segments)
    behind = sum(one.live for one in segments[small[0] :])
    # At least half of the small ones are merged, whatever their sizes: the next merge is some writes away.
    latest = small[_MAX_SMALL_SEGMENTS // 2]
    for place in range(small[0], latest):
        behind -= segments[place].live
        if _is_small(segments, place) and segments[place].live < 2 * behind:
            return place
    return latest


def _is_small(segments: Sequence[Segment], place: int) -> bool:
    """Return whether a segment is less than half full, and fits into one with the next segment."""
    live = segments[place].live
    behind = segments[place + 1].live if place + 1 < len(segments) else 0
    return 2 * live < MAX_SEGMENT_CHUNKS and live + behind <= MAX_SEGMENT_CHUNKS


def _ranges(segments: Sequence[Segment], start: int) -> Iterator[Segment]:
    """Yield the merges: each half deleted segment before `start`, and groups of those behind it."""
    alone = ([one] for one in segments[:start])
    for some in (*alone, *_groups(segments[start:])):
        if len(some) > 1 or some[0].deleted * 2 >= some[0].chunks:
            yield Segment(some[0].first, some[-1].last, sum(one.live for one in some))


def _groups(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Yield groups of consecutive segments, as many at a time as fit into one."""
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
