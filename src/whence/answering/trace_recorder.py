"""Record what every stage of a question did: stage reports, degradations, explain events."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from whence.provenance.stage_records import ModelUse, Scalar, StageRun
from whence.provenance.stages import failure_triples
from whence.provenance.terms import answer_uris
from whence.schema.document_rag import ExplainEvent, StageReport
from whence.schema.errors import WhenceError
from whence.schema.search import Degradation
from whence.schema.terms import Triple

logger = logging.getLogger(__name__)

EventListener = Callable[[ExplainEvent], Awaitable[None] | None]
"""Takes the event of a stage; an awaitable that it returns is awaited."""
BuildTriples = Callable[..., tuple[Triple, ...]]
"""Takes the answer's id, and as `run` how the stage ran; returns the triples of the stage.

`run` is None for the shared vocabulary alone.
"""

#: Returns the time in UTC.
utc_now = partial(datetime.now, UTC)


def iso_utc(moment: datetime) -> str:
    """Return a time in ISO 8601, in UTC, ending in `Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat().removesuffix("+00:00") + "Z"


def new_answer_id() -> str:
    """Return a new id, 32 hexadecimal digits."""
    return uuid.uuid4().hex


class Sources(NamedTuple):
    """Where ids and times come from; fixed ones make a question repeatable."""

    new_id: Callable[[], str] = new_answer_id
    clock: Callable[[], datetime] = utc_now
    """Time of day in UTC."""
    monotonic: Callable[[], float] = time.monotonic


class TraceRecorder:
    """Records one question. Nothing here can fail the question.

    Triples are built when there is a listener; without `full`, of the shared vocabulary alone. A listener that
    raises or is too slow degrades the answer; a slow one is not called again.
    """

    def __init__(
        self,
        answer_id: str,
        sources: Sources,
        listener: EventListener | None,
        *,
        full: bool,
        listener_timeout_s: float,
    ) -> None:
        self.answer_id = answer_id
        self.events: list[ExplainEvent] = []
        self.degraded: list[Degradation] = []
        self.reports: list[StageReport] = []
        self.wanted = listener is not None
        self.full = self.wanted and full
        self._listener = listener
        self._clock, self._monotonic = sources.clock, sources.monotonic
        self._listener_timeout_s = listener_timeout_s
        self._began = self._monotonic()
        self._last_recorded = ""
        self._stage = ""
        self._started_at = ""
        self._started = 0.0
        self._reported = 0

    def elapsed_ms(self) -> float:
        """Return the time since the question began, in milliseconds."""
        return (self._monotonic() - self._began) * 1000

    def begin(self, stage: str, started_at: str = "") -> None:
        """Start the clock of a stage, which began at `started_at`, ISO 8601, or now."""
        self._stage = stage
        self._started = self._monotonic()
        if self.full:
            self._started_at = started_at or iso_utc(self._clock())

    def degrade(self, stage: str, code: str, reason: str) -> None:
        """Record that something was left out."""
        self.note(Degradation(stage=stage, code=code, reason=reason))

    def note(self, degradation: Degradation) -> None:
        """Record that something was left out; the same is recorded once."""
        if degradation not in self.degraded:
            self.degraded.append(degradation)

    async def end(
        self,
        build: BuildTriples,
        *,
        candidates_in: int = 0,
        candidates_out: int = 0,
        models: Sequence[ModelUse] = (),
        settings: Mapping[str, Scalar] | None = None,
    ) -> None:
        """End the stage that was begun: add its report and send its event to the listener."""
        duration_ms = (self._monotonic() - self._started) * 1000
        self.reports.append(
            StageReport(
                stage=self._stage,
                duration_ms=duration_ms,
                candidates_in=candidates_in,
                candidates_out=candidates_out,
            )
        )
        if self.wanted:
            await self._emit(self._stage, build, duration_ms, models, settings or {})

    async def fail(self, error: WhenceError) -> None:
        """Record that the stage that was begun failed, so that the trace has an end."""
        if not self._last_recorded:
            return
        build = partial(
            failure_triples,
            derived_from=self._last_recorded,
            stage=self._stage,
            code=error.code,
            message=error.message,
            hint=error.hint,
        )
        duration_ms = (self._monotonic() - self._started) * 1000
        await self._emit("error", build, duration_ms, (), {})

    async def _emit(
        self,
        stage: str,
        build: BuildTriples,
        duration_ms: float,
        models: Sequence[ModelUse],
        settings: Mapping[str, Scalar],
    ) -> None:
        run: StageRun | None = None
        if self.full:
            run = StageRun(
                started_at=self._started_at,
                ended_at=iso_utc(self._clock()),
                duration_ms=duration_ms,
                models=tuple(models),
                settings=dict(settings),
                degraded=tuple(self.degraded[self._reported :]),
            )
            self._reported = len(self.degraded)
        try:
            triples = build(self.answer_id, run=run)
        except Exception as error:
            # A bug in the trace must not cost the reader the answer.
            logger.exception("triples not built", extra={"action": "explain", "stage": stage})
            self.degrade("trace", "stage_not_told", f"the trace lacks stage {stage}: {error}")
            return
        self._last_recorded = stage
        event = ExplainEvent(
            answer_id=self.answer_id,
            stage=stage,
            sequence=len(self.events),
            explain_id=answer_uris(self.answer_id).stage(stage),
            triples=triples,
        )
        self.events.append(event)
        if self._listener is not None:
            await self._notify(self._listener, event)

    async def _notify(self, listener: EventListener, event: ExplainEvent) -> None:
        scope: asyncio.Timeout | None = None
        try:
            returned = listener(event)
            if returned is not None and inspect.isawaitable(returned):
                async with asyncio.timeout(self._listener_timeout_s) as scope:
                    await returned
        except Exception as error:  # noqa: BLE001 - a listener never fails the question
            if scope is not None and scope.expired():
                self._listener = None
                self.degrade(
                    "trace",
                    "explain_timeout",
                    f"an explain callback took more than {self._listener_timeout_s:g} s at {event.stage}"
                    " and was not called again",
                )
                return
            logger.warning(
                "explain callback failed", extra={"action": "explain", "stage": event.stage}
            )
            self.degrade(
                "trace",
                "explain_failed",
                f"an explain callback failed at {event.stage}: {type(error).__name__}: {error}",
            )
