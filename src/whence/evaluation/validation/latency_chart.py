"""Draws latencies as SVG histograms with their percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from whence.evaluation import measures

_WIDTH, _LEFT, _TOP, _HEIGHT = 720, 56, 64, 200
_BINS = 24
_COLOURS = ("#3b6ea5", "#c77d2e")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.m{fill:#666}"
    ".a{stroke:#999}.p{stroke:#a33;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#aaa}.b{fill:#1c1c1c}.a{stroke:#777}}"
    "@media not (prefers-color-scheme:dark){.b{fill:#fff}}"
)


def latency_svg(title: str, series: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw histograms of latencies, one under the other, on one axis."""
    parts = [(name, list(times)) for name, times in series if times]
    most = max((max(times) for _, times in parts), default=1.0) or 1.0
    top = _nice(max(most, 0.001))
    height = _TOP + len(parts) * (_HEIGHT + 56) + 8
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="b" width="{_WIDTH}" height="{height}"/>',
        f'<text class="t" x="{_LEFT}" y="28">{escape(title)}</text>',
    ]
    for number, (name, times) in enumerate(parts):
        y = _TOP + number * (_HEIGHT + 56)
        body += _histogram(name, times, top, y, _COLOURS[number % len(_COLOURS)])
    return "\n".join([*body, "</svg>", ""])


def _histogram(name: str, times: Sequence[float], top: float, y: float, colour: str) -> list[str]:
    counts = [0] * _BINS
    for value in times:
        counts[min(_BINS - 1, int(value / top * _BINS))] += 1
    highest = max(counts)
    room = _WIDTH - 2 * _LEFT
    base = y + _HEIGHT
    mean = measures.mean(times)
    count_and_mean = f"{len(times)} queries, mean {mean:.1f} ms"
    drawn = [
        f'<text x="{_LEFT}" y="{y - 8}">{escape(name)} <tspan class="m">{count_and_mean}</tspan></text>'
    ]
    for place, count in enumerate(counts):
        if count:
            tall = (_HEIGHT - 24) * count / highest
            drawn.append(
                f'<rect x="{_LEFT + room * place / _BINS + 1:.1f}" y="{base - tall:.1f}"'
                f' width="{room / _BINS - 2:.1f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{count}</title></rect>"
            )
    drawn += _axis(top, room, base) + _percentiles(times, top, room, y, base)
    return drawn


def _axis(top: float, room: float, base: float) -> list[str]:
    drawn = [f'<line class="a" x1="{_LEFT}" y1="{base}" x2="{_LEFT + room}" y2="{base}"/>']
    for step in range(5):
        x = _LEFT + room * step / 4
        drawn.append(
            f'<text class="m" x="{x:.1f}" y="{base + 16}" text-anchor="middle">'
            f"{top * step / 4:g} ms</text>"
        )
    return drawn


def _percentiles(
    times: Sequence[float], top: float, room: float, y: float, base: float
) -> list[str]:
    drawn = []
    for number, percent in enumerate((50, 95, 99)):
        value = measures.percentile(times, percent)
        x = _LEFT + room * value / top
        drawn.append(f'<line class="p" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{base}"/>')
        # Labels on lines of their own: in a narrow distribution the percentiles lie side by side.
        side, shift = ("end", -4) if x > _WIDTH - 160 else ("start", 4)
        drawn.append(
            f'<text x="{x + shift:.1f}" y="{y + 12 + 14 * number}" text-anchor="{side}">'
            f"p{percent} {value:.1f} ms</text>"
        )
    return drawn


def _nice(value: float) -> float:
    """Return the next round number that is easy to divide by four."""
    unit = 10.0 ** math.floor(math.log10(value))
    # Rounding in powers of ten may leave the value an ulp above ten units.
    return next((step * unit for step in (1, 2, 4, 8, 10) if step * unit >= value), value)
