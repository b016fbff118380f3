"""Write formulas of MathML as linear text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.ingest.html_nodes import attribute, children, outermost, words_of
from whence.ingest.text_builder import collapse_spaces, lowered, raised

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

#: What scripts draw from a formula that stands beside it.
_DRAWN = (
    ".katex-html, .mwe-math-fallback-image-inline, .mwe-math-fallback-image-display"
    ", .MathJax, .MathJax_Preview, .MathJax_Display, .MathJax_SVG, .MJX_Assistive_MathML"
)
_TEX = "annotation[encoding='application/x-tex'], annotation[encoding='TeX'], annotation[encoding='LaTeX']"
_TEX_SCRIPT = "script[type^='math/tex']"
_DISPLAY_STYLE = re.compile(r"\{\\(?:display|text)style\s*+(.*)\}", re.DOTALL)
_SIMPLE = re.compile(r"[\w.]+|\([^()]*\)")
#: Deeper formulas are their text.
_MAX_DEPTH = 60


def write_formulas(root: LexborNode) -> None:
    """Replace formulas below an element with TeX if they state it, else with linear text."""
    scripts = root.css(_TEX_SCRIPT)
    if scripts or root.css_first("math") is not None:
        for node in outermost(root.css(_DRAWN)):
            if node.css_first("math") is None or scripts:
                node.decompose()
    for script in root.css(_TEX_SCRIPT):
        script.replace_with(script.text())
    for math in outermost(root.css("math")):
        _around(math).replace_with(_formula(math))


def without_display_style(tex: str) -> str:
    r"""Return TeX without the style around all of it.

    >>> without_display_style(r"{\displaystyle x^{2}}")
    'x^{2}'
    """
    found = _DISPLAY_STYLE.fullmatch(tex.strip())
    return found[1].strip() if found else tex


def _around(math: LexborNode) -> LexborNode:
    """Return the element that contains nothing but a formula: often hidden, beside a picture of it."""
    outer, words = math, words_of(math)
    parent = math.parent
    while parent is not None and parent.tag == "span" and words_of(parent) == words:
        outer, parent = parent, parent.parent
    return outer


def _formula(math: LexborNode) -> str:
    stated = math.css_first(_TEX)
    if stated is not None and words_of(stated):
        return without_display_style(words_of(stated))
    return collapse_spaces(_linear(math, 0)) or attribute(math, "alttext")


def _linear(node: LexborNode, depth: int) -> str:
    if node.tag == "-text":
        return (node.text_content or "").strip()
    if depth > _MAX_DEPTH:
        return words_of(node)
    if node.tag in ("annotation", "annotation-xml", "mspace", "mphantom"):
        return ""
    parts = [
        _linear(child, depth + 1)
        for child in children(node)
        if child.tag != "-text" or (child.text_content or "").strip()
    ]
    write = _FORMS.get(node.tag or "")
    return write(*parts[:3], *[""] * (3 - len(parts))) if write else _row(node.tag or "", parts)


#: What elements with up to three parts become.
_FORMS: dict[str, Callable[[str, str, str], str]] = {
    "mfrac": lambda above, below, _: f"{_group(above)}/{_group(below)}",
    "msup": lambda base, above, _: base + raised(above, base),
    "mover": lambda base, above, _: base + raised(above, base),
    "msub": lambda base, below, _: base + lowered(below, base),
    "munder": lambda base, below, _: base + lowered(below, base),
    "msubsup": lambda base, below, above: base + lowered(below, base) + raised(above, base),
    "munderover": lambda base, below, above: base + lowered(below, base) + raised(above, base),
    "mroot": lambda base, index, _: f"root({index}, {base})",
}
#: Signs with space around them.
_SPACED = frozenset("=<>\u2264\u2265\u2260\u2248+\u2212\u00b1\u00d7\u2192\u2208")
#: What stands before, between and behind the parts of an element.
_ROWS = {
    "msqrt": ("\u221a(", "", ")"), "mfenced": ("(", ", ", ")"), "mtr": ("", ", ", ""),
    "mlabeledtr": ("", ", ", ""), "mtable": ("[", "; ", "]"), "mtext": (" ", "", " "),
}  # fmt: skip


def _row(tag: str, parts: list[str]) -> str:
    before, between, behind = _ROWS.get(tag, ("", "", ""))
    kept = filter(None, parts) if between else parts
    words = before + between.join(kept) + behind
    return f" {words} " if tag == "mo" and words in _SPACED else words


def _group(words: str) -> str:
    bare = words.strip()
    return bare if _SIMPLE.fullmatch(bare) else f"({bare})"
