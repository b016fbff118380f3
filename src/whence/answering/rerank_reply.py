"""Reading what a reranker replied without trusting any of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = ("RerankedItem", "Reranking", "read_reranking")


class RerankedItem(msgspec.Struct, frozen=True):
    """One document that the reranker scored."""

    index: int
    """Place among the documents sent, from 0."""
    score: float
    """Finite; higher is better."""


class Reranking(msgspec.Struct, frozen=True):
    """What could be used of a reply."""

    kept: tuple[RerankedItem, ...]
    """Best first, at most the limit; empty when nothing could be used."""
    rest: tuple[RerankedItem, ...]
    """Those scored but ranked after the last one kept, in order."""
    faults: tuple[str, ...]
    """What was wrong, one line each; entries that are wrong are left out."""


def read_reranking(results: Any, count: int, limit: int) -> Reranking:
    """Check a reply and give its usable part.

    An entry is used when its document id is the decimal number of a document that was sent, named for the
    first time, and its score a finite number. Order and length of the reply are not trusted: entries are
    sorted by falling score, ties by the order sent, and cut. The place of an entry that cannot be used is
    not filled with another document: it would stand in the ranking without a score.

    Args:
        results: The reply: objects with `document_id` and `score`.
        count: Number of documents sent, with the ids "0" to str(count - 1).
        limit: Most documents to keep, 1 or more.

    Cost: n log n for n entries.
    """
    if not isinstance(results, Iterable) or isinstance(results, str | bytes):
        return Reranking((), (), (f"the reply is a {type(results).__name__}, not a list",))
    items: dict[int, RerankedItem] = {}
    faults: list[str] = []
    for result in results:
        fault = _read_entry(result, count, items)
        if fault:
            faults.append(fault)
    ranking = sorted(items.values(), key=lambda item: (-item.score, item.index))
    return Reranking(tuple(ranking[:limit]), tuple(ranking[limit:]), tuple(faults))


def _read_entry(result: Any, count: int, items: dict[int, RerankedItem]) -> str:
    """Add one entry to `items`; gives what is wrong with it, or nothing."""
    document_id = getattr(result, "document_id", None)
    index = _index(document_id)
    if index is None or index >= count:
        return f"document id {document_id!r} was not among those sent"
    if index in items:
        return f"document id {document_id!r} came twice"
    score = getattr(result, "score", None)
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        return f"the score of document id {document_id!r} is {score!r}"
    items[index] = RerankedItem(index, float(score))
    return ""


def _index(document_id: object) -> int | None:
    """Read an id that we gave: a decimal number without sign, blanks or leading zeros."""
    if not isinstance(document_id, str) or len(document_id) > 9:
        return None
    if not (document_id.isascii() and document_id.isdigit()):
        return None
    index = int(document_id)
    return index if str(index) == document_id else None
