"""A trace of passages that do not exist: read in place of a missing one, so that its refusal takes as long."""

from __future__ import annotations

import zlib
from functools import cache

from whence.provenance.stage_records import CandidateRecord, Selection
from whence.provenance.stages import exploration_triples, focus_triples, synthesis_triples
from whence.schema.access import Access
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.store.chunk_ids import chunk_key
from whence.store.trace_body import pack

#: Passages that a question retrieves and keeps with the default limits.
_CANDIDATES, _KEPT = 60, 20
_ID = "decoy"


@cache
def decoy_trace(collection: str) -> bytes:
    """Return the stored form of a trace of 60 passages, which no document of the collection has."""
    chunk_ids = [chunk_key(collection, f"\x01{number}", 0) for number in range(_CANDIDATES)]
    candidates = [
        CandidateRecord(
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
            reason_code="" if rank <= _KEPT else "reranked_out",
        )
        for rank, chunk_id in enumerate(chunk_ids, 1)
    ]
    selections = [Selection(chunk_id, 0.5, 0.5) for chunk_id in chunk_ids[:_KEPT]]
    triples = (
        *exploration_triples(_ID, chunk_ids, candidates=candidates),
        *focus_triples(_ID, selections, candidates=candidates),
        *synthesis_triples(_ID, reranked=True),
    )
    event = ExplainEvent(answer_id=_ID, stage=_ID, sequence=0, explain_id="", triples=triples)
    record = TraceRecord(
        answer_id=_ID, collection=collection, question="?", access=Access.public(), events=(event,)
    )
    return zlib.compress(pack(record))
