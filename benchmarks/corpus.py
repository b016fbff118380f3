"""A store of synthetic chunks, filled by COPY: texts, vectors and tags, equal in every run.

Texts have 80 words, Zipf with topics. Vectors have 384 dimensions around cluster centres. Each chunk has
one of four tags, so that readers see all chunks, 50 %, 5 % or 0.5 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.lexical import forward_index, reindexing, segments
from whence.store.postgres.links.indexing import ensure_links_indexed
from whence.store.postgres.metadata_index import ensure_metadata_indexed
from whence.store.postgres.store import PostgresStore
from whence.store.term_counts import TermVector

__all__ = ("DIMENSION", "READERS", "TAGS", "Texts", "fill", "settled", "unit_vectors")

VOCABULARY, TOPICS, WORDS_PER_TOPIC, LENGTH = 60_000, 400, 120, 80
CLUSTERS, DIMENSION = 1500, 384
_BATCH = 20_000
#: Chunks of a segment that is left as it was written.
_UNMERGED = 5000
#: Who sees what: each chunk has one of these tags, drawn with its share.
TAGS = {"half": 0.5, "twentieth": 0.05, "little": 0.005, "nobody": 0.445}
READERS = {
    "all": Access(frozenset(TAGS)),
    "50 %": Access(frozenset({"half"})),
    "5 %": Access(frozenset({"twentieth"})),
    "0.5 %": Access(frozenset({"little"})),
}


class Texts:
    """A reproducible source of texts, tags and queries."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)
        # Consonants and vowels in turn, a digit base for each: no two words share a stem by chance.
        self._words = np.array([f"q{_letters(n)}k" for n in range(VOCABULARY)])
        weights = 1.0 / (np.arange(VOCABULARY) + 2.7)
        self._share = weights / weights.sum()
        self._topics = self._rng.integers(100, VOCABULARY, (TOPICS, WORDS_PER_TOPIC))

    def texts(self, n: int) -> list[list[str]]:
        """Return the words of n chunks: two thirds from the language, one third from a topic."""
        common = self._rng.choice(VOCABULARY, (n, LENGTH * 2 // 3), p=self._share)
        topic = self._topics[self._rng.integers(0, TOPICS, n)]
        own = np.take_along_axis(
            topic, self._rng.integers(0, WORDS_PER_TOPIC, (n, LENGTH - common.shape[1])), axis=1
        )
        return [row.tolist() for row in self._words[np.hstack([common, own])]]

    def tags(self, n: int) -> list[str]:
        """Draw the tag of n chunks."""
        drawn: list[str] = self._rng.choice(list(TAGS), n, p=list(TAGS.values())).tolist()
        return drawn

    def mixed(self, texts: list[list[str]], n: int) -> list[str]:
        """Return queries of 2 to 6 words of a random chunk."""
        return [
            " ".join(self._rng.choice(texts[self._rng.integers(len(texts))], size))
            for size in self._rng.integers(2, 7, n)
        ]

    def heavy(self, n: int) -> list[str]:
        """Return queries of 2 to 6 of the 100 most frequent words."""
        return [
            " ".join(self._rng.choice(self._words[:100], size))
            for size in self._rng.integers(2, 7, n)
        ]


def _letters(n: int) -> str:
    digits = []
    for base in ("aeiou", "bdgmnrtvz") * 4:
        n, place = divmod(n, len(base))
        digits.append(base[place])
    return "".join(digits)


def unit_vectors(n: int, seed: int, dimension: int = DIMENSION) -> Any:
    """Return n unit vectors around centres that are always the same, float32, shape (n, dimension)."""
    centres = np.random.default_rng(1).normal(size=(CLUSTERS, dimension))
    rng = np.random.default_rng(seed)
    drawn = centres[rng.integers(0, CLUSTERS, n)] + 0.7 * rng.normal(size=(n, dimension))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


async def fill(
    store: PostgresStore,
    name: str,
    texts: Sequence[Sequence[str]],
    tags: Sequence[str],
    vectors: Any,
    *,
    merged: bool = True,
) -> None:
    """Store one document of one chunk for each text, past the analysis of texts: words are counted as they are.

    Cost: some 1 ms a chunk, most of it indexes and checks of the database. Unless they are to be `merged`, the
    segments of words have 5000 chunks.
    """
    await store.ensure_collection(name, EmbeddingModel(name="bench", dimension=vectors.shape[1]))
    async with store.pool.connection() as connection:
        number = await connection.fetchval("SELECT id FROM collection WHERE name = $1", name)
        numbers = await intern_classes(connection, [DocumentTags((tag,)) for tag in TAGS])
        class_of = {one.acl[0]: number for one, number in numbers.items()}
        await connection.execute("SET statement_timeout = 0")
        async with connection.transaction():
            # Here, where there is nothing yet: else the first write finds them in all that is there.
            await ensure_metadata_indexed(connection, number)
            await ensure_links_indexed(connection, number)
        size = _BATCH if merged else _UNMERGED
        for at in range(0, len(texts), size):
            part = slice(at, at + size)
            classes = [class_of[tag] for tag in tags[part]]
            async with connection.transaction():
                await reindexing.ensure_indexed(connection, number)
                ords = await _rows(connection, number, name, at, texts[part], classes)
                await connection.copy_records_to_table(
                    "chunk_vec",
                    columns=("ord", "collection_id", "class_id", "e"),
                    records=zip(ords, [number] * len(ords), classes, vectors[part], strict=True),
                )
                words = [TermVector(dict(Counter(text)), len(text)) for text in texts[part]]
                await forward_index.add_chunk_terms(connection, number, ords, words)
                if not merged:
                    await segments.flush(connection, number)
        if merged:
            async with connection.transaction():
                await segments.flush_postings(connection, number)
        await connection.execute("VACUUM ANALYZE")


async def _rows(
    connection: Any,
    collection_id: int,
    name: str,
    start: int,
    texts: Sequence[Sequence[str]],
    classes: Sequence[int],
) -> list[int]:
    """Write documents and chunks; gives the numbers of the chunks."""
    ords = await connection.fetch(
        "SELECT nextval(pg_get_serial_sequence('chunk', 'ord'))::int AS n FROM generate_series(1, $1::int)",
        len(texts),
    )
    documents = await connection.fetch(
        "SELECT nextval(pg_get_serial_sequence('document', 'id')) AS n FROM generate_series(1, $1::int)",
        len(texts),
    )
    empty = dict.fromkeys(("digest", "title", "source_file", "source_url"), "")
    await connection.copy_records_to_table(
        "document",
        columns=("id", "collection_id", "document_id", "class_id", "chunks", "metadata", *empty),
        records=(
            (row["n"], collection_id, f"d{start + n}", classes[n], 1, "{}", *empty.values())
            for n, row in enumerate(documents)
        ),
    )
    await connection.copy_records_to_table(
        "chunk",
        columns=_CHUNK,
        records=_chunks(collection_id, name, start, texts, classes, ords, documents),
    )
    return [row["n"] for row in ords]


_CHUNK = (
    "ord", "collection_id", "document", "index", "chunk_key", "class_id", "content", "digest",
    "heading", "section_path", "span_start", "span_end", "embed_text",
)  # fmt: skip


def _chunks(
    collection_id: int,
    name: str,
    start: int,
    texts: Sequence[Sequence[str]],
    classes: Sequence[int],
    ords: Sequence[Any],
    documents: Sequence[Any],
) -> Iterator[tuple[Any, ...]]:
    for n, text in enumerate(texts):
        key = f"urn:chunk:{name}:d{start + n}:0"
        place = (ords[n]["n"], collection_id, documents[n]["n"], 0, key, classes[n])
        yield (*place, " ".join(text), "", "", "", 0, 0, "")


async def settled(store: PostgresStore) -> None:
    """Wait for everything that goes on in the background."""
    await store.maintenance.wait()
