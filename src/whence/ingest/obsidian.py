"""Read what notes of Obsidian add to Markdown: links between pages, marked text, comments and ids of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from whence.text.spans import Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

_LINK = re.compile(
    r"!?\[\[([^\[\]|#\n]{0,500})((?:#[^\[\]|#\n]{0,500}){0,8})(?:\|([^\[\]\n]{0,500}))?\]\](?!\()"
)
_MARKED = re.compile(r"==(?=[^\s=])([^\n]{1,2000}?)(?<=[^\s=])==(?![\w=])")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif)$", re.IGNORECASE)
#: Where a comment may begin and end; between two words `%%` is text.
_COMMENT_MARK = re.compile(r"(?<![%\w])%%(?!%)|(?<!%)%%(?![%\w])|<!--|-->")
_FENCE = re.compile(r"[ \t>]*(```+|~~~+)")
_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]{0,2000}?(?<!`)\1(?!`)")
#: The id of a block at its end; a sign with one letter or a number is a power.
_BLOCK_ID = re.compile(r"(?:^|(?<=\s))\^(?=[\w-]*[A-Za-z-])[A-Za-z0-9-]{2,60}[ \t]*$")


def add_obsidian_rules(parser: MarkdownIt) -> None:
    """Let a parser read links between pages and marked text; tokens are `wikilink`, `embed` and `text`."""
    parser.inline.ruler.before("link", "wikilink", _read_link)
    parser.inline.ruler.before("emphasis", "marked", _read_marked)


def without_block_id(text: str) -> str:
    """Return the text of a block without the id at its end.

    >>> without_block_id("Of note. ^quote-1"), without_block_id("Grows as n ^2")
    ('Of note. ', 'Grows as n ^2')
    """
    found = _BLOCK_ID.search(text) if "^" in text else None
    return text[: found.start()] if found else text


def without_comments(text: str) -> tuple[str, int]:
    """Return Markdown without comments, with as many lines, and how many of those of Obsidian had words.

    Comments are `%% like this %%` and `<!-- this -->`; both may contain blocks. Code has none.
    Cost: linear in the text.
    """
    if text.count("%%") < 2 and "<!--" not in text:
        return text, 0
    inside = _in_code(text)
    pieces: list[str] = []
    done = count = 0
    for start, end in _comments(text, inside):
        hidden = text[start:end]
        count += hidden[0] == "%" and any(map(str.isalnum, hidden))
        pieces += (text[done:start], "\n" * hidden.count("\n"))
        done = end
    return "".join([*pieces, text[done:]]), count


def _comments(text: str, inside: bytearray) -> Iterator[Span]:
    """Yield the places of comments outside code."""
    marks = [found.span() for found in _COMMENT_MARK.finditer(text) if not inside[found.start()]]
    opened: Span | None = None
    for begin, end in marks:
        sign = text[begin:end]
        opens = sign == "<!--" or (sign == "%%" and not (begin and text[begin - 1].isalnum()))
        if opened is not None and sign == ("%%" if text[opened[0]] == "%" else "-->"):
            yield opened[0], end
            opened = None
        elif opened is None and opens:
            opened = begin, end


def _in_code(text: str) -> bytearray:
    """Return 1 for each character in code, else 0."""
    code = [found.span() for found in _CODE.finditer(text)]
    fence = ""
    start = 0
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            code.append((start, start + len(line)))
        if found and (not fence or (found[1].startswith(fence) and not line.strip().strip("`~> "))):
            fence = "" if fence else found[1]
        start += len(line) + 1
    inside = bytearray(len(text) + 1)
    for begin, end in code:
        inside[begin:end] = b"\1" * (end - begin)
    return inside


def _read_link(state: StateInline, silent: bool) -> bool:
    """Read `[[Page#Heading|words]]`, and `![[Page]]`, which embeds what it names."""
    if state.src[state.pos] not in "![":
        return False
    found = _LINK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    page, heading, words = found[1].strip(), found[2], (found[3] or "").strip()
    if not (page or heading.strip("#")) or found[1][:1].isspace():
        return False
    if not silent:
        is_embed = state.src[state.pos] == "!"
        token = state.push("embed" if is_embed else "wikilink", "", 0)
        parts = [each.strip() for each in heading.split("#") if each.strip() and each[0] != "^"]
        token.content = words or " > ".join(chain(filter(None, [page]), parts))
        token.meta = {"is_picture": is_embed and bool(_PICTURE.search(page))}
    state.pos = found.end()
    return True


def _read_marked(state: StateInline, silent: bool) -> bool:
    """Read `==words==`, which are shown on a colored ground."""
    at = state.pos
    if not state.src.startswith("==", at) or (
        at and (state.src[at - 1].isalnum() or state.src[at - 1] == "=")
    ):
        return False
    found = _MARKED.match(state.src, at, state.posMax)
    if found is None:
        return False
    if not silent:
        end, state.pos, state.posMax = state.posMax, found.start(1), found.end(1)
        state.md.inline.tokenize(state)
        state.posMax = end
    state.pos = found.end()
    return True
