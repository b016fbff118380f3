"""A chunk store in one SQLite file: documents are kept in the file and searched in memory.

`WHENCE_DATABASE_URL=sqlite:///FILE` selects it. It is for one process at a time and for small collections:
opening reads the whole file, and a search compares every visible chunk. Rights, ranking and errors are those of
`MemoryStore`, which passes the same contract suites as the PostgreSQL store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec
import numpy as np

from whence.schema.access import DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.idempotency import Effects
from whence.schema.ingest import DocumentDraft
from whence.store.memory.store import MemoryStore
from whence.store.protocols import CollectionInfo, EmbeddedDocument, PassageVector

SCHEMA = """
CREATE TABLE IF NOT EXISTS collection (name TEXT PRIMARY KEY, model BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS document (
    collection TEXT NOT NULL REFERENCES collection, id TEXT NOT NULL, draft BLOB NOT NULL, vectors BLOB NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE TABLE IF NOT EXISTS trace (answer_id TEXT PRIMARY KEY, record BLOB NOT NULL);
"""
ADD_COLLECTION = "INSERT OR IGNORE INTO collection VALUES (?, ?)"
SET_MODEL = "UPDATE collection SET model = ? WHERE name = ?"
PUT_DOCUMENT = "INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?)"
GET_DOCUMENT = "SELECT draft FROM document WHERE collection = ? AND id = ?"
SET_DRAFT = "UPDATE document SET draft = ? WHERE collection = ? AND id = ?"
REMOVE_DOCUMENT = "DELETE FROM document WHERE collection = ? AND id = ?"
PUT_TRACE = "INSERT OR REPLACE INTO trace VALUES (?, ?)"


class SqliteStore(MemoryStore):
    """A `MemoryStore` whose collections, documents and traces are read from a file and written to it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._database = sqlite3.connect(path)
        self._database.executescript(SCHEMA)

    async def load(self) -> None:
        """Read the file into memory."""
        for name, model in self._database.execute("SELECT name, model FROM collection"):
            await super().ensure_collection(name, msgspec.json.decode(model, type=EmbeddingModel))
        for name, model, draft, vectors in self._database.execute(
            "SELECT d.collection, c.model, d.draft, d.vectors FROM document d"
            " JOIN collection c ON c.name = d.collection ORDER BY d.collection, d.id"
        ):
            dimension = msgspec.json.decode(model, type=EmbeddingModel).dimension
            document = EmbeddedDocument(
                draft=msgspec.json.decode(draft, type=DocumentDraft),
                # A document that waits for vectors has no bytes here, and waits again.
                vectors=np.frombuffer(vectors, dtype="<f4").reshape(-1, dimension)
                if vectors
                else None,
            )
            await super().replace_documents(name, [document])
        for (record,) in self._database.execute("SELECT record FROM trace"):
            await super().record_trace(msgspec.json.decode(record, type=TraceRecord))

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Return a collection, created for this model if it does not exist."""
        info = await super().ensure_collection(name, model)
        self._write(ADD_COLLECTION, [(name, msgspec.json.encode(model))])
        return info

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents in one transaction."""
        await super().replace_documents(collection, documents, effects=effects)
        self._put(collection, [one.draft.document_id for one in documents])

    async def store_vectors(self, collection: str, vectors: Sequence[PassageVector]) -> int:
        """Store vectors of passages that waited."""
        stored = await super().store_vectors(collection, vectors)
        known = set(await self.document_ids(collection))
        self._put(collection, known.intersection(one.passage.document_id for one in vectors))
        return stored

    async def switch_vectors(self, collection: str) -> None:
        """Have searches use the second set of vectors, which alone is kept in the file."""
        await super().switch_vectors(collection)
        model = await self.collection_model(collection)
        self._write(SET_MODEL, [(msgspec.json.encode(model), collection)])
        self._put(collection, await self.document_ids(collection))

    def _put(self, collection: str, document_ids: Iterable[str]) -> None:
        """Write documents as they are in memory."""
        rows = []
        for name in document_ids:
            one = self.stored_document(collection, name)
            vectors = b"" if one.vectors is None else np.asarray(one.vectors, "<f4").tobytes()
            rows.append((collection, name, msgspec.json.encode(one.draft), vectors))
        self._write(PUT_DOCUMENT, rows)

    async def retag_documents(
        self,
        collection: str,
        tags: Mapping[str, DocumentTags],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Change the access tags of documents in one transaction."""
        await super().retag_documents(collection, tags, effects=effects)
        changed = []
        for name, new in tags.items():
            row = self._database.execute(GET_DOCUMENT, (collection, name)).fetchone()
            if row is not None:
                draft = msgspec.json.decode(row[0], type=DocumentDraft)
                draft = msgspec.structs.replace(draft, tags=new, source_digest="")
                changed.append((msgspec.json.encode(draft), collection, name))
        self._write(SET_DRAFT, changed)

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents in one transaction; return how many there were."""
        removed = await super().remove_documents(collection, document_ids)
        self._write(REMOVE_DOCUMENT, [(collection, one) for one in document_ids])
        return removed

    async def record_trace(self, record: TraceRecord) -> bool:
        """Store the trace of an answer."""
        recorded = await super().record_trace(record)
        if recorded:
            self._write(PUT_TRACE, [(record.answer_id, msgspec.json.encode(record))])
        return recorded

    async def aclose(self) -> None:
        """Close the file."""
        self._database.close()

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run one statement for all rows in one transaction."""
        with self._database:
            self._database.executemany(statement, rows)


async def open_store(url: str) -> SqliteStore:
    """Open the file of a URL `sqlite:///FILE`; it is created when it does not exist.

    Raises:
        ConfigError: The URL names no file.
        Unavailable: The file cannot be opened, or it is not an SQLite database.
    """
    path = urlsplit(url).path
    if not path:
        raise ConfigError(f"{url} names no file", hint="use sqlite:///FILE")
    try:
        store = SqliteStore(path)
        await store.load()
    except sqlite3.Error as error:
        raise Unavailable(f"{path} cannot be opened: {error}", hint="name another file") from error
    return store
