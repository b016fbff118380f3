"""What a question leaves behind while it is worked on: stages, degradations, explain events."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

from whence.provenance.stage_records import ModelUse, StageRun
from whence.provenance.stages import failure_triples
from whence.provenance.terms import Scalar
from whence.provenance.uris import answer_uris
from whence.schema.document_rag import ExplainEvent, StageReport
from whence.schema.errors import WhenceError
from whence.schema.search import Degradation
from whence.schema.terms import Triple

__all__ = ("Build", "EventListener", "Trail", "iso_utc", "utc_now")

logger = logging.getLogger(__name__)

EventListener = Callable[[ExplainEvent], Awaitable[None] | None]
"""Takes the account of a stage; what it gives back is awaited."""
Build = Callable[[StageRun | None], tuple[Triple, ...]]
"""Makes the triples of a stage from how it ran; None for the shared vocabulary alone."""


def utc_now() -> datetime:
    """Give the time in UTC."""
    return datetime.now(UTC)


def iso_utc(moment: datetime) -> str:
    """Give a time in ISO 8601, in UTC, ending in `Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat().removesuffix("+00:00") + "Z"


class Trail:
    """The trail of one question. Nothing in here can fail the question.

    Args:
        answer_id: Id of the answer.
        listeners: Told of each stage as soon as it is done, in order, each awaited for at most
            `listen_s`. One that raises or is too slow degrades the answer; a slow one is not told again.
        keep: Whether events are kept for a trace record; without that and without listeners no triples
            are built.
        full: Whether stages give their full account, or the shared vocabulary alone.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.
        listen_s: Seconds for one call of one listener.
    """

    def __init__(
        self,
        answer_id: str,
        *,
        listeners: Sequence[EventListener] = (),
        keep: bool = False,
        full: bool = True,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        listen_s: float = 2.0,
    ) -> None:
        self.answer_id = answer_id
        self.events: list[ExplainEvent] = []
        self.degraded: list[Degradation] = []
        self.reports: list[StageReport] = []
        self.wanted = keep or bool(listeners)
        self.accounts_wanted = self.wanted and full
        self._listeners = list(listeners)
        self._full = full
        self._clock = clock
        self._monotonic = monotonic
        self._listen_s = listen_s
        self._told = ""
        self._stage = ""
        self._started_at = ""
        self._started = 0.0
        self._first_new = 0

    def begin(self, stage: str) -> None:
        """Start the clock of a stage."""
        self._stage = stage
        self._started = self._monotonic()
        if self.accounts_wanted:
            self._started_at = iso_utc(self._clock())

    def degrade(self, stage: str, code: str, reason: str) -> None:
        """Note that something was left out."""
        self.note(Degradation(stage=stage, code=code, reason=reason))

    def note(self, degradation: Degradation) -> None:
        """Note that something was left out; the same is noted once."""
        if degradation not in self.degraded:
            self.degraded.append(degradation)

    async def end(
        self,
        build: Build,
        *,
        candidates_in: int = 0,
        candidates_out: int = 0,
        models: Sequence[ModelUse] = (),
        settings: Mapping[str, Scalar] | None = None,
    ) -> None:
        """Report the stage that was begun and tell the listeners of it."""
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
            facts = self._facts(duration_ms, models, settings or {})
            uri = getattr(answer_uris(self.answer_id), self._stage)
            await self._tell(self._stage, uri, build, facts)

    async def fail(self, error: WhenceError) -> None:
        """Tell the listeners that the stage that was begun failed, so that the chain has an end."""
        if not self.wanted or not self._told:
            return
        duration_ms = (self._monotonic() - self._started) * 1000
        derived_from = self._told

        def build(facts: StageRun | None) -> tuple[Triple, ...]:
            return failure_triples(
                self.answer_id,
                derived_from=derived_from,
                stage=self._stage,
                code=error.code,
                message=error.message,
                hint=error.hint,
                run=facts,
            )

        uri = answer_uris(self.answer_id).error
        await self._tell("error", uri, build, self._facts(duration_ms, (), {}))

    def _facts(
        self, duration_ms: float, models: Sequence[ModelUse], settings: Mapping[str, Scalar]
    ) -> StageRun | None:
        if not self._full:
            return None
        new = self.degraded[self._first_new :]
        self._first_new = len(self.degraded)
        return StageRun(
            started_at=self._started_at,
            ended_at=iso_utc(self._clock()),
            duration_ms=duration_ms,
            models=tuple(models),
            settings=dict(settings),
            degraded=tuple(new),
        )

    async def _tell(self, stage: str, uri: str, build: Build, facts: StageRun | None) -> None:
        try:
            triples = build(facts)
        except Exception as error:
            # A fault of ours in telling must not cost the reader the answer.
            logger.exception("triples not built", extra={"action": "explain", "stage": stage})
            self.degrade("trace", "stage_not_told", f"the trace lacks stage {stage}: {error}")
            return
        self._told = stage
        event = ExplainEvent(
            answer_id=self.answer_id,
            stage=stage,
            sequence=len(self.events),
            explain_id=uri,
            triples=triples,
        )
        self.events.append(event)
        for listener in tuple(self._listeners):
            await self._listen(listener, event)

    async def _listen(self, listener: EventListener, event: ExplainEvent) -> None:
        scope: asyncio.Timeout | None = None
        try:
            told = listener(event)
            if told is not None and inspect.isawaitable(told):
                async with asyncio.timeout(self._listen_s) as scope:
                    await told
        except Exception as error:  # noqa: BLE001 - a listener's fault never fails the question
            if scope is not None and scope.expired():
                self._listeners.remove(listener)
                self.degrade(
                    "trace",
                    "explain_timeout",
                    f"an explain callback took more than {self._listen_s:g} s at {event.stage}"
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
