"""From paths to a stored collection: read, cut, send in batches, count what became of each document."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from whence.engine.results import DocumentCounts, IndexReport, PathFailure
from whence.ingest.load_results import LoadedDocument, LoadFailure, Outcome, Skipped, Unchanged
from whence.schema.errors import InternalError
from whence.schema.ingest import DocumentDraft, IngestRequest, IngestResponse

if TYPE_CHECKING:
    from whence.flow.client import FlowClient

__all__ = ("Indexing", "Progress", "from_thread")

Progress = Callable[[int, int | None], None]
"""Takes the number of documents done, and of all documents, None as long as that is unknown."""

#: Documents and characters of text in one message: enough to fill the encoder's batches and to share the
#: fixed cost of a transaction, and with all overlap and JSON escapes still well below a broker's limit of
#: 5 MiB.
_BATCH_DOCUMENTS = 128
_BATCH_CHARACTERS = 200_000
#: Documents that are looked at before what became of them is told, changed or not.
_BATCH_LOOKS = 512
#: Messages on their way at once: one is embedded while the next is read and cut.
_IN_FLIGHT = 2
#: Seconds that one batch may take. Embedding the largest takes about a minute on one slow core.
_BATCH_TIMEOUT_S = 900.0


class _Batch(msgspec.Struct):
    """What was read in one go."""

    drafts: list[DocumentDraft]
    looks: int = 0
    size: int = 0
    last: bool = True
    """True when nothing is left to be read."""

    @property
    def full(self) -> bool:
        """True when it should go."""
        return (
            len(self.drafts) >= _BATCH_DOCUMENTS
            or self.size >= _BATCH_CHARACTERS
            or self.looks >= _BATCH_LOOKS
        )


class Indexing:
    """One run of indexing.

    Memory holds a few batches, whatever the number of documents, and the ids seen when `gone` is wanted.

    Args:
        client: Where documents are sent.
        collection: Collection they go into.
        progress: Called after each batch.
        count: Counts the documents; run in a thread beside the first batches, for `progress` only.
        prune: True when `gone` will be asked.
    """

    def __init__(
        self,
        client: FlowClient,
        collection: str,
        progress: Progress | None = None,
        count: Callable[[], int] | None = None,
        *,
        prune: bool = False,
    ) -> None:
        self._client = client
        self._progress = progress
        self._count = count
        self._total: int | None = None
        self._done = 0
        self._started = time.monotonic()
        self._ids: set[str] | None = set() if prune else None
        self._nameless_failure = False
        self._stopped = False
        self.report = IndexReport(collection=collection, documents=DocumentCounts(), failures=[])

    async def run(self, documents: Iterator[Outcome]) -> IndexReport:
        """Send everything and give the report.

        Raises:
            WhenceError: The flow refused a whole batch; those before it are stored.
        """
        # Never full of more than what is on its way, so that reading waits for storing.
        slots = asyncio.Semaphore(_IN_FLIGHT)
        counting = asyncio.create_task(self._count_all())
        try:
            async with asyncio.TaskGroup() as group:
                last = False
                while not last:
                    batch = await asyncio.to_thread(self._next_batch, documents)
                    last = batch.last
                    self._tell(batch.looks - len(batch.drafts))
                    if batch.drafts:
                        await slots.acquire()
                        group.create_task(self._send(batch.drafts, slots))
        finally:
            # A thread cannot be cancelled: the one that reads stops at the next document.
            self._stopped = True
            counting.cancel()
        self.report.seconds = round(time.monotonic() - self._started, 3)
        return self.report

    def gone(self, stored: list[str]) -> list[str]:
        """Give the stored ids that no path has any more; none, but a count, when a failure might be one."""
        if self._ids is None:
            return []
        gone = [document_id for document_id in stored if document_id not in self._ids]
        if not self._nameless_failure:
            return gone
        self.report.kept = len(gone)
        return []

    async def _count_all(self) -> None:
        if self._count is not None and self._progress is not None:
            self._total = await asyncio.to_thread(self._count)
            self._tell(0)

    def _next_batch(self, documents: Iterator[Outcome]) -> _Batch:
        """Read on until a batch is full or nothing is left; what needs no sending is noted on the way."""
        batch = _Batch([])
        for item in documents:
            batch.looks += 1
            if isinstance(item, LoadedDocument):
                self._note_read(item.draft.document_id, item.kind)
                batch.drafts.append(item.draft)
                batch.size += _characters(item.draft)
            elif isinstance(item, Unchanged):
                self._note_read(item.document_id, item.kind)
                self.report.documents.unchanged += 1
            elif isinstance(item, LoadFailure):
                self._note_failure(item)
            else:
                self._note_skipped(item)
            if batch.full or self._stopped:
                batch.last = self._stopped
                break
        return batch

    def _note_read(self, document_id: str, kind: str) -> None:
        self._note_id(document_id)
        self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1

    def _note_id(self, document_id: str) -> None:
        if self._ids is not None:
            self._ids.add(document_id)

    def _note_failure(self, failure: LoadFailure) -> None:
        self._fail(failure.path, failure.reason)
        if failure.document_id is None:
            self._nameless_failure = True
        else:
            self._note_id(failure.document_id)

    def _note_skipped(self, skipped: Skipped) -> None:
        self.report.documents.skipped += 1
        reasons = self.report.skipped
        reasons[skipped.reason] = reasons.get(skipped.reason, 0) + 1

    def _fail(self, path: str, reason: str) -> None:
        self.report.documents.failed += 1
        self.report.failures.append(PathFailure(path=path, reason=reason))

    async def _send(self, batch: Sequence[DocumentDraft], slots: asyncio.Semaphore) -> None:
        try:
            request = IngestRequest(collection=self.report.collection, documents=tuple(batch))
            response = await self._client.ingest(request, timeout_s=_BATCH_TIMEOUT_S)
        finally:
            slots.release()
        self._add(batch, response)

    def _add(self, batch: Sequence[DocumentDraft], response: IngestResponse) -> None:
        if len(response.outcomes) != len(batch):
            raise InternalError(
                f"{len(batch)} documents were sent and {len(response.outcomes)} accounted for"
            )
        counts = self.report.documents
        for outcome in response.outcomes:
            if outcome.outcome == "failed":
                self._fail(outcome.document_id, outcome.reason)
                continue
            setattr(counts, outcome.outcome, getattr(counts, outcome.outcome) + 1)
            self.report.embedded += outcome.embedded
            if outcome.outcome != "unchanged":
                self.report.chunks += outcome.chunks
        self._tell(len(batch))

    def _tell(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            total = self._total
            self._progress(self._done, None if total is None else max(total, self._done))


def _characters(draft: DocumentDraft) -> int:
    return sum(len(chunk.content) + len(chunk.embed_text) for chunk in draft.chunks)


def from_thread(
    ask: Callable[[str, Sequence[str]], Awaitable[dict[str, str]]], collection: str
) -> Callable[[Sequence[str]], Callable[[], Mapping[str, str]]]:
    """Give a question to the store that the thread which reads documents can ask, and wait for later."""
    loop = asyncio.get_running_loop()

    async def answer(ids: Sequence[str]) -> Mapping[str, str]:
        return await ask(collection, ids)

    return lambda ids: asyncio.run_coroutine_threadsafe(answer(ids), loop).result
