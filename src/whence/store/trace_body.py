"""The stored form of a trace: compressed JSON of the record, in which the triples of a stage are columns.

Equal columns of a thousand triples repeat each other, so they take a fifth less than rows do.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import msgspec

from whence.schema.access import Access
from whence.schema.codec import decode_as
from whence.schema.document_rag import ExplainEvent, TraceRecord
from whence.schema.errors import CodecError
from whence.schema.terms import Triple, iri, literal
from whence.store.chunk_ids import parse_chunk_key, split_collections


class TripleColumns(msgspec.Struct, frozen=True):
    """Triples by column; all have one length."""

    s: list[str]
    """IRIs of subjects."""
    p: list[str]
    """IRIs of predicates."""
    o: list[str]
    """IRIs of objects, or texts of literals."""
    t: list[str]
    """Kinds of objects: `i` for an IRI, `l` and its datatype for a literal."""
    g: list[str | None]
    """Graphs."""


_encoder = msgspec.json.Encoder(order="deterministic")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_events = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_columns = msgspec.json.Decoder(TripleColumns)


def pack(record: TraceRecord) -> bytes:
    """Return the stored form of a record before compression, as JSON."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    fields["events"] = [_packed(event) for event in record.events]
    return _encoder.encode(fields)


def unpack(body: bytes) -> bytes:
    """Return the JSON of a stored trace.

    Raises:
        CodecError: The bytes are damaged.
    """
    # Traces of the schema that had a row for each triple were converted to JSON as it is.
    if body.startswith(b"{"):
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise CodecError(f"a stored trace is damaged: {error}") from error


def read_record(body: bytes) -> TraceRecord:
    """Return the record of a stored trace; raises as `unpack`."""
    packed = unpack(body)
    try:
        fields = _fields.decode(packed)
        events = _events.decode(fields["events"])
        if not events or "triples" in events[0]:
            return decode_as(packed, TraceRecord)
        record = decode_as(_encoder.encode({**fields, "events": ()}), TraceRecord)
        return msgspec.structs.replace(record, events=tuple(map(_unpacked, events)))
    except (msgspec.MsgspecError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise CodecError(f"a stored trace is damaged: {error}") from error


class AnswerSources(msgspec.Struct, frozen=True, kw_only=True):
    """The documents that an answer stands on."""

    answer_id: str
    access: Access
    """Rights of the reader who asked."""
    asked_at: str
    """ISO 8601 in UTC; that of recording where the trace has no time."""
    cited: frozenset[str]
    """Ids of the documents that it cites."""
    named: frozenset[str]
    """Ids of the documents whose chunks its trace names, whether or not they were used."""
    collection: str = ""
    """The collection that was searched."""
    question: str = ""
    """The question as asked."""
    found: bool = False
    """Whether citations support the answer."""
    texts: frozenset[str] = frozenset()
    """The answer's text and its quotes."""
    in_token: int | None = None
    """Tokens that language models read for it, when known."""
    out_token: int | None = None
    """Tokens that language models wrote for it, when known."""
    cost: float | None = None
    """What they cost by the price list of then, when known."""
    currency: str = ""
    parts: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    """`cited` and `named` of each collection, where several were asked."""

    def each(self) -> list[AnswerSources]:
        """Return it for each of its collections."""
        return [self.of(name) for name in self.parts] or [self]

    def of(self, collection: str) -> AnswerSources:
        """Return it with the documents of one of its collections alone."""
        if collection not in self.parts:
            return self
        cited, named = self.parts[collection]
        return msgspec.structs.replace(
            self, collection=collection, cited=cited, named=named, parts={}
        )


#: A chunk id in a stored trace.
_CHUNK_ID = re.compile(rb"urn:chunk:([^:\"\\]*):([\w.~/%-]*):\d")


class _Cited(msgspec.Struct):
    document_id: str
    chunk_id: str = ""
    quote: str = ""


class _Answer(msgspec.Struct):
    citations: tuple[_Cited, ...] = ()
    text: str = ""
    found: bool = True
    in_token: int | None = None
    out_token: int | None = None
    cost: float | None = None
    currency: str = ""


class _Sources(msgspec.Struct):
    answer_id: str
    access: Access
    collection: str
    question: str = ""
    answer: _Answer | None = None
    asked_at: str = ""


def read_sources(body: bytes, recorded_at: str) -> AnswerSources:
    """Return what an answer stands on, without reading the triples of its trace; raises as `unpack`."""
    text = unpack(body)
    try:
        read = msgspec.json.decode(text, type=_Sources)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CodecError(f"a stored trace is damaged: {error}") from error
    names = split_collections(read.collection)
    mine = {one.encode() for one in names}
    chunks = {one for one in set(_CHUNK_ID.findall(text)) if one[0] in mine}
    answer = read.answer or _Answer(found=False)
    parts = {
        name: (
            frozenset(
                one.document_id
                for one in answer.citations
                if (key := parse_chunk_key(one.chunk_id)) and key.collection == name
            ),
            frozenset(unquote(one.decode()) for of, one in chunks if of == name.encode()),
        )
        for name in names
    }
    return AnswerSources(
        answer_id=read.answer_id,
        access=read.access,
        asked_at=read.asked_at or recorded_at,
        cited=frozenset(one.document_id for one in answer.citations),
        named=frozenset(unquote(one.decode()) for _, one in chunks),
        collection=read.collection,
        question=read.question,
        found=answer.found,
        texts=frozenset({answer.text, *(one.quote for one in answer.citations)}),
        parts=parts if len(names) > 1 else {},
        in_token=answer.in_token,
        out_token=answer.out_token,
        cost=answer.cost,
        currency=answer.currency,
    )


def _packed(event: ExplainEvent) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    triples = fields.pop("triples")
    columns = TripleColumns(
        [one.s.iri for one in triples],
        [one.p.iri for one in triples],
        [one.o.iri or one.o.value for one in triples],
        [one.o.type + one.o.datatype for one in triples],
        [one.g for one in triples],
    )
    return {**fields, "columns": columns}


def _unpacked(fields: dict[str, msgspec.Raw]) -> ExplainEvent:
    columns = _columns.decode(fields.pop("columns"))
    event = decode_as(_encoder.encode({**fields, "triples": ()}), ExplainEvent)
    names = (columns.s, columns.p, columns.o, columns.t, columns.g)
    return msgspec.structs.replace(event, triples=tuple(_triples(zip(*names, strict=True))))


def _triples(rows: Iterable[tuple[str, str, str, str, str | None]]) -> Iterable[Triple]:
    for s, p, o, t, g in rows:
        yield Triple(iri(s), iri(p), iri(o) if t == "i" else literal(o, t[1:]), g)
