"""One run of indexing: paths in, a stored collection and an `IndexReport` out.

Documents are read in another process, chunked in a thread, and sent to the flow in batches while the next ones
are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from whence.ingest.load_results import LoadedDocument, LoadFailure, LoadResult, Unchanged
from whence.operations.results import DocumentCounts, IndexReport, PathFailure
from whence.schema.errors import InternalError
from whence.schema.ingest import DocumentDraft, IngestRequest
from whence.text.languages import language_code, language_sample

if TYPE_CHECKING:
    from whence.flow.client import FlowClient
    from whence.flow.settings import Settings
    from whence.ingest.documents import KnownSources
    from whence.models.protocols import Embedder
    from whence.operations.index import Index, Progress
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.store.protocols import ChunkStore

#: Documents and characters of text in one message. Large enough to fill the encoder's batches and to share the
#: cost of a transaction; small enough, with overlap and JSON escapes, for a broker's limit of 5 MiB.
_BATCH_DOCUMENTS = 128
_BATCH_CHARACTERS = 200_000
#: Documents, changed or not, after which a batch is sent and progress is reported.
_BATCH_OUTCOMES = 512
#: Messages in flight: one is stored while the next is read and chunked.
_IN_FLIGHT = 2
#: Why a document is not stored for a writer.
_UNSEEN = "its own access tags hide it from the one who stores it"
_TAKEN = "its id is not available"
#: Timeout of one batch, in seconds. Embedding the largest takes about a minute on one slow core.
_BATCH_TIMEOUT_S = 900.0


async def index_paths(
    session: Session, asked: Index, *, writer: Access | None = None, remember: bool = True
) -> IndexReport:
    """Index files and folders.

    Args:
        session: Of the engine.
        asked: What is indexed, and how.
        writer: Rights of who stores: documents that these do not see are neither stored nor replaced.
        remember: Whether the paths are those at which documents are found later.
    """
    from whence.ingest.chunking import Chunker
    from whence.ingest.documents import count_documents, load_documents
    from whence.operations.pending_vectors import collection_embedder
    from whence.operations.source_roots import record_roots
    from whence.store.field_boosts import parse_field_boosts

    collection, weights = asked.collection, None
    if asked.boosts is not None:
        weights = parse_field_boosts(asked.boosts)
    embedder = await collection_embedder(session, collection)
    if hasattr(embedder, "prepare"):
        await embedder.prepare()
    chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
    wanted = [Path(path) for path in asked.paths]
    keep = asked.token_vectors
    if keep is None:
        keep = session.settings.token_vectors
    run = _IndexRun(
        session.client, collection, asked.progress, lambda: count_documents(wanted), keep
    )
    run.served = getattr(getattr(embedder, "encoder", None), "languages", ())
    known = await _known_sources(session, collection, embedder) if writer is None else None
    if writer is not None:
        run.guard = partial(_hidden_from, writer, await session.store(), collection)
    with session.readers.reader() as reader:
        documents = load_documents(
            wanted, chunker=chunker, tags=asked.tags, known=known, reader=reader
        )
        report = await run.run(documents)
    if asked.prune:
        store = await session.store()
        missing = run.missing(await store.document_ids(collection), prune=True)
        report.documents.removed = await store.remove_documents(collection, missing)
    elif remember and known is not None:
        store = await session.store()
        missing = run.missing(await store.document_ids(collection), prune=False)
        report.gone = await asyncio.to_thread(_gone, session.settings, collection, wanted, missing)
        report.elsewhere = len(missing) - report.gone
    if remember:
        await asyncio.to_thread(record_roots, session.settings, collection, wanted)
    if weights is not None:
        await (await session.store()).boost_fields(collection, weights)
    await run.make_vectors(session, asked)
    return report


def _gone(settings: Settings, collection: str, paths: Iterable[Path], missing: list[str]) -> int:
    """Return how many of these documents came from folders among the paths."""
    from whence.operations.source_roots import ids_below

    folders = [str(path) for path in paths if missing and path.is_dir()]
    found = (ids_below(settings, collection, folder, missing) for folder in folders)
    return len(set(chain.from_iterable(found)))


async def _hidden_from(
    writer: Access, store: ChunkStore, collection: str, drafts: Sequence[DocumentDraft]
) -> dict[str, str]:
    """Return why a writer may not store documents, by id."""
    states = await store.document_states(collection, [one.document_id for one in drafts])
    hidden = {one.document_id: _UNSEEN for one in drafts if not writer.allows(one.tags)}
    taken = {name: _TAKEN for name, state in states.items() if not writer.allows(state.tags)}
    return hidden | taken


async def _known_sources(
    session: Session, collection: str, embedder: Embedder
) -> KnownSources | None:
    from whence.ingest.documents import KnownSources

    if not session.runs_flow:
        return None
    store = await session.store()
    model = embedder.model
    loop = asyncio.get_running_loop()

    def find(ids: Sequence[str]) -> Callable[[], Mapping[str, str]]:
        # Called in the thread that reads documents; it reads on and waits for the result later.
        digests = store.source_digests(collection, ids)
        return asyncio.run_coroutine_threadsafe(digests, loop).result

    return KnownSources(lookup=find, tokenizer=f"{model.name} {model.revision}")


def _above(document_id: str) -> Iterator[str]:
    """Yield the ids of the documents that a document may be inside of."""
    at = document_id.find("/")
    while at >= 0:
        yield document_id[:at]
        at = document_id.find("/", at + 1)


class _Batch(msgspec.Struct):
    """Documents read together."""

    drafts: list[DocumentDraft]
    outcomes: int = 0
    size: int = 0
    last: bool = True

    @property
    def full(self) -> bool:
        return (
            len(self.drafts) >= _BATCH_DOCUMENTS
            or self.size >= _BATCH_CHARACTERS
            or self.outcomes >= _BATCH_OUTCOMES
        )


class _IndexRun:
    """Sends documents and counts outcomes.

    Memory is bounded by a few batches, plus the ids of all documents.
    """

    def __init__(
        self,
        client: FlowClient,
        collection: str,
        progress: Progress | None,
        count_documents: Callable[[], int],
        token_vectors: bool,
    ) -> None:
        self._client = client
        self._progress = progress
        self._count = count_documents
        self._token_vectors = token_vectors
        self._total: int | None = None
        self._done = 0
        self._started = time.monotonic()
        self._ids: set[str] = set()
        self._skipped_ids: set[str] = set()
        #: Documents that were not parsed, so that those inside them are not known.
        self._unread_wholes: set[str] = set()
        self._unidentified_failure = False
        self._stopped = False
        self.guard: Callable[[Sequence[DocumentDraft]], Awaitable[dict[str, str]]] | None = None
        """Returns why some documents may not be stored, by id."""
        self.served: Collection[str] = ()
        """Languages that the encoder serves; empty when not known."""
        self.report = IndexReport(collection=collection, documents=DocumentCounts(), failures=[])

    async def run(self, documents: Iterator[LoadResult]) -> IndexReport:
        """Send all documents and return the report."""
        # Bounds memory: reading waits for storing.
        slots = asyncio.Semaphore(_IN_FLIGHT)
        counting = asyncio.create_task(self._count_all())
        try:
            async with asyncio.TaskGroup() as group:
                last = False
                while not last:
                    batch = await asyncio.to_thread(self._next_batch, documents)
                    last = batch.last
                    self._report_progress(batch.outcomes - len(batch.drafts))
                    if batch.drafts:
                        await slots.acquire()
                        group.create_task(self._send(batch.drafts, slots))
        except BaseExceptionGroup as errors:  # callers expect the error itself
            raise errors.exceptions[0] from None
        finally:
            # A thread cannot be cancelled; the reading one stops at the next document.
            self._stopped = True
            counting.cancel()
        self.report.seconds = self._seconds()
        return self.report

    async def make_vectors(self, session: Session, asked: Index) -> None:
        """Make the vectors that passages wait for, or count these passages when nobody waits."""
        from whence.operations.pending_vectors import make_vectors

        if not asked.wait:
            if session.runs_flow:
                left = await (await session.store()).vector_progress(asked.collection)
                self.report.waiting = 0 if left is None else left.pending
            return
        made = await make_vectors(self._client, asked.collection, asked.on_vectors)
        self.report.embedded += made.embedded
        self.report.waiting, self.report.waiting_reason = made.waiting, made.reason
        for name, outcome in made.refused.items():
            self._fail(name, outcome.reason)
        self.report.seconds = self._seconds()

    def _seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def missing(self, stored: list[str], *, prune: bool) -> list[str]:
        """Return the stored ids that no path contains; none when a failure may be one of them.

        Documents of skipped files stay. What `prune` keeps is counted.
        """
        if prune:
            self.report.kept_skipped = len(self._skipped_ids.intersection(stored))
        known = self._ids | self._skipped_ids
        missing = [
            document_id
            for document_id in stored
            if document_id not in known
            and not self._unread_wholes.intersection(_above(document_id))
        ]
        if not self._unidentified_failure:
            return missing
        if prune:
            self.report.kept = len(missing)
        return []

    async def _count_all(self) -> None:
        if self._progress is not None:
            self._total = await asyncio.to_thread(self._count)
            self._report_progress(0)

    def _next_batch(self, documents: Iterator[LoadResult]) -> _Batch:
        batch = _Batch([])
        for item in documents:
            batch.outcomes += 1
            if isinstance(item, LoadedDocument):
                self._note_read(item.draft.document_id, item.kind)
                self._note_language(item.draft)
                batch.drafts.append(item.draft)
                chunks = item.draft.chunks
                batch.size += sum(len(one.content) + len(one.embed_text) for one in chunks)
            elif isinstance(item, Unchanged):
                self._note_read(item.document_id, item.kind)
                self._unread_wholes.add(item.document_id)
                self.report.documents.unchanged += 1
            elif isinstance(item, LoadFailure):
                self._fail(item.path, item.reason)
                if item.document_id is None:
                    self._unidentified_failure = True
                else:
                    self._ids.add(item.document_id)
                    self._unread_wholes.add(item.document_id)
            else:
                self.report.documents.skipped += 1
                if item.document_id is not None:
                    self._skipped_ids.add(item.document_id)
                reasons = self.report.skipped
                reasons[item.reason] = reasons.get(item.reason, 0) + 1
            if batch.full or self._stopped:
                batch.last = self._stopped
                break
        return batch

    def _note_read(self, document_id: str, kind: str) -> None:
        self._ids.add(document_id)
        self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1

    def _note_language(self, draft: DocumentDraft) -> None:
        if self.served:
            code = language_code(language_sample(one.content for one in draft.chunks))
            if code not in self.served:
                self.report.not_served[code] = self.report.not_served.get(code, 0) + 1

    def _fail(self, path: str, reason: str) -> None:
        self.report.documents.failed += 1
        self.report.failures.append(PathFailure(path=path, reason=reason))

    async def _send(self, batch: Sequence[DocumentDraft], slots: asyncio.Semaphore) -> None:
        try:
            if self.guard is not None:
                batch = await self._guarded(batch, self.guard)
            request = IngestRequest(
                collection=self.report.collection,
                documents=tuple(batch),
                token_vectors=self._token_vectors,
                vectors_later=True,
            )
            response = await self._client.ingest(request, timeout_s=_BATCH_TIMEOUT_S)
        finally:
            slots.release()
        if len(response.outcomes) != len(batch):
            raise InternalError(
                f"{len(batch)} documents were sent and {len(response.outcomes)} accounted for"
            )
        if not self.report.seconds_to_first_search:
            self.report.seconds_to_first_search = self._seconds()
        counts = self.report.documents
        for outcome in response.outcomes:
            if outcome.outcome == "failed":
                self._fail(outcome.document_id, outcome.reason)
                continue
            setattr(counts, outcome.outcome, getattr(counts, outcome.outcome) + 1)
            self.report.embedded += outcome.embedded
            if outcome.outcome != "unchanged":
                self.report.chunks += outcome.chunks
        self._report_progress(len(batch))

    async def _guarded(
        self,
        batch: Sequence[DocumentDraft],
        guard: Callable[[Sequence[DocumentDraft]], Awaitable[dict[str, str]]],
    ) -> list[DocumentDraft]:
        """Return the documents that may be stored; the others have failed."""
        refused = await guard(batch)
        for name, reason in refused.items():
            self._fail(name, reason)
        return [one for one in batch if one.document_id not in refused]

    def _report_progress(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            total = self._total
            self._progress(self._done, None if total is None else max(total, self._done))
