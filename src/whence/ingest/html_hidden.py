"""Apply the styles of a page: remove and count what they delete or hide, mark what they raise or lower."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.html_nodes import (
    BLOCKS,
    ancestors,
    attribute,
    classes,
    has_words,
    outermost,
    words_of,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

STRUCK = "struck passages"
HIDDEN = "hidden passages"
_STRUCK_TAGS = "del, s, strike"
#: Tags that mean what a style says of the place of text, and the attribute that holds them.
_POSITIONS = {"super": "sup", "sub": "sub"}
_POSITION = "data-whence-position"
_NEVER_SHOWN = "noscript, template"
_NOTHING = re.compile(r"(?:0++(?:\.0*+)?|\.0++)(?:px|pt|r?em|%)?")
_OFF_SCREEN = re.compile(r"-\d{3,}(?:\.\d+)?(?:px|pt|r?em)?")
#: A box that cuts off all of what it holds.
_CUT = re.compile(r"rect\((?:\s*+0(?:px)?[\s,]*+){4}\)")
_TEMPLATE_WORDS = re.compile(r">[^<>\w]*\w")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BRACKETS = re.compile("[{};]")
_SELECTOR = re.compile(r"[\w\s.#>-]+")
#: Characters of the style sheets of a page that are read, and selectors that are looked for.
_MOST_STYLES, _MOST_SELECTORS = 2**20, 200
#: Properties of which a rule may show what another one hides.
_SHOWING = frozenset(["display", "visibility"])
#: Characters of a long page.
_LONG = 1000
#: Classes of what a control of the page shows, and of boxes that a script opens.
_PANEL = re.compile(
    r"(?:^|[\s_-])(?:tab|tabs|accordion|collapse|panel|pane|slide|carousel)(?:$|[\s_-])"
)
_POPUP = re.compile(
    r"(?:^|[\s_-])(?:modal|dialog|popup|popover|overlay|drawer|menu|nav|navbar|tooltip|backdrop)(?:$|[\s_-])"
)
#: Fewer words that screen readers do not read are signs.
_LEAST_PROSE = 4
_SHORT_HEX = re.compile(r"#([0-9a-f])([0-9a-f])([0-9a-f])")
_WHITE_NAMES = frozenset(["white", "rgb(255,255,255)", "rgba(255,255,255,1)"])


class Rules(NamedTuple):
    """What a page says of its elements elsewhere: selectors that hide, strike or raise, ids that it shows."""

    hidden: Sequence[str] = ()
    struck: Sequence[str] = ()
    shown: Sequence[str] = ()
    raised: Sequence[str] = ()
    lowered: Sequence[str] = ()
    controlled: frozenset[str] = frozenset()


NO_RULES = Rules()


def read_rules(page: LexborHTMLParser) -> Rules:
    """Return the rules of a page, before its style sheets and buttons are removed."""
    return _style_selectors(page)._replace(controlled=_controlled_ids(page))


def remove_hidden(root: LexborNode, rules: Rules) -> Counter[str]:
    """Remove struck and hidden elements below one; return how many of each kind had words.

    A page that is hidden as a whole, until a script shows it, stays; so does what a control of the page shows,
    such as the panel of a tab. Cost: linear in the page, and in the selectors of its hidden classes.
    """
    left_out: Counter[str] = Counter()
    shown = {node.mem_id for node in _matching(root, rules.shown)} if rules.hidden else set()
    by_class = [node for node in _matching(root, rules.hidden) if node.mem_id not in shown]
    hidden = [*root.css("[hidden], [aria-hidden=true]"), *by_class]
    struck = [*root.css(_STRUCK_TAGS), *_matching(root, rules.struck)]
    for node in root.css("[style]"):
        style = _declarations(attribute(node, "style"))
        if _is_hidden_by(style) or _is_on_its_color(node, style):
            hidden.append(node)
        elif _is_struck_by(style):
            struck.append(node)
    hidden = [node for node in hidden if not _stays(node, root, rules.controlled)]
    if _is_most(hidden, root):
        hidden = [node for node in hidden if node.tag not in BLOCKS]
    struck = [node for node in struck if not _is_page(node, root)]
    kinds = {node.mem_id: HIDDEN for node in hidden} | {node.mem_id: STRUCK for node in struck}
    for node in outermost([*hidden, *struck]):
        kind = kinds[node.mem_id]
        if has_words(node) and not _is_sign(node):
            left_out[kind] += 1
        node.decompose()
    for node in outermost(root.css(_NEVER_SHOWN)):
        left_out[HIDDEN] += node.tag == "noscript" and has_words(node)
        # The content of a template is no child of it.
        left_out[HIDDEN] += node.tag == "template" and bool(_TEMPLATE_WORDS.search(node.html or ""))
        node.decompose()
    return left_out


def mark_positions(root: LexborNode, rules: Rules) -> None:
    """Mark elements that a style raises or lowers with an attribute, which `position_of` reads.

    Cost: linear in the page, and in the selectors of its raised and lowered classes.
    """
    by_style = (
        (node, style_position(attribute(node, "style")))
        for node in root.css("[style*=vertical-align]")
    )
    by_class = (
        (node, tag)
        for tag, selectors in (("sup", rules.raised), ("sub", rules.lowered))
        for node in _matching(root, selectors)
    )
    for node, tag in [*by_class, *by_style]:
        if tag and node.tag not in BLOCKS and node.css_first("sup, sub") is None:
            node.attrs[_POSITION] = tag


def position_of(node: LexborNode) -> str:
    """Return `sup` for a raised element, `sub` for a lowered one, else an empty text."""
    tag = node.tag or ""
    return tag if tag in ("sup", "sub") else attribute(node, _POSITION)


def is_hidden_style(style: str) -> bool:
    """Return whether an attribute `style` hides its element."""
    return _is_hidden_by(_declarations(style))


def style_position(style: str) -> str:
    """Return `sup` if an attribute `style` raises its element, `sub` if it lowers it, else an empty text."""
    return _POSITIONS.get(_declarations(style).get("vertical-align", ""), "")


def is_struck_style(style: str) -> bool:
    """Return whether an attribute `style` strikes the text of its element."""
    return "line-through" in style.lower()


def _matching(root: LexborNode, selectors: Sequence[str]) -> Iterator[LexborNode]:
    from selectolax.lexbor import SelectolaxError

    for selector in selectors:
        with suppress(SelectolaxError):
            yield from root.css(selector)


def _is_most(hidden: Sequence[LexborNode], root: LexborNode) -> bool:
    """Return whether hidden elements are most of a long page, which a script shows one after another."""
    length = sum(len(words_of(node)) for node in outermost(hidden))
    return length > _LONG and 2 * length > len(words_of(root))


def _is_page(node: LexborNode, root: LexborNode) -> bool:
    return node.tag in ("html", "body") or node.mem_id == root.mem_id


def _stays(node: LexborNode, root: LexborNode, controlled: frozenset[str]) -> bool:
    """Return whether an element that is hidden now is text all the same."""
    if _is_page(node, root):
        return True
    if node.attributes.get("aria-hidden") == "true" and not _is_hidden_otherwise(node):
        return _is_prose(node)
    names = attribute(node, "class").lower()
    return (
        attribute(node, "role") == "tabpanel"
        or attribute(node, "id") in controlled - {""}
        or bool(_PANEL.search(names))
    )


def _is_hidden_otherwise(node: LexborNode) -> bool:
    return "hidden" in node.attributes or is_hidden_style(attribute(node, "style"))


def _is_prose(node: LexborNode) -> bool:
    """Return whether what is hidden from screen readers is text that others see, not a sign or a closed box."""
    names = f"{attribute(node, 'class')} {attribute(node, 'role')}".lower()
    is_formula = bool(classes(node) & {"katex-html", "mwe-math-fallback-image-inline"})
    return (
        len(words_of(node).split()) >= _LEAST_PROSE and not is_formula and not _POPUP.search(names)
    )


def _is_sign(node: LexborNode) -> bool:
    return node.attributes.get("aria-hidden") == "true" and not _is_hidden_otherwise(node)


def _controlled_ids(page: LexborHTMLParser) -> frozenset[str]:
    """Return the ids that links and buttons of a page name."""
    found: set[str] = set()
    for node in page.css("[aria-controls], [href^='#'], [data-target^='#'], [data-bs-target^='#']"):
        for name in ("aria-controls", "href", "data-target", "data-bs-target"):
            found.update(attribute(node, name).replace("#", " ").split())
    return frozenset(found)


def _declarations(style: str) -> dict[str, str]:
    found = (each.partition(":") for each in style.lower().split(";"))
    return {
        name.strip(): value.strip().removesuffix("!important").strip() for name, _, value in found
    }


def _is_hidden_by(style: dict[str, str]) -> bool:
    is_placed = style.get("position") in ("absolute", "fixed")
    return (
        style.get("display") == "none"
        or style.get("visibility") in ("hidden", "collapse")
        or style.get("mso-hide") == "all"
        or style.get("color") == "transparent"
        or _NOTHING.fullmatch(style.get("font-size", "x")) is not None
        or _OFF_SCREEN.fullmatch(style.get("text-indent", "")) is not None
        or (is_placed and _CUT.fullmatch(style.get("clip", "")) is not None)
        or (
            is_placed
            and any(_OFF_SCREEN.fullmatch(style.get(side, "")) for side in ("left", "top"))
        )
    )


def _is_struck_by(style: dict[str, str]) -> bool:
    return "line-through" in style.get("text-decoration", "") + style.get(
        "text-decoration-line", ""
    )


def _is_on_its_color(node: LexborNode, style: dict[str, str]) -> bool:
    """Return whether text has the color of the nearest background that is stated."""
    color = _color(style.get("color", ""))
    if not color:
        return False
    for each in (node, *ancestors(node)):
        around = _declarations(attribute(each, "style")) if each.tag != "-document" else {}
        background = _color(around.get("background-color", "") or around.get("background", ""))
        background = background or _color(attribute(each, "bgcolor").lower())
        if background:
            return background == color
    return False


def _color(value: str) -> str:
    bare = value.replace(" ", "")
    short = _SHORT_HEX.fullmatch(bare)
    bare = "#" + "".join(2 * digit for digit in short.groups()) if short else bare
    return "#ffffff" if bare in _WHITE_NAMES else bare


def _style_selectors(page: LexborHTMLParser) -> Rules:
    """Return the selectors of the page's style sheets that hide, strike, show, raise or lower elements."""
    hidden: list[str] = []
    struck: list[str] = []
    shown: list[str] = []
    placed: dict[str, list[str]] = {"sup": [], "sub": []}
    for sheet in page.css("style"):
        media = attribute(sheet, "media")
        source = sheet.text()
        if media not in ("", "all", "screen") or len(source) > _MOST_STYLES or "{" not in source:
            continue
        for names, body in _rules(_COMMENT.sub(" ", source)):
            style = _declarations(body)
            simple = [each.strip() for each in names.split(",") if _SELECTOR.fullmatch(each)]
            special = [each for each in simple if "." in each or "#" in each]
            if _is_hidden_by(style):
                hidden += special
            elif _is_struck_by(style):
                struck += special
            elif style.keys() & _SHOWING:
                shown += special
            if position := _POSITIONS.get(style.get("vertical-align", "")):
                placed[position] += special
    most = _MOST_SELECTORS
    return Rules(
        hidden[:most],
        struck[:most],
        shown[: 5 * most],
        placed["sup"][:most],
        placed["sub"][:most],
    )


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and declarations of a style sheet that hold for every medium."""
    depth = start = body = 0
    for found in _BRACKETS.finditer(sheet):
        if found[0] == "{":
            depth += 1
            body = found.end() if depth == 1 else body
        elif depth == 0 or found[0] == "}":
            depth = max(0, depth - 1)
            names = sheet[start : body - 1].strip() if found[0] == "}" and not depth else ""
            if names and not names.startswith("@"):
                yield names, sheet[body : found.start()]
            start = found.end() if not depth else start
