"""What `Retriever` asks of an embedder, a vector store and a sparse retriever: three small protocols.

Any object with these methods will do. Each method may be a coroutine function or a plain one.
`whence.testing.retriever_suite` has the contract of each as tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.schema.access import Access

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class FoundChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that a store returns. Any object or mapping with these names can take its place."""

    id: str
    """Names the chunk; the same in both stores of a retriever."""
    content: str
    score: float
    """Cosine of query and chunk from a vector store, lexical share from a sparse retriever."""
    metadata: dict[str, Any] = {}
    """`source_file`, `header_path` and the document's own metadata."""
    document_id: str = ""


class Embedder(Protocol):
    """Turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> MaybeAwaitable[Any]:
        """Return one vector per text: an array of shape (len(texts), dimension), or lists of numbers."""
        ...


class VectorStore(Protocol):
    """Finds chunks near to a vector, among those that a reader may see."""

    def search(
        self, vector: NDArray[np.float32], *, limit: int, access: Access
    ) -> MaybeAwaitable[Sequence[FoundChunk]]:
        """Return the visible chunks with the greatest cosine, best first, at most `limit`.

        Rights must be applied before the limit. `score` is the exact cosine, -1 to 1.

        Args:
            vector: float32 of shape (dimension,), of length 1.
            limit: 1 or more.
            access: Rights of the reader.
        """
        ...

    def scores(
        self, vector: NDArray[np.float32], chunk_ids: Sequence[str], *, access: Access
    ) -> MaybeAwaitable[Mapping[str, float]]:
        """Return the cosine of those of these chunks that exist and are visible, by id.

        Needed for hybrid retrieval alone, for chunks that only the sparse retriever found.
        """
        ...


class SparseRetriever(Protocol):
    """Finds chunks by the words of a query, among those that a reader may see."""

    def search(
        self, query_text: str, *, limit: int, access: Access
    ) -> MaybeAwaitable[Sequence[FoundChunk]]:
        """Return the visible chunks that share words with the query, best first, at most `limit`.

        `score` is a share on one scale for all queries, 0 to 1, such as `whence.store.bm25` computes.
        """
        ...

    def scores(
        self, query_text: str, chunk_ids: Sequence[str], *, access: Access
    ) -> MaybeAwaitable[Mapping[str, float]]:
        """Return the share of those of these chunks that exist and are visible, by id; 0 without a word."""
        ...
