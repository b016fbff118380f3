"""Runs a suite for a validation: every query once, a sequence of queries, and several readers at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from whence.evaluation.run import Plan, Progress, Run, ask_suite, no_progress
from whence.evaluation.suite import MIN_QUERY, Query
from whence.evaluation.validation.suite_file import ValidationSuite
from whence.evaluation.validation.target import Target
from whence.schema.errors import WhenceError

logger = logging.getLogger(__name__)

_MIN_RESULTS = 3
_MIN_REPEATS = 10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run."""

    top_k: int = 5
    """Results of each query, at least 3 and at least its `min_results`."""
    timeout_s: float = 10.0
    """Time limit of one query in seconds."""
    time_limit_s: float = 50.0
    """Time limit of the whole run in seconds."""
    clients: int = 4
    repeats: int = 20
    """Searches in the sequence, 10 or more; 0 leaves it out. A 95th percentile needs 20, a 99th 100."""


async def run_validation(
    target: Target,
    suite: ValidationSuite,
    limits: Limits,
    *,
    mode: str = "hybrid",
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = no_progress,
) -> Run:
    """Run a suite.

    Raises:
        NotFound: The collection does not exist.
        ModelMismatch: Queries and stored chunks are embedded by different models.
        Unavailable: The store or the embedding service does not answer at the start. If it fails later, the
            outcomes of the affected queries are errors.
    """
    plan = Plan(
        mode=mode,
        limit=max(limits.top_k, _MIN_RESULTS),
        repeats=max(limits.repeats, _MIN_REPEATS) if limits.repeats else 0,
        clients=limits.clients,
        strict=True,
        recorded=(WhenceError, TimeoutError),
        min_characters=MIN_QUERY,
        timeout_s=limits.timeout_s,
        time_limit_s=limits.time_limit_s,
        on_error=_log,
    )
    return await ask_suite(target, suite.suite, plan, clock=clock, progress=progress)


def _log(query: Query, error: Exception, message: str) -> None:
    # The words of the query may be private; its length helps to find it.
    logger.error(
        "validation query failed",
        extra={
            "action": "validate",
            "error": message,
            "hint": getattr(error, "hint", ""),
            "characters": len(query.text),
        },
    )
