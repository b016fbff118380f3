"""Bundles become snapshots: all of them or none, and readers never meet half of one."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.fake_bundles import write_fake_bundles, write_zip
from tests.support.small_bundles import import_into, small_files, write_small

from whence.code import bundle_import as code_import
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader
from whence.code.snapshot_reading import read_snapshot, search_snapshot
from whence.code.snapshots import staging
from whence.code.snapshots.documents import node_document
from whence.code.snapshots.protocols import SnapshotRecord
from whence.code.snapshots.store import PostgresCode
from whence.flow.resources import Resources
from whence.flow.settings import Settings
from whence.retrieval.results import SearchReport
from whence.schema.access import Access, DocumentTags
from whence.schema.code import SnapshotChoice
from whence.schema.errors import BadInput, InternalError, NotFound, Unavailable, WhenceError
from whence.store.postgres.document_rows import reserve_ids
from whence.store.postgres.lexical import segments
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

NODES = {"C1": "class Alpha calls Beta", "C2": "class Beta", "SQL:dbo.t": "create table t"}
EDGES = [("C1", "C2", "dep"), ("SQL:dbo.t", "C1", "ReferencedBy(C#)")]
#: Every table that an import writes.
TABLES = (
    "collection",
    "document",
    "chunk",
    "chunk_vec",
    "chunk_terms",
    "term",
    "lexicon",
    "segment",
    "posting",
    "code_snapshot",
    "code_ref",
    "code_set",
    "code_set_member",
    "code_node",
    "code_neighbours",
)
EVERYTHING = Access(frozenset({"hr", "ops"}), frozenset({"secret"}), 9)


async def rows_of(store: PostgresStore) -> dict[str, int]:
    """Count the rows of every table that an import writes."""
    async with store.pool.connection() as connection:
        return {
            table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES
        }


async def statuses(store: PostgresStore) -> list[str]:
    async with store.pool.connection() as connection:
        rows = await connection.fetch("SELECT status FROM code_import ORDER BY id")
    return [row["status"] for row in rows]


async def texts_of(store: PostgresStore, record: SnapshotRecord, access: Access) -> dict[str, str]:
    """Return the text of every visible node by its local id, found by a dense search without a threshold."""
    query = np.zeros(64, dtype=np.float32)
    query[0] = 1.0
    found = await store.search_dense(record.collection, query, limit=1000, access=access)
    texts = await store.chunk_texts(record.collection, [one.chunk_id for one in found], access)
    return {one.document_id.split("::", 3)[3]: one.content for one in texts}


async def edges_of(
    store: PostgresStore, record: SnapshotRecord, *, back: bool = False
) -> set[tuple[str, str, str]]:
    async with store.pool.connection() as connection:
        rows = await connection.fetch(
            "SELECT a.local_id AS f, b.local_id AS t, r.name FROM collection c"
            " JOIN code_neighbours e ON e.collection_id = c.id CROSS JOIN unnest(e.others) o(node)"
            " JOIN code_relation r ON r.id = e.relation"
            " JOIN code_node a ON a.collection_id = c.id AND a.node = e.node"
            " JOIN code_node b ON b.collection_id = c.id AND b.node = o.node"
            " WHERE c.name = $1 AND e.back = $2",
            record.collection,
            back,
        )
    return {(row["f"], row["t"], row["name"]) for row in rows}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A small bundle."""
    return write_small(tmp_path / "small.zip", NODES, EDGES)


async def test_all_nodes_and_edges_are_stored(postgres_store: PostgresStore, bundle: Path) -> None:
    """Every node of a bundle, with its text, and every edge can be read afterwards."""
    result = await import_into(postgres_store, [bundle])
    record = await PostgresCode(postgres_store).resolve_snapshot("main")
    assert await texts_of(postgres_store, record, Access.public()) == NODES
    assert await edges_of(postgres_store, record) == {
        ("C1", "C2", "cs_dep"),
        ("SQL:dbo.t", "C1", "sql_ReferencedBy(C#)"),
    }
    assert await edges_of(postgres_store, record, back=True) == {
        ("C2", "C1", "cs_dep"),
        ("C1", "SQL:dbo.t", "sql_ReferencedBy(C#)"),
    }
    (one,) = result.imports
    assert (one.nodes, one.edges) == ({"cs": 2, "sql": 1}, {"cs": 1, "sql": 1})
    assert (one.status, one.snapshot_id) == ("completed", record.info.snapshot_id)


async def test_two_releases_share_vectors(postgres_store: PostgresStore, tmp_path: Path) -> None:
    """Both releases are imported completely; nodes equal in both are embedded once."""
    embedder = HashEmbedder()
    paths = write_fake_bundles(tmp_path)
    result = await import_into(postgres_store, paths, embedder=embedder, set_name="Fake_snapshot")
    first, second = result.imports
    assert (first.nodes, second.nodes) == ({"cs": 201, "sql": 90}, {"cs": 203, "sql": 92})
    assert [len(await _nodes(path)) for path in paths] == [291, 295]
    embedded = sum(len(call) for call in embedder.calls)
    assert embedded == first.embedded + second.embedded
    assert first.embedded == 291
    assert second.embedded < 40
    records = await PostgresCode(postgres_store).snapshots()
    for path, record in zip(paths, reversed(records), strict=True):
        expected = {node.local_id: node.text for node in await _nodes(path)}
        access = Access(
            frozenset(tag for node in await _nodes(path) for tag in node.tags.acl),
            frozenset(label for node in await _nodes(path) for label in node.tags.labels),
            99,
        )
        assert await texts_of(postgres_store, record, access) == expected


async def _nodes(path: Path) -> list[Any]:
    return list(BundleReader(open_bundle(path)).nodes())


async def test_numbers_follow_ids(postgres_store: PostgresStore, tmp_path: Path) -> None:
    """Nodes are numbered in the order of their canonical ids, whatever the order of the bundle."""
    names = ["C9", "C10", "Zeta", "alpha", "\u00e4", "SQL:dbo.b", "SQL:dbo.A"]
    path = write_small(tmp_path / "b.zip", {name: f"text {name}" for name in names})
    await import_into(postgres_store, [path])
    async with postgres_store.pool.connection() as connection:
        rows = await connection.fetch("SELECT node, local_id FROM code_node ORDER BY node")
    kinds = [("sql" if name.startswith("SQL:") else "cs", name) for name in names]
    assert [row["local_id"] for row in rows] == [name for _, name in sorted(kinds)]
    assert [row["node"] for row in rows] == list(range(len(names)))


@pytest.mark.parametrize("name", ["id", "head", "branch", "tag"])
async def test_a_snapshot_is_found_by_each_of_its_names(
    postgres_store: PostgresStore, bundle: Path, name: str
) -> None:
    """A snapshot is found by its id, head sha, branch and tag."""
    await import_into(postgres_store, [bundle], tags=["v1"])
    (record,) = await PostgresCode(postgres_store).snapshots()
    names = {"id": record.info.snapshot_id, "head": "a1", "branch": "main", "tag": "v1"}
    assert await PostgresCode(postgres_store).resolve_snapshot(names[name]) == record


async def test_a_branch_names_the_newest_snapshot(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    """A branch names the snapshot published last, also within one import."""
    for place, heads in enumerate([("a1", "a2"), ("a3",)]):
        paths = [
            write_small(tmp_path / f"{head}.zip", {"C1": head}, head_sha=head) for head in heads
        ]
        await import_into(postgres_store, paths)
        found = await PostgresCode(postgres_store).resolve_snapshot("main")
        assert found.info.head_sha == ("a2", "a3")[place]


@pytest.mark.parametrize("reference", ["nothing", "", "\0", "\ud800", "(unknown)", "A1"])
async def test_an_unknown_reference_is_not_found(
    postgres_store: PostgresStore, bundle: Path, reference: str
) -> None:
    """A name of no snapshot is not found."""
    await import_into(postgres_store, [bundle])
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).resolve_snapshot(reference)


async def test_second_import_changes_nothing(postgres_store: PostgresStore, bundle: Path) -> None:
    """Importing the same content again embeds nothing and changes no row and no name."""
    await import_into(postgres_store, [bundle], set_name="S")
    before = (await rows_of(postgres_store), await PostgresCode(postgres_store).snapshots())
    embedder = HashEmbedder()
    result = await import_into(postgres_store, [bundle], embedder=embedder, set_name="S")
    assert result.imports[0].unchanged
    assert result.imports[0].embedded == 0
    assert embedder.calls == []
    assert (await rows_of(postgres_store), await PostgresCode(postgres_store).snapshots()) == before


async def test_other_content_is_refused(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path
) -> None:
    """Other content at the same commit requires `replace`; without it nothing changes."""
    await import_into(postgres_store, [bundle])
    before = await rows_of(postgres_store)
    other = write_small(tmp_path / "other.zip", {"C1": "class Other"})
    with pytest.raises(BadInput, match="other content") as caught:
        await import_into(postgres_store, [other])
    assert "--replace" in caught.value.hint
    assert await rows_of(postgres_store) == before


async def test_replacing_removes_former_content(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path
) -> None:
    """A replacement leaves the new content and no row of the former; sets and names stay."""
    await import_into(postgres_store, [bundle], set_name="S")
    (old,) = await PostgresCode(postgres_store).snapshots()
    nodes = {"C1": NODES["C1"], "C3": {"Text": "", "acl_allow": ["hr"]}}
    other = write_small(tmp_path / "other.zip", nodes, [("C1", "C3", "dep")])
    embedder = HashEmbedder()
    await import_into(postgres_store, [other], embedder=embedder, replace=True)
    record = await PostgresCode(postgres_store).resolve_set("S")
    assert record.info == old.info
    assert record.collection != old.collection
    assert await texts_of(postgres_store, record, EVERYTHING) == {"C1": NODES["C1"], "C3": ""}
    assert await texts_of(postgres_store, record, Access.public()) == {"C1": NODES["C1"]}
    assert await edges_of(postgres_store, record) == {("C1", "C3", "cs_dep")}
    assert sum(len(call) for call in embedder.calls) <= 2
    rows = await rows_of(postgres_store)
    assert (rows["collection"], rows["document"], rows["code_node"]) == (1, 2, 2)
    assert await postgres_store.collection(old.collection) is None


BAD = {
    "code/chunks.json": b'[{"Id": "C1", "Text": "no acl"}]',
    "graph/edges.csv": b'from,to,relation\nC1,C2,"broken\n',
    "docs/sql_bodies.jsonl": b"\xff\n",
}


@pytest.mark.parametrize("member", BAD)
async def test_all_or_nothing(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path, member: str
) -> None:
    """One invalid bundle of several leaves neither rows nor sets, wherever it fails."""
    bad = tmp_path / "bad.zip"
    write_zip(small_files(NODES, EDGES, head_sha="a2") | {member: BAD[member]}, bad)
    embedder = HashEmbedder()
    with pytest.raises(BadInput, match=r"bad\.zip"):
        await import_into(postgres_store, [bundle, bad], embedder=embedder, set_name="S")
    assert not any((await rows_of(postgres_store)).values())
    assert await statuses(postgres_store) == ["failed", "failed"]
    assert embedder.calls == []


class FailingLater(HashEmbedder):
    """Fails from its second call on."""

    async def embed(self, texts: Any, purpose: Any = "query") -> Any:
        vectors = await super().embed(texts, purpose)
        if len(self.calls) > 1:
            raise Unavailable("the embedding service does not answer")
        return vectors


async def test_failed_embedding_leaves_nothing(postgres_store: PostgresStore, bundle: Path) -> None:
    """When embedding fails half-way, the import fails with one error and leaves nothing."""
    with pytest.raises(Unavailable):
        await import_into(postgres_store, [bundle], embedder=FailingLater())
    assert not any((await rows_of(postgres_store)).values())
    await import_into(postgres_store, [bundle])
    assert (await rows_of(postgres_store))["code_node"] == 3


@pytest.mark.parametrize(
    "table", ["collection", "document", "code_node", "code_neighbours", "segment"]
)
async def test_interrupted_import_leaves_nothing(
    postgres_store: PostgresStore, bundle: Path, table: str
) -> None:
    """An import that is cancelled removes what it has staged, at any point."""
    slow = HashEmbedder(delay_s=60.0)
    task = asyncio.create_task(import_into(postgres_store, [bundle], embedder=slow))
    while not (await rows_of(postgres_store))[table]:
        assert not task.done()
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any((await rows_of(postgres_store)).values())
    assert await statuses(postgres_store) == ["failed"]


async def test_an_import_removes_rows_of_a_killed_one(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path
) -> None:
    """Rows staged by a process that died are removed by the next import; those of a live one stay."""
    opened = open_bundle(bundle)
    nodes = list(BundleReader(opened).nodes())
    other = write_small(tmp_path / "other.zip", {"C7": "class Seven"}, head_sha="b1")

    async def die() -> None:
        async with PostgresCode(postgres_store).importing() as run:
            staged = await run.stage(str(uuid.uuid4()), opened.snapshot)
            await staged.add_nodes(nodes)
            await import_into(postgres_store, [other])
            assert (await rows_of(postgres_store))["document"] == 4
            async with postgres_store.pool.connection() as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks"
                    " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
                )
            await staged.add_nodes(nodes)

    with pytest.raises(WhenceError):
        await die()
    assert (await rows_of(postgres_store))["document"] == 4
    await import_into(postgres_store, [other])
    assert (await rows_of(postgres_store))["document"] == 1
    assert await statuses(postgres_store) == ["failed", "completed", "completed"]


@pytest.mark.parametrize("same", [True, False])
async def test_two_imports_of_one_snapshot(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path, same: bool
) -> None:
    """Of two concurrent imports the first to publish wins; the other finds equal content or is refused."""
    other = bundle if same else write_small(tmp_path / "other.zip", {"C1": "other"})
    outcomes = await asyncio.gather(
        import_into(postgres_store, [bundle], embedder=HashEmbedder(delay_s=0.3)),
        import_into(postgres_store, [other], embedder=HashEmbedder(delay_s=0.3)),
        return_exceptions=True,
    )
    failed = [one for one in outcomes if isinstance(one, BaseException)]
    assert len(failed) == (0 if same else 1)
    assert all(isinstance(one, BadInput) for one in failed)
    rows = await rows_of(postgres_store)
    assert rows["collection"] == rows["code_snapshot"] == 1
    record = await PostgresCode(postgres_store).resolve_snapshot("main")
    assert rows["document"] == record.nodes.total == rows["chunk_vec"] == rows["code_node"]


async def test_readers_see_one_version(postgres_store: PostgresStore, tmp_path: Path) -> None:
    """While a snapshot is replaced repeatedly, a reader sees the old or the new content, never both."""
    paths = [
        write_small(tmp_path / f"{name}.zip", {f"C{n}": f"{name} {n}" for n in range(20)})
        for name in ("old", "new")
    ]
    await import_into(postgres_store, paths[:1])
    choice = SnapshotChoice(snapshot="main")
    done = asyncio.Event()
    seen: set[frozenset[str]] = set()

    async def replace() -> None:
        for turn in range(1, 9):
            await import_into(postgres_store, [paths[turn % 2]], replace=True)
        done.set()

    async def read() -> None:
        while not done.is_set():
            try:
                texts = await read_snapshot(
                    PostgresCode(postgres_store),
                    choice,
                    lambda record: texts_of(postgres_store, record, Access.public()),
                )
            except Unavailable:
                continue
            assert len(texts) == 20
            seen.add(frozenset(text.split()[0] for text in texts.values()))

    await asyncio.gather(replace(), read(), read())
    assert seen <= {frozenset({"old"}), frozenset({"new"})}


async def test_a_search_is_repeated_after_a_replacement(
    postgres_store: PostgresStore, tmp_path: Path, bundle: Path
) -> None:
    """A search during which its snapshot was replaced is repeated on the new content."""
    await import_into(postgres_store, [bundle])
    other = write_small(tmp_path / "other.zip", {"C1": "other"})
    collections: list[str] = []

    async def search(collection: str) -> SearchReport:
        collections.append(collection)
        if len(collections) == 1:
            await import_into(postgres_store, [other], replace=True)
        return SearchReport(results=[])

    choice = SnapshotChoice(snapshot="a1")
    async with Resources(Settings({}), {"store": postgres_store}) as resources:
        session: Any = SimpleNamespace(resources=resources)
        report = await search_snapshot(session, choice, search)
    record = await PostgresCode(postgres_store).resolve_snapshot("a1")
    assert report.snapshot_id == record.info.snapshot_id
    assert collections[-1] == record.collection
    assert len(collections) == 2


async def test_internal_collections_are_hidden(postgres_store: PostgresStore, bundle: Path) -> None:
    """The collection of a snapshot is not listed, and only an import writes it."""
    await import_into(postgres_store, [bundle])
    (record,) = await PostgresCode(postgres_store).snapshots()
    assert await postgres_store.collections() == []
    before = await rows_of(postgres_store)
    (node, *_) = await _nodes(bundle)
    vectors = await HashEmbedder().embed(["x"])
    document = EmbeddedDocument(draft=node_document(node), vectors=vectors)
    with pytest.raises(NotFound):
        await postgres_store.replace_documents(record.collection, [document])
    with pytest.raises(NotFound):
        await postgres_store.retag_documents(record.collection, {node.id: DocumentTags(("x",))})
    with pytest.raises(BadInput):
        await postgres_store.ensure_collection(record.collection, HashEmbedder().model)
    assert await postgres_store.remove_documents(record.collection, [node.id]) == 0
    assert await rows_of(postgres_store) == before


async def test_a_set_keeps_its_order(postgres_store: PostgresStore, tmp_path: Path) -> None:
    """A set keeps the given order: the first member is primary, the second secondary."""
    paths = [
        write_small(tmp_path / f"{n}.zip", {"C1": str(n)}, head_sha=f"h{n}", branch=f"b{n}")
        for n in (2, 1)
    ]
    result = await import_into(postgres_store, paths, set_name="S")
    assert result.set is not None
    assert [member.ref for member in result.set.members] == ["b2", "b1"]
    assert await PostgresCode(postgres_store).sets() == [result.set]
    assert (await PostgresCode(postgres_store).resolve_set("S")).info.head_sha == "h2"
    assert (await PostgresCode(postgres_store).resolve_set("S", "secondary")).info.head_sha == "h1"
    assert (
        await PostgresCode(postgres_store).resolve_snapshot("b1", within="S")
    ).info.head_sha == "h1"


async def test_a_set_is_made_of_references(postgres_store: PostgresStore, tmp_path: Path) -> None:
    """A set can be made of existing snapshots; an unknown reference leaves the former set unchanged."""
    for n in (1, 2):
        path = write_small(tmp_path / f"{n}.zip", {"C1": str(n)}, head_sha=f"h{n}", branch=f"b{n}")
        await import_into(postgres_store, [path])
    made = await PostgresCode(postgres_store).make_set("S", ["b2", "h1"])
    assert [member.ref for member in made.members] == ["b2", "h1"]
    for bad in (["b1", "nothing"], [], ["b1", "h1"]):
        with pytest.raises((NotFound, BadInput)):
            await PostgresCode(postgres_store).make_set("S", bad)
        assert await PostgresCode(postgres_store).sets() == [made]


async def test_repositories_do_not_mix_in_a_set(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    """A set holds one repository; `--repo` can give several bundles the same one."""
    paths = [write_small(tmp_path / f"{r}.zip", NODES, repo=r, head_sha=r) for r in ("A", "B")]
    with pytest.raises(BadInput, match="one repository"):
        await import_into(postgres_store, paths, set_name="S")
    result = await import_into(postgres_store, paths, set_name="S", repo="Both")
    assert result.set is not None
    assert result.set.repo == "Both"
    assert {one.repo for one in result.imports} == {"Both"}


async def test_an_inactive_set_or_snapshot_is_not_read(
    postgres_store: PostgresStore, bundle: Path
) -> None:
    """An inactive set or snapshot cannot be read until it is active again."""
    await import_into(postgres_store, [bundle], set_name="S")
    (record,) = await PostgresCode(postgres_store).snapshots()
    await PostgresCode(postgres_store).set_active("S", False)
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).resolve_set("S")
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).resolve_snapshot("main", within="S")
    assert await PostgresCode(postgres_store).resolve_snapshot("main") == record
    await PostgresCode(postgres_store).set_active("S", True)
    assert await PostgresCode(postgres_store).resolve_set("S") == record
    await PostgresCode(postgres_store).set_active(record.info.snapshot_id, False)
    for found in (
        PostgresCode(postgres_store).resolve_set("S"),
        PostgresCode(postgres_store).resolve_snapshot("main"),
    ):
        with pytest.raises(NotFound):
            await found
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).set_active("nothing", True)


async def test_sets_are_removed_and_snapshots_purged(
    postgres_store: PostgresStore, tmp_path: Path
) -> None:
    """A removed set keeps its snapshots; a purged snapshot leaves nothing, and an empty set is removed."""
    paths = [write_small(tmp_path / f"{n}.zip", NODES, EDGES, head_sha=f"h{n}") for n in (1, 2)]
    await import_into(postgres_store, paths, set_name="S")
    await import_into(postgres_store, paths[:1], set_name="One")
    await PostgresCode(postgres_store).remove_set("S")
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).remove_set("S")
    assert len(await PostgresCode(postgres_store).snapshots()) == 2
    first, second = [
        await PostgresCode(postgres_store).resolve_snapshot(head) for head in ("h1", "h2")
    ]
    await PostgresCode(postgres_store).purge_snapshot(first.info.snapshot_id)
    assert await PostgresCode(postgres_store).sets() == []
    assert (await rows_of(postgres_store))["document"] == 3
    await PostgresCode(postgres_store).purge_snapshot(second.info.snapshot_id)
    assert not any((await rows_of(postgres_store)).values())
    assert await statuses(postgres_store) == []
    with pytest.raises(NotFound):
        await PostgresCode(postgres_store).purge_snapshot("h1")


tags = st.builds(
    DocumentTags,
    st.lists(st.sampled_from(["hr", "ops"]), max_size=2).map(tuple),
    st.lists(st.sampled_from(["secret", "internal"]), max_size=2).map(tuple),
    st.integers(0, 2),
)
readers = st.builds(
    Access,
    st.frozensets(st.sampled_from(["hr", "ops"])),
    st.frozensets(st.sampled_from(["secret", "internal"])),
    st.integers(0, 2),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rights=st.lists(tags, min_size=1, max_size=8), reader=readers)
async def test_a_search_returns_visible_nodes_only(
    postgres_store: PostgresStore, tmp_path: Path, rights: list[DocumentTags], reader: Access
) -> None:
    """A search without a threshold returns exactly the nodes that the reader's rights allow."""
    nodes = {
        f"C{n}": {
            "Text": f"node {n}" if n % 3 else "",
            "acl_allow": list(one.acl),
            "classification_labels_all": list(one.labels),
            "doc_level": one.clearance,
        }
        for n, one in enumerate(rights)
    }
    path = write_small(tmp_path / "random.zip", nodes)
    await import_into(postgres_store, [path], replace=True)
    record = await PostgresCode(postgres_store).resolve_snapshot("main")
    expected = {f"C{n}" for n, one in enumerate(rights) if reader.allows(one)}
    assert set(await texts_of(postgres_store, record, reader)) == expected


async def chunks_by_term(store: PostgresStore) -> tuple[list[int], dict[str, list[int]]]:
    """Return the nodes of each segment of the one snapshot, and those that its index has for each term."""
    (record,) = await PostgresCode(store).snapshots()
    async with store.pool.connection() as connection:
        number = await connection.fetchval("SELECT collection_id FROM code_snapshot")
        sizes = await connection.fetch("SELECT chunks FROM segment ORDER BY first_slot")
        first = await connection.fetchval("SELECT min(ord) FROM chunk")
        found = {
            row["term"]: [
                one - first
                for one in await segments.chunks_with_terms(connection, number, [row["id"]])
            ]
            for row in await connection.fetch("SELECT id, term FROM term ORDER BY term")
        }
    await PostgresCode(store).purge_snapshot(record.info.snapshot_id)
    return [row["chunks"] for row in sizes], found


async def test_postings_of_several_segments_equal_those_of_one(
    postgres_store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postings in several segments, of nodes in several batches, equal those of one segment."""
    path = write_fake_bundles(tmp_path)[0]
    await import_into(postgres_store, [path])
    once = await chunks_by_term(postgres_store)
    monkeypatch.setattr(code_import, "_NODES_PER_BATCH", 48)
    monkeypatch.setattr(segments, "MAX_SEGMENT_CHUNKS", 70)
    await import_into(postgres_store, [path])
    often = await chunks_by_term(postgres_store)

    assert once[1] == often[1]
    assert len(once[0]) == 1
    assert sum(often[0]) == sum(once[0])
    assert max(often[0]) == 70


async def test_a_failed_write_of_postings_fails_the_import(
    postgres_store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while postings are written is the error of the import, and no row is left."""

    async def fail(*_: object) -> None:
        raise InternalError("no segment today")

    monkeypatch.setattr(staging, "flush_postings", fail)
    with pytest.raises(InternalError, match="no segment today"):
        await import_into(postgres_store, [write_fake_bundles(tmp_path)[0]])
    assert not any((await rows_of(postgres_store)).values())


async def test_content_without_a_digest_needs_replace(
    postgres_store: PostgresStore, bundle: Path
) -> None:
    """Content imported by an earlier version has no digest: importing again is refused without `replace`."""
    await import_into(postgres_store, [bundle])
    (first,) = await PostgresCode(postgres_store).snapshots()
    async with postgres_store.pool.connection() as connection:
        await connection.execute("UPDATE code_snapshot SET digest = ''")
    with pytest.raises(BadInput, match="by an earlier version: its content cannot be compared"):
        await import_into(postgres_store, [bundle])
    assert [one.collection for one in await PostgresCode(postgres_store).snapshots()] == [
        first.collection
    ]
    await import_into(postgres_store, [bundle], replace=True)
    assert [one.digest for one in await PostgresCode(postgres_store).snapshots()] == [first.digest]


async def test_reserved_ids_are_unique(postgres_store: PostgresStore) -> None:
    """Reserved ids are ascending, as many as requested, and never reserved twice."""
    async with postgres_store.pool.connection() as connection:
        first = await reserve_ids(connection, "chunk", "ord", 3)
        none = await reserve_ids(connection, "term", "id", 0)
        taken = await connection.fetchval("SELECT nextval(pg_get_serial_sequence('chunk', 'ord'))")
        again = await reserve_ids(connection, "chunk", "ord", 2)

    assert (len(first), len(none)) == (3, 0)
    assert first == sorted(first)
    assert len({*first, taken, *again}) == 6
