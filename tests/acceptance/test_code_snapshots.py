"""`whence import` and `whence snapshots`, and searches of snapshots."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_bundles import write_folder, write_zip
from tests.support.small_bundles import small_files, write_small

FIRST = "d4578e80-0513-581a-8e08-fcc69a9c50b0"
SECOND = "a4e24b9f-4d29-5249-8c8a-aaaf2b376f0b"
COUNTS = [
    ({"cs": 201, "sql": 90}, {"cs": 268, "sql": 96}),
    ({"cs": 203, "sql": 92}, {"cs": 272, "sql": 99}),
]


def test_the_document_of_an_import(cli: Any, releases: Any) -> None:
    """One entry a bundle, in the given order, with counts, warnings and the set."""
    _, result = releases
    imports = result.json["imports"]

    assert [(one["nodes"], one["edges"]) for one in imports] == COUNTS
    assert [one["snapshot_id"] for one in imports] == [FIRST, SECOND]
    assert {one["status"] for one in imports} == {"completed"}
    assert {one["repo"] for one in imports} == {"Fake"}
    assert [one["branch"] for one in imports] == ["release-1.0", "release-1.1"]
    assert any("SQL:dbo.table_Depot_999" in str(one) for one in imports[0]["warnings"])
    assert result.json["set"]["members"] == [
        {"ref": "release-1.0", "snapshot_id": FIRST},
        {"ref": "release-1.1", "snapshot_id": SECOND},
    ]
    # Neither a bar nor a log beside the one document.
    assert result.err == ""


def test_importing_again_changes_nothing(cli: Any, releases: Any) -> None:
    """Importing the same bundles again embeds nothing and changes no list."""
    paths, _ = releases
    before = cli("snapshots", "--json").json
    result = cli("import", *paths, "--set", "Fake_snapshot", "--json")

    assert result.code == 0, result.err
    assert [one["embedded"] for one in result.json["imports"]] == [0, 0]
    assert cli("snapshots", "--json").json == before
    # Other tests share the home and may have snapshots of their own.
    ours = [one for one in before["snapshots"] if one["repo"] == "Fake"]
    assert [one["snapshot_id"] for one in ours] == [SECOND, FIRST]
    assert {one["status"] for one in ours} == {"published"}
    assert "Fake_snapshot" in [one["name"] for one in before["sets"]]
    assert [(one["nodes"], one["edges"]) for one in ours] == COUNTS[::-1]


@pytest.mark.parametrize(
    ("words", "snapshot"),
    [
        (("--snapshot", FIRST), FIRST),
        (("--snapshot", "fdb0d25c05c0b1647d4954a0f1850aff13570970"), FIRST),
        (("--snapshot", "release-1.1"), SECOND),
        (("--snapshot", "Release_FAKE_ENTERPRISE_1.0"), FIRST),
        (("--set", "Fake_snapshot"), FIRST),
        (("--set", "Fake_snapshot", "--snapshot-source", "secondary"), SECOND),
        (("--set", "Fake_snapshot", "--snapshot", "release-1.1"), SECOND),
    ],
)
def test_a_snapshot_is_searched_by_any_of_its_names(
    cli: Any, releases: Any, words: tuple[str, ...], snapshot: str
) -> None:
    """Every hit is a node of the named snapshot, with its file."""
    rights = ("--label", "public", "--label", "confidential")
    how = ("--mode", "bm25", "--threshold", "0", "--json")
    result = cli("search", "token validation", *words, *rights, *how)
    hits = result.json["hits"]

    assert result.code == 0, result.err
    assert hits
    assert all(hit["document_id"].startswith(f"Fake::{snapshot}::") for hit in hits)
    assert all(hit["chunk"]["id"] == hit["document_id"] for hit in hits)
    files = [hit["chunk"]["metadata"]["source_file"] for hit in hits]
    assert any(file.endswith("TokenValidator.cs") for file in files)


def test_every_visible_node_can_be_listed(cli: Any, releases: Any) -> None:
    """A dense search without a threshold returns each visible node once."""
    everything = ("--top-k", "1000", "--mode", "dense", "--threshold", "0", "--json")
    public = cli("search", "anything at all", "--snapshot", "release-1.0", *everything).json["hits"]
    rights = [
        *(word for tag in ("finance", "security", "ops", "hr", "legal") for word in ("--acl", tag)),
        *(word for tag in ("architecture", "integration", "support") for word in ("--acl", tag)),
        *(word for label in ("public", "internal", "restricted") for word in ("--label", label)),
        *(word for label in ("confidential", "secret", "sensitive") for word in ("--label", label)),
        "--clearance",
        "99",
    ]
    found = cli("search", "anything at all", "--snapshot", "release-1.0", *rights, *everything)
    hits = found.json["hits"]

    assert len({hit["document_id"] for hit in hits}) == len(hits) == 291
    assert {hit["document_id"] for hit in public} < {hit["document_id"] for hit in hits}
    assert "" in {hit["chunk"]["content"] for hit in hits}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--snapshot", "release-9.9"), 3),
        (("--snapshot", FIRST.replace("d", "e")), 3),
        (("--set", "nowhere"), 3),
        (("--set", "Fake_snapshot", "--snapshot", "nothing"), 3),
        (("--snapshot", ""), 2),
        (("--set", ""), 2),
        (("--snapshot-source", "primary"), 2),
        (("--set", "Fake_snapshot", "--snapshot-source", "tertiary"), 2),
        (("--set", "Fake_snapshot", "--snapshot", FIRST, "--snapshot-source", "primary"), 2),
        (("--snapshot", FIRST, "--top-k", "0"), 2),
        (("--snapshot", FIRST, "--threshold", "2"), 2),
        (("--snapshot", FIRST, "--mode", "psychic"), 2),
    ],
)
def test_invalid_searches_are_refused(
    cli: Any, releases: Any, words: tuple[str, ...], code: int
) -> None:
    """Missing snapshots are exit 3, wrong arguments exit 2."""
    cli("search", "token validation", *words).assert_error(code)


def test_a_deactivated_set_is_not_found(cli: Any, releases: Any) -> None:
    """A deactivated set cannot be searched until it is activated."""
    query = ("search", "token validation", "--set", "Fake_snapshot", "--mode", "bm25")

    assert cli("snapshots", "deactivate", "Fake_snapshot").code == 0
    cli(*query).assert_error(3)
    assert cli("snapshots", "activate", "Fake_snapshot").code == 0
    assert cli(*query).code == 0


def test_sets_are_removed_and_snapshots_purged(cli: Any, releases: Any, tmp_path: Path) -> None:
    """A set can be made, removed without its snapshots, and a snapshot purged."""
    path = write_small(tmp_path / "gone.zip", {"C1": "class Gone"}, repo="Gone", head_sha="g1")

    assert cli("import", path, "--tag", "v1").code == 0
    made = cli("snapshots", "set", "Other", "v1", "--json").json["sets"]
    assert "Other" in {one["name"] for one in made}
    cli("snapshots", "set", "Another", "v1", "release-1.0").assert_error(2)
    cli("snapshots", "set", "Another", "nothing").assert_error(3)
    left = cli("snapshots", "remove", "Other", "--json").json
    assert "Other" not in {one["name"] for one in left["sets"]}
    assert "Gone" in {one["repo"] for one in left["snapshots"]}
    cli("snapshots", "deactivate", "v1")
    cli("search", "class gone", "--snapshot", "v1").assert_error(3)
    cli("snapshots", "activate", "v1")
    assert cli("search", "class gone", "--snapshot", "v1").code == 0
    left = cli("snapshots", "purge", "g1", "--json").json
    assert "Gone" not in {one["repo"] for one in left["snapshots"]}
    cli("snapshots", "purge", "g1").assert_error(3)
    cli("snapshots", "remove", "Other").assert_error(3)
    cli("search", "class gone", "--snapshot", "v1").assert_error(3)


def test_a_name_of_several_snapshots_changes_none(cli: Any, tmp_path: Path) -> None:
    """A name of several snapshots reads the newest; deactivate and purge require an id."""
    paths = [
        write_small(
            tmp_path / f"{n}.zip",
            {"C1": f"class M{n}"},
            repo="Moved",
            branch="moved",
            head_sha=f"m{n}",
        )
        for n in (1, 2)
    ]
    ids = [one["snapshot_id"] for one in cli("import", *paths, "--json").json["imports"]]

    for command in ("deactivate", "purge"):
        result = cli("snapshots", command, "moved")
        result.assert_error(2)
        assert all(each in result.err for each in ids)
    assert cli("search", "class", "--snapshot", "moved", "--json").json["snapshot_id"] == ids[1]
    assert cli("snapshots", "purge", ids[1]).code == 0
    assert cli("snapshots", "purge", "moved").code == 0


def test_other_content_requires_replace(cli: Any, tmp_path: Path) -> None:
    """Other content at a commit is refused, and replaces the former with --replace."""
    paths = [
        write_small(tmp_path / f"{n}.zip", {f"C{n}": f"class Number{n}"}, repo="Swap", head_sha="s")
        for n in (1, 2)
    ]
    query = ("search", "class number", "--snapshot", "s", "--mode", "dense", "--threshold", "0")

    assert cli("import", paths[0]).code == 0
    cli("import", paths[1]).assert_error(2)
    assert [hit["document_id"][-2:] for hit in cli(*query, "--json").json["hits"]] == ["C1"]
    assert cli("import", paths[1], "--replace").code == 0
    assert [hit["document_id"][-2:] for hit in cli(*query, "--json").json["hits"]] == ["C2"]
    cli("snapshots", "purge", "s")


def test_repository_of_the_caller(cli: Any, tmp_path: Path) -> None:
    """--repo replaces the repository name of the bundle in every id."""
    path = write_small(tmp_path / "b.zip", {"C1": "class A"}, repo="Mine", head_sha="r1")
    imported = cli("import", path, "--repo", "Yours", "--json").json["imports"][0]
    hits = cli(
        "search", "class A", "--snapshot", "r1", "--mode", "dense", "--threshold", "0", "--json"
    ).json["hits"]

    assert imported["repo"] == "Yours"
    assert hits[0]["document_id"] == f"Yours::{imported['snapshot_id']}::cs::C1"
    cli("snapshots", "purge", "r1")


Files = dict[str, bytes]
CHUNKS = "code/chunks.json"


BAD: dict[str, Callable[[Files], object]] = {
    "no ACL": lambda files: files.update({CHUNKS: b'[{"Id": "C1", "Text": "class A"}]'}),
    "an unsafe path": lambda files: files.update({"../evil.cs": b"x"}),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_bundle_changes_nothing(cli: Any, releases: Any, tmp_path: Path, fault: str) -> None:
    """An invalid bundle among valid ones is exit 2 and changes neither snapshots nor sets."""
    before = cli("snapshots", "--json").json
    files = small_files({"C1": "class A"}, repo="Fake", head_sha="bad")
    BAD[fault](files)
    bad = tmp_path / "bad.zip"
    write_zip(files, bad)
    good = write_small(tmp_path / "good.zip", {"C1": "class A"}, repo="Fake", head_sha="good")
    result = cli("import", good, bad, "--set", "Fake_snapshot", "--json")

    result.assert_error(2)
    assert "bad.zip" in result.json["error"]["message"]
    assert cli("snapshots", "--json").json == before


def test_invalid_archives_and_options(cli: Any, tmp_path: Path) -> None:
    """A missing, truncated or wrong file, and invalid options, are exit 2."""
    good = write_small(tmp_path / "good.zip", {"C1": "class A"}, head_sha="good")
    cut = tmp_path / "cut.zip"
    cut.write_bytes(good.read_bytes()[:-40])
    text = tmp_path / "text.zip"
    text.write_text("no archive")

    for words in (
        (tmp_path / "missing.zip",),
        (cut,),
        (text,),
        (good, good),
        (good, "--set", ""),
        (good, "--repo", "a::b"),
        (good, "--tag", "a", "--tag", "b"),
        (good, "--tag", " "),
        (),
    ):
        cli("import", *words).assert_error(2)


def test_a_folder_is_a_bundle(cli: Any, tmp_path: Path) -> None:
    """An unpacked bundle is imported like its archive."""
    folder = tmp_path / "unpacked"
    write_folder(small_files({"C1": "class A"}, repo="Folder", head_sha="f1"), folder)

    assert cli("import", folder).code == 0
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, os.fspath(path.relative_to(tmp_path)))
    again = cli("import", packed, "--json").json["imports"][0]
    assert again["unchanged"] is True
    cli("snapshots", "purge", "f1")
