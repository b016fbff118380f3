"""Runs a suite: every query once, then again in a sequence, then by several readers at once.

One unrecorded search first loads what is loaded on first use. A run may keep to a time limit; queries that it
cuts off are marked so.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import msgspec

from whence.evaluation.searcher import Searcher, SearchOutcome
from whence.evaluation.suite import Query, Suite
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMismatch,
    ModelMissing,
    NotFound,
    Overloaded,
    Unavailable,
)

Progress = Callable[[int, int | None], None]

#: Errors of a service that does not answer.
SERVICE_ERRORS = (Unavailable, ModelMissing, DeadlineExceeded, Overloaded)


def no_progress(_done: int, _total: int | None) -> None:
    """Report nothing."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the queries of a suite are asked."""

    mode: str
    limit: int
    """Results of each query; more for one that requires more."""
    repeats: int = 0
    """Searches in the sequence, which begins with the first query again after the last one."""
    clients: int = 0
    """Readers at once; each searches for all queries and starts at another one."""
    warm_up: bool = True
    strict: bool = False
    """Whether an error that would hit every query ends the run: a missing collection, another model, and in the
    first, unrecorded search also a service that does not answer."""
    recorded: tuple[type[Exception], ...] = SERVICE_ERRORS
    """Errors that are recorded with their query; others end the run."""
    min_characters: int = 1
    """Shorter queries are refused."""
    timeout_s: float = math.inf
    """Time limit of one query in seconds."""
    time_limit_s: float = math.inf
    """Time limit of the whole run in seconds."""
    work: Callable[[], Awaitable[float]] | None = None
    """Fixed work that is done after each search; it returns its milliseconds."""
    on_error: Callable[[Query, Exception, str], None] = lambda _query, _error, _message: None
    """Called with each recorded error and its message."""


class RecordedSearch(SearchOutcome, frozen=True, kw_only=True):
    """The outcome of one search; its latency is 0 for a query that was not sent."""

    query: Query
    error: str = ""
    refused: bool = False
    """True when the error is that of the query, such as an empty one."""
    cut: bool = False
    """True when the time limit of the run left no time for it."""
    work_ms: float | None = None
    """Milliseconds of the fixed work after it; None when none was done."""

    @property
    def partial(self) -> bool:
        """Whether the search was not complete, or was cut off."""
        return bool(self.degraded) or self.timed_out or self.cut


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of all searches."""

    first: list[RecordedSearch]
    """Every query of the suite once, in its order."""
    sequence: list[RecordedSearch] = []
    load: list[RecordedSearch] = []
    clients: int = 0
    seconds: float = 0.0
    cut: bool = False


async def ask_suite(
    search: Searcher,
    suite: Suite,
    plan: Plan,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = no_progress,
) -> Run:
    """Ask the queries of a suite as planned.

    Raises:
        WhenceError: The error of a search is not one that the plan records.
    """
    runner = _Runner(search, suite.queries, plan, clock, progress, clock())
    if plan.warm_up:
        await runner.warm_up()
    return await runner.run()


@dataclass
class _Runner:
    search: Searcher
    queries: Sequence[Query]
    plan: Plan
    clock: Callable[[], float]
    progress: Progress
    started: float
    done: int = 0
    cut: bool = False
    load: list[RecordedSearch] = field(default_factory=list)

    async def warm_up(self) -> None:
        plan = self.plan
        query = next((one for one in self.queries if not self._is_too_short(one)), None)
        if query is None:
            return
        try:
            found = await self._ask(query, plan.time_limit_s)
            if plan.strict and not found.embedded:
                hint = "check the embedding service, or validate words alone with --mode bm25"
                raise Unavailable("; ".join(found.degraded), hint=hint)
        except TimeoutError as error:
            raise Unavailable(
                f"the first search had no answer within {plan.time_limit_s:g} s",
                hint="run `whence doctor`, or allow more with --time-limit",
            ) from error
        except plan.recorded as error:
            if plan.strict and (_hits_all(error) or not isinstance(error, BadInput)):
                raise
        if plan.work is not None:
            await plan.work()

    async def run(self) -> Run:
        first = [await self._record(query) for query in self.queries]
        again = islice(cycle(self.queries), self.plan.repeats)
        sequence = [await self._record(query) for query in again if self._left_s() > 0]
        self.cut |= len(sequence) < self.plan.repeats
        async with asyncio.TaskGroup() as group:
            for number in range(self.plan.clients):
                group.create_task(self._read(number % len(self.queries)))
        return Run(
            first=first,
            sequence=sequence,
            load=self.load,
            clients=self.plan.clients,
            seconds=round(self.clock() - self.started, 3),
            cut=self.cut,
        )

    async def _read(self, start: int) -> None:
        for query in (*self.queries[start:], *self.queries[:start]):
            if self._left_s() <= 0:
                self.cut = True
                return
            self.load.append(await self._record(query))

    async def _record(self, query: Query) -> RecordedSearch:
        found = await self._search(query)
        if self.plan.work is not None:
            found = msgspec.structs.replace(found, work_ms=await self.plan.work())
        self.done += 1
        total = len(self.queries) * (1 + self.plan.clients) + self.plan.repeats
        self.progress(self.done, total)
        return found

    async def _search(self, query: Query) -> RecordedSearch:
        plan, started = self.plan, self.clock()
        if not query.text.strip():
            error = "the query is empty: give a word or a question"
            return RecordedSearch(query=query, error=error, refused=True)
        if self._left_s() <= 0:
            return self._cut_off(query, "not asked", 0.0)
        try:
            if self._is_too_short(query):
                raise BadInput(f"query_text must have at least {plan.min_characters} characters")
            found = await self._ask(query, min(plan.timeout_s, self._left_s()))
        except plan.recorded as error:
            if plan.strict and _hits_all(error):
                raise
            return self._failure(query, error, self._since_ms(started))
        times = {
            "latency_ms": found.latency_ms or self._since_ms(started),
            "embedding_ms": round(found.embedding_ms, 3),
            "search_ms": round(found.search_ms, 3),
        }
        return RecordedSearch(query=query, **(msgspec.structs.asdict(found) | times))

    async def _ask(self, query: Query, seconds: float) -> SearchOutcome:
        async with asyncio.timeout(None if math.isinf(seconds) else seconds):
            limit = max(self.plan.limit, query.min_results)
            return await self.search(query.text, mode=self.plan.mode, limit=limit)

    def _failure(self, query: Query, error: Exception, latency_ms: float) -> RecordedSearch:
        if isinstance(error, TimeoutError) and self._left_s() <= 0:
            return self._cut_off(query, "not answered", latency_ms)
        message = str(error) or f"no answer within {self.plan.timeout_s:g} s"
        self.plan.on_error(query, error, message)
        return RecordedSearch(
            query=query,
            error=message,
            refused=isinstance(error, BadInput),
            latency_ms=latency_ms,
            timed_out=isinstance(error, TimeoutError | DeadlineExceeded),
        )

    def _cut_off(self, query: Query, what: str, latency_ms: float) -> RecordedSearch:
        self.cut = True
        error = f"{what}: the time limit of {self.plan.time_limit_s:g} s was reached"
        return RecordedSearch(query=query, error=error, latency_ms=latency_ms, cut=True)

    def _is_too_short(self, query: Query) -> bool:
        return len(query.text.strip()) < self.plan.min_characters

    def _left_s(self) -> float:
        return self.plan.time_limit_s - (self.clock() - self.started)

    def _since_ms(self, started: float) -> float:
        return round((self.clock() - started) * 1e3, 3)


def _hits_all(error: Exception) -> bool:
    return isinstance(error, NotFound | ModelMismatch)
