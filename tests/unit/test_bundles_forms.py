"""Reading bundles: all layouts, all field names, and the report."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.code_edges import CodeEdge
from tests.support.fake_bundles import BundleForm, bundle_files, write_folder, write_zip
from tests.support.fake_enterprise import fake_release
from tests.support.small_bundles import edges_between

from whence.code.bundles import bundle_reader as bundle_reader_module
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader, validate_bundle
from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode, ImportReport, KindCounts

FORMS = {
    "first": BundleForm(),
    "no top folder": BundleForm(top_folder=False),
    "other folders": BundleForm(cs_folder="code", sql_folder="sql_code_bundle"),
    "graph at the root": BundleForm(cs_folder="code", sql_folder="", top_folder=False),
    "later names": BundleForm(acl_name="acl_allow", level_name="clearance_level"),
    "earlier names": BundleForm(acl_name="AclTags", labels_name="classification_labels"),
    "table of SQL nodes": BundleForm(legacy_sql=True),
    "table, other folder": BundleForm(legacy_sql=True, sql_folder="sql_code_bundle"),
}
META = {"RepoName": "Fake", "HeadSha": "abc"}


def everything(path: Path, **options: Any) -> tuple[list[CodeNode], list[CodeEdge], ImportReport]:
    contents = BundleReader(open_bundle(path, **options))
    nodes = list(contents.nodes())
    return nodes, edges_between(nodes, contents.edges()), contents.report()


def small(tmp_path: Path, **members: Any) -> Path:
    """Write a bundle of `chunks`, `dependencies`, `bodies`, `nodes`, `edges`, `meta`."""
    lines = "".join(json.dumps(record) + "\n" for record in members.get("bodies", []))
    files = {
        "repo_meta.json": json.dumps(members.get("meta", META)),
        "code/chunks.json": json.dumps(members.get("chunks", [])),
        "code/dependencies.json": json.dumps(members.get("dependencies", {})),
        "graph/edges.csv": members.get("edges", ""),
    }
    files |= {"graph/nodes.csv": members["nodes"]} if "nodes" in members else {}
    files |= {"docs/sql_bodies.jsonl": lines} if "bodies" in members else {}
    write_zip({name: text.encode() for name, text in files.items()}, tmp_path / "small.zip")
    return tmp_path / "small.zip"


def chunk(local_id: str, **fields: Any) -> dict[str, Any]:
    return {"Id": local_id, "acl_allow": [], **fields}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("packed", ["stored", "deflated", "folder"])
def test_every_layout_yields_the_same_nodes_and_edges(
    tmp_path: Path, form: BundleForm, packed: str
) -> None:
    """Layout, names of access tags and compression do not matter."""
    write_zip(bundle_files(fake_release("1.1")), tmp_path / "first.zip")
    files = bundle_files(fake_release("1.1"), form)
    if packed == "folder":
        write_folder(files, tmp_path / "other")
    else:
        method = zipfile.ZIP_STORED if packed == "stored" else zipfile.ZIP_DEFLATED
        write_zip(files, tmp_path / "other", compression=method)

    first_nodes, first_edges, first = everything(tmp_path / "first.zip")
    nodes, edges, report = everything(tmp_path / "other")

    if form.legacy_sql:  # Its table has fewer columns: who listed the object is lost.
        source = {"source_system_id": "code"}
        first_nodes = [
            node if node.kind == "cs" else replace(node, metadata=node.metadata | source)
            for node in first_nodes
        ]
    else:
        assert report.digest == first.digest
    assert nodes == first_nodes
    assert edges == first_edges
    assert report.nodes == KindCounts(cs=203, sql=92)


def test_a_cs_node_has_all_its_fields(tmp_path: Path) -> None:
    """Every field of a chunk arrives where it belongs."""
    item = chunk(
        "C0007",
        File="src/A.cs",
        RepoRelativePath="repo/src/A.cs",
        ProjectName="P",
        Class="A",
        Member="Run",
        Type="Method",
        Signature="void Run()",
        ChunkPart=2,
        ChunkTotal=3,
        Text="\ufeffline\r\nnext ",
        acl_allow=["hr", "finance", "hr"],
        classification_labels=["secret"],
        doc_level=20,
        owner_id="team",
        source_system_id="code.csharp",
    )
    (node,), _, report = everything(small(tmp_path, chunks=[item]))

    assert node == CodeNode(
        id=f"Fake::{report.snapshot.snapshot_id}::cs::C0007",
        local_id="C0007",
        kind="cs",
        text="\ufeffline\r\nnext ",
        tags=DocumentTags(("finance", "hr"), ("secret",), 20),
        file="src/A.cs",
        path="repo/src/A.cs",
        name="Run",
        qualified_name="A.Run",
        symbol_type="Method",
        metadata={
            "project_name": "P",
            "class_name": "A",
            "member_name": "Run",
            "signature": "void Run()",
            "chunk_part": 2,
            "chunk_total": 3,
            "owner_id": "team",
            "source_system_id": "code.csharp",
            "data_type": "regular_code",
            "file_type": "cs",
            "domain": "code",
        },
    )


def test_an_sql_node_has_all_its_fields(tmp_path: Path) -> None:
    """Every field of a line arrives where it belongs, short names of kinds written out."""
    line = {
        "Key": "SQL:dbo.proc_A",
        "kind": "PROC",
        "schema": "dbo",
        "name": "proc_A",
        "file": "db/proc_A.sql",
        "text": "SELECT 1",
        "AclTags": None,
        "clearance_level": 0,
        "owner_id": None,
    }
    (node,), _, _ = everything(small(tmp_path, bodies=[line]))

    assert (node.local_id, node.kind, node.text) == ("SQL:dbo.proc_A", "sql", "SELECT 1")
    assert (node.file, node.path) == ("db/proc_A.sql", "db/proc_A.sql")
    assert (node.name, node.qualified_name) == ("proc_A", "dbo.proc_A")
    assert (node.symbol_type, node.tags) == ("Procedure", DocumentTags())
    assert node.metadata == {
        "sql_schema": "dbo",
        "source_system_id": "code",
        "data_type": "sql_code",
        "file_type": "sql",
        "domain": "sql",
    }


@pytest.mark.parametrize(
    "names",
    [
        {"Id": "C1", "File": "f", "Class": "A", "Member": "m", "Type": "T", "Text": "x"},
        {"id": "C1", "source_file": "f", "class": "A", "member": "m", "type": "T", "text": "x"},
    ],
)
def test_names_in_small_letters_are_read(tmp_path: Path, names: dict[str, str]) -> None:
    """Chunks may use either spelling of every name."""
    (node,), _, _ = everything(small(tmp_path, chunks=[names | {"acl_allow": []}]))

    given = (node.local_id, node.file, node.path, node.qualified_name, node.symbol_type, node.text)
    assert given == ("C1", "f", "f", "A.m", "T", "x")


@pytest.mark.parametrize(
    ("meta", "repo", "branch", "revision"),
    [
        ({"RepoName": "R", "Branch": "b", "HeadSha": "h"}, "R", "b", "h"),
        ({"Repo": "R", "branch": "b", "HeadSHA": "h"}, "R", "b", "h"),
        ({"Repository": "R", "head_sha": "h"}, "R", "(unknown)", "h"),
        (
            {"RepoName": "", "repository": "R", "HeadSha": None, "FolderFingerprint": "f"},
            "R",
            "(unknown)",
            "f",
        ),
        ({"RepositoryRoot": "C:\\code\\Shop", "snapshotId": "s"}, "Shop", "(unknown)", "s"),
        ({"RepositoryRoot": "/code/Shop/", "HeadSha": "h"}, "Shop", "(unknown)", "h"),
        ({"HeadSha": "h"}, "unknown-repo", "(unknown)", "h"),
    ],
)
def test_repo_meta_has_many_spellings(
    tmp_path: Path, meta: dict[str, str], repo: str, branch: str, revision: str
) -> None:
    """The first name that is not empty counts, a commit before a fingerprint before a given id."""
    snapshot = open_bundle(small(tmp_path, meta=meta)).snapshot

    assert (snapshot.repo, snapshot.branch, snapshot.head_sha) == (repo, branch, revision)


def test_the_repository_can_be_renamed(tmp_path: Path) -> None:
    """Another repository name changes ids and the snapshot, not the content hash."""
    path = small(tmp_path, chunks=[chunk("C1")])
    (node,), _, own = everything(path)
    (other_node,), _, other = everything(path, repo="Other")

    assert node.id.startswith("Fake::")
    assert other_node.id == f"Other::{other.snapshot.snapshot_id}::cs::C1"
    assert own.snapshot.snapshot_id != other.snapshot.snapshot_id
    assert own.digest == other.digest


def test_repeats_count_once(tmp_path: Path) -> None:
    """Repeated nodes and edges are counted and stored once; relations are compared without case."""
    edges = (
        "from,to,relation\n" + "SQL:dbo.a,C1,Calls\n" * 2 + "SQL:dbo.a,C1,calls\nSQL:dbo.a,C1,On\n"
    )
    bodies = [
        {"key": "SQL:dbo.a", "acl_allow": ["x", "y"]},
        {"key": "SQL:dbo.a", "acl_allow": ["y", "x"]},
    ]
    path = small(
        tmp_path,
        chunks=[chunk("C1"), chunk("C1")],
        bodies=bodies,
        edges=edges,
        dependencies={"C1": ["C1", "C1"]},
    )
    nodes, found, report = everything(path)

    assert [node.local_id for node in nodes] == ["C1", "SQL:dbo.a"]
    assert [edge.relation for edge in found] == ["cs_dep", "sql_Calls", "sql_On"]
    assert report.duplicate_nodes == KindCounts(cs=1, sql=1)
    assert report.duplicate_edges == KindCounts(cs=1, sql=2)
    assert report.empty_texts == 2


def test_dangling_edges_are_warnings(tmp_path: Path) -> None:
    """A dangling edge is a warning with both ends and its place; it is not counted as an edge."""
    path = small(
        tmp_path,
        chunks=[chunk("C1")],
        dependencies={"C1": ["C9"], "C8": ["C1"], "C7": []},
        edges="from,to,relation\nSQL:dbo.x,SQL:dbo.y,On\n,C1,On\n\nC1,C1,\n",
    )
    _, edges, report = everything(path)

    assert [edge.relation for edge in edges] == ["sql_edge"]
    assert report.edges == KindCounts(sql=1)
    assert report.dangling_edges == KindCounts(cs=2, sql=1)
    codes = [warning.code for warning in report.warnings]
    assert codes == ["dangling_edge"] * 3 + ["edge_without_end"]
    assert "'C1' -cs_dep-> 'C9'" in report.warnings[0].message
    assert "line 2: the edge 'SQL:dbo.x' -sql_On-> 'SQL:dbo.y'" in report.warnings[2].message
    assert "graph/edges.csv, line 3" in report.warnings[3].message


def test_edges_cross_languages(tmp_path: Path) -> None:
    """The id determines the kind, not the column `to_kind`."""
    path = small(
        tmp_path,
        chunks=[chunk("C1")],
        bodies=[{"key": "SQL:dbo.a", "acl_allow": []}],
        edges="from_id,to_id,edge_type,to_kind\nSQL:dbo.a,C1,ReferencedBy(C#),TABLE\n",
        dependencies={"C1": ["SQL:dbo.a"]},
    )
    _, edges, report = everything(path)

    start = f"Fake::{report.snapshot.snapshot_id}::"
    assert [(edge.from_id, edge.relation, edge.to_id) for edge in edges] == [
        (f"{start}cs::C1", "cs_dep", f"{start}sql::SQL:dbo.a"),
        (f"{start}sql::SQL:dbo.a", "sql_ReferencedBy(C#)", f"{start}cs::C1"),
    ]


def test_a_table_states_rights_as_json(tmp_path: Path) -> None:
    """In a table an empty cell is an empty ACL; a body that is missing is a warning and an empty text."""
    nodes = (
        'key,kind,name,schema,body_path,acl_allow\nSQL:dbo.a,VIEW,a,dbo,,"[""hr""]"\n'
        "SQL:dbo.b,FUNC,b,dbo,no/b.sql,\n"
    )
    found, _, report = everything(small(tmp_path, nodes=nodes))

    assert [node.tags.acl for node in found] == [("hr",), ()]
    assert [node.symbol_type for node in found] == ["View", "Function"]
    (warning,) = report.warnings
    assert warning.code == "missing_body"
    assert "graph/nodes.csv, line 3: 'no/b.sql', the body of 'SQL:dbo.b'" in warning.message


def test_sql_bodies_take_precedence_over_the_table(tmp_path: Path) -> None:
    """If both forms of SQL nodes exist, only the newer one is read."""
    path = small(tmp_path, nodes="rubbish", bodies=[{"key": "SQL:dbo.a", "acl_allow": []}])
    found, _, _ = everything(path)

    assert [node.local_id for node in found] == ["SQL:dbo.a"]


def test_a_minimal_bundle_is_valid(tmp_path: Path) -> None:
    """Only `repo_meta.json` and `chunks.json` are required."""
    files = {"repo_meta.json": json.dumps(META).encode(), "code/chunks.json": b" [ ] \n"}
    write_zip(files, tmp_path / "small.zip")

    report = validate_bundle(open_bundle(tmp_path / "small.zip"))

    assert (report.nodes.total, report.edges.total, report.warnings) == (0, 0, ())


def test_byte_order_marks_and_system_files_are_ignored(tmp_path: Path) -> None:
    """Additions of Windows and macOS to files and archives do not matter."""
    files = bundle_files(fake_release("1.0"))
    marked = {name: b"\xef\xbb\xbf" + data for name, data in files.items()}
    marked |= {
        "__MACOSX/._x": b"\xff",
        "Release_FAKE_ENTERPRISE_1.0/.DS_Store": b"\xff",
        "sub/": b"",
    }
    write_zip(files, tmp_path / "plain.zip")
    write_zip(marked, tmp_path / "marked.zip")

    plain, other = (
        validate_bundle(open_bundle(tmp_path / "plain.zip")),
        everything(tmp_path / "marked.zip"),
    )

    assert other[2].digest == plain.digest
    assert not any(node.text.startswith("\ufeff") for node in other[0])


def test_names_with_backslashes_are_the_same_names(tmp_path: Path) -> None:
    """An archive of some Windows tools reads like any other."""
    files = {
        name.replace("/", "\\"): data for name, data in bundle_files(fake_release("1.0")).items()
    }
    write_zip(files, tmp_path / "windows.zip")

    assert validate_bundle(open_bundle(tmp_path / "windows.zip")).nodes.total == 291


def test_the_digest_covers_content_only(tmp_path: Path) -> None:
    """Order, repeats and dangling edges do not change it; a text, a right, an edge do."""
    nodes = [chunk("C1", Text="a"), chunk("C2", Text="b")]
    graph = {"C1": ["C2"], "C2": ["C1"]}
    digest = everything(small(tmp_path, chunks=nodes, dependencies=graph))[2].digest

    same = {
        "chunks": [*nodes[::-1], nodes[0]],
        "dependencies": {"C2": ["C1", "C1"], "C1": ["C2", "C9"]},
    }
    assert everything(small(tmp_path, **same))[2].digest == digest
    others: list[dict[str, Any]] = [
        {"chunks": [nodes[0], chunk("C2", Text="c")], "dependencies": graph},
        {"chunks": [nodes[0], chunk("C2", Text="b", doc_level=1)], "dependencies": graph},
        {"chunks": nodes, "dependencies": {"C1": ["C2"]}},
        {"chunks": [*nodes, chunk("C3")], "dependencies": graph},
    ]
    digests = {everything(small(tmp_path, **other))[2].digest for other in others}
    assert len(digests | {digest}) == 5


def test_unknown_labels_are_reported_once(tmp_path: Path) -> None:
    """An unknown label protects like any other; the report names the first node that has it."""
    nodes = [chunk(f"C{number}", classification_labels=["odd", "public"]) for number in range(3)]
    path = small(tmp_path, chunks=nodes)
    found, _, report = everything(path)

    assert [node.tags.labels for node in found] == [("odd", "public")] * 3
    assert report.unknown_labels == ("odd",)
    assert ["'odd' of 'C0'" in warning.message for warning in report.warnings] == [True]


def test_a_long_list_of_warnings_is_cut_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Memory is bounded however many edges dangle; the counts stay whole."""
    monkeypatch.setattr(bundle_reader_module, "MAX_WARNINGS", 5)
    path = small(tmp_path, dependencies={"C1": [f"D{number}" for number in range(1005)]})
    report = everything(path)[2]

    assert report.dangling_edges.cs == 1005
    assert len(report.warnings) == 6
    assert (report.warnings[-1].code, report.warnings[-1].message[:5]) == ("not_shown", "1,000")


def test_a_large_bundle_is_never_in_memory(tmp_path: Path) -> None:
    """Reading 64 MB of texts holds a small part of them at a time."""

    def nodes() -> Iterator[str]:
        for number in range(2000):
            yield json.dumps(chunk(f"C{number}", Text=f"{number:05} {number**9:030} " * 900))

    with zipfile.ZipFile(
        tmp_path / "large.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        archive.writestr("repo_meta.json", json.dumps(META))
        with archive.open("code/chunks.json", "w") as stream:
            for number, text in enumerate(nodes()):
                stream.write((b"," if number else b"[") + text.encode())
            stream.write(b"]")
    bundle = open_bundle(tmp_path / "large.zip")
    tracemalloc.start()
    try:
        report = validate_bundle(bundle)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert report.nodes.cs == 2000
    assert peak < 4_000_000
