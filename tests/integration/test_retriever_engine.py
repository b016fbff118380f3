"""The retriever of an engine keeps the contract with the real database and the local model."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.retriever_contract import RetrieverSuite
from tests.support.store_adapters import StoredVectors, StoredWords

from whence import Access, Engine, Retriever
from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.surfaces.python.loop_thread import LoopThread
from whence.testing.retriever_suite import (
    CHUNKS,
    SparseRetrieverSuite,
    VectorStoreSuite,
)

_numbers = itertools.count()
MODEL = EmbeddingModel(name="suite", revision="r1", precision="float32", dimension=3)


class Library:
    """A collection of an engine that runs in a thread of its own."""

    def __init__(self, running: LoopThread[Engine], folder: Path) -> None:
        self._running = running
        self._folder = folder
        self.engine = running.run(_itself)
        self.collection = f"library-{next(_numbers)}"

    def ingest(self, name: str, text: str) -> None:
        self.ingest_all({name: text})

    def ingest_all(self, documents: Mapping[str, str]) -> None:
        for name, text in documents.items():
            (self._folder / name).write_text(text)
        self._running.run(lambda engine: engine.index([self._folder], collection=self.collection))

    def retriever(self, *, hybrid: bool = True, **options: Any) -> Retriever:
        mode = "hybrid" if hybrid else "dense"
        return self.engine.retriever(self.collection, mode=mode, **options)


async def _itself(engine: Engine) -> Engine:
    return engine


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Path]
) -> Iterator[LoopThread[Engine]]:
    """One engine for all tests here."""
    home = new_home(tmp_path_factory.mktemp("home"))
    thread: LoopThread[Engine] = LoopThread(lambda: Engine(home=home), "test-engine")
    yield thread
    thread.close()


@pytest.fixture
def library(running: LoopThread[Engine], tmp_path: Path) -> Library:
    """A collection that does not exist yet."""
    return Library(running, tmp_path)


class TestEngineRetriever(RetrieverSuite):
    """The contract over a collection of an engine."""

    def test_a_collection_that_does_not_exist_is_not_initialized(self, library: Library) -> None:
        """A retriever of a missing collection is not initialized."""
        with pytest.raises(RuntimeError, match="not initialized"):
            library.retriever().search("query")

    def test_filters_restrict_results(self, library: Library) -> None:
        """A retriever with filters returns matching chunks only; an unknown key is a ValueError."""
        library.ingest_all({"a.md": "# Apples\nApples are red.", "b.md": "# Pears\nApples, pears."})
        results = library.retriever(filters={"source_file": "b.md"}).search("apples", 5, 0.0)

        assert [r.document_id for r in results] == ["b.md"]
        with pytest.raises(ValueError, match="colour"):
            library.retriever(filters={"colour": "red"}).search("apples")


async def test_the_retriever_ends_with_its_engine(
    tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """Both searches agree on the engine's loop; after closing no thread is left and no search works."""
    before = set(threading.enumerate())
    (tmp_path / "doc1.md").write_text("# Python\nPython is a programming language.")
    async with Engine(home=new_home(tmp_path / "home")) as engine:
        await engine.index([tmp_path / "doc1.md"])
        retriever = engine.retriever(access=Access.public())
        blocking = retriever.search("What is Python?")
        native = await retriever.asearch("What is Python?")
        elsewhere = await asyncio.to_thread(retriever.search, "What is Python?")

    assert blocking == native == elsewhere
    assert blocking[0].document_id == "doc1.md"
    new = set(threading.enumerate()) - before
    assert not [thread for thread in new if thread.name == "whence-retriever"]
    with pytest.raises(RuntimeError, match="not initialized"):
        retriever.search("What is Python?")


@pytest.fixture
async def stored(postgres_store: PostgresStore) -> PostgresStore:
    """Return a store with the chunks of the suites."""
    await postgres_store.ensure_collection("c", MODEL)
    documents = [
        EmbeddedDocument(
            draft=DocumentDraft(document_id=name, chunks=(ChunkDraft(content=text),), tags=tags),
            vectors=np.array([vector], dtype=np.float32),
        )
        for name, (text, vector, tags) in CHUNKS.items()
    ]
    await postgres_store.replace_documents("c", documents)
    return postgres_store


class TestPostgresVectors(VectorStoreSuite):
    """A collection in PostgreSQL as a vector store."""

    @pytest.fixture
    def vectors(self, stored: PostgresStore) -> StoredVectors:
        """Return the store of the suite."""
        return StoredVectors(stored, "c")


class TestPostgresWords(SparseRetrieverSuite):
    """A collection in PostgreSQL as a sparse retriever."""

    @pytest.fixture
    def words(self, stored: PostgresStore) -> StoredWords:
        """Return the store of the suite."""
        return StoredWords(stored, "c")


async def test_a_revoked_chunk_is_gone_from_the_next_search(stored: PostgresStore) -> None:
    """Rights are evaluated at every search, not when the retriever is made."""
    vectors = StoredVectors(stored, "c")
    query = np.array([1, 0, 0], dtype=np.float32)
    before = await vectors.search(query, limit=1, access=Access.public())
    await stored.retag_documents("c", {"near": DocumentTags(("board",))})
    after = await vectors.search(query, limit=1, access=Access.public())

    assert [one.document_id for one in (*before, *after)] == ["near", "between"]
