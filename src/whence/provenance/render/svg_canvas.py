"""Shapes of a trace's picture: texts fitted to their place, bars, dots and lines, in a light or dark style."""

from __future__ import annotations

import unicodedata
from xml.sax.saxutils import escape

from whence.provenance.render.text import one_line

#: Colour of each part on a light and on a dark ground.
_COLOURS = {
    "paper": ("#ffffff", "#12161c"),
    "ink": ("#1c2430", "#e8ecf2"),
    "soft": ("#5b6675", "#9aa6b5"),
    "track": ("#eef1f5", "#1e252e"),
    "line": ("#d5dbe3", "#36404d"),
    "bar": ("#b9c2ce", "#465261"),
    "kept": ("#8ec5b8", "#2f6b5d"),
    "cited": ("#1f8a70", "#4fc3a1"),
    "warn": ("#a15c00", "#f0b35a"),
    "bad": ("#b3261e", "#ff8a80"),
}
#: Colours that remain distinct for readers with red-green colour blindness (Okabe and Ito, 2008).
_DOT_COLOURS = ("#0072b2", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#009e73", "#f0e442")
#: Rules of the style sheet; `%(name)s` is a colour.
_RULES = (
    "text{font-family:system-ui,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif;"
    "fill:%(ink)s}"
    ".h1,.h2,.marker,.strong{font-weight:600}"
    ".soft{fill:%(soft)s}.warn{fill:%(warn)s}text.bad{fill:%(bad)s}"
    ".mono,.monosoft{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
    ".monosoft{fill:%(soft)s}"
    ".marker{fill:%(cited)s}"
    ".paper{fill:%(paper)s}.track{fill:%(track)s}"
    ".bar{fill:%(bar)s}.kept{fill:%(kept)s}rect.cited{fill:%(cited)s}"
    ".card{fill:%(track)s;stroke:%(line)s}"
    ".badcard{fill:%(track)s;stroke:%(bad)s}"
    ".empty{fill:%(line)s}.axis{fill:%(soft)s}.cut{fill:%(warn)s}"
    ".arrow{fill:none;stroke:%(soft)s;stroke-width:1.4}"
)
_LIGHT, _DARK = (
    _RULES % {part: pair[ground] for part, pair in _COLOURS.items()} for ground in (0, 1)
)
#: Follows the viewer's setting.
_STYLE = _LIGHT + "@media (prefers-color-scheme: dark){" + _DARK + "}"


class Canvas:
    """Collects SVG elements; lengths are in user units, which are pixels at natural size."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def document(self, width: float, height: float, *, title: str, description: str) -> str:
        """Return the whole document."""
        size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(title)}</title>',
            f'<desc id="d">{escape(description)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
        )
        return "\n".join((*head, *self._shapes, "</svg>\n"))

    def open_group(self, title: str) -> None:
        """Begin a group of shapes that share a tooltip."""
        self._shapes.append(f"<g><title>{escape(one_line(title))}</title>")

    def close_group(self) -> None:
        """End the group."""
        self._shapes.append("</g>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        room: float,
        *,
        kind: str = "soft",
        size: float = 11,
        end: bool = False,
        keep_end: bool = False,
    ) -> None:
        """Draw one line of text, shortened to fit.

        `x` is its left end, or its right end when `end`; `y` is the baseline, `room` the longest length.
        `kind` is a class of the style sheet; those that begin with `mono` are of fixed width. `keep_end`
        shortens at the front, as ids need. An empty text draws nothing.
        """
        line = _fit(text, room, size, keep_end=keep_end, mono=kind.startswith("mono"))
        if line:
            anchor = ' text-anchor="end"' if end else ""
            self._shapes.append(
                f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{anchor}>'
                f"{escape(line)}</text>"
            )

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, *, radius: int = 3
    ) -> None:
        """Draw a rectangle."""
        self._shapes.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{radius}"/>'
        )

    def dot(self, x: float, y: float, index: int) -> None:
        """Draw a dot in the colour of a concept."""
        colour = _DOT_COLOURS[index % len(_DOT_COLOURS)]
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def arrow(self, x0: float, x1: float, y: float) -> None:
        """Draw an arrow from left to right."""
        self._shapes.append(f'<path class="arrow" d="M{x0:.1f} {y:.1f}H{x1:.1f}m-5 -4l5 4l-5 4"/>')


def text_length(text: str, size: float) -> float:
    """Estimate the drawn length of a text, rather too long than too short."""
    return sum(_advance(char, mono=False) for char in text) * size


def wrap(text: str, room: float, size: float, *, lines: int) -> list[str]:
    """Break a text into at most `lines` lines that fit; the last one is shortened."""
    words = one_line(text[:2000]).split(" ")
    out: list[str] = []
    while words and words != [""]:
        line = words.pop(0)
        while words and text_length(f"{line} {words[0]}", size) <= room:
            line += " " + words.pop(0)
        out.append(line)
        if len(out) == lines and words:
            out[-1] = _fit(" ".join((line, *words)), room, size, keep_end=False, mono=False)
            break
    return out


def _advance(char: str, *, mono: bool) -> float:
    """Estimate the advance of a character, in em."""
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if mono:
        return 0.62
    if char in " .,:;!|'iljtfr()[]":
        return 0.36
    return 0.72 if char.isupper() or char in "mwMW%@" else 0.61


def _fit(text: str, room: float, size: float, *, keep_end: bool, mono: bool) -> str:
    """Return one line that fits the room, with an ellipsis where it was shortened."""
    line = one_line(text[:2000])
    budget = room / size
    chars: list[str] = []
    for char in reversed(line) if keep_end else line:
        budget -= _advance(char, mono=mono)
        if budget < 0:
            break
        chars.append(char)
    if len(chars) == len(line):
        return line
    chars = [*chars[:-1], "…"]
    return "".join(reversed(chars) if keep_end else chars)
