"""Remove the text of erased documents from a trace.

Ids and ranks remain, marked with the time of the erasure, so that the trace stays complete.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.terms import date_time, id_from_iri
from whence.provenance.trace import Trace, read_trace
from whence.schema.document_rag import Citation, TraceRecord
from whence.schema.terms import Triple, iri, literal

#: Replaces a text that was erased.
ERASED = "[erased]"

#: Predicates of nodes that stand for a chunk.
_NAMES_CHUNK = frozenset({ns.WH_CHUNK, ns.TG_DOCUMENT})
_INVALIDATED = iri(ns.PROV_INVALIDATED_AT_TIME)
#: Predicates of what is removed from the nodes of erased documents.
_REMOVED = frozenset(
    {
        *(ns.WH_DIGEST, ns.WH_HIGHLIGHTS, *ns.LOCATION_TERMS.values()),
        *(ns.DC_TITLE, ns.DC_SOURCE, ns.PROV_AT_LOCATION),
    }
)


def erase_texts(
    record: TraceRecord, *, is_erased: Callable[[str, str], bool], erased_at: str
) -> TraceRecord:
    """Return a trace without quotes, their places and digests of erased chunks, and titles and places of files.

    Each node is marked with the time.

    The text of an answer is erased too when its writer received an erased chunk, which it may repeat.
    `is_erased` is called with a chunk id and a document id (empty when unknown); `erased_at` is ISO 8601 with
    time zone. Idempotent. Cost: n log n in the triples.
    """
    triples = [triple for event in record.events for triple in event.triples]
    nodes = set(_nodes(triples, is_erased))
    trace = read_trace(triples, record.answer_id)
    documents = trace.documents
    repeats_erased = any(
        is_erased(chunk_id, documents.get(chunk_id, "")) for chunk_id in trace.used
    )
    if repeats_erased and trace.answer_text:
        nodes.add(trace.answer_document)
    marked: set[str] = set()
    events = tuple(
        msgspec.structs.replace(
            event, triples=tuple(_rewritten(event.triples, nodes, marked, erased_at))
        )
        for event in record.events
    )
    answer = record.answer
    if answer is not None:
        answer = msgspec.structs.replace(
            answer,
            text=ERASED if repeats_erased else answer.text,
            citations=tuple(_citation(citation, is_erased) for citation in answer.citations),
        )
    return msgspec.structs.replace(record, events=events, answer=answer)


def erased_chunks(trace: Trace) -> frozenset[str]:
    """Return the chunks of a trace that were erased later."""
    marked = {t.s.iri for t in trace.triples if t.p.iri == ns.PROV_INVALIDATED_AT_TIME}
    return frozenset(
        id_from_iri(triple.o.iri)
        for triple in trace.triples
        if triple.s.iri in marked and triple.p.iri in _NAMES_CHUNK
    )


def _nodes(triples: Sequence[Triple], is_erased: Callable[[str, str], bool]) -> Iterator[str]:
    """Yield the nodes of erased chunks, these chunks themselves, and the documents that they derive from."""
    documents = {t.s.iri: t.o.value for t in triples if t.p.iri == ns.WH_DOCUMENT}
    origins = {t.s.iri: t.o.iri for t in triples if t.p.iri == ns.PROV_WAS_DERIVED_FROM}
    for triple in triples:
        if triple.p.iri not in _NAMES_CHUNK:
            continue
        subject, chunk = triple.s.iri, triple.o.iri
        if is_erased(id_from_iri(chunk), documents.get(subject, "")):
            yield subject
            if origins.get(chunk) in documents:
                yield from (chunk, origins[chunk])


def _rewritten(
    triples: Iterable[Triple], nodes: Container[str], marked: set[str], erased_at: str
) -> Iterator[Triple]:
    triples = list(triples)
    marked |= {t.s.iri for t in triples if t.p.iri == ns.PROV_INVALIDATED_AT_TIME}
    for triple in triples:
        subject = triple.s.iri
        if subject not in nodes:
            yield triple
            continue
        if triple.p.iri not in _REMOVED:
            has_text = triple.p.iri in {ns.WH_QUOTE, ns.PROV_VALUE}
            yield msgspec.structs.replace(triple, o=literal(ERASED)) if has_text else triple
        if subject not in marked:
            marked.add(subject)
            yield Triple(triple.s, _INVALIDATED, date_time(erased_at), triple.g)


def _citation(citation: Citation, is_erased: Callable[[str, str], bool]) -> Citation:
    if not is_erased(citation.chunk_id, citation.document_id):
        return citation
    return msgspec.structs.replace(
        citation, title="", quote=ERASED, highlights=(), heading="", location=None
    )
