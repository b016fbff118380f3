"""Messages that cannot be changed are handed over as they are; reading their bytes gives the same."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as mi

from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Mode, RetryPolicy, Start
from whence.schema import (
    Answer,
    ExplainEvent,
    Message,
    PromptRequest,
    PromptResponse,
    PromptResult,
    SearchRequest,
    SearchResponse,
    TextResponse,
    TraceRecord,
    decode,
    encode,
)
from whence.schema import codec as codec_module
from whence.schema.access import Access
from whence.schema.codec import decode_as, encode_all, sealed
from whence.schema.document_rag import DocumentRagRequest
from whence.schema.errors import BadInput, CodecError
from whence.schema.frozen import frozen
from whence.schema.message import message_types
from whence.schema.search import Candidate
from whence.schema.terms import Triple, iri, literal
from whence.schema.texts import ChunkText, TextBudget, TextPlan, TextRequest
from whence.schema.topics import dead_letter_topic, full_topic
from whence.schema.wire import Wire, most_bytes, plain, shape_of
from whence.testing.samples import sample

TOPIC = full_topic("told")
TRIPLE = Triple(iri("urn:s"), iri("urn:p"), literal("ñ 試"), "urn:g")
EVENT = ExplainEvent(
    answer_id="a", stage="question", sequence=0, explain_id="urn:s", triples=(TRIPLE,)
)
#: Messages of tests are known by now as well when this file is not read first.
TYPES = tuple(one for one in message_types().values() if one.__module__.startswith("whence."))
#: Half of a surrogate pair cannot travel, which has a test of its own.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


def record(**fields: Any) -> TraceRecord:
    """Give a trace with one event."""
    return msgspec.structs.replace(sample(TraceRecord), **{"events": (EVENT,), **fields})


def found(**fields: Any) -> SearchResponse:
    """Give a ranking of one."""
    one = Candidate(**{"chunk_id": "c", "document_id": "d", "score": 0.5, "rank": 1, **fields})
    return SearchResponse(candidates=(one,))


def texts(metadata: dict[str, Any]) -> TextResponse:
    """Give a reply with one text."""
    one = ChunkText(chunk_id="c", document_id="d", content="text", metadata=metadata)
    return TextResponse(texts=(one,))


TAGS = st.frozensets(TEXTS.filter(lambda text: bool(text) and "\0" not in text))
PLAIN: dict[type[mi.Type], st.SearchStrategy[Any]] = {
    mi.StrType: TEXTS,
    mi.IntType: st.integers(0, 2**31 - 1),
    mi.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    mi.BoolType: st.booleans(),
    mi.BytesType: st.binary(max_size=8),
    mi.NoneType: st.none(),
    mi.SetType: TAGS,
    mi.DictType: st.one_of(
        st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.lists(TEXTS))),
        st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none())).map(frozen),
    ),
    mi.AnyType: st.one_of(st.none(), st.lists(TEXTS), TEXTS),
}


def values(kind: mi.Type) -> st.SearchStrategy[Any]:
    """Give a strategy for whatever a field may hold."""
    if isinstance(kind, mi.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, mi.UnionType):
        return st.one_of([values(one) for one in kind.types])
    if isinstance(kind, mi.VarTupleType):
        return st.lists(values(kind.item_type), max_size=3).map(tuple)
    return structs(kind.cls) if isinstance(kind, mi.StructType) else PLAIN[type(kind)]


def structs(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Give a strategy for the instances of a struct."""
    if cls.__name__ == "DocumentTags":
        tags = TAGS.map(tuple)
        return st.builds(cls, acl=tags, labels=tags, clearance=st.integers(0, 9))
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    return st.builds(cls, **{field.name: values(field.type) for field in info.fields})


@given(message=st.sampled_from(TYPES).flatmap(structs))
def test_both_ways_give_the_same(message: Message) -> None:
    """Of every type: what is handed over is what its bytes say, and the bytes are those of any encoder."""
    cls = type(message)
    form = sealed(message)
    read = decode_as(plain(form), cls)

    assert plain(form) == encode(message) == encode_all(message)
    assert most_bytes(form) >= len(plain(form))
    assert decode(form, cls.TYPE) == read == message
    assert encode_all(decode(form, cls.TYPE)) == encode_all(read)


def test_what_can_be_changed_is_read_from_bytes() -> None:
    """What holds anything at all is not handed over, nor is a dict within a part that is an ordinary one."""
    assert all(shape_of(cls) is not None for cls in TYPES)
    assert type(sealed(texts({"page": 7}))) is bytes
    free = PromptResponse(result=PromptResult(object={"any": ["thing"]}))
    assert type(sealed(free)) is bytes
    assert type(sealed(PromptResponse(result=PromptResult(text="a")))) is Wire
    nested = PromptRequest(template_id="t", variables={"documents": [["a"]]})
    assert type(sealed(nested)) is bytes
    odd = texts(frozen({"tags": ["a"]}))
    assert type(sealed(odd)) is bytes


def test_a_message_that_cannot_be_changed_is_itself() -> None:
    """Nothing is read where nothing can be changed."""
    for message in (EVENT, found(), sample(Answer), texts(frozen({"page": 7, "heading": None}))):
        assert decode_as(sealed(message), type(message)) is message


def test_an_event_is_encoded_once() -> None:
    """The same event gives the very same bytes, also within a trace."""
    assert encode(EVENT) is encode(EVENT)
    assert plain(sealed(EVENT)) is encode(EVENT)
    assert encode(record()) == encode_all(record())


def test_a_trace_is_put_together_when_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that is only handed over is never in one piece; one that is wanted twice is made once."""
    monkeypatch.setattr(codec_module, "_CHECKED", False)
    made: list[TraceRecord] = []
    encoded = TraceRecord.encoded
    monkeypatch.setattr(TraceRecord, "encoded", lambda self: made.append(self) or encoded(self))
    form = sealed(record())
    assert decode_as(form, TraceRecord) == record()
    assert made == []

    assert plain(form) is plain(form)
    assert len(made) == 1


def test_an_event_and_its_bytes_do_not_hold_each_other() -> None:
    """An event that nobody holds any more is gone at once, without the cyclic collector."""
    gc.disable()
    try:
        before = len([one for one in gc.get_objects() if type(one) is ExplainEvent])
        event = msgspec.structs.replace(EVENT, sequence=7)
        plain(sealed(event))
        sealed(record(events=(event,)))
        del event
        after = len([one for one in gc.get_objects() if type(one) is ExplainEvent])
    finally:
        gc.enable()

    assert after == before


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (record(), "settings"),
        (DocumentRagRequest(access=Access.public(), question="q"), "filters"),
        (SearchRequest(access=Access.public(), collection="c", limit=1), "filters"),
        (PromptRequest(template_id="t", variables={"query": "q"}), "variables"),
        (PromptRequest(template_id="t", variables={"documents": ["a"]}), "variables"),
    ],
)
def test_a_dict_is_the_receivers_own(message: Message, field: str) -> None:
    """What one reader writes into it, neither the sender nor another reader finds."""
    form = sealed(message)
    assert type(form) is Wire
    getattr(decode_as(form, type(message)), field)["new"] = 1

    assert "new" not in getattr(message, field)
    assert "new" not in getattr(decode_as(form, type(message)), field)

    getattr(message, field)["late"] = 1
    assert b'"late"' not in plain(form)


def test_a_list_in_a_dict_is_the_receivers_own() -> None:
    """What one reader or the sender puts into it later, nobody else finds."""
    message = PromptRequest(template_id="t", variables={"documents": ["a"]})
    form = sealed(message)
    decode_as(form, PromptRequest).variables["documents"].append("reader")
    message.variables["documents"].append("sender")

    assert decode_as(form, PromptRequest).variables == {"documents": ["a"]}
    assert b"sender" not in plain(form)


@pytest.mark.parametrize(
    "odd",
    [
        msgspec.structs.replace(EVENT, triples=[TRIPLE]),
        msgspec.structs.replace(EVENT, triples=(msgspec.structs.astuple(TRIPLE),)),
        record(events=(msgspec.structs.replace(EVENT, triples=[TRIPLE]),)),
        record(events=[EVENT]),
        record(settings={"deep": {"a": 1}}),
        record(settings={"list": (1, 2)}),
        SearchResponse(candidates=[sample(Candidate)]),  # type: ignore[arg-type]
        SearchResponse(candidates=({"chunk_id": "c"},)),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_as_declared_is_read_from_bytes(odd: Message) -> None:
    """A list could be changed by the sender, and what is no triple is none on the other side either."""
    assert type(sealed(odd)) is bytes


def test_a_message_of_one_type_is_none_of_another() -> None:
    """An event is no trace, whatever is handed over."""
    with pytest.raises(CodecError, match="missing required field"):
        decode_as(sealed(EVENT), TraceRecord)
    with pytest.raises(CodecError, match="missing required field"):
        decode_as(sealed(record()), Answer)


def test_what_cannot_be_encoded_still_fails() -> None:
    """A lone surrogate is refused before anything is sent, in any message that could be handed over."""
    odd = msgspec.structs.replace(EVENT, stage="\ud800")
    for message in (
        odd,
        record(events=(odd,)),
        record(question="\ud800"),
        found(chunk_id="\ud800"),
        PromptResponse(result=PromptResult(text="\ud800")),
    ):
        with pytest.raises(BadInput):
            sealed(message)
        with pytest.raises(BadInput):
            encode(message)


@pytest.mark.parametrize(
    "odd", [found(score=1), found(rank="1"), found(document_id=None), found(score=float("nan"))]
)
def test_odd_values_are_found_where_messages_are_checked(
    monkeypatch: pytest.MonkeyPatch, odd: Message
) -> None:
    """Structs do not look at what they are made of; checked, what would be read otherwise is refused."""
    monkeypatch.setattr(codec_module, "_CHECKED", True)
    with pytest.raises(CodecError):
        sealed(odd)


def test_a_text_may_equal_a_default_without_being_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes name it where those of the default leave it out; both are read as the same message."""
    monkeypatch.setattr(codec_module, "_CHECKED", True)
    read = json.loads('"balanced"')
    budget = TextBudget(kind="tokens", limit=1)
    plan = TextPlan(budget=budget, prioritize=read)
    request = TextRequest(access=Access.public(), collection="c", plan=plan)

    assert b"balanced" in encode_all(request)
    assert decode_as(encode_all(request), TextRequest) == request
    assert type(sealed(request)) is Wire


@pytest.mark.parametrize(("value", "checked"), [("1", True), ("", False)])
def test_messages_are_checked_when_the_environment_says_so(value: str, checked: bool) -> None:
    """`WHENCE_CHECK_MESSAGES` is on in all tests and off unless it is set."""
    script = "from whence.schema import codec; print(codec._CHECKED)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "WHENCE_CHECK_MESSAGES": value},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(checked)
    assert codec_module._CHECKED


async def test_limits_of_size_hold() -> None:
    """A message that is too large is refused, handed over or not."""
    transport = MemoryTransport(max_payload_bytes=100)
    with pytest.raises(BadInput, match="bytes"):
        await transport.publish(TOPIC, sealed(found(chunk_id="c" * 100)))
    await transport.aclose()


@given(text=st.text(st.characters(max_codepoint=127)), number=st.integers())
def test_a_packed_message_takes_no_more_than_thought(text: str, number: int) -> None:
    """Characters that JSON escapes, and integers that have no place in 64 bits, are counted in full."""
    form = sealed(found(chunk_id=text, rank=number))

    assert isinstance(form, Wire)
    assert len(plain(form)) <= most_bytes(form)
    assert plain(form) == encode(found(chunk_id=text, rank=number))


async def test_a_packed_message_is_refused_by_its_own_size() -> None:
    """Packing gives a bound; what counts is the size that the message has."""
    form = sealed(found(chunk_id="c" * 100))
    size = len(plain(form))
    for most, fits in ((size, True), (size - 1, False)):
        transport = MemoryTransport(max_payload_bytes=most)
        if fits:
            await transport.publish(TOPIC, form)
        else:
            with pytest.raises(BadInput, match=f"{size} bytes"):
                await transport.publish(TOPIC, form)
        await transport.aclose()


async def test_a_trace_is_refused_by_its_own_size() -> None:
    """What its parts add up to is a bound; what counts is the size in one piece."""
    form = sealed(record())
    size = len(plain(form))
    assert size < most_bytes(form) < size + 100
    transport = MemoryTransport(max_payload_bytes=size)
    await transport.publish(TOPIC, form)
    await transport.aclose()
    transport = MemoryTransport(max_payload_bytes=size - 1)
    with pytest.raises(BadInput, match="bytes"):
        await transport.publish(TOPIC, form)
    await transport.aclose()


async def test_only_who_waits_gets_the_form() -> None:
    """What is kept for later, comes again, is retained or becomes a dead letter is plain bytes."""
    transport = MemoryTransport()
    once = RetryPolicy(max_attempts=1)
    waiting = await transport.subscribe(TOPIC, "waiting", retry=once)
    late = await transport.subscribe(TOPIC, "late")
    letters = await transport.subscribe(dead_letter_topic(TOPIC), "letters")

    first = asyncio.ensure_future(waiting.receive())
    await asyncio.sleep(0)
    await transport.publish(TOPIC, sealed(EVENT))
    got = await first
    assert type(got.body) is Wire
    await waiting.nack(got)

    anew = await transport.subscribe(TOPIC, "new", mode=Mode.SHARED, start=Start.EARLIEST)
    kept = [await late.receive(), await anew.receive(), await letters.receive()]
    await late.nack(kept[0], delay_s=0.0)
    kept.append(await late.receive())
    await transport.aclose()

    assert [type(one.body) for one in kept] == [bytes] * 4
    assert {decode_as(one.body, ExplainEvent) for one in kept} == {EVENT}
