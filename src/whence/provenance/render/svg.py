"""A trace as a picture: one column per stage, one bar per candidate, lines along what was kept.

Standalone SVG: no script, no outside font, image or style. Colours follow the viewer's light or dark
setting unless a theme is given. Every text is escaped and fitted to its place; full ids and numbers are in
the titles that a viewer shows on pointing.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal
from xml.sax.saxutils import escape

import msgspec

from whence.provenance.checking import check_trace
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.render.text import format_duration, one_line, ratio
from whence.provenance.trace import Stage, Trace

__all__ = ("Theme", "to_svg")

Theme = Literal["auto", "light", "dark"]

# Lengths are in user units, which are pixels at natural size.
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

_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2430",
    "soft": "#5b6675",
    "track": "#eef1f5",
    "line": "#d5dbe3",
    "bar": "#b9c2ce",
    "kept": "#8ec5b8",
    "cited": "#1f8a70",
    "warn": "#a15c00",
    "bad": "#b3261e",
}
_DARK = {
    "paper": "#12161c",
    "ink": "#e8ecf2",
    "soft": "#9aa6b5",
    "track": "#1e252e",
    "line": "#36404d",
    "bar": "#465261",
    "kept": "#2f6b5d",
    "cited": "#4fc3a1",
    "warn": "#f0b35a",
    "bad": "#ff8a80",
}
#: One dot colour per concept, told apart by people who confuse red and green (Okabe and Ito, 2008).
_CONCEPTS = ("#0072b2", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#009e73", "#f0e442")


class _Column(msgspec.Struct, frozen=True):
    """Where a stage is drawn."""

    stage: Stage
    x: float
    width: float

    @property
    def right(self) -> float:
        return self.x + self.width


class _Row(msgspec.Struct, frozen=True):
    """One bar."""

    chunk_id: str
    rank: int
    score: float | None
    note: str
    state: Literal["bar", "kept", "cited"]
    dots: tuple[int, ...] = ()


def to_svg(trace: Trace, *, theme: Theme = "auto", max_rows: int = 40) -> str:
    """Draw a trace.

    Args:
        trace: What to draw.
        theme: `light` or `dark` for one look everywhere; `auto` follows the viewer.
        max_rows: Most candidates to draw, 1 or more; what was kept is drawn in any case, the rest is
            counted.
    """
    return _Picture(trace, max_rows).drawn(theme)


class _Picture:
    """Collects shapes; every method draws one part and gives the y where the next may begin."""

    def __init__(self, trace: Trace, max_rows: int) -> None:
        self.trace = trace
        self.max_rows = max_rows
        self.shapes: list[str] = []
        self.links: list[str] = []
        self.cited = {citation.chunk_id for citation in trace.citations}
        self.given = set(trace.used)
        self.columns = _columns(trace)
        #: Right end and height of the last bar drawn of a chunk.
        self.ends: dict[str, tuple[float, float]] = {}

    def drawn(self, theme: Theme) -> str:
        """Give the whole document."""
        last = self.columns[-1] if self.columns else None
        width = (last.right if last else 600) + _MARGIN
        self._heading(width)
        bottoms = [self._column(column) for column in self.columns]
        for left, right in zip(self.columns, self.columns[1:], strict=False):
            self._arrow(left.right + 8, right.x - 8, _TOP + 12)
        height = self._legend(max(bottoms, default=_BODY) + 26) + _MARGIN / 2
        title = escape(one_line(self.trace.question) or self.trace.answer_id)
        return "\n".join(
            (
                (
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                    f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="t d">'
                ),
                f'<title id="t">{title}</title>',
                f'<desc id="d">{escape(_description(self.trace))}</desc>',
                f"<style>{_style(theme)}</style>",
                f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
                *self.links,
                *self.shapes,
                "</svg>\n",
            )
        )

    def _heading(self, width: float) -> None:
        trace = self.trace
        room = width - 2 * _MARGIN
        question = trace.question or "a question that was not recorded"
        self._text(_MARGIN, 40, question, room, kind="h1", size=19)
        faults = check_trace(trace)
        state = "complete" if not faults else f"not complete: {len(faults)} faults"
        facts = " · ".join(part for part in (trace.asked_at, trace.answer_id, state) if part)
        self._text(_MARGIN, 62, facts, room, kind="soft" if not faults else "bad", size=12)

    def _column(self, column: _Column) -> float:
        """Draw a stage and give the y below it."""
        name = column.stage.stage
        self._text(
            column.x, _TOP + 16, name.capitalize(), column.width, kind="h2", size=14, anchor="start"
        )
        facts = [_count(name, self.trace), format_duration(column.stage.run.duration_ms)]
        sub = " · ".join(part for part in facts if part)
        self._text(column.x, _TOP + 32, sub, column.width, kind="soft", size=11)
        contents: dict[str, Callable[[_Column], float]] = {
            "question": self._question,
            "grounding": self._grounding,
            "exploration": self._exploration,
            "focus": self._focus,
            "synthesis": self._synthesis,
            "error": self._error,
        }
        y = contents[name](column)
        return self._notes(column, y)

    def _question(self, column: _Column) -> float:
        y = float(_BODY)
        for key, value in sorted(column.stage.run.settings.items()):
            self._text(column.x, y + 12, key.replace("_", " "), 96, kind="soft", size=11)
            self._text(
                column.right,
                y + 12,
                str(value),
                column.width - 100,
                kind="mono",
                size=11,
                anchor="end",
            )
            y += 18
        return y

    def _grounding(self, column: _Column) -> float:
        y = float(_BODY)
        for index, concept in enumerate(self.trace.concepts):
            self._dot(column.x + 5, y + 11, index)
            for line in _wrapped(concept, column.width - 18, 12, lines=2):
                self._text(column.x + 18, y + 15, line, column.width - 18, kind="ink", size=12)
                y += 16
            y += 8
        return y

    def _exploration(self, column: _Column) -> float:
        rows = self._explored_rows()
        y = self._rows(column, rows)
        hidden = len(self.trace.candidates) - len(rows)
        if hidden > 0:
            self._text(column.x, y + 14, f"and {hidden} more", column.width, kind="soft", size=11)
            y += _ROW
        return y

    def _explored_rows(self) -> list[_Row]:
        """Give the rows to draw, by rank: first of all those that were kept."""
        kept = {selection.chunk_id for selection in self.trace.selections} | self.given
        order = {concept: index for index, concept in enumerate(self.trace.concepts)}
        drawn = sorted(
            self.trace.candidates, key=lambda c: (c.chunk_id not in kept, c.rank, c.chunk_id)
        )[: max(self.max_rows, len(kept))]
        return [
            _Row(
                chunk_id=candidate.chunk_id,
                rank=candidate.rank,
                score=candidate.score,
                note=candidate.reason_code,
                state=self._state(candidate.chunk_id),
                dots=tuple(order[c] for c in candidate.concepts if c in order),
            )
            for candidate in sorted(drawn, key=lambda c: (c.rank, c.chunk_id))
        ]

    def _state(self, chunk_id: str) -> Literal["bar", "kept", "cited"]:
        if chunk_id in self.cited:
            return "cited"
        return "kept" if chunk_id in self.given else "bar"

    def _focus(self, column: _Column) -> float:
        codes = {c.chunk_id: c.reason_code for c in self.trace.candidates}
        rows = [
            _Row(
                chunk_id=selection.chunk_id,
                rank=place,
                score=selection.score,
                note=codes.get(selection.chunk_id, ""),
                state=self._state(selection.chunk_id),
            )
            for place, selection in enumerate(self.trace.selections, 1)
        ]
        y = self._rows(column, rows, linked=True)
        return self._dropped(column, y, "focus")

    def _dropped(self, column: _Column, y: float, stage: str) -> float:
        """Count what a stage dropped, by reason."""
        counts = Counter(c.reason_code for c in self.trace.candidates if c.reason_code)
        for code, meaning in DROP_REASONS.items():
            if meaning.stage == stage and counts[code]:
                text = f"{counts[code]} dropped: {code}"
                self._text(column.x, y + 15, text, column.width, kind="warn", size=11)
                y += 18
        return y

    def _rows(self, column: _Column, rows: Sequence[_Row], *, linked: bool = False) -> float:
        y = float(_BODY)
        top = max((row.score for row in rows if row.score is not None), default=1.0)
        for row in rows:
            if linked:
                self._link(row.chunk_id, column.x, y + _ROW / 2 - 2, row.state)
            self._row(column, row, y, max(top, 1.0))
            y += _ROW
        for index, row in enumerate(rows):
            self.ends[row.chunk_id] = (column.right, _BODY + index * _ROW + _ROW / 2 - 2)
        return y

    def _row(self, column: _Column, row: _Row, y: float, full: float) -> None:
        """Draw a bar with rank, id, reason and score on it."""
        height = _ROW - 4
        bar = 4  # under the text, not behind it: every colour of bar leaves the text readable
        title = " · ".join(
            part
            for part in (
                row.chunk_id,
                f"rank {row.rank}" if row.rank else "",
                "" if row.score is None else f"score {row.score!r}",
                DROP_REASONS[row.note].explanation if row.note in DROP_REASONS else row.note,
            )
            if part
        )
        self.shapes.append(f"<g><title>{escape(one_line(title))}</title>")
        self._rect(column.x, y, column.width, height, "track")
        if row.score is not None:
            length = column.width * ratio(row.score, full)
            self._rect(column.x, y + height - bar, length, bar, row.state, radius=2)
        x = column.x + 26
        if row.rank:
            self._text(x - 6, y + 12.5, str(row.rank), 24, kind="soft", size=10, anchor="end")
        for dot in row.dots[:3]:
            self._dot(x + 4, y + 9, dot)
            x += 11
        right = column.right - 6
        if row.score is not None:
            self._text(
                right, y + 12.5, f"{row.score:.3f}", 44, kind="mono", size=10.5, anchor="end"
            )
            right -= 44
        if row.note:
            kind = "soft" if row.state == "bar" else "ink"
            self._text(right, y + 12.5, row.note, 96, kind=kind, size=10, anchor="end")
            right -= _length(row.note, 10) + 8
        label = {"bar": "monosoft", "kept": "mono", "cited": "mono strong"}[row.state]
        self._text(x + 4, y + 12.5, row.chunk_id, right - x - 4, kind=label, size=10.5, front=True)
        self.shapes.append("</g>")

    def _synthesis(self, column: _Column) -> float:
        y = float(_BODY)
        if self.trace.found is False:
            text = "nothing was found to answer from"
            self._text(column.x, y + 14, text, column.width, kind="warn", size=12)
            y += _ROW
        for citation in self.trace.citations:
            quote = _wrapped(citation.quote, column.width - 56, 11.5, lines=3)
            height = 28 + 16 * len(quote)
            self._link(citation.chunk_id, column.x, y + 14, "cited")
            self.shapes.append(f"<g><title>{escape(one_line(citation.quote))}</title>")
            self._rect(column.x, y, column.width, height, "card")
            marker = f"[{citation.marker}]"
            self._text(column.x + 10, y + 18, marker, 30, kind="marker", size=12)
            self._text(
                column.x + 40,
                y + 18,
                citation.chunk_id,
                column.width - 48,
                kind="mono",
                size=10.5,
                front=True,
            )
            for index, line in enumerate(quote):
                self._text(
                    column.x + 40,
                    y + 36 + 16 * index,
                    line,
                    column.width - 44,
                    kind="quote",
                    size=11.5,
                )
            self.shapes.append("</g>")
            y += height + 10
        return self._dropped(column, y, "synthesis")

    def _error(self, column: _Column) -> float:
        failure = self.trace.failure
        if failure is None:
            return _BODY
        lines = _wrapped(failure.message, column.width - 24, 12, lines=4)
        hint = _wrapped(failure.hint, column.width - 24, 11.5, lines=3)
        height = 34 + 16 * (len(lines) + len(hint))
        self._rect(column.x, _BODY, column.width, height, "badcard")
        head = f"{failure.stage}: {failure.code}"
        self._text(column.x + 12, _BODY + 19, head, column.width - 24, kind="bad", size=12)
        for index, line in enumerate((*lines, *hint)):
            kind = "ink" if index < len(lines) else "soft"
            self._text(
                column.x + 12, _BODY + 38 + 16 * index, line, column.width - 24, kind=kind, size=12
            )
        return _BODY + height

    def _notes(self, column: _Column, y: float) -> float:
        """Name the models and what was left out, below the stage."""
        run = column.stage.run
        y += 6
        names = [" ".join(p for p in (m.role, m.name, m.precision) if p) for m in run.models]
        if column.stage.model and column.stage.model not in {m.name for m in run.models}:
            names.append(f"written by {column.stage.model}")
        for name in names:
            self._text(column.x, y + 13, name, column.width, kind="soft", size=11)
            y += 16
        for degradation in run.degraded:
            for line in _wrapped(f"degraded: {degradation.reason}", column.width, 11, lines=3):
                self._text(column.x, y + 13, line, column.width, kind="warn", size=11)
                y += 16
        return y

    def _legend(self, y: float) -> float:
        x = float(_MARGIN)
        for kind, text in (("cited", "cited"), ("kept", "given to the writer"), ("bar", "dropped")):
            self._rect(x, y - 10, 22, 11, kind)
            self._text(x + 28, y, text, 200, kind="soft", size=11)
            x += 28 + _length(text, 11) + 26
        if self.trace.concepts and any(c.concepts for c in self.trace.candidates):
            self._dot(x + 5, y - 4, 0)
            self._text(x + 16, y, "found by the concept of this colour", 300, kind="soft", size=11)
        return y

    def _link(self, chunk_id: str, x: float, y: float, state: str) -> None:
        """Draw a line from the last bar of a chunk; nothing when it was not drawn."""
        start = self.ends.get(chunk_id)
        if start is None:
            return
        x0, y0 = start
        middle = (x0 + x) / 2
        path = f"M{x0:.1f} {y0:.1f}C{middle:.1f} {y0:.1f} {middle:.1f} {y:.1f} {x:.1f} {y:.1f}"
        self.links.append(f'<path class="link {state}-link" d="{path}"/>')

    def _arrow(self, x0: float, x1: float, y: float) -> None:
        self.shapes.append(f'<path class="arrow" d="M{x0:.1f} {y:.1f}H{x1:.1f}m-5 -4l5 4l-5 4"/>')

    def _rect(
        self, x: float, y: float, width: float, height: float, kind: str, *, radius: int = 3
    ) -> None:
        self.shapes.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{radius}"/>'
        )

    def _dot(self, x: float, y: float, index: int) -> None:
        colour = _CONCEPTS[index % len(_CONCEPTS)]
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        room: float,
        *,
        kind: str,
        size: float,
        anchor: str = "start",
        front: bool = False,
    ) -> None:
        """Draw one line cut to its room, at the end or, for ids, in front."""
        mono = kind.startswith("mono")
        line = _fitted(text, room, size, front=front, mono=mono)
        if line:
            end = ' text-anchor="end"' if anchor == "end" else ""
            self.shapes.append(
                f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{end}>'
                f"{escape(line)}</text>"
            )


def _columns(trace: Trace) -> list[_Column]:
    """Place the first stage of each kind, in the order of the chain."""
    stages = {stage.stage: stage for stage in reversed(trace.stages)}
    x = float(_MARGIN)
    placed = []
    for name, width in _WIDTHS.items():
        if name in stages:
            placed.append(_Column(stages[name], x, width))
            x += width + _GAP
    return placed


def _count(stage: str, trace: Trace) -> str:
    match stage:
        case "grounding":
            return f"{len(trace.concepts)} searched for"
        case "exploration":
            return f"{len(trace.candidates)} found · {len(trace.explored)} read"
        case "focus":
            return f"{trace.reranked_count} reranked · {len(trace.selections)} kept"
        case "synthesis":
            return f"{len(trace.used)} used · {len({c.chunk_id for c in trace.citations})} cited"
        case _:
            return ""


def _description(trace: Trace) -> str:
    counts = [f"{stage.stage} {_count(stage.stage, trace)}".strip() for stage in trace.stages]
    return one_line("How the answer came about: " + "; ".join(counts))


def _length(text: str, size: float, *, mono: bool = False) -> float:
    """Guess the drawn length of a text; a little too much rather than too little."""
    return sum(_advance(char, mono=mono) for char in text) * size


def _advance(char: str, *, mono: bool) -> float:
    """Guess the advance of a character, in em."""
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if mono:
        return 0.62
    if char in " .,:;!|'iljtfr()[]":
        return 0.36
    return 0.72 if char.isupper() or char in "mwMW%@" else 0.61


def _fitted(text: str, room: float, size: float, *, front: bool, mono: bool) -> str:
    """Give one line that fits the room; cost is linear in the characters that fit."""
    line = one_line(text[:2000])
    budget = room / size
    chars: list[str] = []
    for char in reversed(line) if front else line:
        budget -= _advance(char, mono=mono)
        if budget < 0:
            break
        chars.append(char)
    if len(chars) == len(line):
        return line
    chars = [*chars[:-1], "…"]
    return "".join(reversed(chars) if front else chars)


def _wrapped(text: str, room: float, size: float, *, lines: int) -> list[str]:
    """Break a text into lines that fit, the last one cut."""
    words = one_line(text[:2000]).split(" ")
    out: list[str] = []
    while words and words != [""]:
        line = words.pop(0)
        while words and _length(f"{line} {words[0]}", size) <= room:
            line += " " + words.pop(0)
        out.append(line)
        if len(out) == lines and words:
            out[-1] = _fitted(" ".join((line, *words)), room, size, front=False, mono=False)
            break
    return out


def _style(theme: Theme) -> str:
    if theme != "auto":
        return _rules(_DARK if theme == "dark" else _LIGHT)
    return _rules(_LIGHT) + "@media (prefers-color-scheme: dark){" + _rules(_DARK) + "}"


def _rules(colours: dict[str, str]) -> str:
    c = colours
    mono = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
    return "".join(
        (
            (
                "text{font-family:system-ui,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif;"
                f"fill:{c['ink']}}}"
            ),
            ".h1,.h2,.marker,.strong{font-weight:600}",
            f".soft{{fill:{c['soft']}}}.warn{{fill:{c['warn']}}}text.bad{{fill:{c['bad']}}}",
            f".mono,.monosoft{{font-family:{mono}}}.monosoft{{fill:{c['soft']}}}",
            f".marker{{fill:{c['cited']}}}",
            f".paper{{fill:{c['paper']}}}.track{{fill:{c['track']}}}",
            f".bar{{fill:{c['bar']}}}.kept{{fill:{c['kept']}}}rect.cited{{fill:{c['cited']}}}",
            f".card{{fill:{c['track']};stroke:{c['line']}}}",
            f".badcard{{fill:{c['track']};stroke:{c['bad']}}}",
            f".link{{fill:none;stroke:{c['bar']};stroke-width:1.2}}",
            f".kept-link{{stroke:{c['kept']};stroke-width:1.6}}",
            f".cited-link{{stroke:{c['cited']};stroke-width:2.4}}",
            f".arrow{{fill:none;stroke:{c['soft']};stroke-width:1.4}}",
        )
    )
