"""Find how paragraphs and runs of a Word document look: by their own properties and by their styles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
VAL = f"{W}val"
_OFF = frozenset(("0", "false", "off", "none"))
#: Properties of runs that a second style of the same run turns off again.
_TOGGLES = ("b", "vanish", "strike")
_RUN_TAGS = {
    f"{W}{name}": name
    for name in (
        "b", "vanish", "strike", "dstrike", "vertAlign", "position", "color", "shd", "highlight",
        "rtl", "rFonts",
    )
}  # fmt: skip
#: Half points by which a run is plainly raised.
_RAISED_BY = 4
#: Styles that are based on one another more often are damaged.
_MAX_BASES = 50

#: Styles of lines of code.
_CODE_STYLES = frozenset(
    (
        "source code",
        "html preformatted",
        "preformatted text",
        "code",
        "code block",
        "macro text",
        "verbatim",
    )
)

RunProperties = dict[str, Any]


class Numbering(NamedTuple):
    """The list of a paragraph, by ids of the file, and its level; the style that names it, if one does."""

    list_id: str | None = None
    level: int | None = None
    style: str = ""


class Style(NamedTuple):
    """What a style says, with what it inherits."""

    name: str = ""
    """In lower case; names of built-in styles are the same in all languages."""
    run: RunProperties = {}
    numbering: Numbering = Numbering()
    outline: int | None = None
    """Level of a heading, from 0; 9 for text."""
    is_shaded: bool = False
    is_code: bool = False
    heads_rows: bool = False
    """Whether it is a style of tables with a first row that looks like a header."""


def is_on(node: Element | None) -> bool:
    """Return whether a property of yes or no is there and says yes."""
    return node is not None and node.get(VAL, "1").lower() not in _OFF


def whole_number(words: str | None) -> int | None:
    """Return a number of a file, or None if it is none."""
    bare = (words or "").strip()
    digits = bare.removeprefix("-")
    return int(bare) if digits.isdecimal() and len(digits) < 10 else None


def run_properties(node: Element | None) -> RunProperties:
    """Return what an `rPr` element says, of what changes which text is read."""
    if node is None:
        return {}
    found: RunProperties = {}
    for each in node:
        name = _RUN_TAGS.get(each.tag)
        if name is None:
            continue
        if name == "rFonts":
            found[name] = each.get(f"{W}ascii") or each.get(f"{W}hAnsi") or ""
        elif name == "shd":
            fill = each.get(f"{W}fill", "auto").lower()
            found[name] = fill not in ("auto", "ffffff") or each.get(VAL, "clear") != "clear"
        elif name in ("vertAlign", "position", "color", "highlight"):
            found[name] = each.get(VAL, "")
        else:
            found[name] = is_on(each)
    return found


def is_struck(look: RunProperties) -> bool:
    """Return whether text is struck through, once or twice."""
    return bool(look.get("strike") or look.get("dstrike"))


def is_raised(look: RunProperties) -> bool:
    """Return whether text is raised, by its property or plainly by its position."""
    if look.get("vertAlign") in ("superscript", "subscript"):
        return bool(look["vertAlign"] == "superscript")
    position = look.get("position")
    return position is not None and (whole_number(position) or 0) >= _RAISED_BY


def is_white(look: RunProperties) -> bool:
    """Return whether text is white without a colour of its own behind it."""
    is_behind = look.get("shd") or look.get("highlight", "none") not in ("none", "white")
    return not is_behind and str(look.get("color", "")).lower() == "ffffff"


class Styles:
    """The styles of a document.

    Args:
        root: The part that holds them; None for none.
    """

    def __init__(self, root: Element | None) -> None:
        self._nodes: dict[str, Element] = {}
        self._resolved: dict[str, Style] = {}
        self._default = ""
        defaults = root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr") if root is not None else None
        self.base = run_properties(defaults)
        """Properties of runs of the whole document."""
        for node in root.iter(f"{W}style") if root is not None else ():
            name = node.get(f"{W}styleId", "")
            self._nodes.setdefault(name, node)
            if node.get(f"{W}default") in ("1", "true") and node.get(f"{W}type") == "paragraph":
                self._default = name

    def style(self, name: str) -> Style:
        """Return a style by its id; one that is not defined has its id as name."""
        key = name or self._default
        if key not in self._resolved:
            self._resolved[key] = self._resolve(key)
        return self._resolved[key]

    def _resolve(self, key: str) -> Style:
        chain = list(self._chain(key))
        if not chain:
            return Style(name=_spaced(key), is_code=key.lower() in _CODE_STYLES)
        run: RunProperties = {}
        numbering, outline = Numbering(), None
        is_shaded = heads_rows = is_code = False
        for style_id, node in reversed(chain):
            run = run | run_properties(node.find(f"{W}rPr"))
            look = node.find(f"{W}pPr")
            if look is not None:
                numbering = numbering_of(look, numbering, style_id)
                stated = outline_of(look)
                outline = outline if stated is None else stated
            is_code |= _name_of(node, style_id) in _CODE_STYLES
            is_shaded |= any(_is_filled(each) for each in node.iter(f"{W}shd"))
            heads_rows |= any(
                each.get(f"{W}type") == "firstRow" and _stands_out(each)
                for each in node.iter(f"{W}tblStylePr")
            )
        name = _name_of(chain[0][1], key)
        return Style(name, run, numbering, outline, is_shaded, is_code, heads_rows)

    def _chain(self, key: str) -> Iterator[tuple[str, Element]]:
        for _ in range(_MAX_BASES):
            node = self._nodes.get(key)
            if node is None:
                return
            yield key, node
            base = node.find(f"{W}basedOn")
            key = base.get(VAL, "") if base is not None else ""

    def run_look(self, own: Element | None, paragraph: RunProperties) -> RunProperties:
        """Return how a run looks.

        Args:
            own: Its `rPr`.
            paragraph: How runs of its paragraph look by the style.
        """
        if own is None:
            return paragraph
        look = dict(paragraph)
        named = own.find(f"{W}rStyle")
        if named is not None:
            style = self.style(named.get(VAL, "")).run
            look |= style
            for toggle in _TOGGLES:
                if style.get(toggle) and paragraph.get(toggle):
                    look[toggle] = False
        return look | run_properties(own)


def numbering_of(look: Element, inherited: Numbering, style: str = "") -> Numbering:
    """Return the numbering that a `pPr` states, completed by the inherited one."""
    stated = look.find(f"{W}numPr")
    if stated is None:
        return inherited
    list_id, level = stated.find(f"{W}numId"), stated.find(f"{W}ilvl")
    if list_id is None and level is None:
        return inherited
    return Numbering(
        inherited.list_id if list_id is None else list_id.get(VAL),
        inherited.level if level is None else whole_number(level.get(VAL)),
        style or ("" if level is not None or list_id is not None else inherited.style),
    )


def outline_of(look: Element) -> int | None:
    """Return the level of a heading, from 0, that a `pPr` states."""
    stated = look.find(f"{W}outlineLvl")
    return whole_number(stated.get(VAL)) if stated is not None else None


def _name_of(node: Element, key: str) -> str:
    named = node.find(f"{W}name")
    return (named.get(VAL, "") if named is not None else key).lower()


def _is_filled(shade: Element) -> bool:
    return shade.get(f"{W}fill", "auto").lower() not in ("auto", "ffffff")


def _stands_out(node: Element) -> bool:
    return is_on(node.find(f"{W}rPr/{W}b")) or any(map(_is_filled, node.iter(f"{W}shd")))


def _spaced(key: str) -> str:
    """Return the name of a style that is not defined: `Heading1` is `heading 1`."""
    head = key.rstrip("0123456789")
    number = key[len(head) :]
    return f"{head.lower()} {number}".strip()
