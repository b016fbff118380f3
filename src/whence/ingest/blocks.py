"""The result of a loader: a text and its blocks, the input of the chunker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.places import Place
from whence.text.sentences import sentence_spans
from whence.text.spans import Span, paragraphs

BlockKind = Literal["heading", "prose", "atomic"]

#: The current headings with their levels, the top one first.
Outline = list[tuple[int, str]]


class Block(NamedTuple):
    """A heading, a paragraph, or a list, table or piece of code."""

    kind: BlockKind
    """`atomic` blocks are kept in one chunk if they fit; chunks of `prose` overlap by sentences."""
    path: tuple[str, ...]
    """Headings above the block, the top one first; a heading includes itself."""
    parts: tuple[Span, ...]
    """Sentences, items, rows or lines, in order; at least one, none blank. Chunks begin and end at parts."""
    items: tuple[int, ...] = ()
    """Indexes of the parts that begin an item, a row or a paragraph of code; an item that fits is kept in one
    chunk. Empty: each part is one."""
    leads: tuple[tuple[Span, ...], ...] = ()
    """For each part the header of its table or the terms of its definition, if they stand before it: they are
    embedded with a chunk that begins at the part. Empty when no part has any."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A document inside another one: an attachment of a mail."""

    name: str
    """File name without folders; its id is that of the document, `/` and this name."""
    data: bytes


class ParsedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document before it is split into chunks."""

    document_id: str
    display_path: str
    """Its path, for display; of a record with `:LINE`."""
    text: str
    blocks: tuple[Block, ...]
    """In order, without overlap; every character that is not blank or front matter is in a part."""
    title: str = ""
    fallback_title: str = ""
    """Heading of chunks without one; not empty if there are blocks."""
    tags: DocumentTags = DocumentTags()
    source_file: str = ""
    source_url: str = ""
    metadata: dict[str, Any] = {}
    places: tuple[Place, ...] = ()
    """Where the parts of the text stand in the file, by offset; empty when the format has no such places."""
    date: str = ""
    """Its own date, ISO 8601, e.g. of its front matter or its properties; empty when it states none."""
    encoding: str = ""
    """Encoding of the file when it is not UTF-8 or is damaged; it ends with `?` if it is an uncertain guess."""
    left_out: dict[str, int] = {}
    """What the loader saw and did not take, e.g. `{"pictures": 3}`, by kind in the plural; counts from 1."""
    members: tuple[Member, ...] = ()
    """Documents inside it, which are read for themselves; their names differ."""


def prose_blocks(text: str, start: int, end: int) -> tuple[Block, ...]:
    """Return the paragraphs of plain text as blocks of sentences."""
    return tuple(
        Block("prose", (), tuple(sentence_spans(text, *span)))
        for span in paragraphs(text, start, end)
    )


def line_places(text: str, blocks: Iterable[Block]) -> tuple[Place, ...]:
    """Return the places of all parts of a text that has the lines of its file. Cost: linear in the text."""
    places: list[Place] = []
    done, line = 0, 1
    for start, end in (span for block in blocks for span in block.parts):
        first = line + text.count("\n", done, start)
        done, line = end, first + text.count("\n", start, end)
        if not places or (places[-1].line_start, places[-1].line_end) != (first, line):
            places.append(Place(char_start=start, line_start=first, line_end=line))
    return tuple(places)


def push_heading(outline: Outline, level: int, title: str) -> Outline:
    """Return the outline after a heading, which ends those of its level and below."""
    return [*(item for item in outline if item[0] < level), (level, title)]


def heading_path(outline: Outline) -> tuple[str, ...]:
    """Return the headings without their levels."""
    return tuple(title for _, title in outline)
