"""Who sees a document, by which rule, and what would change with other tags; for the owner of the home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from whence.operations.trace_access import find_trace
from whence.provenance.trace import Trace, read_trace
from whence.schema.access import Access, DocumentTags, TagChange
from whence.schema.errors import NotFound
from whence.store.acl_check import AccessRule, check_rules
from whence.store.chunk_ids import by_collection, chunk_key, split_collections

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.document_rag import TraceRecord
    from whence.store.protocols import DocumentState, Store

#: Latest answers whose readers are compared.
_RECENT = 500


class AccessExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a reader sees a document, and why."""

    document_id: str
    collection: str
    visible: bool
    tags: DocumentTags
    """Of the document."""
    reader: Access
    rules: tuple[AccessRule, ...]
    """All must hold."""
    chunks: int
    chunks_visible: int
    """Chunks that a search of this reader may return: all or none, unless the database was altered."""


class ChangedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Tags of a document before and after."""

    document_id: str
    before: DocumentTags
    after: DocumentTags


class ReaderChange(msgspec.Struct, frozen=True, kw_only=True):
    """A class of readers, and how many of the documents it would see more or fewer."""

    reader: Access
    questions: int
    """Recent questions that were asked with these rights; 0 for rights that follow from the tags."""
    gains: int
    loses: int


class AnswerChange(msgspec.Struct, frozen=True, kw_only=True):
    """A stored answer that its own reader would not see any more, or see again."""

    answer_id: str
    question: str
    reader: Access
    change: str
    """`hidden` or `shown`."""


class AccessPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What other tags would change; documents, readers and answers without a change are left out."""

    collection: str
    documents: tuple[ChangedDocument, ...]
    readers: tuple[ReaderChange, ...]
    answers: tuple[AnswerChange, ...]


async def explain_access(
    store: Store, collection: str, document_id: str, access: Access
) -> AccessExplanation:
    """Return by which rules a reader sees a document or does not.

    Raises:
        NotFound: There is no such document.
    """
    state = (await _states(store, collection, [document_id]))[document_id]
    ids = [chunk_key(collection, document_id, index) for index in range(state.chunks)]
    rules = check_rules(state.tags, access)
    return AccessExplanation(
        document_id=document_id,
        collection=collection,
        visible=access.allows(state.tags),
        tags=state.tags,
        reader=access,
        rules=rules,
        chunks=state.chunks,
        chunks_visible=len(await store.visible_chunks(collection, ids, access)),
    )


async def preview_access(
    session: Session, collection: str, document_ids: Sequence[str], change: TagChange
) -> AccessPreview:
    """Return what other tags of documents would change, for whom. Nothing is changed.

    The classes of readers are the public, those of the latest 500 questions, and for each tag of an ACL a
    reader with that tag who meets the other conditions. Cost: linear in these questions and in the traces
    about the documents.

    Raises:
        NotFound: A document does not exist.
    """
    store = await session.store()
    states = await _states(store, collection, document_ids)
    documents = [
        ChangedDocument(document_id=name, before=state.tags, after=after)
        for name, state in sorted(states.items())
        if (after := change.of(state.tags)) != state.tags
    ]
    asked: dict[Access, int] = {}
    for stored in await store.recent_traces(_RECENT):
        if collection in split_collections(stored.record.collection):
            asked[stored.record.access] = asked.get(stored.record.access, 0) + 1
    readers = dict.fromkeys([*asked, *_readers_of_tags(documents)])
    changes = [_reader_change(one, asked.get(one, 0), documents) for one in readers]
    return AccessPreview(
        collection=collection,
        documents=tuple(documents),
        readers=tuple(one for one in changes if one.gains or one.loses),
        answers=tuple(await _answer_changes(session, collection, documents)),
    )


async def _states(
    store: Store, collection: str, document_ids: Sequence[str]
) -> dict[str, DocumentState]:
    states = await store.document_states(collection, document_ids)
    for name in document_ids:
        if name not in states:
            raise NotFound(
                f"there is no document {name!r} in collection {collection!r}",
                hint="`whence search --json` prints the ids of documents; --collection names another collection",
            )
    return states


def _readers_of_tags(documents: Iterable[ChangedDocument]) -> Iterable[Access]:
    yield Access.public()
    for one in documents:
        both = (one.before, one.after)
        labels = frozenset(label for tags in both for label in tags.labels)
        level = max(tags.clearance for tags in both)
        for tag in sorted({tag for tags in both for tag in tags.acl}):
            yield Access(frozenset({tag}), labels, level)


def _reader_change(
    reader: Access, questions: int, documents: Iterable[ChangedDocument]
) -> ReaderChange:
    seen = [(reader.allows(one.before), reader.allows(one.after)) for one in documents]
    return ReaderChange(
        reader=reader,
        questions=questions,
        gains=seen.count((False, True)),
        loses=seen.count((True, False)),
    )


async def _answer_changes(
    session: Session, collection: str, documents: Sequence[ChangedDocument]
) -> list[AnswerChange]:
    store = await session.store()
    after = {one.document_id: one.after for one in documents}
    ids = {answer for name in after for answer in await store.traces_about(collection, name)}
    changes = []
    for answer_id in sorted(ids):
        stored = await store.trace(answer_id)
        if stored is None:
            continue
        record = stored.record
        shown = await _is_shown(session, answer_id, record.access)
        will_be = await _would_be_shown(store, record, collection, after)
        if shown != will_be:
            changes.append(
                AnswerChange(
                    answer_id=answer_id,
                    question=record.question,
                    reader=record.access,
                    change="shown" if will_be else "hidden",
                )
            )
    return changes


async def _is_shown(session: Session, answer_id: str, reader: Access) -> bool:
    try:
        await find_trace(session, answer_id, reader)
    except NotFound:
        return False
    return True


async def _would_be_shown(
    store: Store, record: TraceRecord, collection: str, after: Mapping[str, DocumentTags]
) -> bool:
    """Return whether the reader of an answer would see all documents that its writer read.

    Deleted ones hide nothing from the one who asked.
    """
    trace: Trace = read_trace(
        [t for event in record.events for t in event.triples], record.answer_id
    )
    documents = trace.documents
    for name, chunks in by_collection(record.collection, trace.used).items():
        used = sorted({documents.get(chunk, "") for chunk in chunks} - {""})
        changed = after if name == collection else {}
        for document, state in (await store.document_states(name, used)).items():
            if not record.access.allows(changed.get(document, state.tags)):
                return False
    return True
