"""Rights are resolved to classes once in an epoch, for few tags and for thousands, and never stand still."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from tests.support.adversarial_access import AccessCorpus

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres import acl_classes as classes
from whence.store.postgres.acl_classes import EPOCH, allowed_classes, intern_classes
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

pytestmark = pytest.mark.postgres

MODEL = EmbeddingModel(name="classes", dimension=2)
VECTOR = np.array([1, 0], dtype=np.float32)
READER = Access(frozenset({"a", "new"}), frozenset({"x"}), 2)


async def epoch_of(connection: Any) -> Any:
    return await connection.fetchval(f"SELECT {EPOCH}")


async def store_one(store: PostgresStore, name: str, tags: DocumentTags) -> None:
    draft = DocumentDraft(document_id=name, chunks=(ChunkDraft(content="red"),), tags=tags)
    document = EmbeddedDocument(draft=draft, vectors=VECTOR[np.newaxis])
    await store.replace_documents("c", [document])


async def found(store: PostgresStore, access: Access = READER) -> set[str]:
    """Return what both legs find, which must be the same."""
    dense = await store.search_dense("c", VECTOR, limit=50, access=access)
    words = await store.search_lexical("c", "red", limit=50, access=access)
    assert {hit.document_id for hit in dense} == {hit.document_id for hit in words}
    return {hit.document_id for hit in dense}


@pytest.mark.parametrize("generic", [False, True])
async def test_classes_equal_the_definition(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch, generic: bool
) -> None:
    """For any number of tags, the classes are those that `Access.allows`."""
    corpus = AccessCorpus(seed=11, documents=150)
    many = frozenset(f"group-{number}" for number in range(3_000))
    async with postgres_store.pool.connection() as connection:
        numbers = await intern_classes(connection, set(corpus.tags.values()))
        if generic:
            await connection.execute("SET plan_cache_mode = force_generic_plan")
        for _ in range(60):
            few = corpus.random_access()
            for access in (
                few,
                Access(few.acl_tags | many, few.labels, few.clearance),
                Access(few.acl_tags, few.labels | many, few.clearance),
            ):
                monkeypatch.setattr(classes, "_resolved", ByteCache(10**6))
                got = await allowed_classes(connection, access, await epoch_of(connection))
                assert got == sorted(n for tags, n in numbers.items() if access.allows(tags))


async def test_rights_are_resolved_once_in_an_epoch(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second search of a reader uses the cached classes; another reader's are different."""
    monkeypatch.setattr(classes, "_resolved", ByteCache(10**6))
    asked: list[Access] = []
    values = classes.access_values

    def noted(access: Access) -> Any:
        asked.append(access)
        return values(access)

    monkeypatch.setattr(classes, "access_values", noted)
    await postgres_store.ensure_collection("c", MODEL)
    await store_one(postgres_store, "one", DocumentTags(("a",)))
    for _ in range(3):
        assert await found(postgres_store) == {"one"}
        assert await found(postgres_store, Access(frozenset({"A"}))) == set()

    assert asked == [READER, Access(frozenset({"A"}))]


async def test_a_new_class_ends_the_epoch(postgres_store: PostgresStore) -> None:
    """A reader with cached classes sees a document of a new class."""
    await postgres_store.ensure_collection("c", MODEL)
    await store_one(postgres_store, "one", DocumentTags(("a",)))
    assert await found(postgres_store) == {"one"}
    async with postgres_store.pool.connection() as connection:
        before = await epoch_of(connection)
        await store_one(postgres_store, "two", DocumentTags(("new",), ("x",), 2))
        after = await epoch_of(connection)
        await store_one(postgres_store, "three", DocumentTags(("a",)))
        same = await epoch_of(connection)

    assert before != after == same
    assert await found(postgres_store) == {"one", "two", "three"}


async def test_a_manual_change_ends_the_epoch(postgres_store: PostgresStore) -> None:
    """A change of the classes by hand invalidates cached classes."""
    await postgres_store.ensure_collection("c", MODEL)
    await store_one(postgres_store, "one", DocumentTags(("a",)))
    assert await found(postgres_store) == {"one"}
    async with postgres_store.pool.connection() as connection:
        await connection.execute("UPDATE sec_class SET acl = '{other}' WHERE acl = '{a}'")

    assert await found(postgres_store) == set()


async def test_a_revocation_holds_for_the_next_query(postgres_store: PostgresStore) -> None:
    """New tags hold for the next search of a reader with cached classes."""
    await postgres_store.ensure_collection("c", MODEL)
    await store_one(postgres_store, "one", DocumentTags(("a",)))
    await store_one(postgres_store, "two", DocumentTags(("other",)))
    for tags, expected in ((("other",), set()), (("a",), {"one"}), (("other",), set())):
        await postgres_store.retag_documents("c", {"one": DocumentTags(tags)})
        assert await found(postgres_store) == expected


async def test_concurrent_writers_of_new_classes_do_not_deadlock(
    postgres_store: PostgresStore,
) -> None:
    """Writers that create the same classes at once, in any order, all finish."""
    tags = [DocumentTags((f"t{number}",)) for number in range(12)]

    async def write(some: list[DocumentTags]) -> dict[DocumentTags, int]:
        async with postgres_store.pool.connection() as connection:
            return await intern_classes(connection, some)

    numbers = await asyncio.gather(*(write(tags[n:] + tags[:n]) for n in range(4)))

    assert all(one == numbers[0] for one in numbers)
