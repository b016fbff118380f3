"""Adding up postings gives the best places, exactly, whatever way they are added up."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.lexical.scoring import PostingList, top_scores

_SEGMENT = 40
_posting = st.dictionaries(
    st.integers(0, _SEGMENT - 1), st.integers(1, 2**24 - 1), max_size=_SEGMENT
)
#: Of each term: its weight, and postings in two segments.
_terms = st.lists(st.tuples(st.integers(1, 2**20), st.tuples(_posting, _posting)), max_size=5)


def _run(base: int, weight: int, postings: dict[int, int]) -> PostingList:
    places = np.array(list(postings), "<u2").tobytes()
    impacts = (np.array(list(postings.values())) / 2.0**24).astype("<f4").tobytes()
    return PostingList(base, weight / 2.0**28, places + impacts)


@given(terms=_terms, n=st.integers(1, 90), wide=st.booleans(), data=st.data())
def test_the_best_chunks_equal_plain_sums(
    terms: list[tuple[int, tuple[dict[int, int], dict[int, int]]]],
    n: int,
    wide: bool,
    data: st.DataObject,
) -> None:
    """Chunks, order and scores equal sums one by one, with dense and sparse postings, all or filtered."""
    size = 100 * 2 * _SEGMENT if wide else 2 * _SEGMENT
    kept = data.draw(st.none() | st.sets(st.integers(0, 2 * _SEGMENT - 1)))
    sums: dict[int, float] = defaultdict(float)
    runs = []
    for weight, segments in terms:
        for segment, postings in enumerate(segments):
            if not postings:
                continue
            runs.append(_run(segment * _SEGMENT, weight, postings))
            for place, impact in postings.items():
                if kept is None or segment * _SEGMENT + place in kept:
                    sums[segment * _SEGMENT + place] += weight / 2.0**28 * (impact / 2.0**24)
    mask = None if kept is None else np.isin(np.arange(size), list(kept))
    expected = sorted((-score, place) for place, score in sums.items())
    least = expected[min(n, len(expected)) - 1][0] if expected else 0.0
    expected = [one for one in expected if one[0] <= least]
    places, scores = top_scores(runs, size, n, mask) if runs else (np.empty(0), np.empty(0))

    assert list(zip((-scores).tolist(), places.tolist(), strict=True)) == expected
