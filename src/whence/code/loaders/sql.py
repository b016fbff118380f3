"""Load SQL: one section for each statement that creates or alters a named object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from whence.ingest.blocks import Block, ParsedDocument, line_places
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.text.spans import Span, lines, spans_between

#: The batch separator of SQL Server's tools, on a line of its own.
BATCH_END = re.compile(
    r"^[ \t]*+GO[ \t]*+(?:\d++[ \t]*+)?(?:;[ \t]*+)?$", re.IGNORECASE | re.MULTILINE
)
#: Text without a statement, after the end of one.
_NO_STATEMENT = re.compile(r"(?:GO|[\W\d])*", re.IGNORECASE)
_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_WORD = r"""(?:"[^"]+"|\[[^\]]+\]|`[^`]+`|[\w$#@]+)"""
_NAMED = re.compile(
    rf"""(?ix)(?:create|alter)\s+(?:or\s+(?:replace|alter)\s+)?
    (?:(?:global|local|temp|temporary|unlogged|unique|clustered|nonclustered|materialized|recursive|external
       |foreign|constraint|definer\s*=\s*\S+|editionable|force)\s+)*
    (?P<kind>table|view|index|function|procedure|proc|trigger|type|schema|sequence|domain|database|role|user
       |package(?:\s+body)?|aggregate|extension|policy|rule|event|synonym)\s+
    (?:concurrently\s+)?(?:if\s+(?:not\s+)?exists\s+)?(?:only\s+)?
    (?P<name>{_WORD}(?:\s*\.\s*{_WORD})*)"""
)
_PARTS = re.compile(_WORD)
#: Literals and comments, in which a semicolon does not end a statement; the semicolon; and the keywords that
#: open and close the bodies of procedures. A doubled quote matches as two adjacent strings.
_TOKEN = re.compile(
    r"""(?isx)'[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | `[^`]*(?:`|\Z)
    | --[^\n]* | /\*.*?(?:\*/|\Z) | (?P<tag>\$\w*\$).*?(?:(?P=tag)|\Z)
    | (?P<end>;) | \b(?P<open>begin(?!\s+tran|\s+work|\s*;)|case)\b
    | \b(?P<close>end)\b(?!\s+(?:if|loop|while|repeat)\b)"""
)
_ROUTINE = re.compile(
    r"""(?ix)(?:create|alter)\b[^;(]{0,200}?\b(?:procedure|proc|function|trigger|package|event)\b
    | begin\b(?!\s+tran|\s+work|\s*;) | declare\b"""
)


class SqlStatement(NamedTuple):
    """A statement with the comments above it."""

    span: Span
    kind: str
    """Kind of the object that it creates or alters, in lower case, as `table` or `proc`; else empty."""
    name: tuple[str, ...]
    """Parts of the object's name, without quotes; empty if `kind` is."""


def load_sql(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of SQL; its title is its path."""
    decoded = decode_text(data, file.encoding)
    text = decoded.text
    blocks = sql_blocks(text)
    places = line_places(text, blocks)
    return build_document(
        file,
        text,
        blocks,
        title=file.document_id,
        encoding=decoded.encoding,
        places=places,
        left_out=decoded.left_out,
        is_preformatted=True,
    )


def sql_blocks(text: str) -> tuple[Block, ...]:
    r"""Return the blocks of SQL; line ends must be `\n`.

    The heading path of a statement that creates or alters an object is the qualified name of the object,
    without quotes; that of others is empty. Cost is linear in the text.
    """
    blocks: list[Block] = []
    for span in _statements(text):
        named = _named(text, span)
        path: tuple[str, ...] = (".".join(_parts(named)),) if named else ()
        if blocks and _NO_STATEMENT.fullmatch(text, *span):
            path = blocks[-1].path
        blocks.append(Block("atomic", path, tuple(lines(text, *span))))
    return tuple(blocks)


def sql_statements(text: str) -> Iterator[SqlStatement]:
    r"""Yield the statements; line ends must be `\n`. Cost is linear in the text."""
    for span in _statements(text):
        if _NO_STATEMENT.fullmatch(text, *span):
            continue
        named = _named(text, span)
        if named is None:
            yield SqlStatement(span, "", ())
        else:
            yield SqlStatement(span, " ".join(named["kind"].lower().split()), _parts(named))


def skip_comments(text: str, start: int, end: int) -> int:
    """Return the offset after the comments and the space at `start`."""
    comments = _COMMENTS.match(text, start, end)
    return comments.end() if comments else start


def _named(text: str, span: Span) -> re.Match[str] | None:
    return _NAMED.match(text, skip_comments(text, *span), span[1])


def _parts(named: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip('"[]`') for part in _PARTS.findall(named["name"]))


def _statements(text: str) -> Iterator[Span]:
    """Yield the statements with the comments above them; a batch separator belongs to the batch before it."""
    start = 0
    for border in (*(found.end() for found in BATCH_END.finditer(text)), len(text)):
        yield from spans_between(text, start, border, _ends(text, start, border))
        start = border


def _ends(text: str, start: int, stop: int) -> Iterator[int]:
    """Yield the ends of the statements of a batch; only bodies of routines contain semicolons."""
    begin, depth = start, 0
    for token in _TOKEN.finditer(text, start, stop):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "end" and (depth == 0 or not _is_routine(text, begin, stop)):
            begin, depth = token.end(), 0
            yield begin


def _is_routine(text: str, begin: int, stop: int) -> bool:
    return bool(_ROUTINE.match(text, skip_comments(text, begin, stop), stop))


LOADERS = (Loader(name="SQL", suffixes=(".sql",), parse_file=load_sql, is_plain=True, version="2"),)
