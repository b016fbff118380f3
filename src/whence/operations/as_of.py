"""Questions as of an earlier version of a collection: the same flow, on a store that has this version alone.

The rights are those of today: the reader's, and the tags that a document has now, or had when it was removed.
The version is read into memory for the one question, so the cost is linear in the collection. A date means its
end, and a time without a zone is UTC.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from whence.operations.changes import parse_moment
from whence.operations.trace_access import load_trace
from whence.schema.code_rag import CODE_RAG
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.flow.client import FlowClient
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.schema.document_rag import TraceRecord

#: Types of processors that a question of documents needs.
_QUESTION_TYPES = (
    "embedding", "search", "text-fetcher", "reranker", "prompt", "document-rag", "recorder",
)  # fmt: skip
_MODELS = ("embedder", "reranker", "writer")


class CollectionMoment(msgspec.Struct, frozen=True):
    """A version of a collection, and a moment at which it was the current one."""

    version: int
    moment: datetime

    @property
    def label(self) -> str:
        """The moment in ISO 8601, for the settings of an answer."""
        return self.moment.astimezone(UTC).isoformat()


async def find_moment(
    session: Session, collection: str, as_of: str, access: Access
) -> CollectionMoment:
    """Return the version that a date, a time or the id of an answer names.

    Raises:
        NotFound: It is no date, and no answer that the reader may see.
        BadInput: The moment lies in the future, or the answer is one of another collection or about code.
    """
    try:
        moment = parse_moment(as_of, end_of_day=True)
    except BadInput:
        record = (await load_trace(session, as_of, access)).record
        refuse_code(record)
        if record.collection != collection:
            raise BadInput(
                f"answer {as_of!r} is from collection {record.collection!r}, not {collection!r}",
                hint=f"add --collection {record.collection}",
            ) from None
        return await recorded_moment(session, record)
    now = datetime.now(UTC)
    if moment > now and moment.astimezone(UTC).date() > now.date():
        raise BadInput(f"{as_of!r} lies in the future")
    moment = min(moment, now)
    version = await (await session.store()).version_at(collection, moment)
    return CollectionMoment(version, moment)


def refuse_code(record: TraceRecord) -> None:
    """Refuse an answer about code: its snapshot never changes, and no document of a moment belongs to it.

    Raises:
        BadInput: The answer is about code.
    """
    if record.settings.get("flow") == CODE_RAG:
        raise BadInput(
            f"answer {record.answer_id!r} is about code, which has no earlier moments: its snapshot never changes",
            hint=f"`whence replay {record.answer_id}` reads that snapshot again;"
            f" `whence ask --snapshot {record.settings['snapshot_id']}` asks about it",
        )


async def recorded_moment(
    session: Session, record: TraceRecord, collection: str | None = None
) -> CollectionMoment:
    """Return the version that an answer was made at; by its time if it was recorded without one.

    `collection` is one of several that were asked.
    """
    collection = collection or record.collection
    asked = record.settings.get("as_of") or record.asked_at or datetime.now(UTC).isoformat()
    moment = datetime.fromisoformat(asked)
    version = record.version_of(collection)
    if not version:
        version = await (await session.store()).version_at(collection, moment)
    return CollectionMoment(version, moment)


@asynccontextmanager
async def client_at(
    session: Session, collection: str, access: Access, at: CollectionMoment
) -> AsyncIterator[FlowClient]:
    """Run the flow in this process, on one version of a collection; yield its client.

    Traces go to the store of the session.

    Raises:
        BadInput: The version cannot be read; see `ChunkStore.store_at`.
    """
    from whence.broker.connect import connect
    from whence.flow.loader import load_flow
    from whence.flow.resources import Resources
    from whence.flow.runtime import run_flow

    store = await session.store()
    past = await store.store_at(collection, access, at.version, at.moment)
    past.record_trace = store.record_trace
    definition = load_flow(session.flow)
    client = session.client
    names = client.names_of_types(_QUESTION_TYPES)
    async with AsyncExitStack() as stack:
        objects = {"store": past}
        for kind in _MODELS:
            if kind not in session.resources.disabled:
                objects[kind] = await session.resources.get(kind)
        settings = session.settings.replace(broker="memory://")
        resources = Resources(settings, objects, processor_arguments={"as_of": at.label})
        stack.push_async_callback(resources.aclose)
        transport = await connect(settings.broker)
        stack.push_async_callback(transport.aclose)
        await stack.enter_async_context(run_flow(definition, transport, resources, only=names))
        yield type(client)(definition, transport)
