"""From the rankings of several searches to one pool of candidates, each with its account."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import CandidateRecord

__all__ = ("Leg", "pool_candidates")


class Leg(msgspec.Struct, frozen=True):
    """One search."""

    concept: str
    """What was searched for."""
    matches: Sequence[Any]
    """Best first; objects with `chunk_id`, perhaps `score`, `dense_score`, `sparse_score`,
    `document_id`."""


class _Found(msgspec.Struct):
    """What the legs together say of one chunk."""

    chunk_id: str
    best_rank: int
    leg: int
    """The leg that ranked it best."""
    concepts: list[str]
    score: float | None
    match: Any
    """The match with that score; the first one when none has a score."""


def pool_candidates(
    legs: Iterable[Leg],
    *,
    limit: int,
    threshold: float = 0.0,
    cut_code: DropCode = "over_fetch_limit",
) -> list[CandidateRecord]:
    """Merge rankings into one, each chunk once.

    Legs are interleaved: first the best of every leg, then the second best of every leg, and so on, so
    that no concept crowds out another. Scores of different queries are not comparable enough to sort by
    them; they break ties, then the order of the legs does. A match without a chunk id is left out.

    Args:
        legs: The searches; earlier ones win ties.
        limit: Most candidates that stay in; those ranked after them get `cut_code`.
        threshold: Candidates with a known score below it get `below_threshold` and take no place.
        cut_code: `over_fetch_limit`, or `over_limit` when what stays in goes to the writer as it is.

    Returns:
        All candidates in order, ranks from 1 without gaps, those that are out with their reason.

    Cost: n log n for n matches over all legs.
    """
    found: dict[str, _Found] = {}
    for index, leg in enumerate(legs):
        _add_leg(found, index, leg)
    ordered = sorted(found.values(), key=_order)
    accounts: list[CandidateRecord] = []
    places = limit
    for rank, item in enumerate(ordered, start=1):
        code: str = ""
        if item.score is not None and item.score < threshold:
            code = "below_threshold"
        elif places <= 0:
            code = cut_code
        else:
            places -= 1
        accounts.append(_account(item, rank, code))
    return accounts


def _order(item: _Found) -> tuple[int, float, int]:
    return item.best_rank, -math.inf if item.score is None else -item.score, item.leg


def _add_leg(found: dict[str, _Found], index: int, leg: Leg) -> None:
    concept = leg.concept
    seen: set[str] = set()
    for match in leg.matches:
        chunk_id = getattr(match, "chunk_id", None)
        if not isinstance(chunk_id, str) or not chunk_id or chunk_id in seen:
            continue
        seen.add(chunk_id)
        rank = len(seen)
        score = _number(getattr(match, "score", None))
        item = found.get(chunk_id)
        if item is None:
            found[chunk_id] = _Found(chunk_id, rank, index, [concept], score, match)
            continue
        if rank < item.best_rank:
            item.best_rank, item.leg = rank, index
        if concept not in item.concepts:
            item.concepts.append(concept)
        if score is not None and (item.score is None or score > item.score):
            item.score, item.match = score, match


def _number(value: object) -> float | None:
    """Give a finite number, or None for anything else."""
    if type(value) is float:  # By far the most frequent case, and the cheapest test.
        return value if -math.inf < value < math.inf else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _account(item: _Found, rank: int, code: str) -> CandidateRecord:
    match = item.match
    document_id = getattr(match, "document_id", "")
    return CandidateRecord(
        chunk_id=item.chunk_id,
        rank=rank,
        document_id=document_id if isinstance(document_id, str) else "",
        score=item.score,
        dense_score=_number(getattr(match, "dense_score", None)),
        sparse_score=_number(getattr(match, "sparse_score", None)),
        graph_score=_number(getattr(match, "graph_score", None)),
        name_score=_number(getattr(match, "name_score", None)),
        concepts=tuple(item.concepts),
        reason_code=code,
    )
