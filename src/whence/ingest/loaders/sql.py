"""SQL to blocks: one section for each statement that makes or changes something with a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from whence.ingest.blocks import Block, ParsedDocument
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import file_document
from whence.ingest.loaders.front_matter import FrontMatter
from whence.ingest.sources import SourceFile
from whence.text.spans import Span, lines, spans_between

__all__ = ("SqlStatement", "ends_batch", "load_sql", "sql_blocks", "sql_statements")

#: The separator of batches of SQL Server's tools, on a line of its own.
_BATCH = re.compile(r"^[ \t]*GO[ \t]*(?:\d+[ \t]*)?;?[ \t]*$", re.IGNORECASE | re.MULTILINE)
#: What ends something and begins nothing.
_NOTHING = re.compile(r"(?:GO|[\W\d])*", re.IGNORECASE)
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
#: What a semicolon can stand in without ending a statement, the semicolon, and the words that open and close
#: the bodies of procedures. A doubled quote reads like two texts side by side.
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
    """What it creates or alters, a word in lower case as `table` or `proc`; empty when nothing with a name."""
    name: tuple[str, ...]
    """The parts of the name, without quotes; empty as `kind` is."""


def load_sql(file: SourceFile, data: bytes) -> ParsedDocument:
    """Read one file of SQL. Its title is its path.

    Raises:
        BadInput: The bytes are no text.
    """
    text, encoding = decode_text(data)
    return file_document(
        file, text, FrontMatter(), sql_blocks(text), title=file.document_id, encoding=encoding
    )


def sql_blocks(text: str) -> tuple[Block, ...]:
    r"""Return the blocks of SQL; line ends must be `\n`.

    A statement that creates or alters something stands below its qualified name, without quotes; all others
    stand below none. Cost is linear in the text.
    """
    blocks: list[Block] = []
    for span in _statements(text):
        path = _path(text, span)
        if blocks and _NOTHING.fullmatch(text, *span):
            path = blocks[-1].path
        blocks.append(Block("whole", path, tuple(lines(text, *span))))
    return tuple(blocks)


def sql_statements(text: str) -> Iterator[SqlStatement]:
    r"""Yield statements and what each makes; line ends must be `\n`. Cost is linear in the text."""
    for span in _statements(text):
        if _NOTHING.fullmatch(text, *span):
            continue
        named = _named(text, span)
        if named is None:
            yield SqlStatement(span, "", ())
        else:
            yield SqlStatement(span, " ".join(named["kind"].lower().split()), _parts(named))


def ends_batch(text: str, start: int, end: int) -> bool:
    """Return whether a batch of SQL Server's tools ends between two places."""
    return _BATCH.search(text, start, end) is not None


def _path(text: str, span: Span) -> tuple[str, ...]:
    named = _named(text, span)
    return (".".join(_parts(named)),) if named else ()


def _named(text: str, span: Span) -> re.Match[str] | None:
    comments = _COMMENTS.match(text, *span)
    return _NAMED.match(text, comments.end() if comments else span[0], span[1])


def _parts(named: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip('"[]`') for part in _PARTS.findall(named["name"]))


def _statements(text: str) -> Iterator[Span]:
    """Yield the statements with the comments above them; the line between two batches ends the first."""
    start = 0
    for border in (*(found.end() for found in _BATCH.finditer(text)), len(text)):
        yield from spans_between(text, start, border, _ends(text, start, border))
        start = border


def _ends(text: str, start: int, stop: int) -> Iterator[int]:
    """Yield where the statements of a batch end. Only bodies of routines hold semicolons of their own."""
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
    comments = _COMMENTS.match(text, begin, stop)
    return bool(_ROUTINE.match(text, comments.end() if comments else begin, stop))
