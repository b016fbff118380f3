"""Explain events are encoded once and need not be read again in their own process; all else goes by bytes."""

from __future__ import annotations

import asyncio
import typing
from typing import Any

import msgspec
import pytest
from msgspec import inspect as mi

from whence.broker.memory import MemoryTransport
from whence.broker.transport import Mode, RetryPolicy, Start
from whence.schema import Answer, ExplainEvent, SearchResponse, TraceRecord, decode, encode
from whence.schema.codec import decode_as, encode_all
from whence.schema.document_rag import DocumentRagRequest
from whence.schema.errors import BadInput
from whence.schema.message import message_types
from whence.schema.terms import Triple, iri, literal
from whence.schema.topics import dead_letter_topic, full_topic
from whence.schema.wire import Wire
from whence.testing.samples import sample

TOPIC = full_topic("told")
TRIPLE = Triple(iri("urn:s"), iri("urn:p"), literal("ñ 試"), "urn:g")
EVENT = ExplainEvent(
    answer_id="a", stage="question", sequence=0, explain_id="urn:s", triples=(TRIPLE,)
)


def record(**fields: Any) -> TraceRecord:
    """Give a trace with one event."""
    return msgspec.structs.replace(sample(TraceRecord), **{"events": (EVENT,), **fields})


def changeable(kind: mi.Type) -> list[mi.Type]:
    """Give what of a type can be changed, or reads back from JSON as something else."""
    if isinstance(kind, mi.StructType):
        assert kind.cls.__struct_config__.frozen
        return [bad for field in kind.fields for bad in changeable(field.type)]
    if isinstance(kind, mi.VarTupleType):
        return changeable(kind.item_type)
    if isinstance(kind, mi.UnionType):
        return [bad for one in kind.types for bad in changeable(one)]
    whole = (mi.StrType, mi.IntType, mi.BoolType, mi.NoneType, mi.LiteralType)
    return [] if isinstance(kind, whole) else [kind]


def test_an_event_cannot_be_changed_anywhere() -> None:
    """Texts, whole numbers, tuples and frozen structs, all the way down; a float or a dict would not do."""
    assert changeable(mi.type_info(ExplainEvent)) == []
    assert changeable(mi.type_info(SearchResponse)) != []
    assert changeable(mi.type_info(DocumentRagRequest)) != []


def test_no_other_message_keeps_its_form() -> None:
    """Only events are shared, and the trace that is made of them."""
    kept = [cls for cls in message_types().values() if type(encode(sample(cls))) is Wire]

    assert set(kept) == {ExplainEvent, TraceRecord}


def test_an_event_is_encoded_once() -> None:
    """The same event gives the very same bytes, those of any other encoder."""
    assert encode(EVENT) is encode(EVENT)
    assert encode(EVENT) == encode_all(EVENT)
    assert encode(record()) == encode_all(record())


def test_reading_a_form_is_reading_its_bytes() -> None:
    """What comes out is equal either way; an event is the event itself."""
    for message in (EVENT, record(), record(events=(EVENT, EVENT)), record(answer=None)):
        cls = type(message)
        assert decode_as(encode(message), cls) == message == decode_as(bytes(encode(message)), cls)
        assert decode(encode(message), cls.TYPE) == message

    assert decode_as(encode(EVENT), ExplainEvent) is EVENT


def test_what_can_be_changed_is_not_shared() -> None:
    """Settings of a trace are the receiver's own."""
    sent = record()
    got = decode_as(encode(sent), TraceRecord)
    got.settings["new"] = 1

    assert "new" not in sent.settings


@pytest.mark.parametrize("triples", [[TRIPLE], (msgspec.structs.astuple(TRIPLE),)])
def test_an_event_of_anything_else_is_read_from_bytes(triples: Any) -> None:
    """A list could be changed by the sender, and what is no triple is none on the other side either."""
    odd = msgspec.structs.replace(EVENT, triples=typing.cast("tuple[Triple, ...]", triples))

    assert type(encode(odd)) is bytes
    assert type(encode(record(events=(odd,)))) is bytes


def test_a_form_of_one_type_is_none_of_another() -> None:
    """An event is no trace, whatever is shared."""
    with pytest.raises(Exception, match="missing required field"):
        decode_as(encode(EVENT), TraceRecord)
    with pytest.raises(Exception, match="missing required field"):
        decode_as(encode(record()), Answer)


def test_what_cannot_be_encoded_still_fails() -> None:
    """A lone surrogate is refused before anything is sent, in the event and in the trace."""
    odd = msgspec.structs.replace(EVENT, stage="\ud800")
    for message in (odd, record(events=(odd,)), record(question="\ud800")):
        with pytest.raises(BadInput):
            encode(message)


async def test_only_who_waits_gets_the_form() -> None:
    """What is kept for later, comes again, is retained or becomes a dead letter is plain bytes."""
    transport = MemoryTransport()
    once = RetryPolicy(max_attempts=1)
    waiting = await transport.subscribe(TOPIC, "waiting", retry=once)
    late = await transport.subscribe(TOPIC, "late")
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "letters")

    first = asyncio.ensure_future(waiting.receive())
    await asyncio.sleep(0)
    await transport.publish(TOPIC, encode(EVENT))
    got = await first
    assert type(got.payload) is Wire
    await waiting.nack(got)

    anew = await transport.subscribe(TOPIC, "new", mode=Mode.SHARED, start=Start.EARLIEST)
    kept = [await late.receive(), await anew.receive(), await letters.receive()]
    await late.nack(kept[0], delay_s=0.0)
    kept.append(await late.receive())
    await transport.aclose()

    assert [type(one.payload) for one in kept] == [bytes] * 4
    assert {decode_as(one.payload, ExplainEvent) for one in kept} == {EVENT}
