"""What the three collaborators of a `Retriever` must do, as tests to inherit.

- `VectorStoreSuite` needs a fixture `vectors`: a vector store with the contents of `CHUNKS`.
- `SparseRetrieverSuite` needs a fixture `words`: a sparse retriever with the same contents.
- `EmbedderSuite` needs a fixture `embedder`.

Needs pytest and pytest-asyncio in auto mode.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from whence.schema.access import Access, DocumentTags

#: Contents of the stores in the suites below, by id: text, vector, rights.
CHUNKS: dict[str, tuple[str, tuple[float, ...], DocumentTags]] = {
    "near": ("apples and pears", (1.0, 0.0, 0.0), DocumentTags()),
    "between": ("apples, apples, plums", (0.6, 0.8, 0.0), DocumentTags()),
    "across": ("bolts and nuts", (0.0, 0.0, 1.0), DocumentTags()),
    "against": ("screws", (-1.0, 0.0, 0.0), DocumentTags()),
    "hidden": ("apples for the board alone", (1.0, 0.0, 0.0), DocumentTags(("board",))),
}
PUBLIC = Access.public()
BOARD = Access({"board"})
_QUERY = np.array([1, 0, 0], dtype=np.float32)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class VectorStoreSuite:
    """Behaviours of a vector store; ids of chunks must end with the names of `CHUNKS`."""

    async def test_the_greatest_cosine_comes_first(self, vectors: Any) -> None:
        """Hits are sorted by exact cosine; text and metadata are complete, metadata is a copy."""
        hits = await _awaited(vectors.search(_QUERY, limit=10, access=PUBLIC))

        assert [_name(hit) for hit in hits] == ["near", "between", "across", "against"]
        assert [hit.score for hit in hits] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)
        assert hits[0].content == "apples and pears"
        hits[0].metadata["seen"] = True
        again = await _awaited(vectors.search(_QUERY, limit=1, access=PUBLIC))
        assert "seen" not in again[0].metadata

    async def test_rights_apply_before_the_limit(self, vectors: Any) -> None:
        """A hidden chunk takes no place; a reader with the right gets it."""
        public = await _awaited(vectors.search(_QUERY, limit=1, access=PUBLIC))
        board = await _awaited(vectors.search(_QUERY, limit=2, access=BOARD))

        assert [_name(hit) for hit in public] == ["near"]
        assert {_name(hit) for hit in board} == {"near", "hidden"}

    async def test_scores_by_id_equal_the_search(self, vectors: Any) -> None:
        """Scores by id are exact; hidden and missing chunks have none."""
        hits = await _awaited(vectors.search(_QUERY, limit=10, access=BOARD))
        ids = [hit.id for hit in hits]
        scores = await _awaited(vectors.scores(_QUERY, [*ids, "no-such-chunk"], access=PUBLIC))
        expected = {hit.id: hit.score for hit in hits if _name(hit) != "hidden"}

        assert dict(scores) == pytest.approx(expected, abs=1e-6)


class SparseRetrieverSuite:
    """Behaviours of a sparse retriever; ids of chunks must end with the names of `CHUNKS`."""

    async def test_only_chunks_with_a_word_are_found(self, words: Any) -> None:
        """Hits share a word with the query; their share is above 0, at most 1, best first."""
        hits = await _awaited(words.search("apples", limit=10, access=PUBLIC))
        shares = [hit.score for hit in hits]

        assert {_name(hit) for hit in hits} == {"near", "between"}
        assert shares == sorted(shares, reverse=True)
        assert all(0 < share <= 1 for share in shares)
        assert await _awaited(words.search("xyzzy", limit=10, access=PUBLIC)) == []

    async def test_rights_apply_before_the_limit(self, words: Any) -> None:
        """A hidden chunk takes no place; a reader with the right gets it."""
        public = await _awaited(words.search("board", limit=1, access=PUBLIC))
        board = await _awaited(words.search("board", limit=1, access=BOARD))

        assert [_name(hit) for hit in public] == []
        assert [_name(hit) for hit in board] == ["hidden"]

    async def test_scores_by_id_equal_the_search(self, words: Any) -> None:
        """Scores by id are exact; hidden and missing chunks have none."""
        everything = await _awaited(words.search("apples", limit=10, access=BOARD))
        hits = await _awaited(words.search("apples", limit=10, access=PUBLIC))
        ids = [hit.id for hit in everything] + ["no-such-chunk"]
        scores = await _awaited(words.scores("apples", ids, access=PUBLIC))

        assert len(hits) < len(everything)
        assert dict(scores) == {hit.id: hit.score for hit in hits}


class EmbedderSuite:
    """Behaviours of an embedder."""

    async def test_every_text_has_one_vector(self, embedder: Any) -> None:
        """Vectors are finite, of one dimension, and not zero."""
        vectors = np.asarray(await _awaited(embedder.embed(["one text", "another", "one text"])))

        assert vectors.ndim == 2
        assert len(vectors) == 3
        assert np.isfinite(vectors).all()
        assert np.linalg.norm(vectors, axis=1).min() > 0

    async def test_a_vector_depends_on_its_text_alone(self, embedder: Any) -> None:
        """The same text has the same vector, alone or among others."""
        (alone,) = np.asarray(await _awaited(embedder.embed(["one text"])))
        first, _, third = np.asarray(
            await _awaited(embedder.embed(["one text", "some other words", "one text"]))
        )

        assert (alone == first).all()
        assert (alone == third).all()


def _name(hit: Any) -> str:
    found = [name for name in CHUNKS if name in hit.id]
    assert len(found) == 1, hit.id
    return found[0]
