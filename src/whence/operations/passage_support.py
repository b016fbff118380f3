"""How well a passage that the writer read answers the question, by the measure of the writer that quotes.

In: a recorded answer, a passage. Out: its best sentence, the score, and the least score of an answer. Models
of the writer read the passages again; where these are missing, words alone count, with their own floor. Cost:
that of writing the answer without a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.answering.prompts import (
    DOCUMENT_PROMPT,
    TEMPLATES,
    answer_variables,
    write_request,
)
from whence.operations.trace_access import texts_of
from whence.provenance.stage_records import Scalar
from whence.quoting.extractive_writer import ExtractiveWriter
from whence.retrieval.pipeline import with_text
from whence.schema.passages import Passage

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.schema.document_rag import TraceRecord


async def measure_support(
    session: Session,
    record: TraceRecord,
    read: Sequence[str],
    chunk_id: str,
    access: Access,
) -> dict[str, Scalar | None]:
    """Return `best_sentence`, `support`, `floor` and, of an answer with a score, `best_support`.

    Args:
        session: Has the texts and the models.
        record: The recorded answer.
        read: Passages that the writer received, best first; all visible to the reader.
        chunk_id: One of them.
        access: Rights of the reader.

    Returns:
        Nothing when the text of the passage is gone or has nothing that could answer.
    """
    store = await session.store()
    texts = await texts_of(store, record.collection, read, access)
    passages = [with_text(Passage(chunk_id=one.chunk_id), one) for one in texts]
    place = next((n for n, one in enumerate(passages) if one.chunk_id == chunk_id), None)
    if place is None:
        return {}
    answer = record.answer
    question = (answer.question_used if answer else "") or record.question
    request = write_request(TEMPLATES[DOCUMENT_PROMPT], answer_variables(question, passages))
    writer = await session.resources.get("writer")
    if not isinstance(writer, ExtractiveWriter):
        # A language model has no such measure: meaning and words are compared without its help.
        writer = ExtractiveWriter(await session.resources.get("embedder"))
    found = await writer.weigh(request, place)
    if found is None:
        return {}
    best = answer.score if answer else None
    return {
        "best_sentence": found.sentence,
        "support": found.score,
        "floor": found.floor,
        **({} if best is None else {"best_support": best}),
    }
