"""What is hidden looks like what is not there: one world has hidden documents, the other never had them.

Whoever may not see them gets the same results, counts and errors in both, for the same statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import numpy as np
import pytest
from tests.support.small_bundles import write_small

from whence import Access, Engine
from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import WhenceError
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.texts import TextBudget
from whence.store.chunk_ids import chunk_key
from whence.store.postgres import acl_classes as classes
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

MODEL = EmbeddingModel(name="worlds", dimension=4)
READER = Access(frozenset({"staff"}), frozenset({"internal"}), 3)
QUERY = np.array([1, 0, 0, 0], dtype=np.float32)
TAGS = (DocumentTags(("board",)), DocumentTags((), ("secret",)), DocumentTags((), (), 4))
SIZE = 30


def _document(number: int) -> EmbeddedDocument:
    hidden = bool(number % 3)
    # Hidden ones are nearer, match better, bear the names that others mention, and have keys of their own. They
    # are as long as the others: only the mean length of a collection is that of all its chunks.
    angle = number / SIZE + (0 if hidden else 1)
    text = f"red Ledger bearer{number + 1:02} {'red quokka' if hidden else 'lake shore'}"
    draft = DocumentDraft(
        document_id=f"doc-{number:02}",
        title=f"Ledger bearer{number:02}",
        chunks=(ChunkDraft(content=text, heading=f"Part bearer{number:02}"),),
        tags=TAGS[number % 2] if hidden else DocumentTags(),
        metadata={"year": 2000 + number, **({"quokkakey": "yes"} if hidden else {"open": "yes"})},
    )
    vector = np.array([np.cos(angle), np.sin(angle), 0, 0], dtype=np.float32)
    return EmbeddedDocument(draft=draft, vectors=vector[None])


def _ids(collection: str) -> list[str]:
    return [chunk_key(collection, f"doc-{number:02}", 0) for number in range(SIZE)]


Read = Callable[[PostgresStore, str], Awaitable[Any]]


async def _dense(store: PostgresStore, name: str) -> Any:
    hits = await store.search_dense(name, QUERY, limit=7, access=READER)
    return [(hit.document_id, hit.rank, hit.score) for hit in hits]


async def _few(store: PostgresStore, name: str) -> Any:
    hits = await store.search_dense(name, QUERY, limit=SIZE, access=READER, threshold=0.2)
    return [(hit.document_id, hit.rank, hit.score) for hit in hits]


async def _words(store: PostgresStore, name: str) -> Any:
    hits = await store.search_lexical(name, "red quokka", limit=SIZE, access=READER)
    return [(hit.document_id, hit.rank, hit.score, hit.sparse_score) for hit in hits]


async def _hidden_words(store: PostgresStore, name: str) -> Any:
    return await store.search_lexical(name, "quokka", limit=SIZE, access=READER)


async def _filtered(store: PostgresStore, name: str) -> Any:
    filters = parse_filters({"year": {"gte": 2005, "lt": 2020}, "open": "yes"})
    hits = await store.search_dense(name, QUERY, limit=9, access=READER, filters=filters)
    return [(hit.document_id, hit.rank) for hit in hits]


async def _hidden_key(store: PostgresStore, name: str) -> Any:
    filters = parse_filters({"quokkakey": "yes"})
    return await store.search_dense(name, QUERY, limit=9, access=READER, filters=filters)


async def _hidden_key_words(store: PostgresStore, name: str) -> Any:
    filters = parse_filters({"quokkakey": "yes"})
    return await store.search_lexical(name, "red", limit=9, access=READER, filters=filters)


async def _hidden_value(store: PostgresStore, name: str) -> Any:
    filters = parse_filters({"year": 2001})
    return await store.search_dense(name, QUERY, limit=9, access=READER, filters=filters)


async def _hidden_id(store: PostgresStore, name: str) -> Any:
    filters = parse_filters({"document_id": "doc-01"})
    return await store.search_lexical(name, "red", limit=9, access=READER, filters=filters)


async def _cosines(store: PostgresStore, name: str) -> Any:
    scores = await store.dense_scores(name, QUERY, _ids(name), READER)
    return {_ids(name).index(one): score for one, score in scores.items()}


async def _shares(store: PostgresStore, name: str) -> Any:
    scores = await store.lexical_scores(name, "red quokka", _ids(name), READER)
    return {_ids(name).index(one): score for one, score in scores.items()}


async def _texts(store: PostgresStore, name: str) -> Any:
    texts = await store.chunk_texts(name, _ids(name), READER)
    return [(text.document_id, text.content, text.metadata) for text in texts]


async def _visible(store: PostgresStore, name: str) -> Any:
    visible = await store.visible_chunks(name, _ids(name), READER)
    return {_ids(name).index(one) for one in visible}


async def _names(store: PostgresStore, name: str) -> Any:
    names = await store.linked_titles(
        name, _ids(name), READER, query_text="ledger bearer01 bearer03"
    )
    sides = [(one.name, one.in_query, one.titled_passages, one.mentions) for one in names]
    return [
        (name, asked, *({ref.document_id for ref in side} for side in both))
        for name, asked, *both in sides
    ]


READS = {
    read.__name__.strip("_"): read
    for read in (
        _dense, _few, _words, _hidden_words, _filtered, _hidden_key, _hidden_key_words,
        _hidden_value, _hidden_id, _cosines, _shares, _texts, _visible, _names,
    )
}  # fmt: skip


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the statements that are sent, by their text."""
    sent: Counter[str] = Counter()
    for method in ("fetch", "fetchrow", "fetchval", "execute"):
        original = getattr(asyncpg.Connection, method)

        async def noted(self: Any, query: str, *args: Any, _run: Any = original, **kw: Any) -> Any:
            sent[query] += 1
            return await _run(self, query, *args, **kw)

        monkeypatch.setattr(asyncpg.Connection, method, noted)
    return sent


async def _told(read: Read, store: PostgresStore, name: str) -> Any:
    """Return the result, or what the error says."""
    try:
        return await read(store, name)
    except WhenceError as error:
        return type(error), error.message.replace(name, "NAME"), error.hint.replace(name, "NAME")


async def test_results_do_not_depend_on_hidden_documents(
    postgres_store: PostgresStore, statements: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read returns the same with and without hidden documents, by as many statements."""
    documents = [_document(number) for number in range(SIZE)]
    for name in ("with", "without"):
        await postgres_store.ensure_collection(name, MODEL)
        kept = [one for one in documents if name == "with" or READER.allows(one.draft.tags)]
        await postgres_store.replace_documents(name, kept)
        await postgres_store.maintenance.wait()
        await _dense(postgres_store, name)

    for path, read in READS.items():
        told, counts = [], []
        for name in ("with", "without"):
            monkeypatch.setattr(classes, "_resolved", ByteCache(10**6))
            statements.clear()
            told.append(await _told(read, postgres_store, name))
            counts.append(dict(statements))
        assert told[0] == told[1], path
        assert counts[0] == counts[1], path


NODES = {"C0001": "red", "C0002": "blue", "C0003": "green", "C0006": "last"}
EDGES = [("C0001", "C0002", "dep"), ("C0002", "C0003", "dep"), ("C0003", "C0006", "dep")]
HIDDEN_NODES = {"C0004": "quokka four", "C0005": "quokka five"}
HIDDEN_EDGES = [
    ("C0001", "C0004", "dep"), ("C0004", "C0005", "dep"), ("C0005", "C0006", "dep"),
    ("C0002", "C0005", "dep"), ("C0004", "C0001", "dep"),
]  # fmt: skip


async def test_graph_walks_do_not_depend_on_hidden_nodes(
    tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """Walks, their limits and the decisions on texts are the same with and without hidden nodes."""
    secret = {local: {"Text": text, "acl_allow": ["board"]} for local, text in HIDDEN_NODES.items()}
    bundles = [
        write_small(tmp_path / "a.zip", {**NODES, **secret}, EDGES + HIDDEN_EDGES, head_sha="a1"),
        write_small(tmp_path / "b.zip", NODES, EDGES, head_sha="b1"),
    ]
    home = new_home(tmp_path / "home")
    async with Engine(home=home, embedder=HashEmbedder(), reranker="none") as engine:
        await engine.code.import_bundles(bundles)
        for call in _calls(engine):
            told = []
            for snapshot in ("a1", "b1"):
                info = next(
                    one.info
                    for one in (await engine.code.overview()).snapshots
                    if one.info.head_sha == snapshot
                )
                try:
                    reply = msgspec.json.encode(await call(snapshot)).decode()
                except WhenceError as error:
                    reply = f"{type(error).__name__} {error.message} {error.hint}"
                told.append(_without_names(reply, info.snapshot_id, snapshot))
            assert told[0] == told[1]
            assert "quokka" not in told[0]


def _calls(engine: Engine) -> Iterator[Callable[[str], Awaitable[Any]]]:
    """Return ways to ask; each is given the snapshot."""
    for most, depth, direction in ((2, 1, "out"), (3, 9, "out"), (9, 9, "both"), (9, 1, "in")):
        yield lambda snapshot, most=most, depth=depth, direction=direction: engine.code.expand(
            ["C0001"],
            snapshot=snapshot,
            max_nodes=most,
            max_depth=depth,
            direction=direction,
            access=READER,
        )
    for seeds in (["C0004"], ["C0001", "C0004"]):
        yield lambda snapshot, seeds=seeds: engine.code.expand(
            seeds, snapshot=snapshot, access=READER
        )
    budget = TextBudget(kind="chars", limit=9)
    for order in ("balanced", "seed_first", "graph_first"):
        yield lambda snapshot, order=order: engine.code.fetch(
            ["C0001"],
            ["C0004", "C0002", "C0005", "C0003"],
            budget=budget,
            snapshot=snapshot,
            prioritize=order,
            access=READER,
        )
    yield lambda snapshot: engine.code.fetch(
        ["C0004"], budget=budget, snapshot=snapshot, access=READER
    )
    yield lambda snapshot: engine.search(
        "quokka four", snapshot=snapshot, mode="dense", threshold=0, access=READER
    )


def _without_names(reply: str, snapshot_id: str, head_sha: str) -> str:
    """Leave out what only tells which of the two snapshots it was."""
    text = reply.replace(snapshot_id, "SNAPSHOT").replace(head_sha, "SHA")
    for number in range(9):
        text = text.replace(f"code.{number}", "COLLECTION")
    return text
