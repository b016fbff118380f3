"""Bundles of folders: what is written is what the importer reads, the same sources are the same bytes."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.code_edges import CodeEdge
from tests.support.small_bundles import edges_between

from whence.code.bundler.builder import BundleReport, bundle_folder, read_git_revision, write_bundle
from whence.code.bundler.code_graph import CodeGraph, Definition, Edge, Language
from whence.code.bundler.source_files import MAX_FILE_BYTES
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader
from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode, ImportReport
from whence.schema.errors import BadInput
from whence.schema.relations import RelationFilter

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "Shop/Shop.csproj": "<Project/>",
    "Shop/Store.cs": (
        "namespace Shop;\npublic class Base { }\npublic class Store : Base\n{\n"
        '    public void Pay() { db.Run("dbo.Pay"); Log(); }\n    void Log() { }\n}\n'
    ),
    "Shop/obj/Made.cs": "class Made { }",
    "app/__init__.py": "",
    "app/main.py": "from app.tool import help_out\n\ndef run(db):\n    help_out()\n",
    "app/tool.py": 'SQL = "SELECT * FROM dbo.Users"\n\ndef help_out():\n    return SQL\n',
    "db/all.sql": (
        "CREATE TABLE dbo.Users (Id int);\nGO\n"
        "CREATE PROCEDURE dbo.Pay AS UPDATE dbo.Users SET Id = 1;\nGO\n"
    ),
    "notes.txt": "nothing",
    ".hidden/x.py": "def hidden(): ...",
    "env/pyvenv.cfg": "",
    "env/lib/x.py": "def fetched(): ...",
}


def checkout(root: Path, files: dict[str, str] | None = None) -> Path:
    for name, text in (FILES if files is None else files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def everything(path: Path) -> tuple[list[CodeNode], list[CodeEdge], ImportReport]:
    contents = BundleReader(open_bundle(path))
    nodes = list(contents.nodes())
    return nodes, edges_between(nodes, contents.edges()), contents.report()


def made(tmp_path: Path, **options: Any) -> tuple[BundleReport, Path]:
    target = tmp_path / "out.zip"
    return bundle_folder(checkout(tmp_path / "shop"), target, **options), target


def test_the_importer_reads_all_nodes_and_edges(tmp_path: Path) -> None:
    """All three languages are read, edges have relations, and none is repeated or dangling."""
    report, target = made(tmp_path)
    nodes, edges, account = everything(target)
    local = {node.id: node.local_id for node in nodes}

    assert {node.local_id: node.symbol_type for node in nodes} == {
        "Shop.Base": "Class",
        "Shop.Store": "Class",
        "Shop.Store.Pay()": "Method",
        "Shop.Store.Log()": "Method",
        "app/main.py": "Module",
        "app/main.py:run": "Function",
        "app/tool.py": "Module",
        "app/tool.py:help_out": "Function",
        "SQL:dbo.Users": "Table",
        "SQL:dbo.Pay": "Procedure",
    }
    assert {(local[e.from_id], e.relation, local[e.to_id]) for e in edges} == {
        ("Shop.Store", "cs_inherits", "Shop.Base"),
        ("Shop.Store.Pay()", "cs_calls", "Shop.Store.Log()"),
        ("app/main.py", "cs_uses", "app/tool.py:help_out"),
        ("app/main.py:run", "cs_calls", "app/tool.py:help_out"),
        ("app/tool.py:help_out", "cs_uses", "app/tool.py"),
        ("Shop.Store.Pay()", "sql_Executes(inferred)", "SQL:dbo.Pay"),
        ("app/tool.py", "sql_ReadsFrom(inferred)", "SQL:dbo.Users"),
        ("SQL:dbo.Pay", "sql_WritesTo", "SQL:dbo.Users"),
    }
    assert account.warnings == ()
    assert (
        (account.nodes.cs, account.nodes.sql) == (report.nodes["cs"], report.nodes["sql"]) == (8, 2)
    )
    assert account.edges.total == sum(report.edges.values())
    assert report.inferred == 2
    assert report.files == {"csharp": 1, "python": 3, "sql": 1}
    assert (report.calls.resolved, report.calls.unresolved) == (2, 1)


def test_nodes_have_their_origin(tmp_path: Path) -> None:
    """File, names, signature, project, language and the unchanged text."""
    nodes = {node.local_id: node for node in everything(made(tmp_path)[1])[0]}
    pay, run = nodes["Shop.Store.Pay()"], nodes["app/main.py:run"]

    assert pay.text == '    public void Pay() { db.Run("dbo.Pay"); Log(); }'
    assert (pay.file, pay.path, pay.qualified_name) == (
        "Shop/Store.cs",
        "Shop/Store.cs",
        "Store.Pay",
    )
    assert pay.metadata["signature"] == "public void Pay()"
    assert (pay.metadata["project_name"], pay.metadata["file_type"]) == ("Shop", "cs")
    assert (run.metadata["project_name"], run.metadata["file_type"]) == ("app", "py")
    assert run.metadata["source_system_id"] == "code.python"
    assert nodes["SQL:dbo.Pay"].qualified_name == "dbo.Pay"
    assert nodes["SQL:dbo.Pay"].metadata["file_type"] == "sql"


def test_dependencies_json_is_complete(tmp_path: Path) -> None:
    """`dependencies.json` has every edge between C# and Python nodes, and every node as a key."""
    with zipfile.ZipFile(made(tmp_path)[1]) as archive:
        found = json.loads(archive.read("regular_code_bundle/dependencies.json"))

    assert len(found) == 8
    assert found["Shop.Store.Pay()"] == ["Shop.Store.Log()"]
    assert sum(map(len, found.values())) == 5


def test_equal_sources_make_equal_bundles(tmp_path: Path) -> None:
    """The location of the folder, the time and the order of its files do not matter."""
    first = bundle_folder(checkout(tmp_path / "a" / "shop"), tmp_path / "1.zip")
    reversed_files = dict(reversed(FILES.items()))
    other = checkout(tmp_path / "b" / "shop", reversed_files)
    for path in other.rglob("*"):
        os.utime(path, (time.time() - 1e6,) * 2)
    second = bundle_folder(other, tmp_path / "2.zip")

    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    assert first.head_sha == second.head_sha
    assert not first.is_commit
    (other / "app" / "tool.py").write_text("SQL = 2\n")
    assert bundle_folder(other, tmp_path / "2.zip").head_sha != first.head_sha


def test_every_node_states_its_rights(tmp_path: Path) -> None:
    """An empty list when public; the given tags on all nodes otherwise."""
    target = made(tmp_path)[1]
    with zipfile.ZipFile(target) as archive:
        chunks = json.loads(archive.read("regular_code_bundle/chunks.json"))
        bodies = archive.read("sql_bundle/docs/sql_bodies.jsonl").decode().splitlines()
    assert all(each["acl_allow"] == [] for each in (*chunks, *map(json.loads, bodies)))

    tags = DocumentTags(("staff",), ("internal",), 2)
    nodes = everything(made(tmp_path, tags=tags)[1])[0]
    assert {node.tags for node in nodes} == {tags}


def test_the_commit_of_a_checkout_is_its_revision(tmp_path: Path) -> None:
    """With its branch, from a loose reference."""
    root = checkout(tmp_path / "shop")
    checkout(
        root, {".git/HEAD": "ref: refs/heads/release/1.0\n", ".git/refs/heads/release/1.0": SHA}
    )
    report = bundle_folder(root, tmp_path / "out.zip", repo="Other")
    snapshot = everything(tmp_path / "out.zip")[2].snapshot

    assert (report.head_sha, report.is_commit, report.branch) == (SHA, True, "release/1.0")
    assert (snapshot.head_sha, snapshot.branch, snapshot.repo) == (SHA, "release/1.0", "Other")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({".git/HEAD": SHA}, (SHA, "")),
        (
            {
                ".git/HEAD": "ref: refs/heads/main",
                ".git/packed-refs": f"# pack\n{SHA} refs/heads/main\n",
            },
            (SHA, "main"),
        ),
        (
            {
                ".git": "gitdir: state",
                "state/HEAD": "ref: refs/heads/x",
                "state/commondir": "common",
                "state/common/refs/heads/x": SHA,
            },
            (SHA, "x"),
        ),
        ({".git/HEAD": "ref: refs/heads/new"}, None),
        ({".git/HEAD": "ref: HEAD"}, None),
        ({".git/HEAD": "rubbish"}, None),
        ({".git": "rubbish"}, None),
        ({"a.py": ""}, None),
    ],
)
def test_all_forms_of_a_checkout_are_read(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str] | None
) -> None:
    """Detached commits, packed references and linked work trees are read; without a commit it is None."""
    assert read_git_revision(checkout(tmp_path, files)) == expected


def test_unreadable_files_are_reported_and_skipped(tmp_path: Path) -> None:
    """Too large, not text or not parsable: the others are bundled."""
    root = checkout(tmp_path / "shop")
    (root / "large.sql").write_text("-" * (MAX_FILE_BYTES + 1))
    (root / "binary.cs").write_bytes(b"\0\1\2")
    (root / "broken.py").write_text("def f(:")
    (root / "line\nbreak.py").write_text("def f(): ...")
    (root / "gone.py").symlink_to("nowhere.py")
    report = bundle_folder(root, tmp_path / "out.zip")

    assert {one.path for one in report.skipped} == {"large.sql", "binary.cs", "line\nbreak.py"}
    assert [one.path for one in report.failures] == ["broken.py"]
    assert report.nodes == {"cs": 8, "sql": 2}
    assert everything(tmp_path / "out.zip")[2].warnings == ()


@pytest.mark.parametrize("what", ["empty", "no code", "missing", "a file"])
def test_an_empty_folder_writes_no_bundle(tmp_path: Path, what: str) -> None:
    """A bundle that exists stays."""
    root = tmp_path / "root"
    if what == "a file":
        root.write_text("def f(): ...")
    elif what != "missing":
        checkout(root, {"notes.txt": "x"} if what == "no code" else {"x/y.txt": ""})
    target = tmp_path / "out.zip"
    target.write_bytes(b"before")

    with pytest.raises(BadInput):
        bundle_folder(root, target)

    assert target.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.glob("*.part")) == []


def test_an_unwritable_target_is_an_error(tmp_path: Path) -> None:
    """A missing folder, a folder in place of the file, an invalid repository name."""
    root = checkout(tmp_path / "shop")
    (tmp_path / "folder.zip").mkdir()
    for target in (tmp_path / "no" / "out.zip", tmp_path / "folder.zip"):
        with pytest.raises(BadInput, match="cannot be written"):
            bundle_folder(root, target)
    with pytest.raises(BadInput, match="repository"):
        bundle_folder(root, tmp_path / "out.zip", repo="a::b")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_relations_match_by_either_name() -> None:
    """`dep` matches all dependencies, the plain name an inferred one, the marked name only that one."""
    assert RelationFilter(["dep"]).allows("cs_calls")
    assert RelationFilter(["CS_DEP"]).allows("cs_dep")
    assert RelationFilter(["calls"]).allows("cs_calls")
    assert RelationFilter(["executes"]).allows("sql_Executes(inferred)")
    assert RelationFilter(["Executes(inferred)"]).allows("sql_Executes(inferred)")
    assert not RelationFilter(["Executes(inferred)"]).allows("sql_Executes")
    assert not RelationFilter(["calls"]).allows("cs_dep")
    assert not RelationFilter(["dep"]).allows("sql_ReadsFrom")


IDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12
).map(lambda text: f"n{text}n")
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)


@settings(max_examples=40)
@given(st.dictionaries(st.tuples(st.booleans(), IDS), TEXTS, min_size=1, max_size=6), st.data())
def test_a_written_bundle_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: dict[tuple[bool, str], str],
    data: st.DataObject,
) -> None:
    """Ids, texts and edges with any characters, written twice to the same bytes."""
    ids = {(f"SQL:{name}" if is_sql else name): text for (is_sql, name), text in nodes.items()}
    ends = st.sampled_from(sorted(ids))
    relations = st.sampled_from(["calls", "ReadsFrom", 'a,"b'])
    pairs = data.draw(st.sets(st.tuples(ends, relations, ends), max_size=6))
    graph = CodeGraph()
    for name, text in ids.items():
        language: Language = "sql" if name.startswith("SQL:") else "python"
        graph.add_definition(
            Definition(id=name, language=language, symbol_type="Table", file="f", text=text)
        )
    for source, relation, target in pairs:
        graph.add_edge(Edge(source, relation, target, "f"))
    meta = {"RepoName": "R", "FolderFingerprint": "f"}
    folder = tmp_path_factory.mktemp("bundles")
    write_bundle(folder / "1.zip", meta, graph, DocumentTags())
    write_bundle(folder / "2.zip", meta, graph, DocumentTags())
    found, edges, _ = everything(folder / "1.zip")
    local = {node.id: node.local_id for node in found}

    assert {node.local_id: node.text for node in found} == ids
    # SQL graphs hold the edges from SQL to code, too; without SQL nodes there are none.
    assert {(local[e.from_id], e.relation.partition("_")[2], local[e.to_id]) for e in edges} == {
        pair for pair in pairs if pair[0] != pair[2]
    }
    assert (folder / "1.zip").read_bytes() == (folder / "2.zip").read_bytes()
