"""Two lines of defence: with either of them broken on purpose, nothing hidden leaves the store by any path."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import asyncpg
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.code_edges import CodeEdge
from tests.support.graph_tables import write_graph

from whence.code.snapshots.store import PostgresCode
from whence.processors.search import SearchParameters, SearchProcessor
from whence.schema import Access, DocumentTags, ExpandRequest
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, NotFound
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import SearchRequest
from whence.store import acl_check as guard
from whence.store.chunk_ids import chunk_key
from whence.store.postgres import acl_classes as classes
from whence.store.postgres import chunk_reader
from whence.store.postgres import symbol_lookup as symbols
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.dense import search as dense
from whence.store.postgres.dense import vector_index
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.links import queries as passage_links
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.stub_context import StubContext

pytestmark = pytest.mark.postgres

NAME = "lines"
SOURCES = "sources"
MODEL = EmbeddingModel(name="lines", dimension=8)
HIDDEN_TAGS = (
    DocumentTags(("board",)),
    DocumentTags((), ("secret",)),
    DocumentTags((), (), 7),
    DocumentTags(("board",), ("secret",), 7),
)
#: Holds something of everything, and yet may see none of the hidden documents.
READER = Access(frozenset({"staff"}), frozenset({"internal"}), 6)
BOARD = Access(frozenset({"board"}), frozenset({"secret"}), 7)
SIZE = 60
#: Takes the parameters of the rule and lets everything pass.
EVERYTHING = "($1::text[] IS NOT NULL AND $2::text[] IS NOT NULL AND $3::int IS NOT NULL)"

Read = Callable[[PostgresStore], Awaitable[set[str]]]


def _hidden(number: int) -> bool:
    return number % 3 != 0


def _tags(number: int) -> DocumentTags:
    return HIDDEN_TAGS[number % 4] if _hidden(number) else DocumentTags()


def _vectors() -> NDArray[np.float32]:
    drawn = np.random.default_rng(7).normal(size=(SIZE, MODEL.dimension))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


VECTORS = _vectors()
#: Nearest to a hidden document.
QUERY = VECTORS[1]
IDS = [chunk_key(NAME, f"doc-{number:02}", 0) for number in range(SIZE)]


def _document(number: int) -> EmbeddedDocument:
    """Return a document that bears a name of its own and mentions that of the next."""
    names = [f"{'open' if not _hidden(n) else 'quokka'}name{n:02}" for n in (number, number + 1)]
    kind = "hidden" if _hidden(number) else "open"
    title = f"Ledger {names[0]}"
    text = f"The red report speaks of Ledger {names[1]} and of red lakes."
    draft = DocumentDraft(
        document_id=f"doc-{number:02}",
        title=title,
        chunks=(ChunkDraft(content=text, embed_text=f"{title}\n{text}"),),
        tags=_tags(number),
        metadata={"color": "red", f"key_{kind}": 1},
    )
    return EmbeddedDocument(draft=draft, vectors=VECTORS[number][None])


def _source_file(number: int) -> EmbeddedDocument:
    """Return a document that defines a symbol."""
    name = f"doc-{number:02}"
    draft = DocumentDraft(
        document_id=name,
        title=name,
        chunks=(ChunkDraft(content="text", heading="Quarter"),),
        tags=_tags(number),
        metadata={"color": "red"},
    )
    return EmbeddedDocument(draft=draft, vectors=VECTORS[number][None])


VISIBLE = {f"doc-{number:02}" for number in range(SIZE) if not _hidden(number)}
LOCALS = [f"C{number:04}" for number in range(12)]


def _node(local: str) -> str:
    return f"R::lines::cs::{local}"


async def _write_code(store: PostgresStore) -> None:
    """A chain whose nodes are hidden in turn, with shortcuts between the visible ones."""
    rights = {_node(local): _tags(number) for number, local in enumerate(LOCALS)}
    ends = [(n, n + 1) for n in range(11)] + [(n, n + 3) for n in range(0, 9, 3)]
    edges = [
        CodeEdge(from_id=_node(LOCALS[a]), to_id=_node(LOCALS[b]), relation="cs_dep")
        for a, b in ends
    ]
    async with store.pool.connection() as connection:
        await write_graph(connection, rights, edges, collection="code.lines")


VISIBLE_NODES = {_node(local) for number, local in enumerate(LOCALS) if not _hidden(number)}


@pytest.fixture
async def filled(postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A store with documents that have a graph over their vectors, links and facts, and with code."""
    monkeypatch.setattr(vector_index, "_MIN_CHUNKS", SIZE // 2)
    monkeypatch.setattr(vector_index, "_STEP_COST", 0)
    await postgres_store.ensure_collection(NAME, MODEL)
    await postgres_store.replace_documents(NAME, [_document(number) for number in range(SIZE)])
    await postgres_store.ensure_collection(SOURCES, MODEL)
    await postgres_store.replace_documents(SOURCES, [_source_file(n) for n in range(SIZE)])
    await postgres_store.maintenance.wait()
    await _write_code(postgres_store)
    return postgres_store


# --- every path on which something leaves the store; each gives the documents it tells of -----------


async def _dense(store: PostgresStore) -> set[str]:
    hits = await store.search_dense(NAME, QUERY, limit=10, access=READER)
    return {hit.document_id for hit in hits}


async def _dense_exact(store: PostgresStore) -> set[str]:
    hits = await store.search_dense(NAME, QUERY, limit=SIZE, access=READER, exact=True)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return {hit.document_id for hit in hits}


async def _dense_filtered(store: PostgresStore) -> set[str]:
    filters = parse_filters({"color": "red"})
    hits = await store.search_dense(NAME, QUERY, limit=SIZE, access=READER, filters=filters)
    return {hit.document_id for hit in hits}


async def _words(store: PostgresStore) -> set[str]:
    hits = await store.search_lexical(NAME, "red report", limit=SIZE, access=READER)
    return {hit.document_id for hit in hits}


async def _words_filtered(store: PostgresStore) -> set[str]:
    filters = parse_filters({"color": "red"})
    hits = await store.search_lexical(
        NAME, "red report", limit=SIZE, access=READER, filters=filters
    )
    return {hit.document_id for hit in hits}


async def _hybrid(store: PostgresStore) -> set[str]:
    search_service = SearchProcessor(SearchParameters(), store=store)
    asked = SearchRequest(
        access=READER,
        collection=NAME,
        limit=SIZE,
        vector=QUERY.tobytes(),
        model=MODEL,
        query_text="red report",
        mode="hybrid",
    )
    reply = await search_service.handle(asked, StubContext())
    return {hit.document_id for hit in reply.candidates}


async def _cosines(store: PostgresStore) -> set[str]:
    return _documents(await store.dense_scores(NAME, QUERY, IDS, READER))


async def _shares(store: PostgresStore) -> set[str]:
    return _documents(await store.lexical_scores(NAME, "red report", IDS, READER))


async def _texts(store: PostgresStore) -> set[str]:
    return {text.document_id for text in await store.chunk_texts(NAME, IDS, READER)}


async def _seen(store: PostgresStore) -> set[str]:
    return _documents(await store.visible_chunks(NAME, IDS, READER))


async def _listed(store: PostgresStore) -> set[str]:
    return {one.document_id for one in await store.visible_documents(NAME, READER, limit=SIZE)}


async def _links(store: PostgresStore) -> set[str]:
    names = await store.linked_titles(NAME, IDS, READER, query_text="ledger quokkaname01")
    return {ref.document_id for name in names for ref in (*name.titled_passages, *name.mentions)}


async def _named(store: PostgresStore) -> set[str]:
    found = await store.find_symbols(SOURCES, "quarter", limit=SIZE, access=READER)
    return {one.document_id for one in found}


async def _named_filtered(store: PostgresStore) -> set[str]:
    filters = parse_filters({"color": "red"})
    found = await store.find_symbols(SOURCES, "Quarter", limit=SIZE, access=READER, filters=filters)
    return {one.document_id for one in found}


def _documents(chunk_ids: Any) -> set[str]:
    return {f"doc-{IDS.index(one):02}" for one in chunk_ids}


READS: dict[str, Read] = {
    "dense": _dense,
    "dense exact": _dense_exact,
    "dense filtered": _dense_filtered,
    "words": _words,
    "words filtered": _words_filtered,
    "hybrid": _hybrid,
    "cosines": _cosines,
    "shares": _shares,
    "texts": _texts,
    "visible": _seen,
    "listing": _listed,
    "links": _links,
    "names": _named,
    "names filtered": _named_filtered,
}


async def _expanded(store: PostgresStore, *, travel: bool) -> set[str]:
    request = ExpandRequest(
        access=READER, snapshot="lines", seeds=(_node("C0000"),), max_depth=9, max_nodes=50
    )
    reply = await PostgresCode(store).expand(request, travel=travel)
    ids = {node.id for node in reply.nodes}
    assert {node.parent_id for node in reply.nodes} - {None} <= ids
    assert {end for edge in reply.edges for end in (edge.from_id, edge.to_id)} <= ids
    return ids


async def _no_hidden_seed(store: PostgresStore) -> None:
    """A hidden seed and one that does not exist fail in the same words."""
    said = []
    for local in ("C0001", "C9999"):
        request = ExpandRequest(
            access=READER, snapshot="lines", seeds=(_node(local),), max_depth=1, max_nodes=5
        )
        with pytest.raises(NotFound) as error:
            await PostgresCode(store).expand(request)
        said.append(str(error.value).replace(local, "ID"))
    assert said[0] == said[1]


async def _no_hidden_key(store: PostgresStore) -> None:
    """The error for an unknown key names visible keys only."""
    with pytest.raises(BadInput) as error:
        await store.search_dense(
            NAME, QUERY, limit=5, access=READER, filters=parse_filters({"nothing": "x"})
        )
    told = f"{error.value} {error.value.hint}"
    assert "key_open" in told
    assert "key_hidden" not in told


# --- breaking the lines -----------------------------------------------------------------------------


def _let_all_pass(value: object) -> object:
    return value.replace(classes.ALLOWED, EVERYTHING) if isinstance(value, str) else value


def _break_rule(patch: pytest.MonkeyPatch) -> None:
    """Make the rule of the first line let everything pass, in every statement that holds it."""
    broken = 0
    modules: tuple[ModuleType, ...] = (
        classes, chunk_reader, dense, lexical, symbols, passage_links
    )  # fmt: skip
    for module in modules:
        for name, value in vars(module).items():
            changed = _let_all_pass(value)
            if changed != value and name != "ALLOWED":
                patch.setattr(module, name, changed)
                broken += 1
    patch.setattr(classes, "_resolved", ByteCache(1000))
    assert broken >= 5, "other statements hold the rule now"


async def _break_copies(url: str) -> None:
    """Leave the tags of documents as they are and call every copy of their class public."""
    connection: Any = await asyncpg.connect(url, server_settings={"search_path": "whence"})
    try:
        public = "(SELECT id FROM sec_class WHERE acl = '{}' AND labels = '{}' AND clearance = 0)"
        for table in ("chunk", "chunk_vec", "code_node"):
            await connection.execute(f"UPDATE {table} SET class_id = {public}")
        await connection.execute(
            f"UPDATE posting SET classes = array_fill({public}, ARRAY[cardinality(classes)])"
        )
        await connection.execute("DELETE FROM lexicon_class")
        await connection.execute(
            "INSERT INTO lexicon_class SELECT collection_id, class_id, count(*) FROM chunk GROUP BY 1, 2"
        )
    finally:
        await connection.close()


def _break_second(patch: pytest.MonkeyPatch) -> None:
    """Make the second line let everything pass."""
    patch.setattr(guard, "DocumentTags", lambda *_: DocumentTags())


async def _check_all(store: PostgresStore) -> None:
    """Ask every path: something visible comes, nothing hidden does."""
    for name, read in READS.items():
        told = await read(store)
        assert told, f"{name} gave nothing"
        assert told <= VISIBLE, f"{name} leaked {told - VISIBLE}"
    for travel in (False, True):
        nodes = await _expanded(store, travel=travel)
        assert _node("C0000") in nodes
        assert nodes <= VISIBLE_NODES
    await _no_hidden_seed(store)
    await _no_hidden_key(store)


def _reported(log: pytest.LogCaptureFixture) -> set[str]:
    """Return the reads that the second line withheld something of."""
    return {
        str(getattr(one, "read", ""))
        for one in log.records
        if one.name == guard.__name__ and one.levelno == logging.ERROR
    }


async def test_both_checks_intact(filled: PostgresStore, caplog: pytest.LogCaptureFixture) -> None:
    """Every read returns what is visible, and the second check drops nothing."""
    await _check_all(filled)
    board = await filled.chunk_texts(NAME, IDS, BOARD)

    assert _reported(caplog) == set()
    assert len(board) == SIZE
    assert await _texts(filled) == await _dense_exact(filled) == VISIBLE


async def test_the_second_check_works_without_the_first(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When the SQL rule admits everything, nothing hidden is returned, and every read logs it."""
    _break_rule(monkeypatch)
    await _check_all(filled)

    assert _reported(caplog) == {
        "dense", "lexical", "cosines", "shares", "texts", "visible chunks", "passages", "links",
        "expansion", "seeds", "keys", "names", "listing", "sample",
    }  # fmt: skip


async def test_the_second_check_uses_the_tags_of_the_document(
    filled: PostgresStore, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A document's tags decide when its chunks, vectors, postings or nodes have another class."""
    await _break_copies(database_url)
    await _check_all(filled)

    assert {"dense", "lexical", "cosines", "texts", "links", "expansion"} <= _reported(caplog)


async def test_the_first_check_works_without_the_second(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second check every read still hides hidden documents."""
    _break_second(monkeypatch)
    await _check_all(filled)


async def test_the_proof_finds_a_leak(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both checks broken every read leaks."""
    _break_rule(monkeypatch)
    _break_second(monkeypatch)
    for name, read in READS.items():
        assert await read(filled) - VISIBLE, f"{name} was not broken"
    for travel in (False, True):
        assert await _expanded(filled, travel=travel) - VISIBLE_NODES


async def test_the_log_contains_no_text_and_no_name(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log line of a dropped row contains numbers only."""
    _break_rule(monkeypatch)
    caplog.set_level(logging.DEBUG)
    await _texts(filled)
    (record,) = [one for one in caplog.records if one.name == guard.__name__]

    assert re.fullmatch(r"[^\d]+40[^\d]+\[(\d+, )+\d+\]", record.getMessage())
    assert not any(word in caplog.text for word in ("quokka", "doc-", "red report", "board"))


async def test_a_retag_applies_to_former_results(filled: PostgresStore) -> None:
    """Chunks that were ranked before a retag have no text, score or visibility after it."""
    hits = await filled.search_dense(NAME, QUERY, limit=SIZE, access=READER)
    ids = [hit.chunk_id for hit in hits]
    taken = {hit.document_id for hit in hits[:3]}
    await filled.retag_documents(NAME, dict.fromkeys(taken, HIDDEN_TAGS[0]))
    texts = await filled.chunk_texts(NAME, ids, READER)
    cosines = await filled.dense_scores(NAME, QUERY, ids, READER)
    shares = await filled.lexical_scores(NAME, "red report", ids, READER)
    visible = await filled.visible_chunks(NAME, ids, READER)

    assert {text.document_id for text in texts} == VISIBLE - taken
    assert set(cosines) == set(shares) == visible == set(ids[3:])
    for read in (_dense, _dense_exact, _words, _hybrid, _links, _words_filtered):
        assert not await read(filled) & taken
