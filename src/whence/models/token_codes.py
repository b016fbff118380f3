"""Token codes: what is kept of a passage's token vectors, and how a query is compared with them.

Late interaction (MaxSim, Khattab and Zaharia, "ColBERT", 2020) compares every word of a query with every word
of a passage. A token vector takes 1,536 bytes, and its code 24: two neighbours are averaged, and of each of the
384 components the sign is kept, one bit. For a unit vector u and the signs s of another one,
`u . s / sqrt(384) * sqrt(pi / 2)` estimates their cosine (exact for components of a normal distribution). On
eight collections the ranking by codes is as good as by the vectors: `docs/benchmarks.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from whence.models.weights import DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Bytes of the code of two tokens.
CODE_BYTES: Final = DIMENSION // 8
#: Averaged neighbours lower the best similarity: 1.136 is the slope of the exact score over the estimated one
#: for 85,320 pairs of the eight collections; their correlation is .964.
_SCALE: Final = 1.136 * math.sqrt(math.pi / 2 / DIMENSION)
#: Steps of a component of a query, 2^18. The components of a unit vector add up to less than 20, so that their
#: sums in steps stay below 2^24.
_STEPS: Final = float(1 << 18)
#: Codes that are compared at a time; 64 of passages take some 8 MB as numbers.
_CODES: Final = 64
#: Decimals of a similarity. Sums of float64 differ between processors in the sixteenth.
PLACES: Final = 6


def token_codes(tokens: NDArray[np.float32]) -> list[bytes]:
    """Return the code of each text, 48 bytes for two tokens; the first and last token are special and left out.

    Args:
        tokens: Token vectors, float32, shape (texts, length, 384).
    """
    import numpy as np

    unit = unit_tokens(tokens)
    pairs = unit[:, ::2].copy()
    pairs[:, : unit.shape[1] // 2] += unit[:, 1::2]
    bits = np.packbits(pairs > 0, axis=2)
    return [row.tobytes() for row in bits]


def unit_tokens(tokens: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return token vectors of length 1, without the first and last token; shape (texts, length - 2, 384)."""
    import numpy as np

    words = tokens[:, 1:-1]
    unit: NDArray[np.float32] = words / np.maximum(
        np.linalg.norm(words, axis=2, keepdims=True), 1e-12
    )
    return unit


def token_weights(ids: Sequence[int], last_symbol: int) -> NDArray[np.float32]:
    """Return the weight of each token of a query, log(rank) + 1/2.

    The vocabulary lists words by falling frequency, so that by Zipf's law log(rank) is, up to a constant, the
    inverse document frequency of a large corpus. All that comes before the words ranks first. On MED, Cranfield
    and CISI these weights rank as well as the collections' own document frequencies do.

    Args:
        ids: Ids of the tokens.
        last_symbol: See `Encoder.last_symbol`.
    """
    import numpy as np

    ranks = np.maximum(np.asarray(ids, dtype=np.float64) - last_symbol, 1.0)
    return (np.log(ranks) + 0.5).astype(np.float32)


def cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the products of unit vectors, shapes (n, 384) and (m, 384) to (n, m), equal on every processor."""
    import numpy as np

    products: NDArray[np.float64] = left.astype(np.float64) @ right.astype(np.float64).T
    return np.round(products, PLACES)


def nearest_tokens(
    question: NDArray[np.float32], texts: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float64] | None]:
    """Return of each text the best cosine of each token of a question; None where either has no tokens.

    All texts are one product: the threads of BLAS take longer to start than a text takes.

    Args:
        question: Unit vectors, shape (n, 384).
        texts: Unit vectors of the tokens of each text.
    """
    import numpy as np

    filled = [one for one in texts if len(one)]
    if not filled or not len(question):
        return [None] * len(texts)
    starts = np.cumsum([0, *(len(one) for one in filled[:-1])])
    near = np.maximum.reduceat(cosines(question, np.concatenate(filled)), starts, axis=1)
    columns = iter(near.T)
    return [next(columns) if len(one) else None for one in texts]


def weighted_mean(best: NDArray[np.float64], weights: NDArray[np.float32]) -> float:
    """Return the weighted mean of some similarities, equal on every processor."""
    return round(float(weights @ best) / float(weights.sum(dtype="float64")), PLACES)


def late_interaction(
    tokens: NDArray[np.float32], weights: NDArray[np.float32], codes: Sequence[bytes]
) -> list[float]:
    """Return for each passage the weighted mean of the best similarity of each token of the query, 0 to 1.

    An empty query or passage has 0. Cost: n m 384 multiplications for n tokens of the query and m codes.

    Args:
        tokens: Token vectors of the query, shape (n, 384).
        weights: Their weights, shape (n,).
        codes: Codes of passages.
    """
    import numpy as np

    if not len(tokens):
        return [0.0] * len(codes)
    exact = tokens.astype(np.float64)
    exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    # Sums of integers below 2^24 are exact in any order, so they do not depend on the processor's instructions.
    unit = np.rint(exact * _STEPS).astype(np.float32)
    totals = unit.sum(axis=1)
    shares = weights.astype(np.float64) / weights.sum(dtype=np.float64) / _STEPS

    best = _best_products(unit, codes)
    return [
        0.0
        if one is None
        # With bits b the signs are 2 b - 1.
        else round(min(1.0, max(0.0, float(shares @ (2.0 * one - totals)) * _SCALE)), PLACES)
        for one in best
    ]


def _best_products(
    unit: NDArray[np.float32], codes: Sequence[bytes]
) -> Iterator[NDArray[np.float32] | None]:
    """Yield of each code the greatest product of each token of the query and its bits; None without a code."""
    import numpy as np

    for start in range(0, len(codes), _CODES):
        some = codes[start : start + _CODES]
        filled = [len(one) // CODE_BYTES for one in some if one]
        if filled:
            # All codes are one product: the threads of BLAS take longer to start than a code takes.
            packed = np.frombuffer(b"".join(some), dtype=np.uint8).reshape(-1, CODE_BYTES)
            bits = np.unpackbits(packed, axis=1).astype(np.float32)
            starts = np.cumsum([0, *filled[:-1]])
            columns = iter(np.maximum.reduceat(unit @ bits.T, starts, axis=1).T)
        yield from (next(columns) if one else None for one in some)
