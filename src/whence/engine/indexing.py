"""From paths to a stored collection: read, cut, send in batches, count what became of each document."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence.engine.results import DocumentCounts, IndexReport, PathFailure
from whence.ingest.outcomes import LoadedDocument, LoadFailure, Skipped
from whence.schema.errors import InternalError
from whence.schema.ingest import DocumentDraft, IngestRequest, IngestResponse

if TYPE_CHECKING:
    from whence.flow.client import FlowClient

__all__ = ("Indexing",)

Loaded = LoadedDocument | LoadFailure | Skipped
Progress = Callable[[int, int | None], None]

#: Documents and characters of text in one message: enough to fill the encoder's batches, and with all
#: overlap and JSON escapes still well below a broker's limit of 5 MiB.
_BATCH_DOCUMENTS = 64
_BATCH_CHARACTERS = 200_000
#: Messages on their way at once: one is embedded while the next is read and cut.
_IN_FLIGHT = 2
#: Seconds that one batch may take. Embedding the largest takes about a minute on one slow core.
_BATCH_TIMEOUT_S = 900.0


class Indexing:
    """One run of indexing.

    Memory holds a few batches, whatever the number of documents, and the ids of the documents seen.

    Args:
        client: Where documents are sent.
        collection: Collection they go into.
        progress: Called with the number of documents done so far.
    """

    def __init__(
        self, client: FlowClient, collection: str, progress: Progress | None = None
    ) -> None:
        self._client = client
        self._progress = progress
        self._started = time.monotonic()
        self._ids: set[str] = set()
        self._nameless_failure = False
        self.report = IndexReport(collection=collection, documents=DocumentCounts(), failures=[])

    async def run(self, documents: Iterator[Loaded]) -> IndexReport:
        """Send everything and give the report.

        Raises:
            WhenceError: The flow refused a whole batch; those before it are stored.
        """
        # Never full of more than what is on its way, so that reading waits for storing.
        slots = asyncio.Semaphore(_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            while batch := await asyncio.to_thread(self._next_batch, documents):
                await slots.acquire()
                group.create_task(self._send(batch, slots))
        self.report.seconds = round(time.monotonic() - self._started, 3)
        return self.report

    def gone(self, stored: list[str]) -> list[str]:
        """Give the stored ids that no path has any more; none when a failure might be one of them."""
        if self._nameless_failure:
            return []
        return [document_id for document_id in stored if document_id not in self._ids]

    def _next_batch(self, documents: Iterator[Loaded]) -> list[DocumentDraft]:
        """Read on until a batch is full or nothing is left; failures are noted on the way."""
        batch: list[DocumentDraft] = []
        size = 0
        for item in documents:
            if isinstance(item, LoadedDocument):
                batch.append(item.draft)
                self._ids.add(item.draft.document_id)
                size += sum(
                    len(chunk.content) + len(chunk.embed_text) for chunk in item.draft.chunks
                )
            elif isinstance(item, LoadFailure):
                self._note_failure(item)
            else:
                self.report.documents.skipped += 1
            if len(batch) >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
                break
        return batch

    def _note_failure(self, failure: LoadFailure) -> None:
        self._fail(failure.path, failure.reason)
        if failure.document_id is None:
            self._nameless_failure = True
        else:
            self._ids.add(failure.document_id)

    def _fail(self, path: str, reason: str) -> None:
        self.report.documents.failed += 1
        self.report.failures.append(PathFailure(path=path, reason=reason))

    async def _send(self, batch: list[DocumentDraft], slots: asyncio.Semaphore) -> None:
        try:
            request = IngestRequest(collection=self.report.collection, documents=tuple(batch))
            response = await self._client.ingest(request, timeout_s=_BATCH_TIMEOUT_S)
        finally:
            slots.release()
        self._count(batch, response)

    def _count(self, batch: list[DocumentDraft], response: IngestResponse) -> None:
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
        if self._progress is not None:
            done = counts.added + counts.updated + counts.unchanged + counts.failed
            self._progress(done, None)
