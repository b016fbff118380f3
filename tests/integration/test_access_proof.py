"""Leak rate 0: every ranking compared with an oracle that looks at each document by itself.

`WHENCE_ACCESS_CHECKS` sets the number of random (reader, query, mode) tried on PostgreSQL: 1,000 by default,
100,000 by `make proofs`, 10,000 in CI. Each is a search through the processor that answers
searches; those between two changes of rights run at the same time, as searches do. They are of every kind that
rights meet: with and without filters, for any word and for all, over links between passages, through a graph
over the vectors; with texts and scores asked by id of what is visible and of what is not. Between them
documents are tagged anew, removed, and stored again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import numpy as np
import pytest
import tomlkit
from tests.support.adversarial_access import DIMENSION, TAGS, AccessCorpus
from tests.support.issuer import AUDIENCE, public_jwk, sign

from whence import Engine
from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, NotFound
from whence.schema.search import SearchMode, SearchRequest
from whence.store.chunk_ids import chunk_key
from whence.store.memory.store import MemoryStore
from whence.store.postgres.dense import vector_index
from whence.store.postgres.store import PostgresStore
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import KeyFile
from whence.surfaces.http.service import Service
from whence.testing.stub_context import StubContext
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

CHECKS = int(os.environ.get("WHENCE_ACCESS_CHECKS", "1000"))
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


def request(corpus: AccessCorpus, name: str, number: int, access: Access) -> SearchRequest:
    """Return a random question of a reader; every tenth has filters, every seventh wants all of its words."""
    mode = MODES[number % 3]
    return SearchRequest(
        access=access,
        collection=name,
        limit=corpus.random_limit(),
        vector=corpus.random_vector().tobytes(),
        model=MODEL,
        query_text=corpus.random_words(),
        mode=mode,
        filters=corpus.random_filters() if number % 10 == 0 else {},
        match="all" if mode != "dense" and number % 7 == 0 else "any",
    )


def expected(corpus: AccessCorpus, asked: SearchRequest) -> Set[str]:
    """Return the documents that a search may find."""
    names = corpus.kept(corpus.visible(asked.access), asked.filters)
    if asked.mode != "bm25":
        return names
    choose = corpus.with_all_words if asked.match == "all" else corpus.with_words
    return choose(names, asked.query_text)


async def check(
    corpus: AccessCorpus, search: SearchProcessor, asked: SearchRequest, *, exact: bool = True
) -> tuple[int, bool]:
    """Compare one ranking with the oracle; gives how many results there were, and whether links took part."""
    wanted = expected(corpus, asked)
    try:
        reply = await search.handle(asked, StubContext())
    except BadInput:
        seen = corpus.visible(asked.access)
        assert any(not corpus.state(seen, key) for key in asked.filters), "refused"
        return 0, False
    got = [candidate.document_id for candidate in reply.candidates]

    assert set(got) <= wanted, f"leaked {set(got) - wanted} to {asked.access}"
    assert len(got) == len(set(got)) == min(asked.limit, len(wanted)), "starved"
    assert [c.rank for c in reply.candidates] == list(range(1, len(got) + 1))
    if asked.mode == "dense" and got and exact:
        vector = np.frombuffer(asked.vector or b"", np.float32)
        scores = np.stack([corpus.vectors[one] for one in got]) @ vector
        best = np.sort(np.stack([corpus.vectors[one] for one in wanted]) @ vector)[::-1]
        assert np.abs(scores - best[: len(got)]).max() < 1e-5, "not the nearest"
    return len(got), reply.graph is not None


async def check_by_id(corpus: AccessCorpus, store: Any, name: str, asked: SearchRequest) -> None:
    """Ask for some documents by id, visible or not: what is told is told of the visible ones."""
    names = corpus.random_names(10)
    ids = {chunk_key(name, one, 0): one for one in names}
    vector = np.frombuffer(asked.vector or b"", np.float32)
    texts = await store.chunk_texts(name, list(ids), asked.access)
    dense = await store.dense_scores(name, vector, list(ids), asked.access)
    words = await store.lexical_scores(name, asked.query_text, list(ids), asked.access)
    visible = corpus.visible(asked.access).intersection(names)

    assert {one.document_id for one in texts} == visible
    assert {ids[one] for one in dense} == {ids[one] for one in words} == visible


async def change(corpus: AccessCorpus, store: Any, name: str, turn: int) -> None:
    """Tag some documents anew; every eighth time take some out, and put them back the time after."""
    changed = {one: corpus.retag(one) for one in corpus.random_names(5)}
    await store.retag_documents(name, changed)
    if turn % 8 == 0:
        await store.remove_documents(name, corpus.remove(corpus.random_names(3)))
    elif turn % 8 == 1:
        await store.replace_documents(name, corpus.restore())


async def prove(
    store: Any, part: int, checks: int, *, exact: bool = True, linked: bool = False
) -> Counter[str]:
    """Ask, change rights, and ask again; gives how often each mode found something, and links were walked."""
    corpus = AccessCorpus(seed=part, documents=DOCUMENTS, linked=linked)
    name = f"proof-{part}"
    await fill(store, corpus, name)
    await indexed(store)
    # Readers who see few documents see few links: `auto` would walk for the others only.
    graph: Literal["auto", "on"] = "on" if linked else "auto"
    parameters = SearchParameters(model_memory_s=3600, passage_graph=graph)
    search = SearchProcessor(parameters, store=store)
    found: Counter[str] = Counter()
    for turn, first in enumerate(range(0, checks, BETWEEN)):
        asked = [
            request(corpus, name, number, corpus.random_reader())
            for number in range(first, min(first + BETWEEN, checks))
        ]
        results = await asyncio.gather(*(check(corpus, search, one, exact=exact) for one in asked))
        found.update(one.mode for one, (some, _) in zip(asked, results, strict=True) if some)
        found["links"] += sum(linked for _, linked in results)
        if turn % 3 == 0:
            await check_by_id(corpus, store, name, asked[0])
        await change(corpus, store, name, turn)
    return found


async def indexed(store: Any) -> None:
    """Wait until what the store builds in the background is there."""
    if isinstance(store, PostgresStore):
        await store.maintenance.wait()


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_leak_and_no_starvation(
    postgres_store: PostgresStore, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every result is visible, rankings are full, and a change of rights holds for the next search."""
    by_graph, linked = part % 2 == 1, part % 4 > 1
    if by_graph:
        # A graph over the vectors from the first document on, asked by whoever sees more than a few.
        for name, size in (
            ("_MIN_CHUNKS", DOCUMENTS // 2),
            ("_STEP_COST", 0),
            ("_MIN_VISIBLE", 20),
        ):
            monkeypatch.setattr(vector_index, name, size)
    found = await prove(postgres_store, part, CHECKS // PARTS, exact=not by_graph, linked=linked)
    await indexed(postgres_store)

    # A proof in which nothing is ever found would prove nothing.
    assert all(found[mode] > CHECKS // PARTS // 8 for mode in MODES)
    assert bool(found["links"] > CHECKS // PARTS // 10) == linked


#: Access tags that stand in a token by their own names; the others are what groups of the mapping grant.
PLAIN = frozenset(tag for tag in TAGS if len(tag) < 10)
#: Seconds since 1970 at which tokens are made and checked.
NOW = 1_800_000_000


def mapping_of_groups() -> str:
    """Return a mapping by which groups grant any rights of a reader."""
    levels = (0, 1, 2, 2**31 - 1)
    groups: dict[str, Any] = {f"tag-{number}": {"acl": [tag]} for number, tag in enumerate(TAGS)}
    groups |= {f"label-{number}": {"labels": [tag]} for number, tag in enumerate(TAGS)}
    groups |= {f"level-{level}": {"clearance": level} for level in levels}
    groups["thousands"] = {"acl": [f"group-{number}" for number in range(5_000)]}
    return tomlkit.dumps({"unlisted_groups": "acl", "groups": groups})


def groups_of(access: Access) -> list[str]:
    """Return the groups of a reader with these rights."""
    tags = {one for one in access.acl_tags if not one.startswith("group-")}
    groups = [one if one in PLAIN else f"tag-{TAGS.index(one)}" for one in sorted(tags)]
    groups += ["thousands"] if tags != access.acl_tags else []
    groups += [f"label-{TAGS.index(one)}" for one in sorted(access.labels)]
    return [*groups, f"level-{access.clearance}"]


def token_of(access: Access) -> str:
    """Return the token of a reader, as an identity provider signs it."""
    claims = {"iss": "proof", "aud": AUDIENCE, "sub": "reader", "exp": NOW + 1}
    return sign(claims | {"groups": groups_of(access)}, "ed", "EdDSA")


@asynccontextmanager
async def gateway_of(store: Any, folder: Path, embedder: HashEmbedder) -> AsyncIterator[Any]:
    """Serve a store to readers with tokens; give a client."""
    keys, mapping = folder / "keys.json", folder / "groups.toml"
    keys.write_text(json.dumps({"keys": [public_jwk("ed", "EdDSA")]}))
    mapping.write_text(mapping_of_groups())
    rights = GroupRights("groups", mapping)
    check = JwtCheck("proof", AUDIENCE, KeyFile(keys), rights, clock=lambda: NOW)
    async with Engine(store=store, embedder=embedder, reranker="none") as engine:
        service = Service(engine, "http", concurrent=BETWEEN)
        app = gateway(service, Authenticator(Access.public(), jwt=check), hosts={"127.0.0.1"})
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def check_with_token(corpus: AccessCorpus, client: Any, asked: SearchRequest) -> int:
    """Search over HTTP with the token of a reader, and compare with the oracle; gives the number of results."""
    body = {
        "query": asked.query_text,
        "mode": asked.mode,
        "match": asked.match,
        "filters": asked.filters,
        "top_k": asked.limit,
        "exact": True,
        # What a request claims beyond its token counts for nothing.
        "access": None if asked.limit % 2 else asked.access.by_option(),
    }
    head = {"Authorization": f"Bearer {token_of(asked.access)}"}
    wanted = expected(corpus, asked)
    reply = await client.post("/v1/search", json=body, headers=head)
    if reply.status_code == 400:
        seen = corpus.visible(asked.access)
        assert any(not corpus.state(seen, key) for key in asked.filters), reply.text
        return 0
    got = [hit["document_id"] for hit in reply.json()["hits"]]

    assert set(got) <= wanted, f"leaked {set(got) - wanted} to {asked.access}"
    assert len(got) == len(set(got)) == min(asked.limit, len(wanted)), "starved"
    return len(got)


@pytest.mark.timeout(1500)
async def test_no_leak_and_no_starvation_through_tokens(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    """The same holds over HTTP for readers whose rights are the groups of their tokens."""
    corpus = AccessCorpus(seed=PARTS, documents=DOCUMENTS)
    embedder = HashEmbedder(DIMENSION)
    await postgres_store.ensure_collection("http", embedder.model)
    await postgres_store.replace_documents("http", corpus.embedded())
    checks, found = CHECKS // PARTS, 0
    async with gateway_of(postgres_store, tmp_path, embedder) as client:
        for turn, first in enumerate(range(0, checks, BETWEEN)):
            asked = [
                request(corpus, "http", number, corpus.random_reader())
                for number in range(first, min(first + BETWEEN, checks))
            ]
            results = [check_with_token(corpus, client, one) for one in asked]
            found += sum(some > 0 for some in await asyncio.gather(*results))
            await change(corpus, postgres_store, "http", turn)
        corpus.set_tags(min(corpus.visible(Access.public())), DocumentTags(("nobody",)))
        everything = msgspec.structs.replace(
            asked[0], access=Access.public(), mode="dense", filters={}, match="any", limit=1_000
        )
        with pytest.raises(AssertionError, match="leaked"):
            await check_with_token(corpus, client, everything)
    assert found > checks // 4


async def test_the_memory_store_passes_the_same_proof() -> None:
    """The store in memory decides as the one on PostgreSQL."""
    found = await prove(MemoryStore(), 1, 300, linked=True)

    assert all(found[mode] for mode in (*MODES, "links"))


async def test_the_proof_finds_a_leak(postgres_store: PostgresStore) -> None:
    """When one document's rights change without the oracle's knowledge, the proof fails."""
    corpus = AccessCorpus(seed=1, documents=DOCUMENTS)
    await fill(postgres_store, corpus, "seeded")
    search = SearchProcessor(store=postgres_store)
    public = min(corpus.visible(Access.public()))
    corpus.set_tags(public, DocumentTags(("nobody",)))
    asked = request(corpus, "seeded", 3, Access.public())

    with pytest.raises(AssertionError, match="leaked"):
        await check(corpus, search, msgspec.structs.replace(asked, limit=1_000))


async def test_reads_by_id_respect_rights(postgres_store: PostgresStore) -> None:
    """By id, a hidden chunk has no score and no text, like a missing one."""
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


async def test_a_missing_collection_is_not_found(postgres_store: PostgresStore) -> None:
    """A missing collection is not found for every reader."""
    corpus = AccessCorpus(seed=4, documents=5)
    search = SearchProcessor(store=postgres_store)
    for number in range(9):
        with pytest.raises(NotFound):
            await search.handle(
                request(corpus, "nowhere", number, corpus.random_access()), StubContext()
            )
