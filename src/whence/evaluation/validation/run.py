"""Runs a validation suite: every query once, a sequence of queries, and several readers at once.

One untimed query first loads what is loaded on first use. The run keeps to a time limit; queries that it
cuts off are marked so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from whence.evaluation.searcher import MIN_QUERY
from whence.evaluation.validation.suite import TestQuery, ValidationSuite
from whence.evaluation.validation.target import Passage, Target
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
    WhenceError,
)

logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]

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


class QueryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one search."""

    query: TestQuery
    passages: list[Passage] = []
    latency_ms: float = 0.0
    """Milliseconds until the answer or the error; 0 for a query that was not sent."""
    embedding_ms: float = 0.0
    search_ms: float = 0.0
    error: str = ""
    refused: bool = False
    """True when the error is that of the query, such as an empty one."""
    cut: bool = False
    """True when the time limit of the run left no time for it."""
    partial: bool = False
    """True when the search was not complete, or was cut off."""
    notes: tuple[str, ...] = ()
    """Reasons why the search was not complete."""


class ValidationRun(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of all searches."""

    first: list[QueryOutcome]
    """Every query of the suite once, in its order."""
    sequence: list[QueryOutcome]
    load: list[QueryOutcome]
    clients: int
    seconds: float
    cut: bool


async def run_validation(
    target: Target,
    suite: ValidationSuite,
    limits: Limits,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = lambda _done, _total: None,
) -> ValidationRun:
    """Run a suite.

    Raises:
        NotFound: The collection does not exist.
        ModelMismatch: Queries and stored chunks are embedded by different models.
        Unavailable: The store or the embedding service does not answer at the start. If it fails later, the
            outcomes of the affected queries are errors.
    """
    return await _Runner(target, suite.queries, limits, clock, progress, clock()).run()


@dataclass
class _Runner:
    target: Target
    queries: Sequence[TestQuery]
    limits: Limits
    clock: Callable[[], float]
    progress: Progress
    started: float
    done: int = 0
    cut: bool = False

    async def run(self) -> ValidationRun:
        await self._warm_up()
        first = [await self._search(query) for query in self.queries]
        sequence = await self._sequence()
        load = await self._load()
        return ValidationRun(
            first=first,
            sequence=sequence,
            load=load,
            clients=self.limits.clients,
            seconds=round(self.clock() - self.started, 3),
            cut=self.cut,
        )

    async def _warm_up(self) -> None:
        """Search once untimed; an error that would hit every query ends the validation."""
        texts = (query.query_text for query in self.queries)
        text = next((text for text in texts if len(text.strip()) >= MIN_QUERY), None)
        if text is None:
            return
        try:
            async with asyncio.timeout(self.limits.time_limit_s):
                found = await self.target.search(text, limit=_MIN_RESULTS)
        except BadInput as error:
            if isinstance(error, ModelMismatch):
                raise
        except TimeoutError as error:
            raise Unavailable(
                f"the first search had no answer within {self.limits.time_limit_s:g} s",
                hint="run `whence doctor`, or allow more with --time-limit",
            ) from error
        else:
            if not found.embedded:
                raise Unavailable(
                    "; ".join(found.degraded),
                    hint="check the embedding service, or validate words alone with --mode bm25",
                )

    async def _sequence(self) -> list[QueryOutcome]:
        queries = [self.queries[number % len(self.queries)] for number in range(self._repeats())]
        found = [await self._search(query) for query in queries if self._left_s() > 0]
        self.cut |= len(found) < len(queries)
        return found

    def _repeats(self) -> int:
        return max(self.limits.repeats, _MIN_REPEATS) if self.limits.repeats else 0

    async def _load(self) -> list[QueryOutcome]:
        """Run the readers concurrently; each searches for all queries and starts at another one."""
        found: list[QueryOutcome] = []

        async def reader(number: int) -> None:
            start = number % len(self.queries)
            for query in (*self.queries[start:], *self.queries[:start]):
                if self._left_s() <= 0:
                    self.cut = True
                    return
                found.append(await self._search(query))

        async with asyncio.TaskGroup() as group:
            for number in range(self.limits.clients):
                group.create_task(reader(number))
        return found

    def _left_s(self) -> float:
        return self.limits.time_limit_s - (self.clock() - self.started)

    async def _search(self, query: TestQuery) -> QueryOutcome:
        limits = self.limits
        self.done += 1
        self.progress(self.done, len(self.queries) * (1 + limits.clients) + self._repeats())
        if not query.query_text.strip():
            error = "the query is empty: give a word or a question" if query.min_results else ""
            return QueryOutcome(query=query, error=error, refused=True)
        if self._left_s() <= 0:
            return self._cut_off(query, "not asked")
        started = self.clock()
        try:
            if len(query.query_text.strip()) < MIN_QUERY:
                raise BadInput(f"query_text must have at least {MIN_QUERY} characters")
            async with asyncio.timeout(min(limits.timeout_s, self._left_s())):
                found = await self.target.search(
                    query.query_text, limit=max(limits.top_k, query.min_results, _MIN_RESULTS)
                )
        except (NotFound, ModelMismatch):
            raise
        except (WhenceError, TimeoutError) as fault:
            if isinstance(fault, TimeoutError) and self._left_s() <= 0:
                return self._cut_off(query, "not answered", self._since_ms(started))
            return self._failure(query, fault, started)
        return QueryOutcome(
            query=query,
            passages=found.passages,
            latency_ms=self._since_ms(started),
            embedding_ms=round(found.embedding_ms, 3),
            search_ms=round(found.search_ms, 3),
            partial=bool(found.degraded),
            notes=found.degraded,
        )

    def _cut_off(self, query: TestQuery, what: str, latency_ms: float = 0.0) -> QueryOutcome:
        self.cut = True
        error = f"{what}: the time limit of {self.limits.time_limit_s:g} s was reached"
        return QueryOutcome(query=query, error=error, latency_ms=latency_ms, partial=True, cut=True)

    def _failure(
        self, query: TestQuery, error: WhenceError | TimeoutError, started: float
    ) -> QueryOutcome:
        message = str(error) or f"no answer within {self.limits.timeout_s:g} s"
        # The words of the query may be private; its length helps to find it.
        logger.error(
            "validation query failed",
            extra={
                "action": "validate",
                "error": message,
                "hint": getattr(error, "hint", ""),
                "characters": len(query.query_text),
            },
        )
        return QueryOutcome(
            query=query,
            error=message,
            refused=isinstance(error, BadInput),
            latency_ms=self._since_ms(started),
            partial=isinstance(error, TimeoutError | DeadlineExceeded),
        )

    def _since_ms(self, started: float) -> float:
        return round((self.clock() - started) * 1e3, 3)
