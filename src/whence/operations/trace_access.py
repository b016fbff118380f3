"""Stored traces as a reader may see them: hidden candidates are left out, or the trace does not exist."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from whence.provenance.redaction import chunk_ids, redact_trace
from whence.provenance.stages import exploration_triples, focus_triples, synthesis_triples
from whence.provenance.trace import PassageName, Trace, read_trace
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.errors import NotFound
from whence.schema.integrity import Integrity
from whence.schema.passages import Passage
from whence.store.chunk_ids import by_collection, chunk_key
from whence.store.protocols import SupportsIntegrity
from whence.store.trace_body import pack, read_record

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.provenance.outcome import WhyNot
    from whence.schema.texts import ChunkText
    from whence.store.protocols import Store, TraceStore

T = TypeVar("T")

#: How long to wait for the trace of an answer of this engine that is not stored yet, in seconds.
_RECORDER_TIMEOUT_S = 3.0
#: Answers whose traces may be under way.
_LATEST = 16
_POLL_INTERVAL_S = 0.02
#: Refusals come at multiples of this time. Reading a trace takes some 10 ms.
_REFUSAL_STEP_S = 0.1
#: Passages of a trace whose names are read.
_MOST_NAMED = 100
#: Passages of the decoy: those that a question retrieves and keeps with the default limits.
_DECOY_CANDIDATES, _DECOY_KEPT = 60, 20
_DECOY_ID = "decoy"


class ReadableTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the chunks of it that a reader may see."""

    record: TraceRecord
    trace: Trace
    visible: frozenset[str]
    """Ids of its chunks that the reader may see."""


async def delay_refusal(loading: Awaitable[T]) -> T:
    """Let a refusal take as long as that of an answer that does not exist.

    For a missing trace a decoy is read; traces have many sizes, so the refusal comes at the next multiple of a
    time that is longer than the reading.
    """
    started = time.monotonic()
    try:
        return await loading
    except NotFound as error:
        refused = NotFound(error.message, hint=error.hint)
    # What was read is freed with the first error, before the wait: that takes time, too.
    await asyncio.sleep(_REFUSAL_STEP_S - (time.monotonic() - started) % _REFUSAL_STEP_S)
    raise refused


async def load_trace(session: Session, answer_id: str, access: Access) -> ReadableTrace:
    """Load the trace of an answer for a reader; see `find_trace`. Hidden and missing take equally long."""
    return await delay_refusal(find_trace(session, answer_id, access))


async def find_trace(session: Session, answer_id: str, access: Access) -> ReadableTrace:
    """Load the trace of an answer for a reader.

    It does not exist for readers without all rights of the question: what was found, or that nothing was, could
    tell them of documents they may not see. Nor does it when the answer was written from a chunk that is hidden
    from them now. A deleted chunk hides nothing if its document is deleted too or visible to them.
    """
    check_text("the answer's id", answer_id)
    store = await session.store()
    asked = session.recent_answers.get(answer_id)
    # Who waits for a trace learns that it comes.
    timeout_s = _RECORDER_TIMEOUT_S if asked is not None and access.covers(asked) else 0.0
    record = await _record(store, answer_id, access, timeout_s)
    is_known = record is not None and access.covers(record.access)
    if is_known:
        session.recent_answers.pop(answer_id, None)
    if record is None or not is_known:
        # The same work as for a trace that is hidden since.
        record = read_record(_decoy_trace(session.settings.collection))
    triples = [triple for event in record.events for triple in event.triples]
    trace = read_trace(triples, record.answer_id)
    named = chunk_ids(trace)
    visible: frozenset[str] = frozenset()
    for name, ids in by_collection(record.collection, sorted(named)).items():
        seen = await store.visible_chunks(name, ids, access)
        if hidden := {*ids} - seen:
            seen |= await _deleted(store, name, trace, hidden, access)
        visible |= seen
    if not is_known or not visible.issuperset(trace.used):
        raise answer_not_found(answer_id)
    return ReadableTrace(record=record, trace=trace, visible=visible)


@cache
def _decoy_trace(collection: str) -> bytes:
    """Return the stored form of a trace of 60 passages, which no document of the collection has.

    It is read in place of a missing trace, so that the refusal takes as long.
    """
    chunk_ids = [chunk_key(collection, f"\x01{number}", 0) for number in range(_DECOY_CANDIDATES)]
    candidates = [
        Passage(
            chunk_id=chunk_id,
            rank=rank,
            document_id=f"\x01{rank}",
            score=0.5,
            dense_score=0.5,
            sparse_score=0.5,
            concepts=("?",),
            digest="0" * 64,
            rerank_rank=rank,
            raw_score=0.5,
            final_score=0.5,
            reason_code="" if rank <= _DECOY_KEPT else "reranked_out",
        )
        for rank, chunk_id in enumerate(chunk_ids, 1)
    ]
    triples = (
        *exploration_triples(_DECOY_ID, chunk_ids, candidates=candidates),
        *focus_triples(_DECOY_ID, candidates[:_DECOY_KEPT], candidates=candidates),
        *synthesis_triples(_DECOY_ID, reranked=True),
    )
    event = ExplainEvent(
        answer_id=_DECOY_ID, stage=_DECOY_ID, sequence=0, explain_id="", triples=triples
    )
    record = TraceRecord(
        answer_id=_DECOY_ID,
        collection=collection,
        question="?",
        access=Access.public(),
        events=(event,),
    )
    return zlib.compress(pack(record))


async def wait_for_traces(session: Session) -> None:
    """Wait until the traces of the latest answers of this engine are stored, 3 s at most."""
    store = await session.store()
    end = time.monotonic() + _RECORDER_TIMEOUT_S
    for answer_id, asked in list(session.recent_answers.items())[-_LATEST:]:
        await _record(store, answer_id, asked, end - time.monotonic())


async def explain(session: Session, answer_id: str, access: Access) -> Trace:
    """Return the trace of an answer without the candidates that the reader may not see.

    It states the rights of the question, whether it is as it was recorded, the answer, the titles of passages,
    and what came nearest when there is no answer.
    """
    loaded = await load_trace(session, answer_id, access)
    trace = redact_trace(loaded.trace, loaded.visible)
    store, record = await session.store(), loaded.record
    nearest: WhyNot | None = None
    if trace.refusal is not None and trace.refusal.best is not None:
        from whence.operations.why_not import outcome_of

        nearest = await outcome_of(session, loaded, trace.refusal.best.chunk_id, access)
    texts = await texts_of(store, record.collection, _named(trace), access)
    from whence.operations.freshness import dated_citations

    citations = await dated_citations(
        session, record.collection, trace.citations, access, past=True
    )
    return msgspec.structs.replace(
        trace,
        access=record.access,
        integrity=await check_integrity(store, answer_id),
        answer_text=trace.answer_text or (record.answer.text if record.answer else ""),
        names={one.chunk_id: _name(one.metadata) for one in texts},
        citations=citations,
        nearest=nearest,
    )


async def texts_of(
    store: Store, collection: str, chunk_ids: Sequence[str], access: Access
) -> list[ChunkText]:
    """Return the visible texts of chunks of a record, in order; `collection` may name several."""
    found: dict[str, ChunkText] = {}
    for name, ids in by_collection(collection, chunk_ids).items():
        found |= {one.chunk_id: one for one in await store.chunk_texts(name, ids, access)}
    return [found[one] for one in chunk_ids if one in found]


def _named(trace: Trace) -> list[str]:
    """Return the passages that are shown by name: those that were kept, and the best ranked others."""
    ranked = (one.chunk_id for one in trace.candidates)
    cited = (one.chunk_id for one in trace.citations)
    return list(dict.fromkeys((*cited, *trace.used, *ranked)))[:_MOST_NAMED]


def _name(metadata: Mapping[str, Any]) -> PassageName:
    title, heading = (metadata.get(key) for key in ("title", "heading"))
    index = metadata.get("chunk_index")
    return PassageName(
        title if isinstance(title, str) else "",
        heading if isinstance(heading, str) else "",
        index + 1 if isinstance(index, int) else 0,
    )


async def check_integrity(store: TraceStore, answer_id: str | None = None) -> Integrity:
    """Return whether a trace, or every trace, is as it was recorded; `NotFound` for an unknown answer."""
    if isinstance(store, SupportsIntegrity):
        return await (store.check_traces() if answer_id is None else store.check_trace(answer_id))
    if answer_id is not None and await store.trace(answer_id) is None:
        raise answer_not_found(answer_id)
    return Integrity(traces=0, ok=True, unchecked=("traces: this store keeps no chain of them",))


async def _deleted(
    store: Store, collection: str, trace: Trace, hidden_ids: Iterable[str], access: Access
) -> frozenset[str]:
    """Return those of the hidden chunks that are deleted and hide nothing from this reader."""
    deleted = set(hidden_ids) - await store.known_chunks(collection, sorted(hidden_ids))
    documents = {one: name for one, name in trace.documents.items() if one in deleted}
    states = await store.document_states(collection, sorted({*documents.values()} - {""}))
    hidden = {name for name, state in states.items() if not access.allows(state.tags)}
    # A chunk without a known document could belong to a hidden one: it stays hidden.
    return frozenset(c for c in deleted if documents.get(c) and documents[c] not in hidden)


async def _record(
    store: TraceStore, answer_id: str, access: Access, timeout_s: float
) -> TraceRecord | None:
    end = time.monotonic() + timeout_s
    while True:
        stored = await store.trace(answer_id, access)
        if stored is not None or time.monotonic() >= end:
            return None if stored is None else stored.record
        await asyncio.sleep(_POLL_INTERVAL_S)


def answer_not_found(answer_id: str) -> NotFound:
    """Return the error for a trace that does not exist or that the reader may not see."""
    return NotFound(
        f"there is no answer {answer_id!r}",
        hint="`whence ask` prints the id; give the same access options as for the question",
    )
