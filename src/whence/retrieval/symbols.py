"""Who searches for a name finds first what goes by it: a definition before all that only mentions it.

A query that is one name, such as `Cart.total`, asks for what is called so (`store.symbol_names`). Words alone
cannot tell: a long class says its own name less often, for its length, than the members that return it, and
falls behind them. So where the query is a name, each chunk that goes by it has a score of 0.99 or above,

    0.99 + 0.01 (fit + s) / 3,    s the score that it would have,    fit 0, 1 or 2 (`symbol_names.SymbolMatch`)

and no other chunk has: between definitions the better fit decides, then what the words and the vectors say. As
before, the order is that of the scores. Measured on the sources of three packages: docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ("LEAST_NAMED", "MOST_UNNAMED", "lifted")

#: Lowest score of what goes by the name that is asked for. Two words that fit perfectly stay below it.
LEAST_NAMED = 0.99
#: Highest score of anything else beside it.
MOST_UNNAMED = math.nextafter(LEAST_NAMED, 0.0)
_FITS = 3


def lifted(scores: Mapping[str, float], fits: Mapping[str, int]) -> dict[str, float]:
    """Give the scores of chunks where some of them go by the name that is asked for.

    Without any of these they stay as they are.

    Args:
        scores: 0 to 1, by chunk id.
        fits: How well the name fits, 0 to 2, of those that go by it; all of them have a score.
    """
    if not fits:
        return dict(scores)
    return {
        key: min(score, MOST_UNNAMED)
        if key not in fits
        else LEAST_NAMED + (1.0 - LEAST_NAMED) * (fits[key] + score) / _FITS
        for key, score in scores.items()
    }
