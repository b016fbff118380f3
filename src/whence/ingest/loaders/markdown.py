"""Load Markdown: CommonMark with tables and front matter; headings begin sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from whence.ingest.blocks import (
    Block,
    Outline,
    ParsedDocument,
    heading_path,
    line_places,
    prose_blocks,
    push_heading,
)
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import MAX_HEADING, build_document, shorten
from whence.ingest.front_matter import read_front_matter
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.text.sentences import sentence_spans
from whence.text.spans import Span, lines, spans_between, trimmed

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LISTS = ("bullet_list_open", "ordered_list_open")
_LINE_BLOCKS = ("table_open", "fence", "code_block", "html_block")
#: A longer list item, in characters, may be split between sentences.
_LONG_ITEM = 600


def load_markdown(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a Markdown file; its title is that of the front matter, else the first top-level heading."""
    text, encoding = decode_text(data)
    front = read_front_matter(text)
    blocks = markdown_blocks(text, front.end)
    tops = (block.path[0] for block in blocks if block.kind == "heading" and len(block.path) == 1)
    return build_document(
        file,
        text,
        blocks,
        front=front,
        title=next(tops, ""),
        encoding=encoding,
        places=line_places(text, blocks),
    )


def markdown_blocks(text: str, start: int = 0) -> tuple[Block, ...]:
    r"""Return the blocks of Markdown that begins at offset `start`; line ends must be `\n`.

    Text without an element of its own, such as link definitions, becomes prose. Cost is linear in the text.
    """
    body = text[start:]
    offsets = list(accumulate((len(line) + 1 for line in body.split("\n")), initial=start))
    tokens = _block_parser().parse(body)
    blocks: list[Block] = []
    outline: Outline = []
    end = start
    for index, token in enumerate(tokens):
        span = _span_of(token, text, offsets)
        if span is None or token.level or span[0] < end:
            continue
        blocks += prose_blocks(text, end, span[0], heading_path(outline))
        end = span[1]
        title = _heading_text(tokens[index + 1]) if token.type == "heading_open" else ""
        if title:
            level = int(token.tag[1:])
            outline = push_heading(outline, level, title)
            blocks.append(Block("heading", heading_path(outline), (span,)))
        else:
            blocks.append(
                _body_block(tokens, index, text, span, offsets)._replace(path=heading_path(outline))
            )
    return (*blocks, *prose_blocks(text, end, len(text), heading_path(outline)))


def _body_block(
    tokens: Sequence[Token], index: int, text: str, span: Span, offsets: Sequence[int]
) -> Block:
    kind = tokens[index].type
    if kind in _LINE_BLOCKS:
        return Block("atomic", (), tuple(lines(text, *span)))
    if kind in _LISTS:
        borders = sorted(set(_item_starts(tokens, index, offsets)))
        parts = (
            part
            for item in spans_between(text, *span, borders)
            for part in (sentence_spans(text, *item) if item[1] - item[0] > _LONG_ITEM else (item,))
        )
        return Block("atomic", (), tuple(parts))
    return Block("prose", (), tuple(sentence_spans(text, *span)))


def _item_starts(tokens: Sequence[Token], index: int, offsets: Sequence[int]) -> Iterator[int]:
    """Yield the offsets of the items of the list at `index`, with those of nested lists."""
    for token in tokens[index + 1 :]:
        if token.level == 0:
            return
        if token.type == "list_item_open" and token.map:
            yield offsets[token.map[0]]


def _span_of(token: Token, text: str, offsets: Sequence[int]) -> Span | None:
    if token.map is None or token.nesting < 0:
        return None
    first, after = token.map
    return trimmed(text, offsets[first], min(offsets[after], len(text)))


def _heading_text(inline: Token) -> str:
    if len(inline.content) > 5 * MAX_HEADING:
        return shorten(inline.content[: 5 * MAX_HEADING], MAX_HEADING)
    (parsed,) = _inline_parser().parseInline(inline.content)
    words = (
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in parsed.children or ()
        if child.type != "html_inline"
    )
    return shorten("".join(words), MAX_HEADING)


@cache
def _block_parser() -> MarkdownIt:
    """Return a parser that skips inline markup: only headings need it."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


LOADERS = (Loader(name="Markdown", suffixes=(".md", ".markdown"), parse_file=load_markdown),)
