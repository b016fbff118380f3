"""What a loader hands to the chunker: a text and the blocks it is made of."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from whence.schema.access import DocumentTags
from whence.text.sentences import sentence_spans
from whence.text.spans import Span, paragraphs

__all__ = ("Block", "BlockKind", "Outline", "ParsedDocument", "outlined", "path_of", "prose_blocks")

BlockKind = Literal["heading", "prose", "whole"]

#: Headings in force with their levels, the top one first.
Outline = list[tuple[int, str]]


class Block(NamedTuple):
    """A heading, a paragraph, or a list, table or piece of code."""

    kind: BlockKind
    """`whole` is kept in one chunk when it fits; sentences of `prose` may overlap."""
    path: tuple[str, ...]
    """Headings in force, the top one first; of a heading: itself included."""
    parts: tuple[Span, ...]
    """Where it may be cut: sentences, items, rows or lines, in order; none blank, at least one."""


class ParsedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was read and not yet cut."""

    document_id: str
    shown: str
    """Where it was read, for people; of a record with `:LINE`."""
    text: str
    blocks: tuple[Block, ...]
    """In order, without overlap; every character that is not blank, front matter aside, is in a part."""
    title: str = ""
    """Its own title, when it has one."""
    fallback: str = ""
    """Stands for a heading where there is none; never empty when there are blocks."""
    tags: DocumentTags = DocumentTags()
    """Its own rights."""
    source_file: str = ""
    source_url: str = ""
    metadata: dict[str, Any] = {}
    pages: tuple[int, ...] = ()
    """Where each page begins in the text, in order; empty for documents without pages."""


def prose_blocks(text: str, start: int, end: int, path: tuple[str, ...] = ()) -> tuple[Block, ...]:
    """Return the paragraphs of plain text, each cut into sentences."""
    return tuple(
        Block("prose", path, tuple(sentence_spans(text, *span)))
        for span in paragraphs(text, start, end)
    )


def outlined(outline: Outline, level: int, title: str) -> Outline:
    """Return the headings in force after one more: it ends those of its own level and below."""
    return [*(item for item in outline if item[0] < level), (level, title)]


def path_of(outline: Outline) -> tuple[str, ...]:
    """Return the headings without their levels."""
    return tuple(title for _, title in outline)
