"""Part what a mail says from what it quotes of other mails."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Elements that hold what programs quote, and what introduces it.
_QUOTES = (
    "blockquote[type=cite], .gmail_quote, .yahoo_quoted, .moz-cite-prefix, .protonmail_quote, #divRplyFwdMsg,"
    " #divRplyFwdMsg ~ *, #appendonsend ~ *, .gmail_attr"
)
_NOT_SHOWN = "script, style, head, [hidden], [style*='display:none' i], [style*='display: none' i]"
_MARKED = re.compile(r"[ \t]{0,3}>")
_MARKS = re.compile(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
#: A rule with words, as `----- Original Message -----`; one without is followed by fields.
_RULE = re.compile(r"[ \t]*-{2,}[ \t]*\w[^\n]{2,60}?[ \t]*-{2,}[ \t]*")
_UNDERLINES = re.compile(r"[ \t]*_{10,}[ \t]*")
_FIELD = re.compile(r"[ \t]*\*?[^\W\d_][\w .-]{0,24}:\*?[ \t]+\S")
_LEAST_FIELDS = 3
#: Most lines of the words that introduce a quote: `On Monday, Ida wrote:`.
_MAX_INTRODUCTION = 3


class Piece(NamedTuple):
    """Lines of a mail that are its own, or that it quotes."""

    text: str
    is_quoted: bool


def parted_quotes(text: str) -> list[Piece]:
    """Return the pieces of a plain text in order: what is marked by `>` or below a whole message is quoted."""
    lines = text.split("\n")
    end = _cited_from(lines)
    quoted = [bool(_MARKED.match(line)) for line in lines[:end]]
    _join_blank(lines, quoted)
    _add_introductions(lines, quoted)
    quoted += [True] * (len(lines) - end)
    pieces: list[Piece] = []
    begin = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or quoted[at] != quoted[begin]:
            body = "\n".join(lines[begin:at]).strip("\n")
            if body.strip():
                pieces.append(Piece(_MARKS.sub("", body) if quoted[begin] else body, quoted[begin]))
            begin = at
    return pieces


def _cited_from(lines: list[str]) -> int:
    """Return the index of the line from which another message is cited whole; the number of lines if none."""
    for at, line in enumerate(lines):
        if _RULE.fullmatch(line) and any(_FIELD.match(each) for each in lines[at + 1 : at + 4]):
            return at
        before = lines[at - 1].strip() if at else "-"
        is_apart = not before or bool(_UNDERLINES.fullmatch(before))
        if at and is_apart and _FIELD.match(line):
            fields = lines[at : at + _LEAST_FIELDS]
            is_head = len(fields) == _LEAST_FIELDS and all(map(_FIELD.match, fields))
            if is_head and any("@" in each or "mailto:" in each for each in lines[at : at + 5]):
                return at - bool(_UNDERLINES.fullmatch(before))
    return len(lines)


def _join_blank(lines: list[str], quoted: list[bool]) -> None:
    """Let blank lines between two quoted ones be quoted."""
    last = -1
    for at, is_quoted in enumerate(quoted):
        if not is_quoted:
            continue
        if last >= 0 and not any(line.strip() for line in lines[last + 1 : at]):
            quoted[last:at] = [True] * (at - last)
        last = at


def _add_introductions(lines: list[str], quoted: list[bool]) -> None:
    """Let the words that introduce a quote, which end in a colon above it, be part of it."""
    for at in range(1, len(quoted)):
        if not quoted[at] or quoted[at - 1]:
            continue
        end = at - 1
        while end > 0 and not lines[end].strip():
            end -= 1
        if not lines[end].rstrip().endswith((":", "\uff1a")):
            continue
        begin = end
        while begin > 0 and end - begin < _MAX_INTRODUCTION and lines[begin - 1].strip():
            begin -= 1
        if end - begin < _MAX_INTRODUCTION:
            quoted[begin:at] = [True] * (at - begin)


def cut_html_quotes(source: str) -> tuple[str, str]:
    """Return the HTML of a mail without what it quotes, and that; both without what is not shown."""
    from selectolax.lexbor import LexborHTMLParser

    from whence.ingest.html_limits import refuse_costly, refuse_deep

    refuse_costly(source)
    page = LexborHTMLParser(source)
    refuse_deep(page)
    for node in page.css(_NOT_SHOWN):
        node.decompose()
    quotes: list[str] = []
    while (found := page.css_first(_QUOTES)) is not None:
        quotes.append(found.html or "")
        found.decompose()
    return (page.body.html or "") if page.body else "", "".join(quotes)
