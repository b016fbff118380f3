"""Replace elements that are no plain text with what they show: pictures, ruby, quotations, abbreviations."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from whence.ingest.html_math import without_display_style
from whence.ingest.html_nodes import attribute, has_words, outermost, words_of
from whence.ingest.text_builder import collapse_spaces

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

PICTURES = "pictures"
#: Elements that are shown and no text, and the kinds under which they are counted.
_MEDIA = {
    "iframe": "embedded pages", "frame": "embedded pages", "object": "objects", "embed": "objects",
    "applet": "objects", "video": "videos", "audio": "recordings",
}  # fmt: skip
_FILE_NAME = re.compile(
    r"\S+\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?|avif|ico)|(?:img|image|dsc|pict?)[\W_]?\d*",
    re.IGNORECASE,
)
#: Width or height of pictures that count visits, in pixels.
_TINY = frozenset(["0", "1", "2", "0px", "1px", "2px"])
#: A linked sign with fewer words is a logo or a badge.
_LEAST_LINKED = 4
#: Addresses of linked signs. Measured on 707 linked pictures in the descriptions of installed packages: 466
#: have such an address; the others are photographs, drawings and names of sponsors.
_SIGN = re.compile(r"badge|shields|svg\b", re.IGNORECASE)
#: An abbreviation beside its own words needs no explanation.
_NEAR = 400


def write_elements(root: LexborNode) -> Counter[str]:
    """Replace elements below one by their text; return what has none, by kind."""
    left_out: Counter[str] = Counter()
    _write_pictures(root, left_out)
    for node in outermost(root.css(", ".join(_MEDIA))):
        left_out[_MEDIA[node.tag or ""]] += 1
        node.decompose()
    _write_ruby(root)
    for quotation in root.css("q"):
        quotation.insert_before("\u201c")
        quotation.insert_after("\u201d")
    _explain_abbreviations(root)
    return left_out


def picture_text(alt: str, *, is_sign: bool = False) -> str:
    """Return the alternative text of a picture; empty if it says nothing of it.

    >>> picture_text("Sales by month"), picture_text("chart.png"), picture_text("Build passing", is_sign=True)
    ('Sales by month', '', '')
    """
    words = collapse_spaces(without_display_style(alt))
    is_short = is_sign and len(words.split()) < _LEAST_LINKED
    has_sense = any(map(str.isalnum, words))
    return words if has_sense and not is_short and not _FILE_NAME.fullmatch(words) else ""


def is_sign(address: str) -> bool:
    """Return whether a linked picture with an address is a sign, such as the badge of a build.

    >>> is_sign("https://ci.example/status/badge?branch=main"), is_sign("harbour-small.jpg")
    (True, False)
    """
    return not address.startswith("data:image/") and bool(_SIGN.search(address))


def _write_pictures(root: LexborNode, left_out: Counter[str]) -> None:
    for node in outermost(root.css("svg, area")):
        title = node.css_first("title")
        words = attribute(node, "aria-label") or (words_of(title) if title is not None else "")
        is_icon = node.tag == "area" or _is_alone_in_link(node)
        if node.css_first("text") is not None or attribute(node, "role") == "img":
            _replace_picture(node, words, is_sign=is_icon, left_out=left_out)
        else:
            node.decompose()
    for node in root.css("img"):
        if attribute(node, "role") in ("presentation", "none") or _is_tiny(node):
            node.decompose()
            continue
        is_badge = is_sign(attribute(node, "src")) and _is_alone_in_link(node)
        _replace_picture(node, attribute(node, "alt"), is_sign=is_badge, left_out=left_out)


def _replace_picture(node: LexborNode, alt: str, *, is_sign: bool, left_out: Counter[str]) -> None:
    words = picture_text(alt, is_sign=is_sign)
    if words:
        node.replace_with(f" {words} ")
        return
    left_out[PICTURES] += not (is_sign and alt)
    node.decompose()


def _is_tiny(node: LexborNode) -> bool:
    return not _TINY.isdisjoint((attribute(node, "width"), attribute(node, "height")))


def _is_alone_in_link(node: LexborNode) -> bool:
    parent = node.parent
    return parent is not None and parent.tag == "a" and not has_words(parent)


def _write_ruby(root: LexborNode) -> None:
    """Write a base with its reading in brackets behind it."""
    for ruby in outermost(root.css("ruby")):
        for node in outermost(ruby.css("rp")):
            node.decompose()
        readings = outermost(ruby.css("rt"))
        reading = "".join(words_of(node) for node in readings)
        for node in readings:
            node.decompose()
        base = collapse_spaces(ruby.text())
        ruby.replace_with(f"{base}({reading})" if reading and base else base or reading)


def _explain_abbreviations(root: LexborNode) -> None:
    """Write what an abbreviation stands for behind the first of its kind."""
    done: set[str] = set()
    for node in root.css("abbr[title], acronym[title]"):
        title, words = collapse_spaces(attribute(node, "title")), words_of(node)
        around = words_of(node.parent)[:_NEAR] if node.parent is not None else ""
        if not words or not title or words in done or title == words:
            continue
        done.add(words)
        if title not in around:
            node.insert_after(f" ({title})")
