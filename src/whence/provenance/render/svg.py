"""A trace as a picture: one column per stage, one bar per candidate, lines along what was kept.

Standalone SVG: no script, no outside font, image or style. Colours follow the viewer's light or dark setting.
Every text is escaped and fitted to its place; tooltips hold full ids and numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from whence.provenance.checking import check_trace
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.render.svg_canvas import Canvas, text_length, wrap
from whence.provenance.render.text import format_duration, one_line, rights_text, stage_counts
from whence.provenance.trace import STAGE_TITLES, Stage, Trace

_MARGIN = 28
_GAP = 56
_TOP = 92
_BODY = _TOP + 46
_ROW = 25
_WIDTHS = {
    "question": 176,
    "grounding": 190,
    "exploration": 352,
    "focus": 300,
    "synthesis": 300,
    "error": 300,
}


_State: TypeAlias = Literal["bar", "kept", "cited"]


class _Column(msgspec.Struct, frozen=True):
    stage: Stage
    x: float
    width: float

    @property
    def right(self) -> float:
        return self.x + self.width


class _Bar(msgspec.Struct, frozen=True):
    chunk_id: str
    rank: int
    score: float | None
    reason_code: str
    state: _State
    dots: tuple[int, ...] = ()
    raw_score: float | None = None

    @property
    def tooltip(self) -> str:
        code = self.reason_code
        parts = (
            self.chunk_id,
            f"rank {self.rank}" if self.rank else "",
            "" if self.score is None else f"score {self.score!r}",
            "" if self.raw_score in (None, self.score) else f"model {self.raw_score!r}",
            DROP_REASONS[code].explanation if code in DROP_REASONS else code,
        )
        return " · ".join(part for part in parts if part)


def to_svg(trace: Trace, *, max_rows: int = 40) -> str:
    """Draw a trace.

    Candidates that were kept are always drawn; the others beyond `max_rows`, 1 or more, are counted.
    """
    return _Picture(trace, max_rows).render()


class _Picture:
    """Draws one trace; each method draws one part and returns the y at which the next may begin."""

    def __init__(self, trace: Trace, max_rows: int) -> None:
        self.trace = trace
        self.max_rows = max_rows
        self.canvas = Canvas()
        #: State of each chunk that the writer received.
        self.states: dict[str, _State] = {
            **dict.fromkeys(trace.used, "kept"),
            **dict.fromkeys((citation.chunk_id for citation in trace.citations), "cited"),
        }
        self.columns = _columns(trace)
        #: Right end and height of the last bar drawn of a chunk.
        self.bar_ends: dict[str, tuple[float, float]] = {}

    def render(self) -> str:
        trace = self.trace
        width = (self.columns[-1].right if self.columns else 600) + _MARGIN
        self._heading(width)
        bottoms = [self._column(column) for column in self.columns]
        for left, right in pairwise(self.columns):
            self.canvas.arrow(left.right + 8, right.x - 8, _TOP + 12)
        height = self._legend(max(bottoms, default=_BODY) + 26) + _MARGIN / 2
        counts = [
            f"{stage.stage} {' · '.join(stage_counts(stage.stage, trace))}".strip()
            for stage in trace.stages
        ]
        return self.canvas.document(
            width,
            height,
            title=one_line(trace.question) or trace.answer_id,
            description=one_line("How the answer came about: " + "; ".join(counts)),
        )

    def _heading(self, width: float) -> None:
        trace = self.trace
        room = width - 2 * _MARGIN
        question = trace.question or "a question that was not recorded"
        self.canvas.text(_MARGIN, 40, question, room, kind="h1", size=19)
        faults = check_trace(trace)
        state = "complete" if not faults else f"not complete: {len(faults)} faults"
        rights = "" if trace.access is None else rights_text(trace.access)
        parts = (trace.asked_at, trace.answer_id, rights, state)
        line = " · ".join(part for part in parts if part)
        self.canvas.text(_MARGIN, 62, line, room, kind="soft" if not faults else "bad", size=12)

    def _column(self, column: _Column) -> float:
        name = column.stage.stage
        title = STAGE_TITLES[name]
        self.canvas.text(column.x, _TOP + 16, title, column.width, kind="h2", size=14)
        duration = format_duration(column.stage.run.duration_ms)
        counts = [*stage_counts(name, self.trace), *([duration] if duration else [])]
        self._line(column, _TOP + 32, " · ".join(counts))
        draw_contents: dict[str, Callable[[_Column], float]] = {
            "question": self._question,
            "grounding": self._grounding,
            "exploration": self._exploration,
            "focus": self._focus,
            "synthesis": self._synthesis,
            "error": self._error,
        }
        return self._notes(column, draw_contents[name](column))

    def _line(self, column: _Column, y: float, text: str, kind: str = "soft") -> None:
        self.canvas.text(column.x, y, text, column.width, kind=kind)

    def _question(self, column: _Column) -> float:
        y = float(_BODY)
        for key, value in sorted(column.stage.run.settings.items()):
            self.canvas.text(column.x, y + 12, key.replace("_", " "), 96)
            room = column.width - 100
            self.canvas.text(column.right, y + 12, str(value), room, kind="mono", end=True)
            y += 18
        return y

    def _grounding(self, column: _Column) -> float:
        y = float(_BODY)
        room = column.width - 18
        for index, concept in enumerate(self.trace.concepts):
            self.canvas.dot(column.x + 5, y + 11, index)
            for line in wrap(concept, room, 12, lines=2):
                self.canvas.text(column.x + 18, y + 15, line, room, kind="ink", size=12)
                y += 16
            y += 8
        return y

    def _exploration(self, column: _Column) -> float:
        trace = self.trace
        kept = {selection.chunk_id for selection in trace.selections} | {*trace.used}
        order = {concept: index for index, concept in enumerate(trace.concepts)}
        chosen = sorted(
            trace.candidates, key=lambda c: (c.chunk_id not in kept, c.rank, c.chunk_id)
        )[: max(self.max_rows, len(kept))]
        bars = [
            _Bar(
                chunk_id=candidate.chunk_id,
                rank=candidate.rank,
                score=candidate.score,
                reason_code=candidate.reason_code,
                state=self.states.get(candidate.chunk_id, "bar"),
                dots=tuple(order[c] for c in candidate.concepts if c in order),
            )
            for candidate in sorted(chosen, key=lambda c: (c.rank, c.chunk_id))
        ]
        y = self._bars(column, bars)
        if len(bars) < len(trace.candidates):
            self._line(column, y + 14, f"and {len(trace.candidates) - len(bars)} more")
            y += _ROW
        return y

    def _focus(self, column: _Column) -> float:
        codes = {c.chunk_id: c.reason_code for c in self.trace.candidates}
        bars = [
            _Bar(
                chunk_id=selection.chunk_id,
                rank=place,
                score=selection.score,
                raw_score=selection.raw_score,
                reason_code=codes.get(selection.chunk_id, ""),
                state=self.states.get(selection.chunk_id, "bar"),
            )
            for place, selection in enumerate(self.trace.selections, 1)
        ]
        for index, bar in enumerate(bars):
            self._link(bar.chunk_id, column.x, _bar_middle(index), bar.state)
        return self._dropped(column, self._bars(column, bars), "focus")

    def _dropped(self, column: _Column, y: float, stage: str) -> float:
        counts = Counter(c.reason_code for c in self.trace.candidates if c.reason_code)
        for code, meaning in DROP_REASONS.items():
            if meaning.stage == stage and counts[code]:
                self._line(column, y + 15, f"{counts[code]} dropped: {code}", "warn")
                y += 18
        return y

    def _bars(self, column: _Column, bars: Sequence[_Bar]) -> float:
        full = max([1.0, *(bar.score for bar in bars if bar.score is not None)])
        for index, bar in enumerate(bars):
            self._bar(column, bar, float(_BODY + index * _ROW), full)
        for index, bar in enumerate(bars):
            self.bar_ends[bar.chunk_id] = (column.right, _bar_middle(index))
        return float(_BODY + len(bars) * _ROW)

    def _bar(self, column: _Column, bar: _Bar, y: float, full: float) -> None:
        canvas = self.canvas
        height = _ROW - 4
        canvas.open_group(bar.tooltip)
        canvas.rect(column.x, y, column.width, height, "track")
        if bar.score is not None:
            # Below the text, not behind it: the text stays readable on every colour.
            length = column.width * min(max(bar.score / full, 0.0), 1.0)
            canvas.rect(column.x, y + height - 4, length, 4, bar.state, radius=2)
        x = column.x + 26
        baseline = y + 12.5
        if bar.rank:
            canvas.text(x - 6, baseline, str(bar.rank), 24, size=10, end=True)
        for dot in bar.dots[:3]:
            canvas.dot(x + 4, y + 9, dot)
            x += 11
        right = column.right - 6
        if bar.score is not None:
            canvas.text(right, baseline, f"{bar.score:.3f}", 44, kind="mono", size=10.5, end=True)
            right -= 44
        if bar.reason_code:
            kind = "soft" if bar.state == "bar" else "ink"
            canvas.text(right, baseline, bar.reason_code, 96, kind=kind, size=10, end=True)
            right -= text_length(bar.reason_code, 10) + 8
        label = {"bar": "monosoft", "kept": "mono", "cited": "mono strong"}[bar.state]
        room = right - x - 4
        canvas.text(x + 4, baseline, bar.chunk_id, room, kind=label, size=10.5, keep_end=True)
        canvas.close_group()

    def _synthesis(self, column: _Column) -> float:
        y = float(_BODY)
        if self.trace.found is False:
            refusal = self.trace.refusal
            for line in wrap(refusal.reason if refusal else "no answer", column.width, 12, lines=4):
                self.canvas.text(column.x, y + 14, line, column.width, kind="warn", size=12)
                y += _ROW
        canvas, x, width = self.canvas, column.x + 40, column.width
        for citation in self.trace.citations:
            quote = wrap(citation.quote, width - 56, 11.5, lines=3)
            height = 28 + 16 * len(quote)
            self._link(citation.chunk_id, column.x, y + 14, "cited")
            canvas.open_group(citation.quote)
            canvas.rect(column.x, y, width, height, "card")
            marker = f"[{citation.marker}]"
            canvas.text(column.x + 10, y + 18, marker, 30, kind="marker", size=12)
            chunk_id = citation.chunk_id
            canvas.text(x, y + 18, chunk_id, width - 48, kind="mono", size=10.5, keep_end=True)
            for index, line in enumerate(quote):
                canvas.text(x, y + 36 + 16 * index, line, width - 44, kind="quote", size=11.5)
            canvas.close_group()
            y += height + 10
        return self._dropped(column, y, "synthesis")

    def _error(self, column: _Column) -> float:
        failure = self.trace.failure
        if failure is None:
            return _BODY
        x, room = column.x + 12, column.width - 24
        message = wrap(failure.message, room, 12, lines=4)
        hint = wrap(failure.hint, room, 11.5, lines=3)
        height = 34 + 16 * (len(message) + len(hint))
        self.canvas.rect(column.x, _BODY, column.width, height, "badcard")
        head = f"{failure.stage}: {failure.code}"
        self.canvas.text(x, _BODY + 19, head, room, kind="bad", size=12)
        for index, line in enumerate((*message, *hint)):
            kind = "ink" if index < len(message) else "soft"
            self.canvas.text(x, _BODY + 38 + 16 * index, line, room, kind=kind, size=12)
        return _BODY + height

    def _notes(self, column: _Column, y: float) -> float:
        run, writer = column.stage.run, column.stage.model
        notes = [
            (" ".join(part for part in (m.role, m.name, m.precision) if part), "soft")
            for m in run.models
        ]
        if writer and writer not in {model.name for model in run.models}:
            notes.append((f"written by {writer}", "soft"))
        for degradation in run.degraded:
            lines = wrap(f"degraded: {degradation.reason}", column.width, 11, lines=3)
            notes.extend((line, "warn") for line in lines)
        y += 6
        for text, kind in notes:
            self._line(column, y + 13, text, kind)
            y += 16
        return y

    def _legend(self, y: float) -> float:
        x = float(_MARGIN)
        for kind, text in (("cited", "cited"), ("kept", "given to the writer"), ("bar", "dropped")):
            self.canvas.rect(x, y - 10, 22, 11, kind)
            self.canvas.text(x + 28, y, text, 200)
            x += 28 + text_length(text, 11) + 26
        if self.trace.concepts and any(c.concepts for c in self.trace.candidates):
            self.canvas.dot(x + 5, y - 4, 0)
            self.canvas.text(x + 16, y, "found by the concept of this colour", 300)
        return y

    def _link(self, chunk_id: str, x: float, y: float, state: str) -> None:
        if chunk_id in self.bar_ends:
            self.canvas.link(self.bar_ends[chunk_id], (x, y), state)


def _bar_middle(index: int) -> float:
    return _BODY + index * _ROW + _ROW / 2 - 2


def _columns(trace: Trace) -> list[_Column]:
    stages = {stage.stage: stage for stage in reversed(trace.stages)}
    x = float(_MARGIN)
    placed = []
    for name, width in _WIDTHS.items():
        if name in stages:
            placed.append(_Column(stages[name], x, width))
            x += width + _GAP
    return placed
