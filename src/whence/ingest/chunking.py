"""Split documents into chunks that fit the embedding model, along sections, paragraphs and sentences.

A chunk is part of one section; the first chunk of a section begins with its heading. Paragraphs, lists, tables
and code are kept whole if they fit, else they are split between items, rows or paragraphs of code; longer ones
between sentences or lines, and longer sentences between words. A sentence that ends in a colon stays with what
it announces. Adjacent chunks of prose overlap by a sentence or two. A chunk that begins inside a table or a
definition carries the header or the terms as its lead, and is embedded with them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from whence.ingest.blocks import Block, BlockKind, ParsedDocument
from whence.schema.errors import ConfigError
from whence.schema.ingest import ChunkDraft
from whence.text.spans import Span, slices, spans_between

#: Returns the number of tokens of each text without special tokens; at most its bytes in UTF-8.
TokenCounter = Callable[[Sequence[str]], list[int]]

#: The window of MiniLM; vectors of longer chunks are less specific.
DEFAULT_MAX_TOKENS = 256
#: Tokens that a model adds to a text: `[CLS]` and `[SEP]`.
SPECIAL_TOKENS = 2
_MIN_TOKENS = 16
#: A longer text, in characters a token of the window, is never tried as one chunk.
_CHARACTERS_PER_TOKEN = 4.5
#: Longest lead in characters: each chunk of a table repeats it.
_MAX_LEAD = 4_000
#: The line below the header of a table.
_TABLE_RULE = re.compile(r"\n[ \t]*(\|(?:---\|)+)")
#: Incremented when the same settings yield other chunks.
_VERSION = 3


class _Part(NamedTuple):
    span: Span
    tokens: int
    block: int
    kind: BlockKind
    begins_item: bool
    """Whether a chunk may end before it, if its item is not longer than a chunk."""
    announces: bool
    """Whether it ends its block with a colon."""
    leads: tuple[Span, ...]
    lead_tokens: int
    """Tokens of the leads, 0 if they are too long to be embedded."""


class _Section(NamedTuple):
    """Blocks that may share a chunk."""

    path: tuple[str, ...]
    header: str
    budget: int
    """Tokens for the content below the header."""
    blocks: tuple[Block, ...]


class _ChunkSpan(NamedTuple):
    span: Span
    section: _Section
    leads: tuple[Span, ...] = ()
    """Header of the table or terms of the definition in which it begins."""


class Chunker:
    """Splits documents into chunks whose size is limited in tokens of the embedding model.

    Title, section path and content are embedded. A header of more than a quarter of the window is shortened to
    the section path, then to the heading, then omitted.

    Args:
        count_tokens: Counts tokens of several texts in one call; called about three times a document.
        max_tokens: Window of the model with special tokens, 16 or more.
        overlap_tokens: Most tokens that two chunks share, from 0 to half the window.

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
        if max_tokens < _MIN_TOKENS:
            raise ConfigError(f"max_tokens must be {_MIN_TOKENS} or more, not {max_tokens}")
        if not 0 <= overlap_tokens <= max_tokens // 2:
            raise ConfigError(
                f"overlap_tokens must be 0 to {max_tokens // 2}, half of max_tokens, not {overlap_tokens}"
            )
        self._count = count_tokens
        self._limit = max_tokens - SPECIAL_TOKENS
        self._overlap = overlap_tokens

    @property
    def signature(self) -> str:
        """The settings that determine chunk borders, without the tokenizer."""
        return f"{_VERSION} {self._limit} {self._overlap}"

    def split(self, document: ParsedDocument) -> tuple[ChunkDraft, ...]:
        """Return the chunks of a document in order of their start; none if it has no text.

        Each content is `text[start:end]` without space around it; together they contain all text of the blocks.
        Cost is linear in the text.
        """
        groups = list(_sections(document.blocks))
        if len(groups) == 1:
            chunk = self._single_chunk(document, *groups[0])
            if chunk is not None:
                return (_draft(document, chunk),)
        spans = [span for _, blocks in groups for block in blocks for span in block.parts]
        leads = {
            lead
            for _, blocks in groups
            for block in blocks
            for part in block.leads
            for lead in part
        }
        headers = {path: _headers(document.title, path) for path, _ in groups}
        candidates = [header for choices in headers.values() for header in choices]
        counted = [*spans, *sorted(leads)]
        counts = self._count([document.text[slice(*span)] for span in counted] + candidates)
        lead_sizes = dict(zip(counted[len(spans) :], counts[len(spans) :], strict=False))
        sizes = dict(zip(spans, counts, strict=False))
        header_sizes = dict(zip(candidates, counts[len(counted) :], strict=True))
        sections: list[_Section] = []
        for path, blocks in groups:
            header = next((h for h in headers[path] if header_sizes[h] <= self._limit // 4), "")
            budget = self._limit - header_sizes.get(header, 0)
            sections.append(_Section(path, header, budget, blocks))
        smallest = min((section.budget for section in sections), default=self._limit)
        cuts = self._split_oversized(document.text, sizes, smallest)
        chunks: list[_ChunkSpan] = []
        borders: list[int] = []
        for section in sections:
            parts = _parts(document.text, section, cuts, sizes, lead_sizes, self._limit // 2)
            borders += (part.span[0] for part in parts)
            for first, last in _pack(parts, section.budget, self._overlap):
                leads_of = first.leads if first.lead_tokens else ()
                chunks.append(_ChunkSpan((first.span[0], last.span[1]), section, leads_of))
        fitted = self._fit(document.text, chunks, sorted(borders))
        above = _leads_by_offset(document.blocks)
        return tuple(_draft(document, chunk, above) for chunk in fitted)

    def _single_chunk(
        self, document: ParsedDocument, path: tuple[str, ...], blocks: tuple[Block, ...]
    ) -> _ChunkSpan | None:
        """Return the chunk of a document that fits into one; None if it does not.

        Short records are the common case, and counting tokens of their parts would be slow.
        """
        span = (blocks[0].parts[0][0], blocks[-1].parts[-1][1])
        if span[1] - span[0] > _CHARACTERS_PER_TOKEN * self._limit:
            return None
        header = next(iter(_headers(document.title, path)), "")
        chunk = _ChunkSpan(span, _Section(path, header, 0, blocks))
        embedded = _embedded(document.text, chunk)
        # A text has at most as many tokens as bytes.
        if _utf8_length(header) <= self._limit // 4 and _utf8_length(embedded) <= self._limit:
            return chunk
        size, header_size = self._count([embedded, header])
        return chunk if size <= self._limit and header_size <= self._limit // 4 else None

    def _split_oversized(
        self, text: str, sizes: dict[Span, int], budget: int
    ) -> dict[Span, list[Span]]:
        """Return the slices of the spans that are larger than `budget`, and add their sizes to `sizes`.

        Slices of a quarter of the budget fill chunks well. Each round counts all new slices in one call; slices
        that are still too large are sliced again.
        """
        cuts: dict[Span, list[Span]] = {}
        fresh = list(sizes)
        while large := [p for p in fresh if sizes[p] > budget and p[1] - p[0] > 1]:
            for span in large:
                cuts[span] = list(slices(text, *span, max(2, 4 * sizes[span] // budget)))
            fresh = [part for span in large for part in cuts[span]]
            sizes.update(zip(fresh, self._count([text[slice(*p)] for p in fresh]), strict=True))
        return cuts

    def _fit(self, text: str, chunks: list[_ChunkSpan], borders: Sequence[int]) -> list[_ChunkSpan]:
        """Halve the chunks that are too large: the size of a text is not always the sum of its parts.

        They are cut between parts, which begin at `borders`; inside a part only if a chunk has no more.
        """
        fitted: list[_ChunkSpan] = []
        while chunks:
            counts = self._count([_embedded(text, chunk) for chunk in chunks])
            large: list[_ChunkSpan] = []
            for chunk, count in zip(chunks, counts, strict=True):
                is_smallest = chunk.span[1] - chunk.span[0] == 1 and not chunk.section.header
                if count <= self._limit or is_smallest:
                    fitted.append(chunk)
                else:
                    large += _halved(text, chunk, borders)
            chunks = large
        return list(_outermost(fitted))


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[tuple[str, ...], tuple[Block, ...]]]:
    """Yield the sections: heading path and blocks.

    Blocks with another heading path form another section even without a heading between them, e.g. code of a
    class after its last method. A heading without text becomes part of the next section.
    """
    group: list[Block] = []
    for block in blocks:
        if group and _begins_section(group[-1], block):
            yield _section_path(group), tuple(group)
            group = []
        group.append(block)
    if group:
        yield _section_path(group), tuple(group)


def _begins_section(last: Block, block: Block) -> bool:
    if block.kind == "heading":
        return last.kind != "heading"
    if last.kind == "heading":
        return block.path[: len(last.path)] != last.path
    return block.path != last.path


def _section_path(group: Sequence[Block]) -> tuple[str, ...]:
    body = (block for block in group if block.kind != "heading")
    return next(body, group[-1]).path


def _headers(title: str, path: tuple[str, ...]) -> list[str]:
    """Return the candidate headers for the embedded text, the most specific first."""
    section = " > ".join(path)
    choices = [section, path[-1]] if path else []
    if title and title != next(iter(path), ""):
        choices.insert(0, f"{title}\n{section}" if section else title)
    return choices


def _parts(
    text: str,
    section: _Section,
    cuts: dict[Span, list[Span]],
    sizes: dict[Span, int],
    lead_sizes: dict[Span, int],
    longest_lead: int,
) -> list[_Part]:
    """Return the parts of a section; those that are too large are sliced."""
    parts: list[_Part] = []
    for number, block in enumerate(section.blocks):
        items = frozenset(block.items)
        for at, part in enumerate(block.parts):
            leads = block.leads[at] if block.leads else ()
            lead_tokens = sum(lead_sizes[lead] for lead in leads)
            lead_tokens = lead_tokens if lead_tokens <= longest_lead else 0
            is_last = at == len(block.parts) - 1
            announces = is_last and block.kind == "prose" and text.endswith((":", "\uff1a"), *part)
            begins = not items or at in items
            for leaf, span in enumerate(_leaves(part, cuts)):
                begins_item = begins and leaf == 0
                size = sizes[span]
                parts.append(
                    _Part(
                        span, size, number, block.kind, begins_item, announces, leads, lead_tokens
                    )
                )
    return parts


def _leaves(span: Span, cuts: dict[Span, list[Span]]) -> Iterator[Span]:
    pending = [span]
    while pending:
        top = pending.pop()
        if top in cuts:
            pending.extend(reversed(cuts[top]))
        else:
            yield top


def _pack(parts: Sequence[_Part], budget: int, overlap: int) -> Iterator[tuple[_Part, _Part]]:
    start = done = 0
    while done < len(parts):
        room = budget - parts[start].lead_tokens
        full = _first_overflow(parts, start, room)
        stop = _chunk_end(parts, start, done, full, room)
        yield parts[start], parts[stop - 1]
        if stop < len(parts):
            start = _overlap_start(parts, start, stop, budget, overlap)
        done = stop


def _first_overflow(parts: Sequence[_Part], start: int, budget: int) -> int:
    """Return the first part that does not fit; at least one part is taken."""
    used = parts[start].tokens
    stop = start + 1
    while stop < len(parts) and used + parts[stop].tokens <= budget:
        used += parts[stop].tokens
        stop += 1
    return stop


def _chunk_end(parts: Sequence[_Part], start: int, done: int, full: int, budget: int) -> int:
    """Return where a chunk ends: at `full`, or before the block or item that `full` would split.

    It ends before the block if the block is atomic and fits into the next chunk, or if half of the budget is
    used by then; else before the item, if that fits into the next chunk. What announces a block stays with it.
    Parts before `done` are in a chunk already; the chunk ends after it.
    """
    if full == len(parts):
        return full
    end = full
    if parts[full].block == parts[full - 1].block:
        first = full
        while first > done and parts[first - 1].block == parts[full].block:
            first -= 1
        used = sum(part.tokens for part in parts[start:first])
        is_kept = parts[full].kind == "atomic" and _block_fits(parts, first, budget)
        is_text = any(part.kind != "heading" for part in parts[start:first])
        if first > done and is_text and (is_kept or 2 * used >= budget):
            end = first
        else:
            end = _item_border(parts, done, full, budget)
    border = end
    while parts[end - 1].announces and parts[end].block != parts[end - 1].block:
        # Where all parts announce one another, a chunk for each would repeat the others as overlap.
        if end - 1 == done:
            return border
        if all(part.kind == "heading" for part in parts[start : end - 1]):
            break
        end -= 1
    return end


def _item_border(parts: Sequence[_Part], done: int, full: int, budget: int) -> int:
    """Return the start of the item that `full` is in; `full` if the item fits into no chunk."""
    at = full
    while at > done and not parts[at].begins_item:
        at -= 1
    if at == done or not parts[at].begins_item:
        return full
    size = parts[at].tokens
    end = at + 1
    while end < len(parts) and not parts[end].begins_item and parts[end].block == parts[at].block:
        size += parts[end].tokens
        end += 1
    return at if size <= budget else full


def _block_fits(parts: Sequence[_Part], first: int, budget: int) -> bool:
    """Return whether the block that begins at `first` fits into one chunk."""
    total = 0
    for part in islice(parts, first, None):
        if part.block != parts[first].block:
            break
        total += part.tokens
        if total > budget:
            return False
    return True


def _overlap_start(parts: Sequence[_Part], start: int, stop: int, budget: int, overlap: int) -> int:
    """Return where the next chunk begins: some sentences before `stop` between prose, else `stop`."""
    if parts[stop].kind != "prose":
        return stop
    shared = 0
    spare = min(overlap, budget - parts[stop].tokens)
    begin = stop
    while begin - 1 > start and parts[begin - 1].kind == "prose":
        shared += parts[begin - 1].tokens
        if shared > spare:
            break
        begin -= 1
    return begin


def _embedded(text: str, chunk: _ChunkSpan) -> str:
    content = text[slice(*chunk.span)]
    leads = (text[slice(*lead)] for lead in chunk.leads)
    return "\n".join(filter(None, (chunk.section.header, *leads, content)))


def _utf8_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _halved(text: str, chunk: _ChunkSpan, borders: Sequence[int]) -> list[_ChunkSpan]:
    start, end = chunk.span
    if chunk.leads:
        return [chunk._replace(leads=())]
    if end - start < 2:
        return [chunk._replace(section=chunk.section._replace(header=""))]
    inside = borders[bisect_right(borders, start) : bisect_left(borders, end)]
    halves: Iterable[Span] = slices(text, start, end, 2)
    if inside:
        middle = min(inside, key=lambda border: (abs(2 * border - start - end), border))
        halves = spans_between(text, start, end, [middle])
    return [_ChunkSpan(span, chunk.section) for span in halves]


def _outermost(chunks: Iterable[_ChunkSpan]) -> Iterator[_ChunkSpan]:
    """Yield the chunks by start without those inside another: half of one may be inside an overlap."""
    done = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.span[0], -chunk.span[1])):
        if chunk.span[1] > done:
            done = chunk.span[1]
            yield chunk


def _leads_by_offset(blocks: Iterable[Block]) -> list[tuple[Span, tuple[Span, ...]]]:
    """Return the parts that have leads, with these, in order."""
    return [
        (part, leads)
        for block in blocks
        for part, leads in zip(block.parts, block.leads, strict=bool(block.leads))
        if leads
    ]


def _lead(text: str, start: int, above: Sequence[tuple[Span, tuple[Span, ...]]]) -> str:
    """Return what stands above an offset; empty when that is longer than a reader wants to read again."""
    place = bisect_right(above, start, key=lambda one: one[0][0]) - 1
    if place < 0 or above[place][0][1] <= start:
        return ""
    lines = []
    for begin, end in above[place][1]:
        rule = _TABLE_RULE.match(text, end)
        lines.append(text[begin:end] + (f"\n{rule[1]}" if rule else ""))
    lead = "\n".join(lines)
    return lead if len(lead) <= _MAX_LEAD else ""


def _draft(
    document: ParsedDocument,
    chunk: _ChunkSpan,
    above: Sequence[tuple[Span, tuple[Span, ...]]] = (),
) -> ChunkDraft:
    start, end = chunk.span
    path = chunk.section.path or (document.title or document.fallback_title,)
    return ChunkDraft(
        content=document.text[start:end],
        start=start,
        end=end,
        heading=path[-1],
        section_path=" > ".join(path),
        lead=_lead(document.text, start, above),
        embed_text=_embedded(document.text, chunk) if chunk.section.header or chunk.leads else "",
    )
