"""Cutting a document into chunks that fit the embedding model, along the borders its author set.

A chunk lies within one section; it begins with the heading when it is the section's first. Paragraphs,
lists, tables and code stay whole when they fit, sentences when their paragraph does not; a longer
sentence is cut between words. Chunks of running prose share a sentence or two at their border, so that a
thought that crosses it is found from both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from whence.ingest.blocks import Block, BlockKind, ParsedDocument
from whence.schema.errors import ConfigError
from whence.schema.ingest import ChunkDraft
from whence.text.spans import Span, slices

__all__ = ("DEFAULT_MAX_TOKENS", "SPECIAL_TOKENS", "Chunker", "TokenCounter")

#: Counts tokens per text, special ones left out, as `Embedder.count_tokens` does; never more than its bytes.
TokenCounter = Callable[[Sequence[str]], list[int]]

#: The window of MiniLM; a longer one makes chunks whose vectors mean little of anything.
DEFAULT_MAX_TOKENS = 256
#: Tokens a model puts around a text, `[CLS]` and `[SEP]`.
SPECIAL_TOKENS = 2
_SMALLEST_WINDOW = 16
#: A text with more characters for each token of the window is not worth measuring as a whole.
_CHARACTERS_PER_TOKEN = 4.5
#: Grows when the same numbers cut in other places.
_VERSION = 1


class _Part(NamedTuple):
    """A stretch that is not cut further, measured."""

    span: Span
    tokens: int
    block: int
    kind: BlockKind


class _Section(NamedTuple):
    """Blocks that may share a chunk."""

    path: tuple[str, ...]
    header: str
    room: int
    """Tokens left for the content below the header."""
    blocks: tuple[Block, ...]


class _Piece(NamedTuple):
    """A chunk to be: where it lies, and what it belongs to."""

    span: Span
    section: _Section


class Chunker:
    """Cuts documents into chunks sized in tokens of the embedding model.

    What is embedded is title, section path and content. A header that would take more than a quarter
    of the window is shortened to the section path, then to the heading, then left out.

    Args:
        count_tokens: Counts tokens of several texts in one call; called about three times a document,
            more often only where words are longer than the window.
        max_tokens: Window of the model, special tokens included, 16 or more.
        overlap_tokens: Most tokens that two chunks share, 0 to half the window.

    Raises:
        ConfigError: A number is out of range.
    """

    def __init__(
        self,
        count_tokens: TokenCounter,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        overlap_tokens: int = 32,
    ) -> None:
        if max_tokens < _SMALLEST_WINDOW:
            raise ConfigError(f"max_tokens must be {_SMALLEST_WINDOW} or more, not {max_tokens}")
        if not 0 <= overlap_tokens <= max_tokens // 2:
            raise ConfigError(
                f"overlap_tokens must be 0 to {max_tokens // 2}, half of max_tokens, not {overlap_tokens}"
            )
        self._count = count_tokens
        self._limit = max_tokens - SPECIAL_TOKENS
        self._overlap = overlap_tokens

    @property
    def signature(self) -> str:
        """What makes it cut where it does, the tokenizer left out."""
        return f"{_VERSION} {self._limit} {self._overlap}"

    def cut(self, document: ParsedDocument) -> tuple[ChunkDraft, ...]:
        """Return the chunks of a document in order of their start; none when it has no text.

        Each content is `text[start:end]`, begins and ends with a character that is not blank, and
        together they hold every such character of the blocks. Cost is linear in the text.
        """
        groups = list(_sections(document.blocks))
        if len(groups) == 1:
            piece = self._in_one(document, *groups[0])
            if piece is not None:
                return (_draft(document, piece),)
        spans = [span for _, blocks in groups for block in blocks for span in block.parts]
        headers = {path: _headers(document.title, path) for path, _ in groups}
        candidates = [header for choices in headers.values() for header in choices]
        counts = self._count([document.text[slice(*span)] for span in spans] + candidates)
        sizes = dict(zip(spans, counts, strict=False))
        header_sizes = dict(zip(candidates, counts[len(spans) :], strict=True))
        sections = [
            self._section(path, blocks, headers[path], header_sizes) for path, blocks in groups
        ]
        pieces = self._pieces(document.text, sections, sizes)
        return tuple(_draft(document, piece) for piece in self._fitted(document.text, pieces))

    def _in_one(
        self, document: ParsedDocument, path: tuple[str, ...], blocks: tuple[Block, ...]
    ) -> _Piece | None:
        """Return the only chunk of a document that is short enough; measured as a whole, or not at all.

        A record of a few sentences is the common case, and measuring its parts costs more than embedding a
        tenth of it.
        """
        span = (blocks[0].parts[0][0], blocks[-1].parts[-1][1])
        if span[1] - span[0] > _CHARACTERS_PER_TOKEN * self._limit:
            return None
        header = next(iter(_headers(document.title, path)), "")
        piece = _Piece(span, _Section(path, header, 0, blocks))
        embedded = _embedded(document.text, piece)
        # No tokenizer makes more tokens than there are bytes.
        if _bytes(header) <= self._limit // 4 and _bytes(embedded) <= self._limit:
            return piece
        size, header_size = self._count([embedded, header])
        return piece if size <= self._limit and header_size <= self._limit // 4 else None

    def _section(
        self,
        path: tuple[str, ...],
        blocks: tuple[Block, ...],
        headers: Sequence[str],
        sizes: dict[str, int],
    ) -> _Section:
        header = next((h for h in headers if sizes[h] <= self._limit // 4), "")
        return _Section(path, header, self._limit - sizes.get(header, 0), blocks)

    def _pieces(
        self, text: str, sections: Sequence[_Section], sizes: dict[Span, int]
    ) -> list[_Piece]:
        smallest = min((section.room for section in sections), default=self._limit)
        cuts = self._refined(text, sizes, smallest)
        return [
            _Piece((first.span[0], last.span[1]), section)
            for section in sections
            for first, last in _packed(_parts(section, cuts, sizes), section.room, self._overlap)
        ]

    def _refined(self, text: str, sizes: dict[Span, int], room: int) -> dict[Span, list[Span]]:
        """Slice the spans that are larger than `room`, note the slices' sizes, and tell them.

        Slices of a quarter of the room leave little of a chunk empty. Each round measures all new
        slices in one call; those that are too large still are sliced again.
        """
        cuts: dict[Span, list[Span]] = {}
        large = [span for span, size in sizes.items() if size > room and span[1] - span[0] > 1]
        while large:
            for span in large:
                cuts[span] = list(slices(text, *span, max(2, 4 * sizes[span] // room)))
            fresh = [part for span in large for part in cuts[span]]
            sizes.update(zip(fresh, self._count([text[slice(*p)] for p in fresh]), strict=True))
            large = [span for span in fresh if sizes[span] > room and span[1] - span[0] > 1]
        return cuts

    def _fitted(self, text: str, pieces: list[_Piece]) -> list[_Piece]:
        """Halve the pieces that are too large after all.

        The parts of a piece were measured one by one, and not every tokenizer adds up.
        """
        fitted: list[_Piece] = []
        while pieces:
            counts = self._count([_embedded(text, piece) for piece in pieces])
            large: list[_Piece] = []
            for piece, count in zip(pieces, counts, strict=True):
                if count <= self._limit or _is_smallest(piece):
                    fitted.append(piece)
                else:
                    large += _halved(text, piece)
            pieces = large
        return list(_outermost(fitted))


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[tuple[str, ...], tuple[Block, ...]]]:
    """Yield the headings in force and the blocks below them.

    Blocks below other headings are another section, also without a heading between them: what follows the last
    method of a class belongs to the class. A heading without text of its own opens the next section: alone it
    would be a chunk that matches its own words and says nothing.
    """
    group: list[Block] = []
    for block in blocks:
        if group and _begins_section(group[-1], block):
            yield _path_of(group), tuple(group)
            group = []
        group.append(block)
    if group:
        yield _path_of(group), tuple(group)


def _begins_section(last: Block, block: Block) -> bool:
    if block.kind == "heading":
        return last.kind != "heading"
    if last.kind == "heading":
        return block.path[: len(last.path)] != last.path
    return block.path != last.path


def _path_of(group: Sequence[Block]) -> tuple[str, ...]:
    body = (block for block in group if block.kind != "heading")
    return next(body, group[-1]).path


def _headers(title: str, path: tuple[str, ...]) -> list[str]:
    """Return what may stand above the content when it is embedded, the most telling first."""
    section = " > ".join(path)
    choices = [section, path[-1]] if path else []
    if title and title != next(iter(path), ""):
        choices.insert(0, f"{title}\n{section}" if section else title)
    return choices


def _parts(section: _Section, cuts: dict[Span, list[Span]], sizes: dict[Span, int]) -> list[_Part]:
    return [
        _Part(span, sizes[span], number, block.kind)
        for number, block in enumerate(section.blocks)
        for part in block.parts
        for span in _leaves(part, cuts)
    ]


def _leaves(span: Span, cuts: dict[Span, list[Span]]) -> Iterator[Span]:
    """Yield the smallest slices of a span, in order."""
    pending = [span]
    while pending:
        top = pending.pop()
        if top in cuts:
            pending.extend(reversed(cuts[top]))
        else:
            yield top


def _packed(parts: Sequence[_Part], room: int, overlap: int) -> Iterator[tuple[_Part, _Part]]:
    """Yield first and last part of each chunk of a section."""
    start = done = 0
    while done < len(parts):
        full = _filled(parts, start, room)
        stop = _border(parts, start, done, full, room)
        yield parts[start], parts[stop - 1]
        if stop < len(parts):
            start = _overlapping(parts, start, stop, room, overlap)
        done = stop


def _filled(parts: Sequence[_Part], start: int, room: int) -> int:
    """Return the first part that does not fit any more; at least one is taken."""
    used = parts[start].tokens
    stop = start + 1
    while stop < len(parts) and used + parts[stop].tokens <= room:
        used += parts[stop].tokens
        stop += 1
    return stop


def _border(parts: Sequence[_Part], start: int, done: int, full: int, room: int) -> int:
    """Return a better place to stop than `full` in the middle of a block, when there is one.

    The beginning of that block is better when the block fits whole into the next chunk and must be
    kept whole, or when half the room is used by then. What comes before `done` is in a chunk already.
    """
    if full == len(parts) or parts[full].block != parts[full - 1].block:
        return full
    first = full
    while first > done and parts[first - 1].block == parts[full].block:
        first -= 1
    if all(part.kind == "heading" for part in parts[done:first]):
        return full
    if parts[full].kind == "whole" and _fits_whole(parts, first, room):
        return first
    used = sum(part.tokens for part in parts[start:first])
    return first if 2 * used >= room else full


def _fits_whole(parts: Sequence[_Part], first: int, room: int) -> bool:
    """Return whether the block that begins at `first` fits into a chunk."""
    total = 0
    for part in islice(parts, first, None):
        if part.block != parts[first].block:
            break
        total += part.tokens
        if total > room:
            return False
    return True


def _overlapping(parts: Sequence[_Part], start: int, stop: int, room: int, overlap: int) -> int:
    """Return where the next chunk begins: some sentences before `stop`, when both sides are prose."""
    if parts[stop].kind != "prose":
        return stop
    shared = 0
    spare = min(overlap, room - parts[stop].tokens)
    begin = stop
    while begin - 1 > start and parts[begin - 1].kind == "prose":
        shared += parts[begin - 1].tokens
        if shared > spare:
            break
        begin -= 1
    return begin


def _embedded(text: str, piece: _Piece) -> str:
    content = text[slice(*piece.span)]
    return f"{piece.section.header}\n{content}" if piece.section.header else content


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_smallest(piece: _Piece) -> bool:
    return piece.span[1] - piece.span[0] == 1 and not piece.section.header


def _halved(text: str, piece: _Piece) -> list[_Piece]:
    if piece.span[1] - piece.span[0] > 1:
        return [_Piece(span, piece.section) for span in slices(text, *piece.span, 2)]
    return [piece._replace(section=piece.section._replace(header=""))]


def _outermost(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield the pieces by start without those inside another: half of one may lie in an overlap."""
    done = 0
    for piece in sorted(pieces, key=lambda piece: (piece.span[0], -piece.span[1])):
        if piece.span[1] > done:
            done = piece.span[1]
            yield piece


def _draft(document: ParsedDocument, piece: _Piece) -> ChunkDraft:
    start, end = piece.span
    path = piece.section.path or (document.title or document.fallback,)
    return ChunkDraft(
        content=document.text[start:end],
        start=start,
        end=end,
        heading=path[-1],
        section_path=" > ".join(path),
        embed_text=_embedded(document.text, piece) if piece.section.header else "",
    )
