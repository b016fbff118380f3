"""Write formulas of MathML as linear text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from whence.ingest.html_nodes import attribute, children, outermost, words_of
from whence.ingest.office.equations import linear
from whence.ingest.text_builder import collapse_spaces

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
    return collapse_spaces(linear(_tree(math, 0))) or attribute(math, "alttext")


def _tree(node: LexborNode, depth: int) -> Element:
    """Return a formula as the tree that equations of other formats are."""
    element = Element(node.tag or "")
    if depth > _MAX_DEPTH:
        element.tag, element.text = "mtext", words_of(node)
        return element
    for child in children(node):
        if child.tag == "-text":
            element.text = (element.text or "") + (child.text_content or "")
        else:
            element.append(_tree(child, depth + 1))
    return element
