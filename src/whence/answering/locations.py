"""Find where the quotes of an answer stand: citations in, citations with a location out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from whence.answering.state import Question
from whence.schema.document_rag import Citation
from whence.schema.errors import WhenceError
from whence.schema.places import Location, locate
from whence.schema.texts import ChunkText


async def locate_citations(
    question: Question, citations: Sequence[Citation]
) -> tuple[Citation, ...]:
    """Return the citations with their locations; a failure degrades, and the answer goes out without them.

    Of a quote that occurs several times in its passage the first one counts. A quote on several pages has the
    page of the words that answer. Cost: one request, which reads the cited documents.
    """
    chunk_ids = list(dict.fromkeys(citation.chunk_id for citation in citations))
    if not chunk_ids:
        return ()
    try:
        texts = await question.retrieval.fetch(chunk_ids, with_places=True)
    except WhenceError as error:
        reason = f"the places of the quotes are not known: {error.message}"
        question.trace.degrade("text-fetch", "places_unknown", reason)
        return tuple(citations)
    return tuple(
        replace(one, location=_location(one, texts.get(one.chunk_id))) for one in citations
    )


def _location(citation: Citation, text: object) -> Location | None:
    if not isinstance(text, ChunkText) or text.char_start is None:
        return None
    offset = text.content.find(citation.quote)
    if offset < 0:
        return None
    start = text.char_start + offset
    words = start + citation.highlights[0][0] if citation.highlights else None
    return locate(text.places, start, start + len(citation.quote), words=words)
