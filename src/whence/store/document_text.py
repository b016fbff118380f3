"""The text of a stored document, put together from its chunks and the white space between them.

Chunks hold every character that is not white space, so only what stands between them is stored beside them:
`text[start:end]` of a chunk is its content by construction, and erasing the chunks erases the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import DocumentText, Place, StoredPassage
from whence.store.chunk_ids import chunk_key, parse_chunk_key
from whence.text.spans import Span

_SEPARATOR = "\n\n"


class LaidOut(NamedTuple):
    """A text and the spans of its chunks."""

    text: str
    spans: tuple[Span, ...]


def gaps_between(text: str, chunks: Iterable[ChunkDraft]) -> tuple[str, ...]:
    """Return what stands in the text before each chunk and after the one before; empty where two overlap.

    Args:
        text: The text that the offsets of the chunks refer to.
        chunks: In order of their start.

    Returns:
        One for each chunk; none at all if `lay_out` finds the same without them.
    """
    gaps: list[str] = []
    done = 0
    for chunk in chunks:
        gaps.append(text[done : chunk.start])
        done = max(done, chunk.end)
    return tuple(gaps) if any(gap != _blank(len(gap)) for gap in gaps) else ()


def lay_out(chunks: Sequence[ChunkDraft], gaps: Sequence[str] = ()) -> LaidOut:
    """Return the text of a document and the spans of its chunks in it.

    Spans are those of the chunks if they fit their contents and each other, as those of every loader do. Else
    the chunks stand one below the other. Cost: linear in the text.

    Args:
        chunks: Of one document, in order.
        gaps: As of `gaps_between`; those that do not fit are replaced by as much white space.
    """
    pieces: list[str] = []
    done = begin = 0
    tail = ""
    """The text from `begin` on, the start of the last chunk."""
    for number, chunk in enumerate(chunks):
        content, start = chunk.content, chunk.start
        if chunk.end - start != len(content) or start < begin:
            return _one_below_the_other(chunks)
        gap = gaps[number] if number < len(gaps) else ""
        if len(gap) != start - done or not gap.isspace():
            gap = _blank(start - done)
        overlap = max(0, done - start)
        if overlap > len(content) or tail[start - begin :] != content[:overlap]:
            return _one_below_the_other(chunks)
        pieces += (gap, content[overlap:])
        done, begin, tail = max(done, chunk.end), start, content
    return LaidOut("".join(pieces), tuple((chunk.start, chunk.end) for chunk in chunks))


def _blank(length: int) -> str:
    r"""Return white space of a length, which ends in a blank line if there is room: `\n\n`."""
    return "\n" * length if length < 2 else " " * (length - 2) + _SEPARATOR


def _one_below_the_other(chunks: Sequence[ChunkDraft]) -> LaidOut:
    spans: list[Span] = []
    at = 0
    for chunk in chunks:
        spans.append((at, at + len(chunk.content)))
        at = spans[-1][1] + len(_SEPARATOR)
    return LaidOut(_SEPARATOR.join(chunk.content for chunk in chunks), tuple(spans))


def requested_documents(collection: str, ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return the document id and the index of the chunk, -1 for none, that each id means.

    An id of a chunk of the collection means its document; any other is a document's own.
    """
    found: dict[str, tuple[str, int]] = {}
    for one in ids:
        key = parse_chunk_key(one)
        is_chunk = key is not None and key.collection == collection
        found[one] = (key.document_id, key.index) if key and is_chunk else (one, -1)
    return found


def select_texts(
    requested: Mapping[str, tuple[str, int]], texts: Mapping[str, DocumentText]
) -> dict[str, DocumentText]:
    """Return the text for each id, without ids whose document or chunk is not there."""
    return {
        one: texts[document_id]
        for one, (document_id, index) in requested.items()
        if document_id in texts and index < len(texts[document_id].chunks)
    }


def document_text(
    collection: str, draft: DocumentDraft, gaps: Sequence[str], places: Sequence[Place]
) -> DocumentText:
    """Return the text of a document with its chunks, places and sources."""
    text, spans = lay_out(draft.chunks, gaps)
    are_known = spans == tuple((chunk.start, chunk.end) for chunk in draft.chunks)
    return DocumentText(
        document_id=draft.document_id,
        source_file=draft.source_file,
        root=draft.root,
        source_url=draft.source_url,
        title=draft.title,
        text=text,
        chunks=tuple(
            StoredPassage(
                id=chunk_key(collection, draft.document_id, index),
                char_start=start,
                char_end=end,
                heading=chunk.heading,
                page=chunk.page,
            )
            for index, (chunk, (start, end)) in enumerate(zip(draft.chunks, spans, strict=True))
        ),
        places=tuple(places) if are_known else (),
        metadata=draft.metadata,
    )
