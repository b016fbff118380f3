"""From a checkout to an answer on the command line: bundle, import, expand, and what is told on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHA = "89abcdef0123456789abcdef0123456789abcdef"
FILES = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/refs/heads/main": SHA + "\n",
    "Shop/Store.cs": (
        "namespace Shop;\npublic interface IBase { }\npublic class Store : IBase\n{\n"
        "    public void Buy() { Pay(); other.Thing(); }\n"
        '    void Pay() { db.Run("dbo.proc_Pay"); }\n}\n'
    ),
    "db/all.sql": (
        "CREATE TABLE dbo.Payments (Id int);\nGO\n"
        "CREATE PROCEDURE dbo.proc_Pay AS\nINSERT INTO dbo.Payments VALUES (1);\nEXEC dbo.proc_Log;\nGO\n"
        "CREATE PROCEDURE dbo.proc_Log AS SELECT 1;\nGO\n"
    ),
    "tool.py": "import helper\n\ndef main():\n    helper.work()\n",
    "helper.py": "def work():\n    return 1\n",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a commit."""
    root = tmp_path_factory.mktemp("work") / "Shop Repo"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(scope="module")
def bundle(cli: Any, checkout: Path) -> Any:
    """Return the command on a home with the bundle of the checkout, and what was reported."""
    target = checkout.parent / "shop.zip"
    made = cli("bundle", checkout, "-o", target, "--repo", "Shop", "--acl", "staff", "--json")
    assert made.code == 0, made.err
    imported = cli("import", target, "--json")
    assert imported.code == 0, imported.err
    return made.json, imported.json["imports"][0]


def expanded(cli: Any, *words: str) -> tuple[set[str], set[tuple[str, str, str]]]:
    result = cli("expand", *words, "--snapshot", SHA, "--acl", "staff", "--json")
    assert result.code == 0, result.err
    local = {node["id"]: node["local_id"] for node in result.json["nodes"]}
    edges = {
        (local[edge["from_id"]], edge["relation"], local[edge["to_id"]])
        for edge in result.json["edges"]
    }
    return set(local.values()), edges


def test_a_bundle_is_imported_completely(bundle: Any) -> None:
    """Counts, commit and branch are equal after the import; unresolved calls are counted."""
    made, imported = bundle

    assert (made["head_sha"], made["branch"], made["repo"]) == (SHA, "main", "Shop")
    assert (imported["head_sha"], imported["branch"]) == (SHA, "main")
    assert imported["nodes"] == made["nodes"] == {"cs": 7, "sql": 3}
    assert sum(imported["edges"].values()) == sum(made["edges"].values())
    assert imported["warnings"] == []
    assert made["calls"] == {"resolved": 2, "unresolved": 2, "ambiguous": 0, "external": 0}
    assert made["inferred"] == 1
    assert made["skipped"] == made["failures"] == []


def test_methods_lead_to_tables(cli: Any, bundle: Any) -> None:
    """Expansion leads from a method through calls and a procedure to tables; inferred edges are marked."""
    nodes, edges = expanded(cli, "Shop.Store.Buy()", "--max-depth", "4")

    assert edges == {
        ("Shop.Store.Buy()", "calls", "Shop.Store.Pay()"),
        ("Shop.Store.Pay()", "Executes(inferred)", "SQL:dbo.proc_Pay"),
        ("SQL:dbo.proc_Pay", "WritesTo", "SQL:dbo.Payments"),
        ("SQL:dbo.proc_Pay", "Executes", "SQL:dbo.proc_Log"),
    }
    assert len(nodes) == 5


@pytest.mark.parametrize(
    ("relation", "reached"),
    [
        ("calls", {"Shop.Store.Pay()"}),
        ("dep", {"Shop.Store.Pay()"}),
        ("cs_dep", {"Shop.Store.Pay()"}),
        ("inherits", set()),
    ],
)
def test_relations_are_followed_by_name(
    cli: Any, bundle: Any, relation: str, reached: set[str]
) -> None:
    """Calls are dependencies too."""
    nodes, _ = expanded(cli, "Shop.Store.Buy()", "--relation", relation)

    assert nodes == {"Shop.Store.Buy()", *reached}


def test_python_is_followed_across_modules(cli: Any, bundle: Any) -> None:
    """Callers are found in the other direction."""
    nodes, _ = expanded(cli, "helper.py:work", "--direction", "in", "--relation", "calls")

    assert nodes == {"helper.py:work", "tool.py:main"}


def test_rights_given_to_the_bundle_hold(cli: Any, bundle: Any) -> None:
    """Without the tag its nodes are not found."""
    assert cli("expand", "Shop.Store.Buy()", "--snapshot", SHA).code == 3


def test_the_same_checkout_makes_the_same_file(cli: Any, checkout: Path) -> None:
    """The bundles are equal byte for byte, and the summary lists what was found."""
    paths = [checkout.parent / name for name in ("one.zip", "two.zip")]
    results = [cli("bundle", checkout, "-o", path) for path in paths]

    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert all(result.code == 0 and result.err == "" for result in results)
    assert "resolved 2" in results[0].out
    assert SHA in results[0].out


@pytest.mark.parametrize("what", ["empty", "missing", "file", "no target", "bad level"])
def test_invalid_folders_are_refused(cli: Any, checkout: Path, tmp_path: Path, what: str) -> None:
    """An error, a hint and exit 2."""
    target = tmp_path / "out.zip"
    (tmp_path / "empty").mkdir()
    words: tuple[str | Path, ...] = {
        "empty": (tmp_path / "empty", "-o", target),
        "missing": (tmp_path / "missing", "-o", target),
        "file": (checkout / "tool.py", "-o", target),
        "no target": (checkout,),
        "bad level": (checkout, "-o", target, "--clearance", "-1"),
    }[what]
    result = cli("bundle", *words, "--json")

    assert result.code == 2, result.err
    assert [line.partition(":")[0] for line in result.err.splitlines()] == ["error", "hint"]
    assert json.loads(result.out)["error"]["hint"]
    assert not target.exists()


def test_files_that_cannot_be_read_are_named(cli: Any, tmp_path: Path) -> None:
    """Unreadable files are reported, the others are bundled, exit 0."""
    (tmp_path / "good.py").write_text("def f(): ...")
    (tmp_path / "binary.py").write_bytes(b"\0")
    (tmp_path / "broken.py").write_text("def f(:")
    result = cli("bundle", tmp_path, "-o", tmp_path / "out.zip")

    assert result.code == 0
    assert "skipped: binary.py: " in result.err
    assert "not parsed: broken.py: " in result.err
