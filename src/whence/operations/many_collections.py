"""Names of several collections, and a search of each by its own rights, encoder and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from whence.retrieval.results import SearchReport
from whence.schema.errors import BadInput

#: Each is searched in full.
_MOST = 32


def collection_names(text: str) -> list[str]:
    """Return the names of collections, separated by commas, each once in the order given.

    >>> collection_names("handbook, minutes,handbook")
    ['handbook', 'minutes']

    Raises:
        BadInput: A name is empty, or there are too many.
    """
    names = list(dict.fromkeys(one.strip() for one in text.split(",")))
    if not all(names) or len(names) > _MOST:
        raise BadInput(
            f"{text[:200]!r} does not name 1 to {_MOST} collections",
            hint="separate their names with commas: handbook,minutes",
        )
    return names


def merge_reports(
    names: Sequence[str], reports: Sequence[SearchReport], top_k: int
) -> SearchReport:
    """Return the best hits of several collections, best first.

    A score means the same in each (`retrieval.calibration`), so scores are compared as they are. Hits of equal
    scores are in the order of the collections, then in that of their own ranking.
    """
    found = [
        replace(hit, collection=name)
        for name, report in zip(names, reports, strict=True)
        for hit in report.results
    ]
    found.sort(key=lambda hit: -hit.similarity_score)
    results = [replace(hit, rank=rank) for rank, hit in enumerate(found[:top_k], 1)]
    best = names.index(results[0].collection) if results else 0
    scores = [one.best_score for one in reports if one.best_score is not None]
    return SearchReport(
        results=results,
        degraded=tuple(
            replace(one, reason=f"{one.reason} (collection {name})")
            for name, report in zip(names, reports, strict=True)
            for one in report.degraded
        ),
        reranker=", ".join(dict.fromkeys(one.reranker for one in reports if one.reranker)),
        calibrations={
            name: one.calibration
            for name, one in zip(names, reports, strict=True)
            if one.calibration is not None
        },
        # They are searched beside one another.
        latency_ms={
            key: max(one.latency_ms.get(key, 0.0) for one in reports)
            for key in dict.fromkeys(chain.from_iterable(one.latency_ms for one in reports))
        },
        question_used=reports[best].question_used,
        corrections=reports[best].corrections,
        trace_id=reports[best].trace_id,
        best_score=max(scores, default=None),
    )
