"""Make the vectors that passages of a collection wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from whence.schema.errors import WhenceError
from whence.schema.ingest import DocumentOutcome, IngestRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.flow.client import FlowClient
    from whence.models.protocols import Embedder
    from whence.operations.index import Progress
    from whence.operations.session import Session

#: Passages in one request, and requests in flight: one is embedded while another one is read and stored.
_PASSAGES = 128
_IN_FLIGHT = 2
#: Seconds before passages that other processes embed are looked at again.
_POLL_S = 0.25
_TIMEOUT_S = 900.0


class MadeVectors(msgspec.Struct, kw_only=True):
    """What became of passages that waited."""

    embedded: int = 0
    """Texts that were embedded."""
    stored: int = 0
    """Passages that got a vector."""
    waiting: int = 0
    """Passages that still wait."""
    refused: dict[str, DocumentOutcome] = {}
    """Documents with a text that the encoder does not take."""
    reason: str = ""
    """Why passages still wait; empty when none does."""


async def make_vectors(
    client: FlowClient,
    collection: str,
    progress: Progress | None = None,
    *,
    in_flight: int = _IN_FLIGHT,
) -> MadeVectors:
    """Embed all passages of a collection that wait, together with other processes that do so.

    It ends when none waits, or when the encoder of the collection is not here.

    Raises:
        WhenceError: The store or the embedding service does not answer; what is stored stays.
    """
    made = MadeVectors()

    async def work() -> None:
        while not made.reason:
            request = IngestRequest(collection=collection, documents=(), embed=_PASSAGES)
            reply = await client.ingest(request, timeout_s=_TIMEOUT_S)
            made.embedded += reply.embedded
            made.stored += reply.stored
            made.waiting = reply.waiting
            if reply.reason:
                made.reason = reply.reason
            made.refused |= {one.document_id: one for one in reply.refused}
            if progress is not None and (made.stored or reply.waiting):
                progress(made.stored, made.stored + reply.waiting)
            if not reply.waiting:
                return
            if not (reply.stored or reply.refused or reply.reason):
                await asyncio.sleep(_POLL_S)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
    except* WhenceError as errors:
        raise _first(errors) from None
    return made


def _first(errors: BaseExceptionGroup[WhenceError]) -> WhenceError:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def collection_embedder(session: Session, collection: str) -> Embedder:
    """Return the embedder of a collection: that of its own model where it is installed, else the session's."""
    own: Embedder = await session.resources.get("embedder")
    if not session.runs_flow:
        return own
    library = await session.resources.get("embedders")
    model = await library.model_of(collection)
    if model is None or model == own.model:
        return own
    found: Embedder | None = library.find(model)
    return found or own


async def keep_embedding(
    session: Session, pause_s: float, report: Callable[[str], None] = lambda _: None
) -> None:
    """Embed what waits in any collection, again and again, one request at a time; it ends by cancellation."""
    reported: set[str] = set()
    while True:
        try:
            store = await session.store()
            for collection in await store.pending_collections():
                made = await make_vectors(session.client, collection, in_flight=1)
                if made.reason and made.reason not in reported:
                    reported.add(made.reason)
                    report(made.reason)
        except WhenceError as error:
            if error.message not in reported:
                reported.add(error.message)
                report(error.message)
        await asyncio.sleep(pause_s)
