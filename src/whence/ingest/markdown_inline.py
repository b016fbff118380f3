"""Write the text inside blocks of Markdown: words, code, formulas, marks of notes, and tags of HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whence.ingest.html_elements import PICTURES, is_sign, picture_text
from whence.ingest.html_hidden import (
    HIDDEN,
    STRUCK,
    is_hidden_style,
    is_struck_style,
    style_position,
)
from whence.ingest.roles import shown_role, without_left_over_roles
from whence.ingest.text_builder import (
    BREAK,
    LINE_END,
    TextBuilder,
    code_span,
    collapse_spaces,
    lowered,
    raised,
)

if TYPE_CHECKING:
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*+)([^<>]*+)>")
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))|([\w-]+)""")
_CODE_TAGS = frozenset(["code", "kbd", "tt", "samp"])
_STRUCK_TAGS = frozenset(["del", "s", "strike"])
#: Elements whose text is not written as it stands.
_CHANGED = frozenset(["sup", "sub", "q", "rt", "rp", "abbr"])
#: Tags without an end.
_EMPTY = frozenset(["br", "hr", "img", "wbr", "input", "source", "col"])
_INLINE_ATTRIBUTES = re.compile(r"\{:?[ \t]*[.#][\w-][^{}\n]*\}")
#: Before code: `{role}` of MyST, `:role:` of a text that was reStructuredText once.
_ROLE = re.compile(r"(?:\{([\w:+-]+)\}|(?<![\w`:]):([A-Za-z][\w:+.-]{0,80}):)$")
#: After code that was a reference in reStructuredText, and the address in it.
_REFERENCE_MARK = re.compile(r"__?(?!\w)")
_ADDRESS = re.compile(r"(?<!\s)\s*+<[^<>\s]+>(?=\x0b*$)")
#: The mark of a note that is not in the text.
_LONE_MARK = re.compile(r"\[\^([^\]\s]{1,200})\]")
#: Raised and lowered text of Pandoc, and struck text of GitHub.
_RAISED = re.compile(r"(?<=[\w)])\^([^\s^]{1,40})\^(?!\w)")
_LOWERED = re.compile(r"(?<=[\w)])~([\w+-]{1,20})~")
_STRUCK = re.compile(r"(?<![\w~/])~(?=[^\s~/])([^~\n]{1,500}?)(?<=[^\s~])~(?![\w~/])")
_FORMULA = re.compile(r"[\\^_={}<>]")


class InlineWriter:
    """Writes inline elements, and counts what it leaves out.

    Args:
        text: What the texts are for; it has the counts.
        on_note: Is called with each mark of a note; returns what is shown.
    """

    def __init__(self, text: TextBuilder, on_note: Callable[[dict[str, Any]], str]) -> None:
        self._left_out = text.left_out
        self._on_note = on_note

    def write(self, node: SyntaxTreeNode, *, has_code: bool = True) -> str:
        """Return the text of inline elements; line ends are those of the file."""
        token = node.token
        if token is None or not token.children:
            return ""
        return _Run(self._left_out, self._on_note, has_code=has_code).write(token)


class _Run:
    """The text of one block, written token by token."""

    def __init__(
        self,
        left_out: Counter[str],
        on_note: Callable[[dict[str, Any]], str],
        *,
        has_code: bool,
    ) -> None:
        self._left_out = left_out
        self._on_note = on_note
        self._has_code = has_code
        self._pieces: list[str] = []
        self._tags: list[tuple[str, str, int]] = []
        """Elements that are open: name, attributes, and the number of pieces before them."""
        self._struck: list[int] = []
        self._links: list[int] = []
        self._references: list[bool] = []
        """Of emphasis that is open, whether it is the marks of two references."""
        self._kinds: dict[str, Callable[[Token], None]] = {
            "html_inline": self._tag,
            "softbreak": lambda _: self._pieces.append("\n"),
            "hardbreak": lambda _: self._pieces.append(f"{BREAK}\n"),
            "s_open": lambda _: self._struck.append(len(self._pieces)),
            "s_close": lambda _: self._leave_out(self._struck.pop(), STRUCK),
            "link_open": lambda _: self._links.append(len(self._pieces)),
            "link_close": lambda _: self._links.clear(),
            "image": self._picture,
            "embed": self._embed,
            "footnote_ref": lambda child: self._pieces.append(self._on_note(child.meta)),
            "math_inline": lambda child: self._pieces.append(_formula(child)),
            "math_inline_double": lambda child: self._pieces.append(_formula(child)),
        }

    def write(self, token: Token) -> str:
        """Return the text of the tokens in one."""
        pieces = self._pieces
        tokens = token.children or []
        at = 0
        for before, child in zip([None, *tokens], tokens, strict=False):
            mark = _reference_mark(before, child, self._references)
            if mark is not None:
                pieces[-1] = _ADDRESS.sub("", pieces[-1].replace("`", ""))
            if child.type == "code_inline":
                at = _write_code(pieces, child, token.content, at, has_code=self._has_code)
            elif child.type in self._kinds:
                self._kinds[child.type](child)
            elif child.content:
                pieces.append(self._words(child.content.removeprefix(mark or "")))
        words = "".join(pieces)
        has_open_code = any(name in _CODE_TAGS for name, _, _ in self._tags)
        return words + "`" * (words.count("`") % 2 if has_open_code else 0)

    def _words(self, words: str) -> str:
        """Return plain text as it is shown."""
        words = _INLINE_ATTRIBUTES.sub("", words)
        if "^" in words:
            words = _LONE_MARK.sub(r"[\1]", words)
            words = _RAISED.sub(lambda found: raised(found[1], _before(found)), words)
        if "~" in words:
            words = _LOWERED.sub(lambda found: lowered(found[1], _before(found)), words)
            words, count = _STRUCK.subn("", words)
            self._left_out[STRUCK] += count
        return without_left_over_roles(words)

    def _picture(self, child: Token) -> None:
        is_linked = bool(self._links) and not "".join(self._pieces[self._links[-1] :])
        is_badge = is_linked and is_sign(str(child.attrs.get("src") or ""))
        words = picture_text(child.content, is_sign=is_badge)
        if not words:
            self._left_out[PICTURES] += not (is_badge and child.content)
        self._pieces.append(words + LINE_END * child.content.count("\n"))

    def _embed(self, child: Token) -> None:
        self._left_out[PICTURES if child.meta["is_picture"] else "embedded files"] += 1

    def _leave_out(self, start: int, kind: str) -> None:
        """Take the pieces from one on away, without their line ends."""
        words = "".join(self._pieces[start:])
        self._left_out[kind] += any(map(str.isalnum, words))
        self._pieces[start:] = [LINE_END * (words.count("\n") + words.count(LINE_END))]

    def _tag(self, child: Token) -> None:
        """Add what stands for a tag inside a text: a line break, backticks around code, `; ` between items."""
        html, pieces = child.content, self._pieces
        tag = _TAG.match(html)
        name = tag[2].lower() if tag else ""
        if name == "br":
            pieces.append(f"{BREAK} ")
        elif html == "</li>":
            pieces.append("; ")
        elif html in ("</ul>", "</ol>") and pieces[-2:-1] == ["; "]:
            del pieces[-2:]
        elif tag and name == "img":
            words = picture_text(attributes(tag[3]).get("alt", ""))
            self._left_out[PICTURES] += not words
            pieces.append(words)
        elif tag and name not in _EMPTY and not tag[3].endswith("/"):
            self._element(tag)
        pieces.append(LINE_END * html.count("\n"))

    def _element(self, tag: re.Match[str]) -> None:
        """Open or close an element."""
        name = tag[2].lower()
        if name in _CODE_TAGS and self._has_code:
            self._pieces.append("`")
        if not tag[1]:
            self._tags.append((name, tag[3], len(self._pieces)))
            return
        at = max((at for at, each in enumerate(self._tags) if each[0] == name), default=-1)
        if at >= 0:
            _, stated, start = self._tags[at]
            del self._tags[at:]
            self._close(name, stated, start)

    def _close(self, name: str, stated: str, start: int) -> None:
        """Change the text of an element that ends."""
        kind = hides(name, stated)
        if kind:
            self._leave_out(start, kind)
            return
        name = style_position(attributes(stated).get("style", "")) or name
        if name in _CHANGED:
            pieces = self._pieces
            before = next((each for each in reversed(pieces[:start]) if each.strip(LINE_END)), "")
            pieces[start:] = [_changed(name, "".join(pieces[start:]), before, attributes(stated))]


def _before(found: re.Match[str]) -> str:
    return found.string[found.start() - 1]


def attributes(stated: str) -> dict[str, str]:
    """Return the attributes of a tag; those without a value are empty."""
    return {
        (found[1] or found[5]).lower(): found[2] or found[3] or found[4] or ""
        for found in _ATTRIBUTE.finditer(stated)
    }


def hides(name: str, stated: str) -> str:
    """Return as what an element with some attributes is left out; empty if it is shown."""
    values = attributes(stated)
    style = values.get("style", "")
    if name in _STRUCK_TAGS or is_struck_style(style):
        return STRUCK
    return HIDDEN if "hidden" in values or name == "template" or is_hidden_style(style) else ""


def _changed(name: str, words: str, before: str, values: dict[str, str]) -> str:
    if name == "sup":
        return raised(words, before)
    if name == "sub":
        return lowered(words, before)
    if name == "q":
        return f"\u201c{words}\u201d"
    if name == "rt":
        return f"({words.strip()})"
    title = collapse_spaces(values.get("title", ""))
    if name == "abbr":
        return f"{words} ({title})" if title and title != words else words
    return ""


def _formula(child: Token) -> str:
    """Return a formula without the dollars around it; with them if it may be prices."""
    words = " ".join(child.content.split())
    is_formula = _FORMULA.search(words) or " " not in words or len(words) < 4
    shown = words if is_formula else f"{child.markup}{words}{child.markup}"
    return shown + LINE_END * child.content.count("\n")


def _reference_mark(before: Token | None, child: Token, references: list[bool]) -> str | None:
    """Return the marks of a reST reference after code, which may be read as emphasis; else None."""
    after_code = before is not None and before.type == "code_inline"
    if child.type in ("em_open", "strong_open"):
        references.append(after_code and child.markup[0] == "_")
        return child.markup if references[-1] else None
    if child.type in ("em_close", "strong_close"):
        return child.markup if references.pop() and after_code else None
    found = _REFERENCE_MARK.match(child.content) if after_code else None
    return found[0] if found else None


def _write_code(pieces: list[str], child: Token, raw: str, at: int, *, has_code: bool) -> int:
    """Add inline code, with the line ends that the parser made spaces; return where the search goes on."""
    pattern = r"[ \n]".join(map(re.escape, child.content.split(" ")))
    found = re.compile(pattern).search(raw, at)
    broken = found[0].count("\n") if found else 0
    role = _ROLE.search(pieces[-1]) if pieces else None
    words, is_code = child.content, has_code
    if role:
        pieces[-1] = pieces[-1][: role.start()]
        words, shows_code = shown_role(role[1] or role[2], child.content)
        is_code = has_code and shows_code
    pieces.append((code_span(words) if is_code else words) + LINE_END * broken)
    return found.end() if found else at
