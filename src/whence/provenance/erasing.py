"""Remove the text of erased documents from a trace.

Ids and ranks remain, marked with the time of the erasure, so that the trace stays complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.terms import date_time, id_from_iri
from whence.provenance.trace import Trace, read_trace
from whence.schema.document_rag import Citation, ExplainEvent, TraceRecord
from whence.schema.search import Correction
from whence.schema.terms import Triple, iri, literal
from whence.text.spelling import surface_words

#: Replaces a text that was erased.
ERASED = "[erased]"
#: Codes of degradations whose reasons quote a sentence of the answer.
QUOTING_CODES = frozenset({"sentence_without_marker", "sentence_unsupported"})

#: Predicates of nodes that stand for a chunk.
_NAMES_CHUNK = frozenset({ns.WH_CHUNK, ns.TG_DOCUMENT})
_INVALIDATED = iri(ns.PROV_INVALIDATED_AT_TIME)
#: Predicates of the queries of steps.
_NAMED_BY_MODEL = frozenset({ns.TG_CONCEPT, ns.WH_FOUND_BY})
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

    Passages beside a refusal go whole.

    Each node is marked with the time.

    The text of an answer, its digest and messages that quote it are erased too when its writer received an
    erased chunk, which it may repeat. `is_erased` is called with a chunk id and a document id (empty when
    unknown); `erased_at` is ISO 8601 with time zone. Idempotent. Cost: n log n in the triples.
    """
    triples = [triple for event in record.events for triple in event.triples]
    nodes = set(_nodes(triples, is_erased))
    trace = read_trace(triples, record.answer_id)
    documents = trace.documents
    repeats_erased = any(
        is_erased(chunk_id, documents.get(chunk_id, "")) for chunk_id in trace.used
    )
    named = frozenset(one.query for step in trace.steps for one in step.queries)
    named -= {trace.question, *trace.concepts}
    if repeats_erased and trace.answer_text:
        nodes.add(trace.answer_document)
    marked: set[str] = set()
    events = record.events
    if repeats_erased:
        events = tuple(_replaced(one, _without_answer(one.triples, named)) for one in events)
    events = tuple(
        _replaced(event, _rewritten(event.triples, nodes, marked, erased_at)) for event in events
    )
    answer = record.answer
    if answer is not None:
        citations = tuple(_citation(citation, is_erased) for citation in answer.citations)
        nearest = tuple(
            one for one in answer.nearest if not is_erased(one.chunk_id, one.document_id)
        )
        answer = msgspec.structs.replace(answer, citations=citations, nearest=nearest)
        if repeats_erased:
            degraded = tuple(
                msgspec.structs.replace(one, reason=ERASED) if one.code in QUOTING_CODES else one
                for one in answer.degraded
            )
            answer = msgspec.structs.replace(answer, text=ERASED, unsupported=(), degraded=degraded)
    return msgspec.structs.replace(record, events=events, answer=answer)


def _replaced(event: ExplainEvent, triples: Iterable[Triple]) -> ExplainEvent:
    return msgspec.structs.replace(event, triples=tuple(triples))


def _without_answer(triples: Sequence[Triple], named: frozenset[str]) -> Iterator[Triple]:
    """Yield the triples without the digest of the answer, the messages that quote it, and queries of steps.

    The language model read the erased text before it named them.
    """
    quoting = {t.s.iri for t in triples if t.p.iri == ns.WH_CODE and t.o.value in QUOTING_CODES}
    for triple in triples:
        if (triple.p.iri == ns.WH_MESSAGE and triple.s.iri in quoting) or (
            triple.p.iri in _NAMED_BY_MODEL and triple.o.value in named
        ):
            yield msgspec.structs.replace(triple, o=literal(ERASED))
        elif triple.p.iri not in {ns.WH_ANSWER_DIGEST, ns.WH_STEP_QUERIES}:
            yield triple


def erase_corrections(record: TraceRecord, is_gone: Callable[[str], bool]) -> TraceRecord:
    """Return a trace without the words that misspelt ones were taken for, where no document has them now.

    Each stands in the corrected question, and in what was made of it; it becomes `[erased]` everywhere but in
    the question as it was asked. Cost: linear in the triples.

    Args:
        record: The trace.
        is_gone: Called with a word in lower case.
    """
    targets = [
        one.target
        for one in corrections_of(record)
        if any(map(is_gone, surface_words(one.target.replace(ERASED, ""))))
    ]
    if not targets:
        return record
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, targets))})(?!\w)", re.IGNORECASE)

    def clean(value: object) -> object:
        return pattern.sub(ERASED, value) if isinstance(value, str) else value

    events = tuple(
        _replaced(event, (_clean_literal(triple, pattern) for triple in event.triples))
        for event in record.events
    )
    settings = {name: clean(value) for name, value in record.settings.items()}
    record = msgspec.structs.replace(record, events=events, settings=settings)
    answer = record.answer
    if answer is None:
        return record
    answer = msgspec.structs.replace(
        answer,
        text=pattern.sub(ERASED, answer.text),
        question_used=pattern.sub(ERASED, answer.question_used),
        corrections=tuple(
            msgspec.structs.replace(one, target=pattern.sub(ERASED, one.target))
            for one in answer.corrections
        ),
        refusal=answer.refusal
        and msgspec.structs.replace(
            answer.refusal, reason=pattern.sub(ERASED, answer.refusal.reason)
        ),
    )
    return msgspec.structs.replace(record, answer=answer)


def corrections_of(record: TraceRecord) -> tuple[Correction, ...]:
    """Return the corrections of a question, also of one that failed."""
    if record.answer is not None:
        return record.answer.corrections
    triples = [triple for event in record.events for triple in event.triples]
    return read_trace(triples, record.answer_id).corrections


def _clean_literal(triple: Triple, pattern: re.Pattern[str]) -> Triple:
    if not triple.o.value or triple.p.iri == ns.TG_QUERY or not pattern.search(triple.o.value):
        return triple
    value = pattern.sub(ERASED, triple.o.value)
    return msgspec.structs.replace(triple, o=literal(value, triple.o.datatype))


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
        citation, title="", quote=ERASED, lead="", highlights=(), heading="", location=None
    )
