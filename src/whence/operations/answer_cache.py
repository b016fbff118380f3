"""The answer cache: a question that was asked before gets its recorded answer, without search and model.

An entry is a trace. Its answer id is the digest of all that an answer follows from: the question with its
options and its day, the rights of the reader, the version of the collection, models, prompts and settings, and
the version of Whence. So a change of a document, its tags or a setting makes another id, an erasure reaches the
entry as it reaches every trace, and readers with different rights share none. Only answers that were found, and
in which no service failed, are given again.
"""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from whence.answering.prompting import read_templates
from whence.answering.requests import recorded
from whence.flow.settings import SETTINGS
from whence.operations.trace_access import find_trace
from whence.schema.codec import to_builtins
from whence.schema.errors import NotFound
from whence.schema.version import VERSION
from whence.store.chunk_ids import split_collections

if TYPE_CHECKING:
    from whence.operations.ask import ChunkCallback, DocumentRagRequest, ExplainCallback
    from whence.operations.session import Session
    from whence.schema.document_rag import Answer, TraceRecord

#: Faults that follow from the texts alone, so that asking again would find them again.
_LASTING: Final = frozenset(
    {
        "no_language_model",
        "sentence_without_marker",
        "sentence_unsupported",
        "citation_invalid",
        "passages_kept_local",
        "language_not_served",
    }
)


async def look_up(
    session: Session, request: DocumentRagRequest
) -> tuple[DocumentRagRequest, TraceRecord | None]:
    """Return the request under the id of its entry, and the entry if there is one.

    Where the entry is not to be given again, the request keeps an id of its own. A client of a fleet does not
    know its models, and neither are those known that were given as objects: they use no cache.
    """
    if not session.runs_flow or set(session.objects) - {"store"}:
        return request, None
    started = time.perf_counter()
    request = replace(request, reusable=True)
    answer_id = await _key(session, request)
    try:
        loaded = await find_trace(session, answer_id, request.access)
    except NotFound:
        return replace(request, answer_id=answer_id), None
    answer = loaded.record.answer
    if answer is None or not answer.found or not {one.code for one in answer.degraded} <= _LASTING:
        return request, None
    elapsed_ms = (time.perf_counter() - started) * 1000
    free: dict[str, Any] = {"in_token": None, "out_token": None, "cost": None, "currency": ""}
    again = replace(answer, cached=True, latency_ms=elapsed_ms, **free)
    return request, replace(loaded.record, answer=again)


async def show_again(
    record: TraceRecord,
    chunk_callback: ChunkCallback | None,
    explain_callback: ExplainCallback | None,
) -> Answer:
    """Return the answer of an entry; the callbacks receive its stages and its text."""
    answer = record.answer
    assert answer is not None, "entries have answers"
    for event in record.events if explain_callback is not None else ():
        assert explain_callback is not None
        await explain_callback(event.triples, event.explain_id)
    if chunk_callback is not None:
        await chunk_callback(answer.text, False)
        await chunk_callback("", True)
    return answer


def _flow(flow: str | Path) -> str:
    """Return the text of a flow file, or the name of a shipped flow."""
    path = Path(flow)
    return path.read_text(encoding="utf-8") if path.is_file() else str(flow)


async def _key(session: Session, request: DocumentRagRequest) -> str:
    settings = session.settings
    store = await session.store()
    now = datetime.now(UTC)
    # The versions that the store has, not the last ones that a search of this process saw.
    versions = [
        await store.version_at(name, now + timedelta(days=1))
        for name in split_collections(request.collection)
    ]
    parts = {
        "operation": recorded(request),
        "previous": request.previous_answer,
        "rights": to_builtins(request.access),
        "collection_versions": versions,
        "day": request.day or f"{now:%Y-%m-%d}",
        "settings": {one.name: str(settings.get(one.name)) for one in SETTINGS if not one.secret},
        "prompts": to_builtins(dict(read_templates(settings.prompts))),
        "flow": _flow(session.flow),
        "version": VERSION,
    }
    wire = msgspec.json.encode(parts, order="deterministic")
    return hashlib.sha256(wire).hexdigest()
