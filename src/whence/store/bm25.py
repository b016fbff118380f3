"""BM25 on an absolute scale: the share of a query that the words of a chunk match, from 0 to below 1.

The formula is Lucene's BM25 without its constant factor k1 + 1 (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3; the 1 inside the logarithm keeps the idf positive):

    S  = sum over the query's terms of  idf * tf / (tf + k1 (1 - b + b length / mean))
    B  = sum over the query's terms of  idf,  for a term without chunks  i0 = ln(2 N + 2)
    L  = S / max(B, f i),   f = min(6, terms + 1), 1 for a query of a single word;
                            i = i0; below 400 chunks less, see `query_weights`

Repeats of a term in the query count. Each summand of S is below its idf, so S < B, and L is below 1 for any
query. The floor of f terms of the greatest rarity prevents that one matching word of two scores as half an
answer; of a short query it is lower, so that a name beside one common word leads to the passage with the name.
Of 546 queries of fewer than six terms in seven collections, nDCG@10 of hybrid search changes by -.006 to +.008
against six for all. Scores of different queries and collections are on one scale. A query of a single word, or
of an identifier with its parts, has no floor. Measured with words of 1 to 3 chunks, 40 of each of five
collections: in hybrid search the mean reciprocal rank of the first chunk with the word is .88 to 1; with the
floor .41 to .78. With 80 identifiers of code: .90, each with a result above .5; with the floor .78, and 15
without one.

Impacts are whole multiples of 2**-24 and weights of 2**-28, both rounded down. Every product is then a
multiple of 2**-52 and no sum reaches 1: double precision adds them without rounding, in any order. The same
words give the same score in every store, and equal chunks tie exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", str, int)

#: Saturation of term frequencies; Lucene's default.
K1 = 1.2
#: Influence of the length of a chunk; Lucene's default.
B = 0.75
#: Terms of the greatest rarity in the least bound of a query of several words; chosen on seven open
#: collections and tested on the eighth, for each of eight.
FLOOR_TERMS = 6

#: Chunks from which on i0 is used unchanged; all collections that the floor was chosen on have more.
_KNOWN_CHUNKS = 400

#: Term frequencies and lengths are clipped to two bytes.
MAX_COUNT = 65_535

_IMPACT_STEPS = 2.0**24
_WEIGHT_STEPS = 2.0**28


def mean_length(total: int, chunks: int) -> float:
    """Return the mean field length of chunks, at least 1: chunks of stop terms have length 0."""
    return max(1.0, total / chunks) if chunks else 1.0


def idf(chunks: int, df: int) -> float:
    """Return the inverse document frequency of a term; above 0, and `ln(2 N + 2)` for df 0.

    Args:
        chunks: N, 0 or more.
        df: Chunks with the term, 0 to N.
    """
    return math.log1p((chunks - df + 0.5) / (df + 0.5))


def impact(tf: int, length: int, mean: float) -> float:
    """Return the summand of a term of weight 1: 0 to below 1, a multiple of 2**-24, rounded down.

    Args:
        tf: Occurrences in the chunk, 1 or more; clipped to `MAX_COUNT`.
        length: Field length of the chunk, 0 or more; clipped to `MAX_COUNT`.
        mean: Mean length of the visible chunks, 1 or more.
    """
    tf, length = min(tf, MAX_COUNT), min(length, MAX_COUNT)
    exact = tf / (tf + K1 * (1.0 - B + B * length / mean))
    return math.floor(exact * _IMPACT_STEPS) / _IMPACT_STEPS


def impacts(tf: NDArray[np.uint16], length: NDArray[np.uint16], mean: float) -> NDArray[np.float64]:
    """Return the `impact` of each of some terms, equal to the bit; arguments as there, shape (n,).

    Cost: linear in n and in the greatest length; the norm of a length is computed once.
    """
    lengths = np.arange(int(length.max(initial=0)) + 1, dtype=np.float64)
    norms: NDArray[np.float64] = K1 * (1.0 - B + B * lengths / mean)
    counts = tf.astype(np.float64)
    exact = norms[length]
    exact += counts
    np.divide(counts, exact, out=exact)
    exact *= _IMPACT_STEPS
    np.floor(exact, out=exact)
    exact /= _IMPACT_STEPS
    return exact


def query_weights(
    counts: Mapping[str, int], df: Mapping[str, int], chunks: int, *, one_word: bool = False
) -> tuple[dict[str, float], float]:
    """Return the weight of each query term that the collection has, and the coverage per share.

    A weight is the term's part of the bound max(B, 6 i): a multiple of 2**-28, rounded down. The sum is at
    most 1. The coverage per share, 1 or more, is the factor from L to S / B, the score without the floor, for
    rankings by words alone.

    Args:
        counts: Frequency of each term in the query.
        df: Document frequencies; 0 for a term without one.
        chunks: N, 0 or more.
        one_word: Whether the terms are a single word and its parts; a single term always is.
    """
    parts = {term: count * idf(chunks, df.get(term, 0)) for term, count in counts.items()}
    whole = math.fsum(parts.values())
    # A single chunk does not show how rare its words are: with i0 none of them could score. There the terms of
    # the floor have the idf of a term of one chunk; with each further chunk the share of i0 grows.
    known = min(1.0, (chunks - 1) / _KNOWN_CHUNKS) if chunks else 1.0
    rarity = known * idf(chunks, 0) + (1.0 - known) * idf(chunks, min(1, chunks))
    floor = 1 if one_word or len(counts) == 1 else min(FLOOR_TERMS, len(counts) + 1)
    bound = max(whole, floor * rarity)
    weights = {
        term: math.floor(part / bound * _WEIGHT_STEPS) / _WEIGHT_STEPS
        for term, part in parts.items()
        if df.get(term, 0) > 0
    }
    return weights, bound / whole if whole > 0 else 1.0


def share(weights: Mapping[T, float], counts: Mapping[T, int], length: int, mean: float) -> float:
    """Return L of a chunk, 0 to below 1; the sum is exact.

    Args:
        weights: Weights of the query's terms, see `query_weights`.
        counts: Frequency of each term of the chunk.
        length: Field length of the chunk.
        mean: Mean length of the visible chunks.
    """
    total = 0.0
    for term in weights.keys() & counts.keys():
        total += weights[term] * impact(counts[term], length, mean)
    return total
