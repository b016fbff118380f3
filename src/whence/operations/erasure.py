"""Erasure of documents from a collection: their rows, their words in traces, and what these leave in files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from whence.operations.ask import DocumentRagRequest
from whence.operations.recorded_answers import replay_request
from whence.processors.recorder import erase_documents_of, erase_lost_words
from whence.provenance.erasing import ERASED
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import NotFound, WhenceError
from whence.store.chunk_ids import document_key
from whence.store.protocols import DocumentParts, Expunged, StoredTrace

if TYPE_CHECKING:
    from whence.operations.index import Progress
    from whence.operations.session import Session
    from whence.store.protocols import Store

#: Time of a question that is asked again, in seconds.
_QUESTION_TIMEOUT_S = 120.0


class StoredCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what is stored of a document."""

    documents: int
    """1 if the collection contains it, else 0."""
    chunks: int
    vectors: int
    postings: int
    """Distinct words of its chunks in the lexical index, summed over the chunks."""
    links: int
    """Names in the passage graph that its chunks define or mention."""
    versions: int
    """Its former versions, and entries of the change log that name it."""
    traces: int
    """Traces that name it."""
    traces_with_text: int
    """Traces that contain words of it: a quote, or an answer written from it."""


class AffectedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A stored answer that contains words of a document."""

    answer_id: str
    question: str
    asked_at: str
    """ISO 8601 in UTC."""
    citations: int
    """Citations of the document."""
    falls: bool
    """Whether the text of the answer is erased too: its writer had read the document."""


class AskedAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A question whose answer was erased, asked again."""

    answer_id: str
    """Of the erased answer."""
    question: str
    new_answer_id: str = ""
    """Of the answer that names it as its former version; empty when the question failed."""
    found: bool = False
    """Whether citations support the new answer."""
    error: str = ""
    """Why the question failed."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """An erased document: counts before and after."""

    document_id: str
    collection: str
    before: StoredCounts
    after: StoredCounts
    """Zero except for `traces`, which keep a tombstone."""
    answers: tuple[AffectedAnswer, ...] = ()
    """Stored answers from which words of it were erased."""
    trace_files: int = 0
    """Pipeline traces in the folder of the setting that named it and were deleted."""
    physical: Expunged
    """What was done about the bytes in files, for all documents of the call."""
    asked_again: tuple[AskedAgain, ...] = ()
    """Questions of all documents of the call that were asked again."""


class ErasurePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure would remove."""

    document_id: str
    collection: str
    before: StoredCounts
    answers: tuple[AffectedAnswer, ...] = ()


async def erase_documents(
    store: Store,
    collection: str,
    document_ids: Sequence[str],
    *,
    trace_dir: Path | None = None,
    progress: Progress | None = None,
) -> list[Erasure]:
    """Erase documents: rows first, then their words in traces, then once for all what these left in files.

    Can be repeated after an interruption. Cost: linear in the traces that name a document and in the size of
    the store.

    Args:
        store: The store.
        collection: Collection of the documents.
        document_ids: The documents.
        trace_dir: Folder of pipeline traces; those that name a document are deleted.
        progress: As for `Store.expunge`.
    """
    former = {name: await _Former.read(store, collection, name) for name in document_ids}
    finished = await store.is_expunged()
    for name, one in former.items():
        if finished and not one.exists:
            raise _not_found(collection, name)
    texts: list[str] = []
    removed: list[tuple[str, DocumentParts, DocumentParts]] = []
    erased_at = datetime.now(UTC).isoformat()
    for name, one in former.items():
        texts += [*one.stored, *one.quotes]
        removed.append((name, *await store.erase_document(collection, name)))
    keys = {name: document_key(collection, name).encode() for name in former}
    deleted = await asyncio.to_thread(_delete_traces, trace_dir, keys) if trace_dir else {}
    # A question that is being answered is recorded without these words from now on.
    for name in former:
        async for _, clean in _traces(store, collection, name, erased_at):
            await store.rewrite_trace(clean)
        # What a reader wrote about an answer may quote the document.
        await store.erase_notes(await store.traces_about(collection, name))
    await _erase_corrections(store, collection)
    physical = await store.expunge(list(dict.fromkeys(texts)), progress=progress)
    now = {name: await _Former.read(store, collection, name) for name in former}
    return [
        Erasure(
            document_id=name,
            collection=collection,
            before=former[name].remains(stored),
            after=now[name].remains(left),
            answers=former[name].answers,
            trace_files=deleted.get(name, 0),
            physical=physical,
        )
        for name, stored, left in removed
    ]


def _delete_traces(folder: Path, keys: Mapping[str, bytes]) -> dict[str, int]:
    """Delete the pipeline traces that name chunks of documents; return how many of each.

    Args:
        folder: The folder of the setting.
        keys: Beginning of the chunk ids by document.
    """
    deleted = dict.fromkeys(keys, 0)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        data = path.read_bytes()
        named = [name for name, key in keys.items() if key in data]
        if named:
            path.unlink()
        for name in named:
            deleted[name] += 1
    return deleted


def broker_hint(url: str) -> str:
    """Return what a broker may still hold, and which commands end it; empty for the one in this process."""
    if not url.startswith("pulsar"):
        return ""
    return (
        "the broker may hold messages with words of it: `whence dlq list` shows dead letters and `whence dlq drop`"
        " removes them; acknowledged messages stay for the retention of its namespace"
        " (`pulsar-admin namespaces get-retention TENANT/NAMESPACE`)"
    )


def with_remaining_copies(physical: Expunged, hint: str) -> Expunged:
    """Return a report to which something is added that is not gone."""
    hints = "; ".join(filter(None, (physical.hint, hint)))
    return msgspec.structs.replace(physical, done=False, hint=hints)


async def ask_again(session: Session, erased: Iterable[Erasure]) -> list[AskedAgain]:
    """Ask the questions whose answers were erased, with their rights and settings; store both answers.

    A question that fails does not stop the others. Cost: that of the questions, one after the other.
    """
    store = await session.store()
    fallen = {one.answer_id: one.question for each in erased for one in each.answers if one.falls}
    asked = []
    for answer_id, question in fallen.items():
        stored = await store.trace(answer_id)
        if stored is None:
            continue
        request = replay_request(stored.record)
        if not isinstance(request, DocumentRagRequest):
            continue
        request = msgspec.structs.replace(request, record=True, revision_of=answer_id)
        fields: dict[str, Any]
        try:
            answer = await session.send(request, _QUESTION_TIMEOUT_S)
            fields = {"new_answer_id": answer.answer_id, "found": answer.found}
        except WhenceError as error:
            fields = {"error": error.message}
        asked.append(AskedAgain(answer_id=answer_id, question=question, **fields))
    return asked


async def _erase_corrections(store: Store, collection: str) -> None:
    """Erase from traces what misspelt words were taken for, if no document has it any more."""
    for answer_id in await store.traces_corrected(collection):
        stored = await store.trace(answer_id)
        if stored is None:
            continue
        clean = await erase_lost_words(store, stored.record)
        if clean is not stored.record:
            await store.rewrite_trace(clean)


async def preview_erasure(
    store: Store, collection: str, document_ids: Sequence[str]
) -> list[ErasurePreview]:
    """Return what an erasure would remove, and which answers it would change. Nothing is changed."""
    found = []
    for name in document_ids:
        former = await _Former.read(store, collection, name)
        if not former.exists:
            raise _not_found(collection, name)
        found.append(
            ErasurePreview(
                document_id=name,
                collection=collection,
                before=former.remains(former.parts),
                answers=former.answers,
            )
        )
    return found


def _not_found(collection: str, document_id: str) -> NotFound:
    return NotFound(
        f"there is no document {document_id!r} in collection {collection!r}",
        hint="`whence search --json` prints the ids of documents; --collection names another collection",
    )


class _Former(msgspec.Struct, kw_only=True):
    """What is stored of a document before it is erased."""

    parts: DocumentParts
    stored: list[str]
    """Its texts, titles and headings."""
    named: int = 0
    """Traces that name it."""
    answers: tuple[AffectedAnswer, ...] = ()
    quotes: tuple[str, ...] = ()
    """Words of it in traces."""

    @classmethod
    async def read(cls, store: Store, collection: str, document_id: str) -> _Former:
        found = cls(
            stored=await store.stored_texts(collection, document_id),
            parts=await store.document_parts(collection, document_id),
        )
        quotes: dict[str, None] = {}
        answers = []
        async for stored, clean in _traces(store, collection, document_id, ""):
            record = stored.record
            found.named += 1
            if clean.answer != record.answer or clean.events != record.events:
                answers.append(_answer(stored, clean, document_id))
                quotes |= dict.fromkeys(_erased_strings(record, clean))
        found.answers, found.quotes = tuple(answers), tuple(quotes)
        return found

    @property
    def exists(self) -> bool:
        """Whether the document, a former version or words of it are stored."""
        return self.parts.documents + self.parts.versions > 0 or bool(self.answers)

    def remains(self, parts: DocumentParts) -> StoredCounts:
        """Return the counts for the report."""
        return StoredCounts(**asdict(parts), traces=self.named, traces_with_text=len(self.answers))


def _answer(stored: StoredTrace, clean: TraceRecord, document_id: str) -> AffectedAnswer:
    record = stored.record
    answer = record.answer
    return AffectedAnswer(
        answer_id=record.answer_id,
        question=record.question,
        asked_at=record.asked_at or stored.recorded_at,
        citations=sum(one.document_id == document_id for one in answer.citations) if answer else 0,
        falls=answer is not None and clean.answer is not None and clean.answer.text != answer.text,
    )


def _erased_strings(record: TraceRecord, clean: TraceRecord) -> Iterable[str]:
    """Return the answer's text and the quotes that a clean trace lacks."""
    before, after = record.answer, clean.answer
    if before is None or after is None:
        return
    if before.text != after.text:
        yield before.text
    for one, other in zip(before.citations, after.citations, strict=True):
        if one.quote not in {other.quote, ERASED}:
            yield one.quote


async def _traces(
    store: Store, collection: str, document_id: str, erased_at: str
) -> AsyncIterator[tuple[StoredTrace, TraceRecord]]:
    """Yield each trace that names a document, and its record without words of it."""
    for answer_id in await store.traces_about(collection, document_id):
        stored = await store.trace(answer_id)
        if stored is None:
            continue
        yield stored, erase_documents_of(stored.record, {document_id}, erased_at, collection)
