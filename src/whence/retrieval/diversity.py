"""Choose passages that are relevant and say different things: maximal marginal relevance (MMR).

Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and Producing
Summaries", SIGIR 1998: choose one passage after the other, each with the highest
`lambda relevance - (1 - lambda) overlap`, where the overlap is the highest with a passage chosen before.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from whence.schema.errors import BadInput
from whence.text.analysis import document_terms, is_stop_term

#: Weight of relevance; the value that others use as well.
DEFAULT_LAMBDA = 0.7


class Diversified(msgspec.Struct, frozen=True):
    """What MMR chose."""

    kept: tuple[int, ...]
    """Places of the passages chosen, in the order of choice."""
    scores: tuple[float, ...]
    """MMR score of each passage given, -1 to 1: when it was chosen, or at the last choice."""
    overlaps: tuple[float, ...]
    """Highest overlap of each passage with one chosen before, 0 to 1; of one not chosen at the last choice."""


def check_diversity(mode: str | None, lambda_: float | None) -> None:
    """Refuse a mode or a weight that does not exist; None is for the default.

    Raises:
        BadInput: The mode is neither `none` nor `mmr`, or the weight is not in 0 to 1.
    """
    if mode not in (None, "none", "mmr"):
        raise BadInput(f"unknown diversity {mode!r}", hint="use one of none, mmr")
    if lambda_ is not None and not 0.0 <= lambda_ <= 1.0:
        raise BadInput(
            f"the lambda of diversity must be 0 to 1, not {lambda_:g}",
            hint="1 counts relevance alone, 0.7 is the default",
        )


def diversify(
    texts: Sequence[str], scores: Sequence[float], limit: int, lambda_: float = DEFAULT_LAMBDA
) -> Diversified:
    """Choose at most `limit` passages by MMR; the best one is always the first.

    Relevance is the place of a score between the lowest and the highest, and one half when all are equal. The
    overlap of two passages is the number of distinct terms in common over the number in either (Jaccard); stop
    words do not count. Ties go to the passage that was given first.

    Args:
        texts: Passages, best first.
        scores: Score of each, finite, higher is better.
        limit: 0 or more.
        lambda_: Weight of relevance, 0 to 1; with 1 the order stays.

    Cost: linear in the texts, then one comparison of term sets for each choice and passage left.
    """
    relevance = _min_max(scores) if texts else []
    sets = _term_sets(texts)
    sizes = [one.bit_count() for one in sets]
    overlaps = [0.0] * len(texts)
    marginal = [lambda_ * one for one in relevance]
    left = list(range(len(texts)))
    kept: list[int] = []
    while left and len(kept) < limit:
        if kept:
            last = kept[-1]
            for place in left:
                common = (sets[last] & sets[place]).bit_count()
                if common:
                    overlap = common / (sizes[last] + sizes[place] - common)
                    if overlap > overlaps[place]:
                        overlaps[place] = overlap
                        marginal[place] = lambda_ * relevance[place] - (1 - lambda_) * overlap
        # Of equal scores the first; nothing overlaps before the first choice.
        best = max(left, key=marginal.__getitem__)
        kept.append(best)
        left.remove(best)
    return Diversified(tuple(kept), tuple(marginal), tuple(overlaps))


def _min_max(scores: Sequence[float]) -> list[float]:
    # Halved: the difference of two finite scores may not be finite.
    halves = [score / 2 for score in scores]
    low = min(halves)
    span = max(halves) - low
    return [(half - low) / span if span else 0.5 for half in halves]


def _term_sets(texts: Sequence[str]) -> list[int]:
    """Return the terms of each text as the bits of an integer, one bit for each term of all."""
    bits: dict[str, int] = {}
    sets: list[int] = []
    for text in texts:
        mask = 0
        for term in set(document_terms(text)):
            if not is_stop_term(term):
                mask |= bits.setdefault(term, 1 << len(bits))
        sets.append(mask)
    return sets
