"""Vectors of a snapshot on its way in: copied from other snapshots where texts are equal, else embedded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import numpy as np
from numpy.typing import NDArray

from whence.schema.embedding import EmbeddingModel
from whence.store.postgres.binary_copy import Numbers, copy_vectors
from whence.store.postgres.driver import Connection
from whence.store.postgres.snapshots.nodes import StagedNodes
from whence.store.snapshot_documents import check_vectors
from whence.store.snapshot_protocols import NodeText

_TEXTS = "SELECT ord, embed_text FROM chunk WHERE ord = ANY($1::int[]) ORDER BY ord"
_SET_MODEL = """
    UPDATE collection SET model_name = $2, model_revision = $3, model_precision = $4, dimension = $5
    WHERE id = $1"""
# Nodes with the same local id and text in another snapshot of the repository, or of this import, that have a
# vector of the model. Of several the newest counts.
_COPY_EQUAL = """
    INSERT INTO chunk_vec (ord, collection_id, class_id, e)
    SELECT DISTINCT ON (n.ord) n.ord, n.collection_id, n.class_id, v.e
    FROM code_node n JOIN chunk c ON c.ord = n.ord
    JOIN collection k ON k.id = ANY($2::int[])
        OR k.id IN (SELECT s.collection_id FROM code_snapshot s WHERE s.repo = $7)
    JOIN code_node o ON o.collection_id = k.id AND o.local_id = n.local_id
    JOIN chunk d ON d.ord = o.ord AND d.embed_text = c.embed_text
    JOIN chunk_vec v ON v.ord = o.ord
    WHERE n.collection_id = $1
    AND (k.model_name, k.model_revision, k.model_precision, k.dimension) = ($3::text, $4::text, $5::text, $6::int)
    AND NOT EXISTS (SELECT FROM chunk_vec x WHERE x.ord = n.ord)
    ORDER BY n.ord, k.id DESC"""
_WITH_VECTORS = "SELECT ord FROM chunk_vec WHERE collection_id = $1"


class SnapshotVectors:
    """Vectors of the nodes of a snapshot."""

    def __init__(
        self,
        connection: Connection,
        collection_id: int,
        repo: str,
        nodes: StagedNodes,
        siblings: Callable[[], list[int]],
    ) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._repo = repo
        self._nodes = nodes
        self._siblings = siblings
        self._model: EmbeddingModel | None = None
        #: Chunks without a vector whose texts were not returned yet.
        self._pending: NDArray[np.int32] | None = None

    async def texts(self, limit: int) -> list[NodeText]:
        """Return the texts of some nodes without a vector, each node once; the first call returns one."""
        if self._pending is None:
            self._pending = self._nodes.ords.copy()
        n = limit if self._model else 1
        some, self._pending = self._pending[:n], self._pending[n:]
        rows = await self._connection.fetch(_TEXTS, some.tolist())
        return [NodeText(key=row["ord"], text=row["embed_text"]) for row in rows]

    async def add(
        self,
        keys: Sequence[int],
        vectors: NDArray[np.float32],
        model: EmbeddingModel,
        transaction: AbstractAsyncContextManager[None],
    ) -> None:
        """Store the vectors of nodes in a transaction; the first call also copies those of equal texts."""
        check_vectors(vectors, len(keys), model, self._model)
        identity = (model.name, model.revision, model.precision, model.dimension)
        async with transaction:
            if self._model is None:
                await self._connection.execute(_SET_MODEL, self._collection_id, *identity)
            columns: dict[str, Numbers] = {
                "ord": keys,
                "collection_id": self._collection_id,
                "class_id": self._nodes.classes_of(keys),
            }
            await copy_vectors(self._connection, "chunk_vec", columns, "e", vectors)
            if self._model is None:
                others = [one for one in self._siblings() if one != self._collection_id]
                await self._connection.execute(
                    _COPY_EQUAL, self._collection_id, others, *identity, self._repo
                )
                rows = await self._connection.fetch(_WITH_VECTORS, self._collection_id)
                if self._pending is not None:
                    done = np.fromiter((row["ord"] for row in rows), np.int32, len(rows))
                    self._pending = np.setdiff1d(self._pending, done)
        self._model = model
