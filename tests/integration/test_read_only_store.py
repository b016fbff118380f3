"""A store opened for validation: the database itself refuses every change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from whence.flow.read_only import read_only_store
from whence.flow.settings import Settings
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import NotFound, Unavailable, WhenceError
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

MODEL = HashEmbedder(8).model


async def document() -> EmbeddedDocument:
    """Return a document of one chunk."""
    vectors = await HashEmbedder(8).embed(["words"])
    draft = DocumentDraft(document_id="d", chunks=(ChunkDraft(content="words"),), digest="x")
    return EmbeddedDocument(draft=draft, vectors=vectors)


async def _store(store: Any) -> None:
    await store.replace_documents("c", [await document()])


CHANGES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "make a collection": lambda store: store.ensure_collection(
        "new", EmbeddingModel(name="m", dimension=3)
    ),
    "store a document": _store,
    "remove a document": lambda store: store.remove_documents("c", ["d"]),
    "change rights": lambda store: store.retag_documents("c", {"d": DocumentTags(acl=("a",))}),
}


async def test_reads_work_and_writes_are_refused(database_url: str) -> None:
    """Searches, texts and states work; each kind of write is refused and changes nothing."""
    async with await PostgresStore.connect(database_url) as store:
        await store.ensure_collection("c", MODEL)
        await store.replace_documents("c", [await document()])
        before = await store.document_states("c", ["d"])
    async with read_only_store(Settings({"database_url": database_url})) as reader:
        vector = (await HashEmbedder(8).embed(["words"]))[0]
        dense = await reader.search_dense("c", vector, limit=3, access=Access.public())
        words = await reader.search_lexical("c", "words", limit=3, access=Access.public())
        for change in CHANGES.values():
            with pytest.raises(WhenceError):
                await change(reader)
        after = await reader.document_states("c", ["d"])
        names = [one.name for one in await reader.collections()]

    assert [one.document_id for one in (*dense, *words)] == ["d", "d"]
    assert after == before
    assert names == ["c"]


async def test_an_empty_database_stays_empty(database_url: str) -> None:
    """A database without our schema is not migrated."""
    import asyncpg

    admin = await asyncpg.connect(database_url)
    try:
        await admin.execute("DROP SCHEMA whence CASCADE")
        with pytest.raises(NotFound, match="no collection"):
            async with read_only_store(Settings({"database_url": database_url})):
                pass
        schema = await admin.fetchval("SELECT to_regnamespace('whence')::text")
    finally:
        await admin.close()

    assert schema is None


async def test_an_unreachable_database_is_unavailable() -> None:
    """The error has the address without the password."""
    url = "postgresql://me:hunter2@127.0.0.1:1/nothing"
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1") as caught:
        async with read_only_store(Settings({"database_url": url})):
            pass

    assert "hunter2" not in caught.value.message
