"""Symbol boost: rank definitions above mentions for identifier queries.

A query that is one name, such as `Cart.total`, asks for the definition of that symbol (`store.symbol_names`).
BM25 cannot tell a definition from a mention: a long class contains its own name less often, for its length,
than the members that return it. Where the query is a symbol, every chunk that defines it scores 0.99 or above,

    0.99 + 0.01 (fit + s) / 3,    s the score without the boost,    fit 0, 1 or 2 (`symbol_names.SymbolMatch`)

and no other chunk does. The better fit ranks first, then the score. Measurements: docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

#: Lowest score of a definition.
MIN_BOOSTED_SCORE = 0.99
#: Highest score of any other chunk beside a definition.
MAX_UNBOOSTED_SCORE = math.nextafter(MIN_BOOSTED_SCORE, 0.0)
_FITS = 3


def boost_symbols(scores: Mapping[str, float], fits: Mapping[str, int]) -> dict[str, float]:
    """Return the scores with definitions boosted; unchanged when `fits` is empty.

    Args:
        scores: 0 to 1, by chunk id.
        fits: How well the name fits each definition, 0 to 2; every definition has a score.
    """
    if not fits:
        return dict(scores)
    return {
        key: min(score, MAX_UNBOOSTED_SCORE)
        if key not in fits
        else MIN_BOOSTED_SCORE + (1.0 - MIN_BOOSTED_SCORE) * (fits[key] + score) / _FITS
        for key, score in scores.items()
    }
