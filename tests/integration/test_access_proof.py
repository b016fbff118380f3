"""Leak rate 0: every ranking compared with an oracle that looks at each document by itself.

`WHENCE_ACCESS_CHECKS` sets how many random (reader, query, mode) are tried on PostgreSQL: 6,000 by default,
100,000 by `make access-proof`, which is a step of CI. Each is a search through the processor that answers
searches; those between two changes of rights run at the same time, as searches do.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import NotFound
from whence.schema.search import SearchMode, SearchRequest
from whence.store.memory import MemoryStore
from whence.store.postgres import PostgresStore
from whence.testing.adversarial_access import DIMENSION, AccessCorpus
from whence.testing.stub_context import StubContext

pytestmark = pytest.mark.postgres

CHECKS = int(os.environ.get("WHENCE_ACCESS_CHECKS", "6000"))
#: Split, so that several processes share the work.
PARTS = 8
DOCUMENTS = 240
MODEL = EmbeddingModel(name="proof", dimension=DIMENSION)
MODES: tuple[SearchMode, ...] = ("dense", "bm25", "hybrid")
#: Queries between two changes of rights.
BETWEEN = 25


async def fill(store: Any, corpus: AccessCorpus, name: str) -> None:
    """Store a corpus as a collection."""
    await store.ensure_collection(name, MODEL)
    await store.replace_documents(name, corpus.embedded())


def request(corpus: AccessCorpus, name: str, mode: SearchMode, access: Access) -> SearchRequest:
    """Give a random question of a reader."""
    return SearchRequest(
        access=access,
        collection=name,
        limit=corpus.random_limit(),
        vector=corpus.random_vector().tobytes(),
        model=MODEL,
        query_text=corpus.random_words(),
        mode=mode,
    )


async def check(corpus: AccessCorpus, search: SearchProcessor, asked: SearchRequest) -> int:
    """Compare one ranking with the oracle; gives how many results there were."""
    reply = await search.handle(asked, StubContext())
    got = [candidate.document_id for candidate in reply.candidates]
    visible = corpus.visible(asked.access)
    if asked.mode == "bm25":
        visible = corpus.with_words(visible, asked.query_text)

    assert set(got) <= visible, f"leaked {set(got) - visible} to {asked.access}"
    assert len(got) == len(set(got)) == min(asked.limit, len(visible)), "starved"
    assert [c.rank for c in reply.candidates] == list(range(1, len(got) + 1))
    if asked.mode == "dense" and got:
        vector = np.frombuffer(asked.vector or b"", np.float32)
        scores = np.stack([corpus.vectors[one] for one in got]) @ vector
        best = np.sort(np.stack([corpus.vectors[one] for one in visible]) @ vector)[::-1]
        assert np.abs(scores - best[: len(got)]).max() < 1e-5, "not the nearest"
    return len(got)


async def prove(store: Any, part: int, checks: int) -> Counter[str]:
    """Ask, change rights, and ask again; gives how often each mode found something."""
    corpus = AccessCorpus(seed=part, documents=DOCUMENTS)
    name = f"proof-{part}"
    await fill(store, corpus, name)
    search = SearchProcessor(SearchParameters(model_memory_s=3600), store=store)
    found: Counter[str] = Counter()
    for first in range(0, checks, BETWEEN):
        modes = [MODES[number % 3] for number in range(first, min(first + BETWEEN, checks))]
        asked = [request(corpus, name, mode, corpus.random_reader()) for mode in modes]
        results = await asyncio.gather(*(check(corpus, search, one) for one in asked))
        found.update(mode for mode, some in zip(modes, results, strict=True) if some)
        changed = {one: corpus.retag(one) for one in corpus.random_names(5)}
        await store.retag_documents(name, changed)
    return found


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_leak_and_no_starvation(postgres_store: PostgresStore, part: int) -> None:
    """Every result is visible, and as many are given as there are; a change of rights holds at once."""
    found = await prove(postgres_store, part, CHECKS // PARTS)

    # A proof in which nothing is ever found would prove nothing.
    assert all(found[mode] > CHECKS // PARTS // 6 for mode in MODES)


async def test_the_memory_store_passes_the_same_proof() -> None:
    """The store for tests of others decides as the one on PostgreSQL does."""
    found = await prove(MemoryStore(), 1, 300)

    assert all(found[mode] for mode in MODES)


async def test_the_proof_finds_a_leak(postgres_store: PostgresStore) -> None:
    """When one document's rights change behind the oracle's back, the proof fails."""
    corpus = AccessCorpus(seed=1, documents=DOCUMENTS)
    await fill(postgres_store, corpus, "seeded")
    search = SearchProcessor(store=postgres_store)
    public = min(corpus.visible(Access.public()))
    corpus.set_tags(public, DocumentTags(("nobody",)))
    asked = request(corpus, "seeded", "dense", Access.public())

    with pytest.raises(AssertionError, match="leaked"):
        await check(corpus, search, msgspec.structs.replace(asked, limit=1_000))


async def test_scores_and_texts_by_id_know_the_rights(postgres_store: PostgresStore) -> None:
    """Asked for by id, a hidden chunk has no score and no text, as if it did not exist."""
    corpus = AccessCorpus(seed=3, documents=60)
    await fill(postgres_store, corpus, "by-id")
    everything = Access(
        frozenset(tag for tags in corpus.tags.values() for tag in tags.acl),
        frozenset(tag for tags in corpus.tags.values() for tag in tags.labels),
        2**31 - 1,
    )
    vector = corpus.random_vector()
    every = await postgres_store.search_dense("by-id", vector, limit=1_000, access=everything)
    ids = {one.chunk_id: one.document_id for one in every}
    assert len(ids) == 60
    for _ in range(60):
        access = corpus.random_access()
        visible = {one for one, document in ids.items() if document in corpus.visible(access)}
        texts = await postgres_store.chunk_texts("by-id", list(ids), access)
        dense = await postgres_store.dense_scores("by-id", vector, list(ids), access)
        words = await postgres_store.lexical_scores("by-id", "worda wordb", list(ids), access)
        seen = await postgres_store.visible_chunks("by-id", list(ids), access)

        assert {text.chunk_id for text in texts} == set(dense) == set(words) == seen == visible


async def test_an_unknown_collection_tells_nothing(postgres_store: PostgresStore) -> None:
    """Whoever asks, a collection that is not there is not found."""
    corpus = AccessCorpus(seed=4, documents=5)
    search = SearchProcessor(store=postgres_store)
    for mode in MODES:
        with pytest.raises(NotFound):
            await search.handle(
                request(corpus, "nowhere", mode, corpus.random_access()), StubContext()
            )
