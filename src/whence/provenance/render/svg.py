"""The picture of a trace: question, stages, answer, passages with reasons in words, all scores on one scale.

Standalone SVG: no script, no outside font, image or style. Colours follow the viewer's light or dark setting.
Every text is escaped and fitted to its place; tooltips hold full ids and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from whence.provenance.checking import check_trace
from whence.provenance.render.picture import (
    Group,
    PassageRow,
    Picture,
    Scale,
    make_picture,
    passage_name,
)
from whence.provenance.render.svg_canvas import Canvas, text_length, wrap
from whence.provenance.render.text import format_duration, one_line, rights_text, stage_counts
from whence.provenance.terms import STEP
from whence.provenance.trace import Stage, Trace, stage_title

_WIDTH: Final = 960.0
_MARGIN: Final = 28.0
_ROOM: Final = _WIDTH - 2 * _MARGIN
_GAP: Final = 30.0
_ROW: Final = 27.0
#: Left ends of the columns of a passage, and the width of its bar.
_NAME, _WHAT, _BAR, _BAR_WIDTH = _MARGIN + 58.0, 610.0, 800.0, 84.0
_SCALE_HEIGHT: Final = 78.0
#: Passages drawn one by one at most, beside the cited ones.
_MOST_ROWS: Final = 26
_STATES: Final = {"cited": "cited", "read": "kept", "dropped": "bar"}


def to_svg(trace: Trace) -> str:
    """Draw a trace; cited passages are always drawn, others up to 26, and the scale has all."""
    return _Drawing(trace, make_picture(trace, _MOST_ROWS)).render()


class _Drawing:
    """Draws one picture from the top; each method draws one part and returns the y where the next may begin."""

    def __init__(self, trace: Trace, picture: Picture) -> None:
        self.trace = trace
        self.picture = picture
        self.canvas = Canvas()

    def render(self) -> str:
        trace = self.trace
        y = self._heading()
        y = self._stages(y + 14)
        y = self._outcome(y + 26)
        for group in self.picture.groups:
            y = self._group(group, y + 24)
        if self.picture.scale is not None:
            y = self._scale(self.picture.scale, y + 30)
        y = self._reasons(y)
        counts = [
            f"{stage.stage} {' · '.join(stage_counts(stage.stage, trace))}".strip()
            for stage in trace.stages
        ]
        return self.canvas.document(
            _WIDTH,
            y + _MARGIN,
            title=one_line(trace.question) or trace.answer_id,
            description=one_line("How the answer came about: " + "; ".join(counts)),
        )

    def _heading(self) -> float:
        trace, y = self.trace, 22.0
        question = trace.question or "a question that was not recorded"
        for line in wrap(question, _ROOM, 19, lines=2):
            y += 22
            self.canvas.text(_MARGIN, y, line, _ROOM, kind="h1", size=19)
        if trace.question_used and trace.question_used != trace.question:
            y += 19
            used = f"searched for: {trace.question_used}"
            self.canvas.text(_MARGIN, y, used, _ROOM, kind="warn", size=12)
        faults = check_trace(trace)
        state = "complete" if not faults else f"not complete: {len(faults)} faults"
        if trace.integrity is not None and not trace.integrity.ok:
            faults, state = faults or [None], "altered since it was recorded"  # type: ignore[list-item]
        rights = "" if trace.access is None else rights_text(trace.access)
        asked = trace.asked_at.replace("T", " ")[:19]
        line = " · ".join(part for part in (asked, trace.answer_id, rights, state) if part)
        self.canvas.text(_MARGIN, y + 19, line, _ROOM, kind="bad" if faults else "soft", size=12)
        return y + 24

    def _stages(self, y: float) -> float:
        """Draw the stages side by side, in the order in which they ran."""
        stages = [stage for stage in self.trace.stages if stage.stage != "question"]
        if not stages:
            return y
        width = (_ROOM - _GAP * (len(stages) - 1)) / len(stages)
        lines = [self._stage_lines(stage, width - 20) for stage in stages]
        height = 34.0 + 15 * max(map(len, lines))
        lefts = [_MARGIN + place * (width + _GAP) for place in range(len(stages))]
        for stage, x, notes in zip(stages, lefts, lines, strict=True):
            bad = stage.stage == "error"
            self.canvas.rect(x, y, width, height, "badcard" if bad else "card")
            title = stage_title(stage.stage)
            self.canvas.text(x + 10, y + 19, title, width - 80, kind="h2", size=13)
            duration = format_duration(stage.run.duration_ms)
            self.canvas.text(x + width - 10, y + 19, duration, 60, end=True)
            for number, (text, kind) in enumerate(notes):
                self.canvas.text(x + 10, y + 37 + 15 * number, text, width - 20, kind=kind)
        for left, right in pairwise(lefts):
            self.canvas.arrow(left + width + 7, right - 6, y + height / 2)
        return y + height

    def _stage_lines(self, stage: Stage, room: float) -> list[tuple[str, str]]:
        """Return what one stage did, as lines with their styles."""
        lines = [(text, "ink") for text in self._counts(stage.stage)]
        for step in self.trace.steps:
            if step.stage == stage.stage:
                lines += [(f"“{one.query}”", "soft") for one in step.queries]
        if stage.stage == "grounding" and len(self.trace.concepts) > 1:
            lines += [(f"“{concept}”", "soft") for concept in self.trace.concepts[:6]]
        run = stage.run
        names = [f"{one.role} {one.name}" for one in run.models]
        if stage.model and stage.model not in {model.name for model in run.models}:
            names.append(f"written by {stage.model}")
        lines += [(line, "soft") for name in names for line in wrap(name, room, 11, lines=2)]
        for degradation in run.degraded:
            lines += [(line, "warn") for line in wrap(degradation.reason, room, 11, lines=3)]
        return lines

    def _counts(self, stage: str) -> list[str]:
        """Return what a stage received and what it kept, in words."""
        trace = self.trace
        match stage:
            case "grounding":
                count = len(trace.concepts)
                return [f"{count} quer{'y' if count == 1 else 'ies'}"]
            case "exploration":
                return [f"{self.picture.found:,} passages found"]
            case "focus":
                return [f"{trace.reranked_count:,} reranked, {len(trace.selections):,} kept"]
            case _ if stage.startswith(STEP):
                return stage_counts(stage, trace)
            case "synthesis":
                cited = len({one.chunk_id for one in trace.citations})
                return [f"{self.picture.read:,} given to the writer", f"{cited:,} cited"]
            case _:
                return []

    def _outcome(self, y: float) -> float:
        """Draw the answer, the refusal with what came nearest, or the failure."""
        trace = self.trace
        if trace.failure is not None:
            failure = trace.failure
            parts = [(failure.message, "ink", 13.0, 4), (failure.hint, "soft", 12.0, 2)]
            return self._card(y, f"Failed: {failure.stage}", parts, "badcard")
        if trace.found is False:
            why = trace.refusal.reason if trace.refusal else "No citation supports an answer."
            parts = [(why, "ink", 13.0, 3)]
            if trace.nearest is not None:
                name = passage_name(trace, trace.nearest.chunk_id)
                parts.append((f"Nearest: {name}", "h2", 12.0, 1))
                sentence = trace.nearest.numbers.get("best_sentence")
                if isinstance(sentence, str):
                    parts.append((f"“{sentence}”", "quote", 12.0, 3))
                parts.append((trace.nearest.reason, "soft", 12.0, 3))
            return self._card(y, "No answer", parts, "badcard")
        if not trace.answer_text and not trace.citations:
            return y
        parts = [(line, "ink", 13.0, 6) for line in trace.answer_text.split("\n") if line.strip()]
        shown = " ".join(trace.answer_text.split())
        for citation in trace.citations:
            name = passage_name(trace, citation.chunk_id, citation.document_id)
            parts.append((f"[{citation.marker}] {name}", "marker", 12.0, 1))
            if citation.quote and " ".join(citation.quote.split()) not in shown:
                parts.append((f"“{citation.quote}”", "quote", 12.0, 3))
        return self._card(y, "Answer", parts, "card")

    def _card(
        self, y: float, title: str, parts: Sequence[tuple[str, str, float, int]], kind: str
    ) -> float:
        """Draw paragraphs, each a text, its style, its size and its most lines, in a frame."""
        room = _ROOM - 28
        lines = [
            (line, style, size)
            for text, style, size, most in parts[:24]
            for line in wrap(text, room, size, lines=most)
        ]
        height = 40.0 + sum(size + 5 for _, _, size in lines)
        self.canvas.rect(_MARGIN, y, _ROOM, height, kind, radius=6)
        self.canvas.text(_MARGIN + 14, y + 22, title, room, kind="h2", size=14)
        baseline = y + 26
        for line, style, size in lines:
            baseline += size + 5
            self.canvas.text(_MARGIN + 14, baseline, line, room, kind=style, size=size)
        return y + height

    def _group(self, group: Group, y: float) -> float:
        count = len(group.rows) + group.more
        self.canvas.text(_MARGIN, y + 10, f"{group.title} ({count})", _ROOM / 2, kind="h2", size=14)
        self.canvas.text(_BAR + _BAR_WIDTH + 44, y + 10, "score", 60, end=True)
        y += 18
        for row in group.rows:
            self._row(row, y)
            y += _ROW
        if group.more:
            words = f"{group.more} more of these are in the scale below"
            self.canvas.text(_NAME, y + 14, words, _ROOM)
            y += 20
        return y

    def _row(self, row: PassageRow, y: float) -> None:
        canvas, baseline = self.canvas, y + 17
        canvas.open_group(_tooltip(row))
        canvas.rect(_MARGIN, y + 2, _ROOM, _ROW - 4, "track")
        canvas.rect(_MARGIN, y + 2, 4, _ROW - 4, _STATES[row.state], radius=2)
        mark = "".join(f"[{marker}]" for marker in row.markers[:2])
        if mark:
            canvas.text(_NAME - 8, baseline, mark, 44, kind="marker", size=12, end=True)
        elif row.placed or row.rank:
            canvas.text(_NAME - 8, baseline, str(row.placed or row.rank), 40, size=11, end=True)
        x = _NAME
        for query in row.queries[:3]:
            canvas.dot(x + 4, baseline - 4, query)
            x += 12
        kind = {"cited": "ink strong", "read": "ink", "dropped": "soft"}[row.state]
        canvas.text(x, baseline, _fitted(row.name, _WHAT - x - 12), _ROOM, kind=kind, size=12)
        canvas.text(_WHAT, baseline, _moved(row), _BAR - _WHAT - 10)
        if row.score is not None:
            scale = self.picture.scale
            low, high = (scale.low, scale.high) if scale else (0.0, 1.0)
            share = (row.score - low) / (high - low)
            canvas.rect(_BAR, y + 10, _BAR_WIDTH, 7, "empty", radius=2)
            canvas.rect(_BAR, y + 10, _BAR_WIDTH * share, 7, _STATES[row.state], radius=2)
            score = f"{row.score:.3f}"
            canvas.text(_BAR + _BAR_WIDTH + 44, baseline, score, 44, kind="mono", end=True)
        canvas.close_group()

    def _scale(self, scale: Scale, y: float) -> float:
        """Draw all scores as stacked counts over one axis, with the cut."""
        canvas, found = self.canvas, self.picture.found
        title = f"All {found:,} passages that were found, by score"
        canvas.text(_MARGIN, y + 10, title, _ROOM / 2, kind="h2", size=14)
        self._legend(y + 10)
        y += 26
        bottom, width = y + _SCALE_HEIGHT, _ROOM / len(scale.bins)
        most = max(sum(one) for one in scale.bins)
        for place, one in enumerate(scale.bins):
            x, top = _MARGIN + place * width, bottom
            for count, kind in zip(one, ("cited", "kept", "bar"), strict=True):
                height = max(3.0, (_SCALE_HEIGHT - 14) * count / most) if count else 0.0
                if count:
                    top -= height
                    canvas.rect(x + 1, top, width - 2, height, kind, radius=1)
            if sum(one):
                canvas.text(x + width / 2 + 8, top - 3, str(sum(one)), 30, size=9.5, end=True)
        canvas.rect(_MARGIN, bottom, _ROOM, 1, "axis", radius=0)
        for step in range(5):
            value = scale.low + (scale.high - scale.low) * step / 4
            x = _MARGIN + _ROOM * step / 4
            canvas.text(max(x, _MARGIN + 22), bottom + 15, f"{value:.2f}", 40, size=10.5, end=True)
        if scale.cut is not None:
            x = _MARGIN + _ROOM * (scale.cut - scale.low) / (scale.high - scale.low)
            canvas.rect(x, y - 6, 1.5, _SCALE_HEIGHT + 6, "cut", radius=0)
            words = f"last one read {scale.cut:.3f}"
            left = x + text_length(words, 10.5) + 8 > _WIDTH - _MARGIN
            canvas.text(
                x + (-6 if left else 6), y + 1, words, 200, kind="warn", size=10.5, end=left
            )
        return bottom + 18

    def _legend(self, y: float) -> None:
        entries = (("cited", "cited"), ("kept", "read, not cited"), ("bar", "not read"))
        x = _WIDTH - _MARGIN
        for kind, text in reversed(entries):
            x -= text_length(text, 11)
            self.canvas.text(x, y, text, 160)
            x -= 26
            self.canvas.rect(x, y - 9, 20, 10, kind)
            x -= 16

    def _reasons(self, y: float) -> float:
        """State in words why passages were not read."""
        reasons = self.picture.reasons
        if not reasons:
            return y
        for line in wrap("Not read: " + ", ".join(reasons) + ".", _ROOM, 12, lines=4):
            y += 18
            self.canvas.text(_MARGIN, y, line, _ROOM, kind="ink", size=12)
        return y


def _fitted(name: str, room: float) -> str:
    """Return a name that fits; a place in the document, which may tell it from others, is kept."""
    title, mark, part = name.rpartition(" (part ")
    end = mark + part if mark else ""
    lines = wrap(title if mark else name, room - text_length(end, 12), 12, lines=1)
    return "".join(lines) + end


def _moved(row: PassageRow) -> str:
    """Return what happened to a passage, or its rank by the search where reranking moved it."""
    return row.what or (f"search rank {row.rank}" if row.placed not in (0, row.rank) else "")


def _tooltip(row: PassageRow) -> str:
    parts = (
        row.name,
        row.chunk_id,
        f"search rank {row.rank}" if row.rank else "",
        f"reranked {row.placed}" if row.placed else "",
        "" if row.score is None else f"score {row.score!r}",
        row.what,
    )
    return " · ".join(part for part in parts if part)
