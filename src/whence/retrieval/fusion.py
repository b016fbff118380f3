"""Join dense and lexical scores into one score that means the same for every query.

The default is absolute: the score of a chunk follows from its own cosine and lexical share alone, so that a
threshold means the same for every query. Reciprocal rank fusion and per-query min-max are alternatives.

Measured on eight open test collections (nDCG@10 mean): absolute .622, min-max .618, reciprocal rank .602,
dense alone .565, lexical alone .543; with the threshold 0.5, 97 % of answerable queries keep a hit and 95 %
of queries about something else get none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Literal

from msgspec.structs import replace

from whence.schema.passages import Passage
from whence.schema.search import Calibration, Candidate

Fusion = Literal["absolute", "rrf", "min_max"]
RetrieverName = Literal["lexical", "dense"]
#: Score of a candidate by each retriever; None where that did not rank.
SCORE_FIELDS: Mapping[RetrieverName, str] = {"lexical": "sparse_score", "dense": "dense_score"}

#: Cosines as they are, with the share of 0.35 in the sum. Share and curve were chosen on those collections,
#: each judged with constants fitted on the others; they are for MiniLM, see `calibration` for other encoders.
UNCALIBRATED = Calibration()
#: Bends the curve so that 0.5 parts queries with an answer from those about something else: the score is 0.5
#: at a sum of 0.228, a cosine of 0.65 alone.
_HALF = 0.42
#: The same for words alone, over the coverage of the query.
_LEXICAL_HALF = 0.5
#: Constant of reciprocal rank fusion, from Cormack, Clarke and Büttcher (SIGIR 2009).
RRF_K = 60
#: Lowest score of a definition.
MIN_BOOSTED_SCORE = 0.99
#: Highest score of any other chunk beside a definition.
MAX_UNBOOSTED_SCORE = math.nextafter(MIN_BOOSTED_SCORE, 0.0)
#: Values of a fit, see `SymbolMatch`.
_FITS = 3


def evidence(one: Candidate | Passage, calibration: Calibration = UNCALIBRATED) -> float:
    """Return `w c + (1 - w) share`, 0 to 1: c is the cosine on the scale of the score, w its weight, 0 to 0.35.

    A retriever that did not rank counts as 0: the score can be too low, never too high.
    """
    weight = calibration.dense_weight
    cosine = 0.0 if one.dense_score is None else calibration.on_scale(one.dense_score)
    return weight * cosine + (1 - weight) * (one.sparse_score or 0.0)


def score_of(total: float) -> float:
    """Return `1.42 s / (s + 0.42)`, at most 1: strictly rising, so that the order is that of the evidence."""
    return min(1.0, (1 + _HALF) * total / (total + _HALF))


def lexical_score(coverage: float) -> float:
    """Return `1.5 c / (c + 0.5)`, 0 to 1: the score of a chunk when words alone rank.

    A chunk of average length with every word of the query once has a coverage of 1 / (1 + k1) = 0.45 and a
    score of 0.71; half of the words' weight makes 0.47, just below the default threshold.

    Args:
        coverage: BM25 over the most that the query's own words could give, 0 to 1.
    """
    return min(1.0, (1 + _LEXICAL_HALF) * coverage / (coverage + _LEXICAL_HALF))


def _absolute(
    chunks: Mapping[str, Candidate], calibration: Calibration = UNCALIBRATED
) -> dict[str, float]:
    return {chunk_id: score_of(evidence(one, calibration)) for chunk_id, one in chunks.items()}


def _reciprocal_ranks(
    chunks: Mapping[str, Candidate], _: Calibration = UNCALIBRATED
) -> dict[str, float]:
    """Return the sum of 1 / (60 + rank) over the retrievers, scaled so that first in both is 1."""
    orders = [
        sorted(found, key=lambda chunk_id: (-found[chunk_id], chunk_id))
        for found in _by_retriever(chunks)
    ]
    return dict.fromkeys(chunks, 0.0) | reciprocal_ranks(orders, [(RRF_K + 1) / 2] * len(orders))


def reciprocal_ranks(
    rankings: Iterable[Iterable[str]], weights: Iterable[float]
) -> dict[str, float]:
    """Return the sum of `weight / (60 + rank)` over the rankings by id, in order of first occurrence."""
    fused: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, chunk_id in enumerate(ranking, 1):
            fused[chunk_id] = fused.get(chunk_id, 0.0) + weight / (RRF_K + rank)
    return fused


def _min_max(chunks: Mapping[str, Candidate], _: Calibration = UNCALIBRATED) -> dict[str, float]:
    """Return the mean over the retrievers of each score's place between the query's worst and best."""
    fused = dict.fromkeys(chunks, 0.0)
    for found in _by_retriever(chunks):
        low, high = min(found.values()), max(found.values())
        for chunk_id, score in found.items():
            fused[chunk_id] += (score - low) / (high - low) / 2 if high > low else 0.5
    return fused


def _by_retriever(chunks: Mapping[str, Candidate]) -> list[dict[str, float]]:
    """Return the scores of each retriever that found anything; a lexical share of 0 means not found."""
    cosines = {key: one.dense_score for key, one in chunks.items()}
    dense = {key: cosine for key, cosine in cosines.items() if cosine is not None}
    sparse = {key: share for key, one in chunks.items() if (share := one.sparse_score)}
    return [found for found in (dense, sparse) if found]


FUSIONS: Mapping[Fusion, Callable[..., dict[str, float]]] = {
    "absolute": _absolute,
    "rrf": _reciprocal_ranks,
    "min_max": _min_max,
}


def boost_symbols(scores: Mapping[str, float], fits: Mapping[str, int]) -> dict[str, float]:
    """Rank definitions above mentions for a query that is one name, such as `Cart.total`.

    BM25 cannot tell a definition from a mention: a long class contains its own name less often, for its length,
    than the members that return it. Every chunk that defines the symbol scores 0.99 + 0.01 (fit + score) / 3,
    and no other chunk reaches 0.99. Measurements: docs/benchmarks.md.

    Args:
        scores: Of all chunks, 0 to 1.
        fits: `SymbolMatch.fit` of those that define the symbol, at least one.
    """
    return {
        key: min(score, MAX_UNBOOSTED_SCORE)
        if key not in fits
        else MIN_BOOSTED_SCORE + (1.0 - MIN_BOOSTED_SCORE) * (fits[key] + score) / _FITS
        for key, score in scores.items()
    }


def rank_candidates(
    chunks: Mapping[str, Candidate],
    fused: Mapping[str, float],
    *,
    limit: int,
    threshold: float,
    gains: Mapping[str, float] | None = None,
    fits: Mapping[str, int] | None = None,
) -> tuple[Candidate, ...]:
    """Rank chunks by score, ties by chunk id; definitions of the symbol that the query names come first.

    Cost: n log n in the chunks.
    """
    named = fits or {}
    final = boost_symbols(fused, named) if named else fused
    order = sorted((-final[chunk_id], chunk_id) for chunk_id in chunks)
    kept = (chunk_id for _, chunk_id in order if final[chunk_id] >= threshold)
    return tuple(
        replace(
            chunks[chunk_id],
            score=final[chunk_id],
            rank=rank,
            graph_score=None if gains is None else gains.get(chunk_id, 0.0),
            name_score=final[chunk_id] - fused[chunk_id] if chunk_id in named else None,
        )
        for rank, chunk_id in enumerate(islice(kept, limit), 1)
    )
