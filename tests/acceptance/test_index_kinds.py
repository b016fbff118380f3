"""A folder of documents of every kind: all that can be read is found again, what cannot is named."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.documents import make_docx, make_pdf

#: Name, content, and a heading that the content is found under.
KINDS: dict[str, tuple[str | bytes, str]] = {
    "fish.md": ("# Herring\n\nHerring swim in large shoals.\n", "Herring"),
    "birds.rst": ("Gulls\n=====\n\nGulls steal chips from tourists.\n", "Gulls"),
    "moss.txt": (
        "Moss grows on the north side of walls.",
        "Moss grows on the north side of walls.",
    ),
    "bread.txt": (
        "Müde Wanderer mögen Käse, Brot und süße Äpfel.".encode("cp1252"),
        "Müde Wanderer",
    ),
    "trees.html": (
        (
            "<title>Trees</title><nav><a href=/>Zebra navigation</a></nav><main><h1>Oaks</h1><p>Oaks live for"
            " centuries.</p></main><script>zebra()</script>"
        ),
        "Oaks",
    ),
    "leave.pdf": (
        make_pdf(
            [
                [
                    (20, 700, "Holidays"),
                    (11, 670, "Everybody has thirty days of holi-"),
                    (11, 657, "days."),
                ],
                [(20, 700, "Sickness"), (11, 670, "Call the office before nine.")],
            ]
        ),
        "Sickness",
    ),
    "travel.docx": (
        make_docx(
            ("Title", "Handbook"), ("Heading1", "Trains"), ("", "Second class only."), [["a", "b"]]
        ),
        "Trains",
    ),
    "otter.py": ("class Otter:\n    def swim(self):\n        return 'river'\n", "Otter.swim"),
    "Cart.cs": (
        "namespace Shop;\nclass Cart\n{\n    void Add()\n    {\n    }\n}\n",
        "Shop.Cart.Add",
    ),
    "orders.sql": ('CREATE TABLE shop."orders" (id int);\n', "shop.orders"),
    "cart.ts": ("export class Cart {\n  add(): void {\n  }\n}\n", "Cart.add"),
    "cart.js": ("function checkout() {\n  return 1;\n}\n", "checkout"),
    "serve.go": ("package m\n\nfunc (s *Server) Serve() {\n}\n", "Server.Serve"),
    "Fox.java": ("package a;\nclass Fox {\n  void hunt() {\n  }\n}\n", "a.Fox.hunt"),
    "point.rs": ("impl Point {\n    fn norm() {\n    }\n}\n", "Point::norm"),
    "sort.c": ("int quicksort(int *a)\n{\n    return 0;\n}\n", "quicksort"),
    "tree.cpp": ("namespace tree {\nint height() {\n  return 1;\n}\n}\n", "tree::height"),
    "prices.csv": ("Kiln;Preis\nOstrava;1,50\n", "prices"),
    "note.eml": (
        "From: ida@example.org\nSubject: Ferry tickets\n\nThe ferry costs 12 euro.\n",
        "Ferry tickets",
    ),
    "shop.json": ('{\n  "harbour": "closed"\n}\n', "shop"),
    "town.xml": ("<town><mayor>Ruza</mayor></town>", "town"),
    "app.log": ("ERROR disk full\n", "app"),
    "Dockerfile": ("FROM python:3.11\nRUN make\n", "Dockerfile"),
    "records.jsonl": (
        '{"_id": "r1", "text": "A record about whales."}\n',
        "A record about whales.",
    ),
}
#: What is read by its content, whatever its name says.
LYING = {"really-a.pdf.txt": make_pdf([[(11, 700, "A PDF that is called text.")]])}
SKIPPED: dict[str, bytes] = {
    "empty.md": b"",
    "blob.bin": bytes(range(256)),
    "old.zip": b"PK\x03\x04",
}
FAILED = {
    "broken.pdf": (b"%PDF-1.7\nbroken", "is not a readable PDF"),
    "cut.docx": (make_docx(("", "Words."))[:200], "is not a readable Word document"),
    "picture.md": (b"\x89PNG\r\n\x1a\n....", "suffix, Markdown, but a PNG picture"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of every kind, good and bad."""
    folder = tmp_path_factory.mktemp("kinds")
    files = {name: content for name, (content, _) in KINDS.items()}
    files |= {name: content for name, (content, _) in FAILED.items()} | LYING | SKIPPED
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_every_format_is_indexed(cli: Any, folder: Path) -> None:
    """Valid files are indexed, invalid ones are reported with a reason, exit 1."""
    result = cli("index", folder, "--collection", "kinds", "--json")
    counts = result.json["documents"]
    failures = {Path(one["path"]).name: one["reason"] for one in result.json["failures"]}

    assert result.code == 1, result.err
    assert counts["added"] == len(KINDS) + len(LYING)
    assert (counts["failed"], counts["skipped"]) == (len(FAILED), len(SKIPPED))
    assert failures.keys() == FAILED.keys()
    for name, (_, reason) in FAILED.items():
        assert reason in failures[name]
    assert sum(result.json["kinds"].values()) == counts["added"]
    assert sum(result.json["skipped"].values()) == len(SKIPPED)

    again = cli("index", folder, "--collection", "kinds", "--json").json

    assert again["documents"]["unchanged"] == counts["added"]
    assert again["embedded"] == 0


def test_every_format_has_headings(cli: Any, folder: Path) -> None:
    """Each document has a chunk under its heading; navigation around pages is not indexed."""
    cli("index", folder, "--collection", "kinds")
    words = (
        "--collection",
        "kinds",
        "--mode",
        "dense",
        "--threshold",
        "0",
        "--top-k",
        "100",
        "--json",
    )
    hits = cli("search", "everything there is", *words).json["hits"]
    headings = {(hit["document_id"], hit["chunk"]["metadata"]["heading"]) for hit in hits}
    pages = {
        hit["chunk"]["metadata"].get("page") for hit in hits if hit["document_id"] == "leave.pdf"
    }

    for name, (_, heading) in KINDS.items():
        document = "r1" if name == "records.jsonl" else name
        assert any(one == document and found.startswith(heading) for one, found in headings), name
    assert pages == {1, 2}
    assert not [hit for hit in hits if "ebra" in hit["chunk"]["content"]]
    assert [hit for hit in hits if "thirty days of holidays" in hit["chunk"]["content"]]


def test_an_archive_given_by_name_fails(cli: Any, folder: Path) -> None:
    """An archive given as a path is an error with a hint."""
    result = cli("index", folder / "old.zip", "--collection", "kinds", "--json")

    assert result.code == 1
    assert "unpack it" in result.json["files"][0]["reason"]


def test_new_tags_embed_nothing(cli: Any, folder: Path) -> None:
    """New tags update every document, embed none, and hide them from the public."""
    cli("index", folder / "fish.md", "--collection", "tagged")
    report = cli(
        "index", folder / "fish.md", "--collection", "tagged", "--acl", "staff", "--json"
    ).json
    again = cli(
        "index", folder / "fish.md", "--collection", "tagged", "--acl", "staff", "--json"
    ).json
    hidden = cli("search", "herring shoals", "--collection", "tagged", "--json").json

    assert (report["documents"]["updated"], report["embedded"]) == (1, 0)
    assert (again["documents"]["unchanged"], again["embedded"]) == (1, 0)
    assert hidden["hits"] == []


def test_prune_removes_deleted_files(cli: Any, tmp_path: Path) -> None:
    """Deleted files are counted, and removed only with --prune, beneath the given folder alone."""
    other = tmp_path.with_name(f"{tmp_path.name}-other")
    other.mkdir()
    (other / "c.md").write_text("# c\n\nWords of c.\n")

    def changed_at() -> str:
        found = cli("collections", "--json").json["collections"]
        moment: str = next(one["changed_at"] for one in found if one["name"] == "pruned")
        return moment

    for name in "ab":
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nWords of {name}.\n")
    cli("index", tmp_path, "--collection", "pruned")
    (tmp_path / "a.md").unlink()
    (tmp_path / "b.md").write_text("# b\n\nOther words.\n")
    told = cli("index", tmp_path, "--collection", "pruned")
    left = cli("index", other, "--collection", "pruned", "--json").json
    kept = cli("index", tmp_path, "--collection", "pruned", "--json").json
    before = changed_at()
    pruned = cli("index", tmp_path, "--collection", "pruned", "--prune", "--json").json["documents"]

    assert before < changed_at()
    assert re.search(r"^ +0 +1 +0 +0 ", told.out, re.MULTILINE), "the changed file alone is updated"
    assert "paths any more: 1 stored document; `--prune` removes it\n" in told.err
    assert left["gone"] == 0
    assert (kept["documents"]["unchanged"], kept["documents"]["removed"]) == (1, 0)
    assert kept["gone"] == 1
    assert (pruned["unchanged"], pruned["removed"]) == (1, 1)
    assert cli("show", "c.md", "--collection", "pruned").code == 0


def test_prune_keeps_documents_of_files_that_are_not_read_now(cli: Any, tmp_path: Path) -> None:
    """A stored document stays while its file is there: too large now, or of a format that nothing reads now."""
    records, large = tmp_path / "records.jsonl", tmp_path / "large.md"
    records.write_text('{"_id": "plan.mine", "text": "A plan."}\n{"_id": "gone", "text": "Old."}\n')
    large.write_text("# Large\n\nWords.\n")
    cli("index", tmp_path, "--collection", "unread")
    records.write_text("")
    (tmp_path / "plan.mine").write_bytes(b"\0A plan.")
    (tmp_path / "never.mine").write_bytes(b"\0Never stored.")
    large.write_text("word " * 2**22)
    told = cli("index", tmp_path, "--collection", "unread", "--prune")
    large.unlink()
    (tmp_path / "plan.mine").unlink()
    after = cli("index", tmp_path, "--collection", "unread", "--prune", "--json").json

    assert told.code == 1, "the large file failed"
    assert "not pruned: 1 document of skipped files" in told.err
    assert re.search(r"^ +0 +0 +0 +1 ", told.out, re.MULTILINE), "the record that is gone alone"
    assert (after["documents"]["removed"], after["kept_skipped"]) == (2, 0)


@pytest.mark.parametrize("name", ["", "data.bin"])
def test_nothing_to_index_makes_no_collection(cli: Any, tmp_path: Path, name: str) -> None:
    """Without a document the command says so, names no collection, and exits 0."""
    if name:
        (tmp_path / name).write_bytes(bytes(range(256)))
    done = cli("index", tmp_path, "--collection", "nothing-there")

    assert done.code == 0
    assert "nothing was indexed" in done.err
    assert "nothing-there" not in done.out + done.err
    assert "nothing-there" not in cli("collections").out


def test_prune_keeps_documents_of_failed_files(cli: Any, tmp_path: Path) -> None:
    """Documents that a failed file may contain are kept, and the output says so."""
    records = tmp_path / "records.jsonl"
    records.write_text('{"_id": "a", "text": "First words."}\n{"_id": "b", "text": "Others."}\n')
    cli("index", tmp_path, "--collection", "unsure")
    records.write_text('{"_id": "a", "text": "First words."}\n{broken\n')
    words = ("index", tmp_path, "--collection", "unsure", "--prune")
    told = cli(*words)
    counted = cli(*words, "--json").json
    records.write_text('{"_id": "a", "text": "First words."}\n')
    (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("# Latin name\n")
    pruned = cli(*words, "--json").json

    assert "not pruned: 1 document that a failed file may contain (records.jsonl)" in told.err
    assert (counted["documents"]["removed"], counted["kept"]) == (0, 1)
    assert (pruned["documents"]["removed"], pruned["kept"]) == (1, 0)


def test_languages_that_the_encoder_does_not_serve_are_named(cli: Any, tmp_path: Path) -> None:
    """The report counts their documents, and a note names the encoder that serves them."""
    (tmp_path / "english.md").write_text(
        "Books may be borrowed for 28 days. It is not to be extended."
    )
    (tmp_path / "german.md").write_text(
        "Die Bücher sind nach 28 Tagen zurückzugeben, und das ist auch nicht zu verlängern."
    )
    (tmp_path / "chinese.md").write_text("\u56fe\u4e66\u53ef\u4ee5\u501f\u960528\u5929\u3002")
    # The one for English, also where another one is installed.
    place = ("index", tmp_path, "--collection", "languages", "--embedder", "all-MiniLM-L6-v2")
    first = cli(*place, "--json")
    again = cli(*place)
    (tmp_path / "german.md").write_text(
        "Das Buch ist nach 14 Tagen zurückzugeben, und das ist auch nicht zu verlängern."
    )
    changed = cli(*place)

    assert first.json["not_served"] == {"de": 1, "zh": 1}
    assert "does not serve" not in again.err
    assert "does not serve the language of 1 document (1 de)" in changed.err
    assert "whence models install multilingual-e5-small" in changed.err
