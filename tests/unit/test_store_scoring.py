"""The best places of a query are those of exact sums of impacts."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.lexical.search import _Query, best_places
from whence.store.postgres.lexical.visible_postings import Postings, VisibleTerm

_SEGMENT = 40
_posting = st.dictionaries(
    st.integers(0, _SEGMENT - 1), st.integers(1, 2**24 - 1), max_size=_SEGMENT
)
#: Of each term: its weight, and postings in two segments.
_terms = st.lists(st.tuples(st.integers(1, 2**20), st.tuples(_posting, _posting)), max_size=5)


def _postings(segment: int, impact_of: dict[int, int]) -> Postings:
    places = np.array(list(impact_of), "<u2").tobytes()
    impacts = (np.array(list(impact_of.values())) / 2.0**24).astype("<f4").tobytes()
    return Postings(segment, _SEGMENT, places + impacts)


@given(terms=_terms, n=st.integers(1, 90))
def test_the_best_places_equal_plain_sums(
    terms: list[tuple[int, tuple[dict[int, int], dict[int, int]]]], n: int
) -> None:
    """Places, order and scores equal sums one by one; ties with the last place are returned."""
    sums: dict[int, float] = defaultdict(float)
    weights, visible = {}, {}
    for number, (weight, segments) in enumerate(terms):
        weights[str(number)] = weight / 2.0**28
        visible[str(number)] = VisibleTerm(
            postings=tuple(_postings(segment, some) for segment, some in enumerate(segments))
        )
        for segment, some in enumerate(segments):
            for place, impact in some.items():
                sums[segment * _SEGMENT + place] += weight / 2.0**28 * (impact / 2.0**24)
    expected = sorted((-score, place) for place, score in sums.items())
    least = expected[min(n, len(expected)) - 1][0] if expected else 0.0
    expected = [one for one in expected if one[0] <= least]
    query: Any = SimpleNamespace(
        weights=weights, terms=visible, _first={0: 0, 1: _SEGMENT}, _size=2 * _SEGMENT
    )

    scores = _Query.scores(query)
    places = best_places(scores, np.flatnonzero(scores), n)

    assert list(zip((-scores[places]).tolist(), places.tolist(), strict=True)) == expected
