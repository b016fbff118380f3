"""Folders: roots, the state of every file, pruning, exclusions, rights by path, and names of documents."""

from __future__ import annotations

import io
import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from msoffcrypto.format.ooxml import OOXMLFile

Files = Callable[[str], Path]


@pytest.fixture
def collection(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Options of a collection of this test's own."""
    return "--collection", f"f-{abs(hash(request.node.name)) % 10**10}"


def _write(folder: Path, **files: str) -> Path:
    """Write files by name; `__` stands for a slash and `_` for a dot before the suffix."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _states(report: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["state"] for one in report["files"]}


def _listed(cli: Any, *words: Any) -> dict[str | None, dict[str, Any]]:
    rows = cli("documents", *words, "--json").json["documents"]
    return {one["document_id"] or f"-{one['path']}": one for one in rows}


def test_equal_paths_of_two_roots_are_two_documents(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """The first keeps its path as id, the second has its root before it; pruning one leaves the other."""
    one = _write(tmp_path / "north", notes_md="# Otters\n\nOtters live north.\n", old_md="# Old\n")
    two = _write(tmp_path / "south", notes_md="# Herons\n\nHerons live south.\n")
    for folder in (one, two):
        cli("index", folder, *collection)
    (one / "old.md").unlink()
    pruned = cli("index", one, *collection, "--prune", "--json").json
    listed = _listed(cli, *collection)

    assert listed.keys() == {"notes.md", "south/notes.md"}
    assert [listed[name]["root"] for name in ("notes.md", "south/notes.md")] == ["north", "south"]
    assert {one["path"] for one in listed.values()} == {"notes.md"}
    assert pruned["documents"]["removed"] == 1
    assert _states(pruned) == {"notes.md": "unchanged", "old.md": "removed"}
    again = cli("index", one, two, *collection, "--json").json
    assert again["documents"]["unchanged"] == 2
    for name, found in {
        "notes.md": "notes.md",
        "north/notes.md": "notes.md",
        "south/notes.md": "south/notes.md",
    }.items():
        assert cli("show", name, *collection, "--json").json["document_id"] == found
    hit = cli("search", "herons", *collection, "--json").json["hits"][0]
    assert (hit["chunk"]["metadata"]["source_file"], hit["chunk"]["metadata"]["root"]) == (
        "notes.md",
        "south",
    )


def test_a_second_root_of_one_name_gets_a_number(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Also when the name is given; a root whose folder is gone moves to the new one with its documents."""
    folders = [_write(tmp_path / name / "docs", a_md=f"# {name}\n") for name in ("x", "y", "z")]
    cli("index", folders[0], *collection)
    cli("index", folders[1], *collection)
    cli("index", folders[2], *collection, "--root", "docs")

    assert sorted(one["root"] for one in _listed(cli, *collection).values()) == [
        "docs",
        "docs-2",
        "docs-3",
    ]
    moved = tmp_path / "moved"
    folders[1].rename(moved)
    report = cli("index", moved, *collection, "--root", "docs-2", "--json").json
    assert report["documents"]["unchanged"] == 1
    assert [one["root"] for one in report["files"]] == ["docs-2"]
    assert cli("index", moved, *collection, "--root", "a/b").code == 2


def test_a_file_is_one_document_however_it_is_found(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Alone, in a folder below its root, in a folder around it, or by a link, in either order."""
    base = _write(tmp_path / "base", top_md="# Top\n", in__a_md="# In a\n", in__b_md="# In b\n")
    (base / "link.md").symlink_to(base / "in" / "a.md")
    first = cli("index", base / "in" / "b.md", *collection, "--json").json
    second = cli("index", base, *collection, "--json").json
    for path in (base / "in", base / "in" / "a.md", base / "top.md"):
        counts = cli("index", path, *collection, "--json").json["documents"]
        assert counts["added"] == 0, path

    assert first["documents"]["added"] == 1
    assert second["documents"]["added"] == 2
    assert _states(second)["link.md"] == "skipped"
    documents = cli("documents", *collection, "--json").json["documents"]
    assert len(documents) == 3


def test_every_file_has_a_state_and_a_reason(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Files of programs are left out; a refusal counts the others that were not read and names the nearest."""
    folder = _write(
        tmp_path / "mixed", good_md="# Good\n\nBread is baked at six.\n", records_jsonl="{broken\n"
    )
    _write(folder, empty_md="", sub__staff_md="# Staff\n\nNine people.\n")
    (folder / "holiday-plan.sketch").write_bytes(b"\x00\x01\x02")
    for name in ("~$plan.docx", ".DS_Store", "Thumbs.db"):
        (folder / name).write_bytes(b"\x00")
    report = cli("index", folder, *collection, "--json")
    listed = _listed(cli, *collection)
    asked = cli("ask", "When does the holiday of the admiral begin?", *collection, "--json")

    assert report.code == 1, "the records failed"
    assert _states(report.json) == {
        "empty.md": "skipped",
        "good.md": "read",
        "holiday-plan.sketch": "skipped",
        "records.jsonl": "failed",
        "sub/staff.md": "read",
    }
    assert all(
        one["reason"] for one in report.json["files"] if one["state"] in ("skipped", "failed")
    )
    assert {name: one["state"] for name, one in listed.items()} == {
        "good.md": "read",
        "sub/staff.md": "read",
        "-empty.md": "skipped",
        "-holiday-plan.sketch": "skipped",
        "-records.jsonl": "failed",
    }
    refusal = asked.json["refusal"]
    assert refusal["unread_files"] == 2, "an empty file lacks nothing"
    assert "2 files" in refusal["reason"]
    assert "holiday-plan.sketch" in refusal["reason"]
    failed = cli("documents", *collection, "--state", "failed", "--json").json["documents"]
    assert [one["path"] for one in failed] == ["records.jsonl"]
    assert cli("documents", *collection, "--state", "lost").code == 2


def test_unread_files_have_the_rights_of_their_run(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Who may not read the folder sees neither the name nor the number of its files."""
    open_folder = _write(tmp_path / "open", a_md="# Canteen\n\nSoup on Mondays.\n")
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "merger-plan.sketch").write_bytes(b"\x00\x01")
    _write(closed, private_md="---\nacl: [board]\n---\n# Merger\n\nSecret.\n")
    cli("index", open_folder, *collection)
    cli("index", closed, *collection, "--acl", "board")
    question = ("ask", "When is the merger plan due?", *collection, "--json")

    public = cli(*question).json["refusal"]
    board = cli(*question, "--acl", "board").json["refusal"]

    assert public["unread_files"] == 0
    assert "merger" not in public["reason"]
    assert "not read" not in public["reason"]
    assert board is None or board["unread_files"] == 1
    assert _listed(cli, *collection).keys() == {"a.md"}
    assert "-merger-plan.sketch" in _listed(cli, *collection, "--acl", "board")
    hidden = cli("show", "merger-plan.sketch", *collection)
    assert "not read" not in hidden.err
    assert (
        "sketch was not read"
        in cli("show", "merger-plan.sketch", *collection, "--acl", "board").err
    )
    # A document of its own rights gives its name to nobody else when its file fails or is gone.
    (closed / "private.md").unlink()
    cli("index", closed, *collection)
    assert "private" not in json.dumps(list(_listed(cli, *collection)))


def test_a_deleted_file_is_gone_and_a_changed_one_changed(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """The list tells what the next run would do; a run without --prune keeps the text."""
    folder = _write(tmp_path / "f", a_md="# A\n", b_md="# B\n", c_md="# C\n")
    cli("index", folder, *collection)
    before = _listed(cli, *collection)
    (folder / "a.md").unlink()
    (folder / "b.md").write_text("# Other\n")
    changed = _listed(cli, *collection)
    cli("index", folder, *collection)
    after = _listed(cli, *collection)

    assert [one["changed"] for one in before.values()] == [False, False, False]
    assert {name: one["changed"] for name, one in changed.items()} == {
        "a.md": True,
        "b.md": True,
        "c.md": False,
    }
    assert {name: one["state"] for name, one in after.items()} == {
        "a.md": "gone",
        "b.md": "read",
        "c.md": "read",
    }
    _write(folder, a_md="# A\n")
    cli("index", folder, *collection)
    assert _listed(cli, *collection)["a.md"]["state"] == "read"


def test_a_failing_file_protects_only_what_it_may_hold(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Records of a file with a bad line stay; a deleted file does not answer any more."""
    folder = _write(
        tmp_path / "f",
        gone_md="# Gone\n\nThe old rule.\n",
        r_jsonl='{"_id": "one", "text": "First."}\n{"_id": "two", "text": "Second."}\n',
    )
    cli("index", folder, *collection)
    (folder / "gone.md").unlink()
    (folder / "r.jsonl").write_text('{"_id": "one", "text": "First."}\n{bad\n')
    told = cli("index", folder, *collection, "--prune")

    assert told.code == 1
    assert "not pruned: 1 document that a failed file may contain (r.jsonl)" in told.err
    assert _listed(cli, *collection).keys() == {"one", "two"}


def test_a_named_file_that_is_not_read_ends_with_1(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """In a folder such a file is only skipped."""
    folder = _write(tmp_path / "f", a_md="# A\n")
    (folder / "plan.sketch").write_bytes(b"\x00\x01")
    named = cli("index", folder / "plan.sketch", *collection)

    assert named.code == 1
    assert "plan.sketch: not text" in named.err
    assert cli("index", folder, *collection).code == 0
    assert cli("index", folder / "a.md", *collection).code == 0


def test_files_can_be_excluded(cli: Any, tmp_path: Path, collection: tuple[str, str]) -> None:
    """By option, by an ignore file, in a checkout by .gitignore; excluded documents are pruned."""
    folder = _write(tmp_path / "f", a_md="# A\n", b_md="# B\n", tmp__c_md="# C\n", d_md="# D\n")
    cli("index", folder, *collection)
    (folder / ".whenceignore").write_text("b.*\n")
    (folder / ".gitignore").write_text("tmp/\n")
    without_git = cli("index", folder, *collection, "--exclude", "d.md", "--json").json
    (folder / ".git").mkdir()
    report = cli("index", folder, *collection, "--exclude", "d.md", "--prune", "--json").json

    assert [name for name, state in _states(without_git).items() if state == "skipped"] == [
        "b.md",
        "d.md",
    ]
    reasons = {one["path"]: one["reason"] for one in report["files"]}
    assert "--exclude" in reasons["d.md"]
    assert ".whenceignore" in reasons["b.md"]
    assert ".gitignore" in reasons["tmp/c.md"]
    assert _listed(cli, *collection).keys() == {"a.md"}
    refused = cli("ask", "Who painted the chapel?", *collection, "--json").json["refusal"]
    assert refused["unread_files"] == 0, "nobody misses what was excluded"


def test_a_folder_that_is_named_is_read(cli: Any, tmp_path: Path) -> None:
    """Though the folders around it leave it out; what else they say of its files holds."""
    checkout = _write(tmp_path / "f", build__docs__a_md="# A\n", build__docs__b_txt="B.\n")
    (checkout / ".gitignore").write_text("build/\n*.txt\n")
    (checkout / ".git").mkdir()
    above = cli("index", checkout, "--dry-run", "--json").json
    named = cli("index", checkout / "build" / "docs", "--dry-run", "--json").json

    assert _states(above) == {"build/docs/a.md": "skipped", "build/docs/b.txt": "skipped"}
    assert _states(named) == {"a.md": "read", "b.txt": "skipped"}


def test_a_dry_run_stores_nothing(cli: Any, tmp_path: Path, collection: tuple[str, str]) -> None:
    """It lists the files with reasons, and estimates time and disk."""
    folder = _write(tmp_path / "f", a_md="# A\n\nWords.\n")
    (folder / "x.sketch").write_bytes(b"\x00")
    report = cli("index", folder, *collection, "--dry-run", "--json").json

    assert _states(report) == {"a.md": "read", "x.sketch": "skipped"}
    assert report["estimate"]["bytes"] > 0
    cli("documents", *collection, "--json").assert_error(3)
    assert "nothing was stored" in cli("index", folder, *collection, "--dry-run").out


def test_rights_go_by_folder(cli: Any, tmp_path: Path, collection: tuple[str, str]) -> None:
    """The most specific rule holds, tags only narrow, and a file without a rule is refused."""
    folder = _write(
        tmp_path / "share",
        open__a_md="# Open\n",
        hr__b_md="# Staff\n",
        hr__pay__c_md="# Pay\n",
        stray_md="# Stray\n",
    )
    rules = tmp_path / "rights.toml"
    rules.write_text(
        '[[rule]]\npath = "open/**"\n'
        '[[rule]]\npath = "hr/**"\nacl = ["staff"]\n'
        '[[rule]]\npath = "hr/pay/**"\nacl = ["hr"]\nclearance = 2\n'
    )
    report = cli("index", folder, *collection, "--rights", rules, "--json")

    assert report.code == 1
    assert _states(report.json)["stray.md"] == "failed"
    assert _listed(cli, *collection).keys() == {"open/a.md"}
    assert _listed(cli, *collection, "--acl", "staff").keys() == {"open/a.md", "hr/b.md"}
    high = ("--acl", "hr", "--clearance", "2")
    assert "hr/pay/c.md" in _listed(cli, *collection, *high)
    rules.write_text('[[rule]]\npath = "**"\nacl = ["all"]\n')
    again = cli("index", folder, *collection, "--rights", rules, "--json").json
    assert (again["documents"]["updated"], again["embedded"]) == (3, 1)
    assert _listed(cli, *collection) == {}
    for text in ("", "[[rule]]\n", '[[rule]]\npath = "a"\nacls = ["x"]\n', "no toml"):
        rules.write_text(text)
        assert cli("index", folder, *collection, "--rights", rules).code == 2, text


def test_names_of_one_file_in_two_unicode_forms(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """A file is the same document by both, and is shown by both."""
    folder = tmp_path / "f"
    folder.mkdir()
    composed, parted = (unicodedata.normalize(form, "Ärztebrief.md") for form in ("NFC", "NFD"))
    (folder / parted).write_text("# Brief\n\nAn den Arzt.\n")
    cli("index", folder, *collection)
    (folder / parted).rename(folder / composed)
    report = cli("index", folder, *collection, "--json").json

    assert report["documents"]["unchanged"] == 1
    for name in (composed, parted):
        assert cli("show", name, *collection, "--json").json["document_id"] == composed


def test_a_name_that_is_not_found_suggests_near_ones(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """The folder may be left out, misspelt names are near, and a file of another suffix is one."""
    folder = _write(tmp_path / "a", policies__Travel_policy_md="# Travel\n")
    (folder / "policies" / "Travel.policy.md").rename(folder / "policies" / "Travel policy.md")
    cli("index", folder, *collection)

    for name in ("Travel policy.md", "travel polcy.md", "Travel policy.docx"):
        missed = cli("show", name, *collection)
        assert missed.code == 3
        assert "'policies/Travel policy.md'" in missed.err
    assert "did you mean" not in cli("show", "zebra.md", *collection).err


def test_a_file_that_becomes_readable_replaces_no_other(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Its path is the id of another root's document: it gets an id of its own when it can be read."""
    first = _write(tmp_path / "first", a_md="# First\n\nThe first text.\n")
    second = _write(tmp_path / "second", a_md="---\nacl: 5\n---\n# Second\n")
    cli("index", first, *collection)
    unread = cli("index", second, *collection, "--json").json
    (second / "a.md").write_text("# Second\n\nThe second text.\n")
    cli("index", second, *collection)

    assert _states(unread) == {"a.md": "failed"}
    assert _listed(cli, *collection).keys() == {"a.md", "second/a.md"}
    assert "first text" in cli("show", "a.md", *collection).out
    cli("erase", "a.md", *collection)
    assert _listed(cli, *collection).keys() == {"second/a.md"}


def test_a_link_out_of_a_shared_folder_publishes_nothing(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """It is listed with its reason; what an earlier run stored through it goes with `--prune`."""
    secret = (
        _write(tmp_path / "private", plan_md="# Plan\n\nThe heron flies at dawn.\n") / "plan.md"
    )
    folder = _write(
        tmp_path / "share", a_md="# Otters\n\nOtters swim.\n", b_md="# B\n\nThe heron rests.\n"
    )
    cli("index", folder, *collection)
    (folder / "b.md").unlink()
    (folder / "b.md").symlink_to(secret)
    report = cli("index", folder, *collection, "--prune", "--json")
    again = cli("index", folder, *collection, "--json")
    listed = _listed(cli, *collection)

    assert report.code == again.code == 0
    assert report.json["documents"]["removed"] == 1
    assert _states(again.json) == {"a.md": "unchanged", "b.md": "skipped"}
    assert "link leaves the root" in listed["-b.md"]["reason"]
    assert listed.keys() == {"a.md", "-b.md"}
    hits = cli("search", "heron dawn", *collection, "--json").json["hits"]
    assert {one["document_id"] for one in hits} <= {"a.md"}


def test_a_record_is_found_by_its_line(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """A record that is stored has the number of its line, and one that fails names it, blank lines counted."""
    lines = [
        '{"_id": "one", "text": "Otters swim."}',
        "",
        '{"_id": "two", "text": "Herons fly."}',
        "{broken",
    ]
    folder = _write(tmp_path / "records", b_md="# Top\n\nSome text.\n\nMore text.\n")
    (folder / "c.jsonl").write_text("\n".join(lines) + "\n")
    report = cli("index", folder, *collection, "--json")
    listed = _listed(cli, *collection)

    assert report.code == 1
    assert [listed[name]["line"] for name in ("one", "two")] == [1, 3]
    assert listed["b.md"]["line"] is None
    assert listed["one"]["reason"].startswith("line 4: ")
    assert "line 3 of c.jsonl" in cli("documents", *collection).out


def test_a_name_that_is_not_utf_8_has_a_reason(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """The file fails with what is to be done, whether it is named or found; others are read."""
    folder = _write(tmp_path / "names", a_md="# Otters\n\nOtters swim.\n")
    odd = folder / os.fsdecode(b"caf\xe9.md")
    odd.write_text("# Café\n\nOpen daily.\n")
    for path in (folder, odd):
        report = cli("index", path, *collection, "--json")
        (failed,) = report.json["failures"]
        assert report.code == 1
        assert failed["path"].endswith("caf\\xe9.md")
        assert "not UTF-8" in failed["reason"]
    assert "a.md" in _listed(cli, *collection)
    (tmp_path / os.fsdecode(b"d\xe9p\xf4t")).mkdir()
    refused = cli("index", tmp_path / os.fsdecode(b"d\xe9p\xf4t"), *collection)
    assert refused.code == 2
    assert "d\\xe9p\\xf4t is not UTF-8" in refused.err


def test_passwords_open_files_and_stay_nowhere(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """An encrypted file keeps its reason until its password is given; no output and no row has it."""
    password = "grey-heron-4711"
    folder = _write(tmp_path / "locked", keys_txt=f"wrong\n{password}\n")
    (folder / "plan.xlsx").write_bytes(
        _locked_workbook("The vault is below the old mill.", password)
    )
    before = cli("index", folder, *collection, "--exclude", "keys.txt", "--json")
    after = cli("index", folder, *collection, "--passwords", folder / "keys.txt", "--json")
    hits = cli("search", "vault mill", *collection, "--json").json["hits"]
    again = cli("index", folder, *collection, "--passwords", folder / "keys.txt", "--json")

    (failed,) = before.json["failures"]
    assert failed["reason"] == "is protected by a password"
    assert _states(after.json) == {"keys.txt": "skipped", "plan.xlsx": "read"}
    assert [one["document_id"] for one in hits] == ["plan.xlsx"]
    assert again.json["documents"]["unchanged"] == 1
    shown = (before, after, again, cli("documents", *collection, "--json"))
    assert not any(password in one.out + one.err for one in shown)
    assert cli("search", password, *collection, "--mode", "bm25", "--json").json["hits"] == []
    missing = cli("index", folder, *collection, "--passwords", tmp_path / "none")
    assert missing.code == 2


def _locked_workbook(text: str, password: str) -> bytes:
    book, plain, locked = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    book.active["A1"] = text
    book.save(plain)
    plain.seek(0)
    OOXMLFile(plain).encrypt(password, locked)
    return locked.getvalue()
