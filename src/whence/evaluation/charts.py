"""Draws results as SVG: histograms of latencies, and what differs between two runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from whence.evaluation import measures

if TYPE_CHECKING:
    from whence.evaluation.gate.comparison import Comparison, QueryDifference

_TEXT = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.m{fill:#666}"
)
_DARK = "@media(prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#aaa}.b{fill:#1c1c1c}"
_LIGHT = "@media not (prefers-color-scheme:dark){.b{fill:#fff}}"


def _drawing(
    width: int, height: int, style: str, title: str, x: int, parts: Iterable[str], most: int = 0
) -> str:
    """Return an SVG document with its title at the top; `most` cuts the title that is drawn."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{style}</style>",
            f'<rect class="b" width="{width}" height="{height}"/>',
            f'<text class="t" x="{x}" y="28">{escape(_end_of(title, most or len(title)))}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


_LATENCY_STYLE = f"{_TEXT}.a{{stroke:#999}}.p{{stroke:#a33;stroke-dasharray:4 3}}{_DARK}.a{{stroke:#777}}}}{_LIGHT}"
_WIDTH, _LEFT, _TOP, _HEIGHT = 720, 56, 64, 200
_ROOM = _WIDTH - 2 * _LEFT
_BINS = 24
_COLOURS = ("#3b6ea5", "#c77d2e")


def latency_svg(title: str, series: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw histograms of latencies, one under the other, on one axis."""
    parts = [(name, list(times)) for name, times in series if times]
    most = max((max(times) for _, times in parts), default=1.0) or 1.0
    top = _nice(max(most, 0.001))
    drawn: list[str] = []
    for number, (name, times) in enumerate(parts):
        y = _TOP + number * (_HEIGHT + 56)
        drawn += _histogram(name, times, top, y, _COLOURS[number % len(_COLOURS)])
    height = _TOP + len(parts) * (_HEIGHT + 56) + 8
    return _drawing(_WIDTH, height, _LATENCY_STYLE, title, _LEFT, drawn)


def _histogram(name: str, times: Sequence[float], top: float, y: float, colour: str) -> list[str]:
    counts = [0] * _BINS
    for value in times:
        counts[min(_BINS - 1, int(value / top * _BINS))] += 1
    base = y + _HEIGHT
    count_and_mean = f"{len(times)} queries, mean {measures.mean(times):.1f} ms"
    drawn = [
        f'<text x="{_LEFT}" y="{y - 8}">{escape(name)} <tspan class="m">{count_and_mean}</tspan></text>'
    ]
    for place, count in enumerate(counts):
        if count:
            tall = (_HEIGHT - 24) * count / max(counts)
            drawn.append(
                f'<rect x="{_LEFT + _ROOM * place / _BINS + 1:.1f}" y="{base - tall:.1f}"'
                f' width="{_ROOM / _BINS - 2:.1f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{count}</title></rect>"
            )
    return drawn + _axis(top, base) + _percentiles(times, top, y, base)


def _axis(top: float, base: float) -> list[str]:
    drawn = [f'<line class="a" x1="{_LEFT}" y1="{base}" x2="{_LEFT + _ROOM}" y2="{base}"/>']
    for step in range(5):
        x = _LEFT + _ROOM * step / 4
        drawn.append(
            f'<text class="m" x="{x:.1f}" y="{base + 16}" text-anchor="middle">'
            f"{top * step / 4:g} ms</text>"
        )
    return drawn


def _percentiles(times: Sequence[float], top: float, y: float, base: float) -> list[str]:
    drawn = []
    for number, percent in enumerate((50, 95, 99)):
        value = measures.percentile(times, percent)
        x = _LEFT + _ROOM * value / top
        drawn.append(f'<line class="p" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{base}"/>')
        name = "max" if measures.is_maximum(percent, len(times)) else f"p{percent}"
        # Labels on lines of their own: in a narrow distribution the percentiles lie side by side.
        side, shift = ("end", -4) if x > _WIDTH - 160 else ("start", 4)
        drawn.append(
            f'<text x="{x + shift:.1f}" y="{y + 12 + 14 * number}" text-anchor="{side}">'
            f"{name} {value:.1f} ms</text>"
        )
    return drawn


def _nice(value: float) -> float:
    """Return the next round number that is easy to divide by four."""
    unit = 10.0 ** math.floor(math.log10(value))
    # Rounding in powers of ten may leave the value an ulp above ten units.
    return next((step * unit for step in (1, 2, 4, 8, 10) if step * unit >= value), value)


_DIFFERENCE_STYLE = f"{_TEXT}.u{{fill:#2f7d4f}}.d{{fill:#b3433b}}.a{{stroke:#999}}{_DARK}}}{_LIGHT}"
_BARS_WIDTH, _BARS_TOP, _ROW = 760, 88, 18
_RIGHT = _BARS_WIDTH - 40
_MIDDLE = (220 + _RIGHT) / 2


def differences_svg(comparison: Comparison, most: int = 60) -> str:
    """Draw a bar for each query that differs: decreases to the left, increases to the right.

    Args:
        comparison: Two runs.
        most: Number of bars, those with the largest differences; the chart states how many are left out.
    """
    kept = sorted(comparison.differences, key=lambda one: (-abs(one.delta), one.id))[:most]
    kept.sort(key=lambda one: (one.delta, one.id))
    left_out = len(comparison.differences) - len(kept)
    sums = comparison.measures[comparison.measure]
    height = _BARS_TOP + len(kept) * _ROW + 40
    words = (
        f"{sums.better} better, {sums.worse} worse, {sums.equal} equal; mean {sums.delta:+.4f},"
        f" 95 % {sums.interval.low:+.4f} to {sums.interval.high:+.4f}, p = {sums.p_value:.4f}"
    )
    drawn = [f'<text class="m" x="16" y="50">{escape(words)}</text>']
    for number, one in enumerate(kept):
        drawn += _bar(one, _BARS_TOP + number * _ROW)
    foot = height - 16
    line = f'x1="{_MIDDLE}" x2="{_MIDDLE}" y1="{_BARS_TOP - 8}" y2="{foot - 14}"'
    drawn.append(f'<line class="a" {line}/>')
    if not kept:
        drawn.append(f'<text x="16" y="{foot}">no query differs</text>')
    if left_out:
        drawn.append(
            f'<text class="m" x="16" y="{foot}">{left_out} smaller differences left out</text>'
        )
    title = f"{comparison.measure} by query: {comparison.b} less {comparison.a}"
    return _drawing(_BARS_WIDTH, height, _DIFFERENCE_STYLE, title, 16, drawn, 95)


def _bar(one: QueryDifference, y: float) -> list[str]:
    wide = (_RIGHT - _MIDDLE - 60) * min(1.0, abs(one.delta))
    up = one.delta > 0
    x, label = (_MIDDLE, _MIDDLE + wide + 6) if up else (_MIDDLE - wide, _MIDDLE - wide - 6)
    side, anchor = ("u", "start") if up else ("d", "end")
    ranks = f"first hit {one.hit_rank_a or '-'} to {one.hit_rank_b or '-'}"
    place = f'x="{x:.1f}" y="{y + 2}" width="{wide:.1f}" height="{_ROW - 5}"'
    at = f'x="{label:.1f}" y="{y + 12}" text-anchor="{anchor}"'
    return [
        f'<text x="16" y="{y + 12}">{escape(_end_of(one.id, 28))}</text>',
        f'<rect class="{side}" {place}><title>{escape(ranks)}</title></rect>',
        f'<text class="m" {at}>{one.delta:+.3f}</text>',
    ]


def _end_of(text: str, length: int) -> str:
    """Return the end of a text: names differ at their ends."""
    return text if len(text) <= length else f"…{text[1 - length :]}"
