"""Replay of a recorded question, and comparison of two recorded answers: what differs by stage, and why."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from whence.answering.state import collect_answer
from whence.operations.as_of import client_at, recorded_moment, refuse_code
from whence.operations.ask import Ask, DocumentRagRequest
from whence.operations.comparison import Comparison, RecordedAnswer, compare_answers
from whence.operations.conversation import with_conversation
from whence.operations.operation import parameters
from whence.operations.trace_access import (
    ReadableTrace,
    answer_not_found,
    delay_refusal,
    find_trace,
)
from whence.provenance.redaction import chunk_ids
from whence.provenance.trace import read_trace
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.codec import to_builtins
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import BadInput, NotFound
from whence.schema.terms import Triple
from whence.schema.texts import TextBudget
from whence.store.change_log import NetChanges, net_changes
from whence.store.chunk_ids import split_collections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whence.flow.client import FlowClient
    from whence.operations.replay import Replay
    from whence.operations.session import Session
    from whence.schema.access import Access

#: Later than any version of a collection.
_NOW = 2**62


class ReplayReport(Comparison, frozen=True, kw_only=True):
    """A recorded question and the same question asked now."""

    answer_id: str


class AnswerDiff(Comparison, frozen=True, kw_only=True):
    """Two recorded answers compared."""

    answer_a: str
    answer_b: str


async def replay(session: Session, asked: Replay) -> ReplayReport:
    """Ask a recorded question again and compare."""
    record, recorded = await _load(session, asked.answer_id, asked.access)
    if asked.as_of_answer:
        refuse_code(record)
    request = replay_request(record)
    if isinstance(request, DocumentRagRequest):
        # An answer that the reader may not see any more is left out.
        with suppress(NotFound):
            request = await with_conversation(session, request)
    past = asked.as_of_answer or "as_of" in record.settings
    names = split_collections(record.collection)
    if past and len(names) > 1:
        raise BadInput(
            f"answer {asked.answer_id!r} is from several collections, whose former documents cannot be read at once",
            hint="leave out --as-of-answer",
        )
    moments = {name: await recorded_moment(session, record, name) for name in names}
    at, version = moments[names[0]], _NOW
    if isinstance(request, DocumentRagRequest) and past:
        version = at.version
        async with client_at(session, record.collection, request.access, at) as client:
            again = await _ask_again(client, request, asked.timeout_s)
    else:
        again = await _ask_again(session.client, request, asked.timeout_s)
    versions = {name: (one.version, version) for name, one in moments.items()}
    net = await _net(session, versions, (recorded, again), asked.access)
    return ReplayReport(answer_id=asked.answer_id, **asdict(compare_answers(recorded, again, net)))


async def diff_answers(
    session: Session, answer_a: str, answer_b: str, access: Access
) -> AnswerDiff:
    """Compare two recorded answers."""
    (one, before), (other, after) = [
        await _load(session, answer_id, access) for answer_id in (answer_a, answer_b)
    ]
    net = NetChanges()
    if one.collection == other.collection:
        versions = {}
        for name in split_collections(one.collection):
            moments = [await recorded_moment(session, record, name) for record in (one, other)]
            versions[name] = moments[0].version, moments[1].version
        net = await _net(session, versions, (before, after), access)
    found = compare_answers(before, after, net)
    return AnswerDiff(answer_a=answer_a, answer_b=answer_b, **asdict(found))


async def _load(
    session: Session, answer_id: str, access: Access
) -> tuple[TraceRecord, RecordedAnswer]:
    """Load an answer all of whose candidates the reader may see."""
    loaded = await delay_refusal(_find_whole(session, answer_id, access))
    record = loaded.record
    if record.answer is None or not isinstance(record.settings.get("doc_limit"), int):
        raise BadInput(
            f"answer {answer_id!r} cannot be compared or replayed: the question failed",
            hint=f"`whence explain {answer_id}` shows where",
        )
    return record, RecordedAnswer(trace=loaded.trace, answer=record.answer, access=record.access)


async def _find_whole(session: Session, answer_id: str, access: Access) -> ReadableTrace:
    loaded = await find_trace(session, answer_id, access)
    if not chunk_ids(loaded.trace) <= loaded.visible:
        raise answer_not_found(answer_id)
    return loaded


async def _net(
    session: Session,
    versions: Mapping[str, tuple[int, int]],
    runs: tuple[RecordedAnswer, RecordedAnswer],
    access: Access,
) -> NetChanges:
    """Return what differs between two versions of each collection, of the documents that the reader may see."""
    store = await session.store()
    found = NetChanges()
    for name, pair in versions.items():
        entries = await store.changes(name, access, after=min(pair), whole=True)
        net = net_changes(entries, *pair, was=runs[0].access, now=runs[1].access)
        if runs[0].access == runs[1].access and not net.documents:
            net = replace(net, hidden=await store.was_hidden(name, access, *pair))
        # Values are tuples of names, and whether something is so.
        found = NetChanges(
            **{
                key: one + other if isinstance(one, tuple) else one or other
                for key, one in asdict(found).items()
                for other in [getattr(net, key)]
            }
        )
    return found


def replay_request(record: TraceRecord) -> DocumentRagRequest | CodeRagRequest:
    """Return the request that repeats a recorded question without recording a trace."""
    settings = record.settings
    about_code = settings.get("flow") == CODE_RAG
    if "operation" not in settings:
        return _code_request(record) if about_code else _document_request(record)
    fields = msgspec.json.decode(settings["operation"])
    fields |= {"access": to_builtins(record.access), "question": record.question, "record": False}
    fields["day"] = fields.get("day") or record.asked_at[:10]
    # A snapshot that was found by its set is named itself.
    fields.pop("set_name", None)
    if about_code:
        return msgspec.convert(fields, CodeRagRequest)
    return msgspec.convert(fields, DocumentRagRequest)


#: Fields of a question by the settings of a trace that was recorded without the question itself, before 0.2.
_RENAMED = {"rerank_diversity": "diversity", "rerank_diversity_lambda": "diversity_lambda"}


def _document_request(record: TraceRecord) -> DocumentRagRequest:
    settings = {_RENAMED.get(name, name): value for name, value in record.settings.items()}
    fields: dict[str, Any] = {"diversity": "none", "collection": record.collection}
    for name in settings.keys() & parameters(Ask).keys():
        value = settings[name]
        fields[name] = json.loads(value) if name in ("filters", "history") else value
    fields.pop("as_of", None)
    fields |= {"access": to_builtins(record.access), "question": record.question, "record": False}
    return msgspec.convert(fields, DocumentRagRequest)


def _code_request(record: TraceRecord) -> CodeRagRequest:
    settings = record.settings
    relations = settings["graph_edge_allowlist"]
    return CodeRagRequest(
        access=record.access,
        question=record.question,
        snapshot=settings["snapshot_id"],
        seed_limit=settings["seed_limit"],
        doc_limit=settings["graph_max_nodes"],
        max_depth=settings["graph_max_depth"],
        relations=("*",) if relations == "*" else tuple(msgspec.json.decode(relations)),
        direction=settings["graph_direction"],
        prioritize=settings["prioritize"],
        budget=TextBudget(kind=settings["budget_kind"], limit=settings["budget_limit"]),
        mode=settings["mode"],
        record=False,
    )


async def _ask_again(
    client: FlowClient, request: DocumentRagRequest | CodeRagRequest, timeout_s: float
) -> RecordedAnswer:
    triples: list[Triple] = []

    async def keep(of_stage: tuple[Triple, ...], _uri: str) -> None:
        triples.extend(of_stage)

    replies = client.ask(request, timeout_s=timeout_s)
    answer = await collect_answer(replies, explain_callback=keep)
    trace = read_trace(triples, answer.answer_id)
    return RecordedAnswer(trace=trace, answer=answer, access=request.access)
