"""One validation: every query once, a long sequence of them, and several readers at once.

Nothing is timed before everything that loads on first use has been used. The whole keeps to a time limit: what
it cuts off is marked so, never left out in silence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from whence.evaluation.validation.suite import TestQuery, ValidationSuite
from whence.evaluation.validation.target import Passage, RetrievedPassages, Target
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
    WhenceError,
)

__all__ = ("Limits", "QueryOutcome", "ValidationRun", "run_validation")

logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]

_LEAST_TOP = 3
_LEAST_REPEATS = 10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask."""

    top_k: int = 5
    """Results of each query, at least 3 and at least what the query demands."""
    timeout_s: float = 10.0
    """Longest that one query may take, in seconds."""
    time_limit_s: float = 50.0
    """Longest that all queries together may take, in seconds."""
    clients: int = 4
    """Readers at once in the last part; 0 leaves it out."""
    repeats: int = _LEAST_REPEATS
    """Queries in the sequence, 10 or more; 0 leaves it out."""


class QueryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One query, asked once."""

    query: TestQuery
    passages: list[Passage] = []
    latency_ms: float = 0.0
    """Milliseconds until there was an answer or an error; 0 for a query that was not asked."""
    embedding_ms: float = 0.0
    search_ms: float = 0.0
    error: str = ""
    """What failed; empty when nothing did."""
    partial: bool = False
    """True when something took no part, or there was no time."""
    notes: tuple[str, ...] = ()
    """What took no part."""


class ValidationRun(msgspec.Struct, frozen=True, kw_only=True):
    """All that was asked."""

    first: list[QueryOutcome]
    """Every query of the suite once, in its order."""
    sequence: list[QueryOutcome]
    """The same queries over and over, one after the other."""
    load: list[QueryOutcome]
    """The same queries by several readers at once."""
    clients: int
    """How many readers those were."""
    seconds: float
    cut: bool
    """True when the time limit cut something off."""


async def run_validation(
    target: Target,
    suite: ValidationSuite,
    limits: Limits,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = lambda _done, _total: None,
) -> ValidationRun:
    """Ask a suite.

    Raises:
        NotFound: There is no such collection.
        ModelMismatch: Queries and stored chunks are embedded by different models.
        Unavailable: The store or the embedding service does not answer from the start. When it goes away later
            the queries concerned have errors.
    """
    return await _Runner(target, suite, limits, clock, progress).run()


class _Runner:
    def __init__(
        self,
        target: Target,
        suite: ValidationSuite,
        limits: Limits,
        clock: Callable[[], float],
        progress: Progress,
    ) -> None:
        self._target = target
        self._queries = suite.queries
        self._limits = limits
        self._clock = clock
        self._progress = progress
        self._started = clock()
        self._done = 0
        self._cut = False

    async def run(self) -> ValidationRun:
        await self._warm_up()
        first = [await self._ask(query) for query in self._queries]
        rounds = max(self._limits.repeats, _LEAST_REPEATS) if self._limits.repeats else 0
        sequence = await self._sequence(rounds)
        load = await self._load()
        return ValidationRun(
            first=first,
            sequence=sequence,
            load=load,
            clients=self._limits.clients,
            seconds=round(self._clock() - self._started, 3),
            cut=self._cut,
        )

    async def _warm_up(self) -> None:
        """Ask one query untimed; what is missing from the start ends the validation."""
        text = next((one.query_text for one in self._queries if _is_searchable(one)), None)
        if text is None:
            return
        try:
            async with asyncio.timeout(self._limits.time_limit_s):
                found = await self._target.search(text, limit=_LEAST_TOP)
        except BadInput as error:
            if isinstance(error, ModelMismatch):
                raise
        except TimeoutError as error:
            raise Unavailable(
                f"the first search had no answer within {self._limits.time_limit_s:g} s",
                hint="run `whence doctor`, or allow more with --time-limit",
            ) from error
        else:
            if not found.embedded:
                raise Unavailable(
                    "; ".join(found.degraded),
                    hint="check the embedding service, or validate words alone with --mode bm25",
                )

    async def _sequence(self, count: int) -> list[QueryOutcome]:
        cycled = [self._queries[number % len(self._queries)] for number in range(count)]
        found = [await self._ask(query) for query in cycled if not self._is_over()]
        self._cut |= len(found) < count
        return found

    async def _load(self) -> list[QueryOutcome]:
        """Let each reader ask all queries, each beginning with another one."""
        found: list[QueryOutcome] = []

        async def reader(number: int) -> None:
            start = number % len(self._queries)
            for query in (*self._queries[start:], *self._queries[:start]):
                if self._is_over():
                    self._cut = True
                    return
                found.append(await self._ask(query))

        async with asyncio.TaskGroup() as group:
            for number in range(self._limits.clients):
                group.create_task(reader(number))
        return found

    def _left_s(self) -> float:
        return self._limits.time_limit_s - (self._clock() - self._started)

    def _is_over(self) -> bool:
        return self._left_s() <= 0

    async def _ask(self, query: TestQuery) -> QueryOutcome:
        self._done += 1
        total = len(self._queries) * (1 + self._limits.clients) + self._limits.repeats
        self._progress(self._done, total)
        if not query.query_text.strip():
            error = "the query is empty: give a word or a question" if query.min_results else ""
            return QueryOutcome(query=query, error=error)
        if self._is_over():
            self._cut = True
            words = f"not asked: the time limit of {self._limits.time_limit_s:g} s was reached"
            return QueryOutcome(query=query, error=words, partial=True)
        started = self._clock()
        try:
            async with asyncio.timeout(min(self._limits.timeout_s, self._left_s())):
                found = await self._target.search(query.query_text, limit=self._limit_of(query))
        except (WhenceError, TimeoutError) as error:
            return self._failed(query, error, started)
        return self._answered(query, found, started)

    def _limit_of(self, query: TestQuery) -> int:
        return max(self._limits.top_k, query.min_results, _LEAST_TOP)

    def _answered(self, query: TestQuery, found: RetrievedPassages, started: float) -> QueryOutcome:
        return QueryOutcome(
            query=query,
            passages=found.passages,
            latency_ms=self._since_ms(started),
            embedding_ms=round(found.embedding_ms, 3),
            search_ms=round(found.search_ms, 3),
            partial=bool(found.degraded),
            notes=found.degraded,
        )

    def _failed(
        self, query: TestQuery, error: WhenceError | TimeoutError, started: float
    ) -> QueryOutcome:
        if isinstance(error, NotFound | ModelMismatch):
            raise error
        timed_out = isinstance(error, TimeoutError | DeadlineExceeded)
        words = str(error) or f"no answer within {self._limits.timeout_s:g} s"
        # The words of the query may be private; its length helps to find it.
        logger.error(
            "validation query failed",
            extra={
                "action": "validate",
                "fault": words,
                "hint": getattr(error, "hint", ""),
                "characters": len(query.query_text),
            },
        )
        return QueryOutcome(
            query=query, error=words, latency_ms=self._since_ms(started), partial=timed_out
        )

    def _since_ms(self, started: float) -> float:
        return round((self._clock() - started) * 1e3, 3)


def _is_searchable(query: TestQuery) -> bool:
    return len(query.query_text.strip()) >= 3
