"""Loading documents: which files are found, how they are read, and how failures are reported."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.documents import content_hash, load_documents
from whence.ingest.load_results import LoadedDocument, LoadFailure, Skipped
from whence.ingest.loader_registry import loaders_by_suffix
from whence.ingest.sources import SourceFile
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import Place


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


CHUNKER = Chunker(words)


def write(folder: Path, name: str, content: str | bytes = "Some text.") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def loaded(*paths: Path, **options: Any) -> dict[str, LoadedDocument]:
    outcomes = list(load_documents(paths, chunker=CHUNKER, **options))
    assert all(isinstance(item, LoadedDocument) for item in outcomes), outcomes
    return {item.draft.document_id: item for item in outcomes if isinstance(item, LoadedDocument)}


def only(*paths: Path, **options: Any) -> LoadedDocument | LoadFailure | Skipped:
    (outcome,) = load_documents(paths, chunker=CHUNKER, **options)
    return outcome


def failure(*paths: Path, **options: Any) -> LoadFailure:
    outcome = only(*paths, **options)
    assert isinstance(outcome, LoadFailure)
    return outcome


def test_ids_are_relative_paths_in_a_fixed_order(tmp_path: Path) -> None:
    """Within a folder by name, folders and files mixed; parts of an id are joined by `/`."""
    for name in ("b.md", "a/z.md", "a/a/x.txt", "c/.hidden/h.md", ".dot.md", "B.md"):
        write(tmp_path, name)

    assert list(loaded(tmp_path)) == ["B.md", "a/a/x.txt", "a/z.md", "b.md"]


def test_files_without_text_say_what_they_have(tmp_path: Path) -> None:
    """The reason names the kinds of what is left out, and the counts stand beside it: it may be text."""
    cell = {"cell_type": "markdown", "metadata": {}, "source": "![](attachment:scan.png)"}
    picture = {"scan.png": {"image/png": "iVBORw0KGgo="}}
    for name, attached in (("scan.ipynb", picture), ("blank.ipynb", {})):
        cells = [cell | {"attachments": attached}] if attached else []
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / name).write_text(json.dumps(notebook))
    outcomes = load_documents([tmp_path], chunker=CHUNKER)
    found = {Path(one.path).name: one for one in outcomes if isinstance(one, Skipped)}

    assert found["scan.ipynb"].reason == "contains no text, only pictures"
    assert set(found["scan.ipynb"].left_out) == {"pictures"}
    assert (found["blank.ipynb"].reason, found["blank.ipynb"].left_out) == ("contains no text", {})


@pytest.mark.parametrize("name", ["with space.md", "naïve 漢字.md", "new\nline.md", "UPPER.MD", "#?%.md"])  # fmt: skip
def test_unusual_names_are_ids(tmp_path: Path, name: str) -> None:
    """A Unicode name is the id, unchanged; its URL is a valid relative URL."""
    write(tmp_path, name)
    (document,) = loaded(tmp_path).values()

    assert document.draft.document_id == document.draft.source_file == name
    assert not set(document.draft.source_url) & set(" \n#?漢ï")


def test_a_single_file_is_known_by_its_name(tmp_path: Path) -> None:
    """The id of a file given by itself is its name."""
    assert list(loaded(write(tmp_path, "deep/down/a.md"))) == ["a.md"]


def test_a_name_that_is_not_unicode_fails(tmp_path: Path) -> None:
    """The file fails, others do not, and its name is printable."""
    write(tmp_path, os.fsdecode(b"bad\xff.md"))

    failed = failure(tmp_path)
    assert failed.path.endswith("bad\\xff.md")
    assert "not UTF-8" in failed.reason


def test_a_path_too_long_for_an_id_fails(tmp_path: Path) -> None:
    """An id must fit into an index entry."""
    write(tmp_path, "/".join(["d" * 200] * 6) + "/a.md")

    assert "longer than 1,024 bytes" in failure(tmp_path).reason


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.png",
            b"\x89PNG",
            "a picture; OCR, which would read its text, is not installed (Debian: tesseract-ocr)",
        ),
        ("noext", b"\x7fELF\2\1\1\0", "a program"),
        ("a.md", b"", "empty"),
        ("a.md", b" \n\t\n", "contains no text"),
        ("a.md", b"---\ntitle: x\n---\n\n", "contains no text"),
        ("a.md", b"\xef\xbb\xbf", "contains no text"),
    ],
)
def test_files_without_a_document_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, reason: str
) -> None:
    """Unknown formats and files without text are skipped, not failed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path, name, content)
    outcome = only(tmp_path)

    assert isinstance(outcome, Skipped)
    assert reason in outcome.reason


def test_links_cannot_make_a_loop(tmp_path: Path) -> None:
    """Links to folders, to themselves, to nowhere and out of the root are skipped."""
    folder = tmp_path / "docs"
    write(folder, "a.md")
    (folder / "loop").symlink_to(folder)
    (folder / "self.md").symlink_to(folder / "self.md")
    (folder / "gone.md").symlink_to(tmp_path / "nowhere")
    (folder / "other.md").symlink_to(write(tmp_path, "outside.md"))
    outcomes = list(load_documents([folder], chunker=CHUNKER))

    assert [type(item).__name__ for item in outcomes] == [
        "LoadedDocument", "Skipped", "Skipped", "Skipped", "Skipped",
    ]  # fmt: skip


def test_a_link_publishes_no_file_outside_of_the_root(tmp_path: Path) -> None:
    """Whatever the way out, the link is listed and its file not read; one that is named is read."""
    folder, secret = tmp_path / "docs", write(tmp_path, "secret/plan.md", b"The plan is secret.")
    write(folder, "deep/a.md")
    (folder / "absolute.md").symlink_to(secret)
    (folder / "deep" / "relative.md").symlink_to("../../secret/plan.md")
    (folder / "chain.md").symlink_to("absolute.md")
    (tmp_path / "docs-secret").mkdir()
    (folder / "prefix.md").symlink_to(write(tmp_path, "docs-secret/plan.md"))
    (folder / ".hidden.md").write_text("Kept beside the others.")
    (folder / "inside.md").symlink_to(".hidden.md")
    outcomes = list(load_documents([folder], chunker=CHUNKER))

    read = [one.draft.document_id for one in outcomes if isinstance(one, LoadedDocument)]
    skipped = {one.file: one.reason for one in outcomes if isinstance(one, Skipped)}
    assert read == ["deep/a.md", "inside.md"]
    assert skipped.keys() == {"absolute.md", "chain.md", "deep/relative.md", "prefix.md"}
    assert all("link leaves the root" in reason for reason in skipped.values())
    assert list(loaded(folder / "absolute.md")) == ["absolute.md"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Only regular files are opened."""
    os.mkfifo(tmp_path / "pipe.md")

    assert isinstance(only(tmp_path), Skipped)
    with pytest.raises(BadInput, match="neither"):
        load_documents([tmp_path / "pipe.md"], chunker=CHUNKER)


@pytest.mark.parametrize("name", ["missing", "a.md/x", "nul\0", "n" * 300])
def test_a_path_that_does_not_exist_is_refused_at_once(tmp_path: Path, name: str) -> None:
    """No file is read if one of the paths is wrong."""
    good = write(tmp_path, "a.md")
    with pytest.raises(BadInput, match="cannot be read"):
        load_documents([good, tmp_path / name], chunker=CHUNKER)


def test_no_path_is_refused() -> None:
    """An empty list is a mistake, not an empty result."""
    with pytest.raises(BadInput, match="no files"):
        load_documents([], chunker=CHUNKER)


def test_two_files_with_one_id_are_refused(tmp_path: Path) -> None:
    """The error names both before any file is read."""
    first, second = write(tmp_path, "one/a.md"), write(tmp_path, "two/a.md")
    with pytest.raises(BadInput) as caught:
        load_documents([first.parent, second.parent], chunker=CHUNKER)

    assert str(first) in caught.value.message
    assert str(second) in caught.value.message


def test_a_path_inside_another_is_refused(tmp_path: Path) -> None:
    """One file must not get two ids."""
    inner = write(tmp_path, "one/a.md")
    for paths in ([tmp_path, inner], [inner, tmp_path / "one" / ".." / "one"], [inner, inner]):
        with pytest.raises(BadInput, match="given twice"):
            load_documents(paths, chunker=CHUNKER)


def test_a_document_carries_what_its_chunks_need(tmp_path: Path) -> None:
    """Title, URL, tags and metadata are those of the front matter."""
    text = (
        "---\ntitle: Pay\nurl: https://example.org/pay\nacl: [finance]\nlabels: [pii]\n"
        "clearance: 2\nyear: 2024\nheading: no\n---\n# Bands\n\nB3 is paid well."
    )
    draft = loaded(write(tmp_path, "pay.md", text))["pay.md"].draft
    (chunk,) = draft.chunks

    assert (draft.title, draft.source_file) == ("Pay", "pay.md")
    assert draft.source_url == "https://example.org/pay"
    assert draft.tags == DocumentTags(("finance",), ("pii",), 2)
    assert draft.metadata == {"url": "https://example.org/pay", "year": 2024}
    assert (chunk.start, chunk.heading) == (0, "Bands")
    assert [place.line_start for place in draft.places] == [10, 12]
    assert chunk.embed_text == "Pay\nBands\nBands\n\nB3 is paid well."


def test_line_ends_and_marks_make_no_difference(tmp_path: Path) -> None:
    """A byte order mark and other line ends give the same chunks and the same digest."""
    text = "# A\n\nOne.\n\n* two\n* three\n"
    drafts = [
        loaded(write(tmp_path / str(n), "a.md", data))["a.md"].draft
        for n, data in enumerate(
            [
                text.encode(),
                b"\xef\xbb\xbf" + text.encode(),
                text.replace("\n", "\r\n").encode(),
                text.replace("\n", "\r").encode(),
            ]
        )
    ]

    assert drafts == [drafts[0]] * 4


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"fine\nthen \xff\xfe \0", "is not text: a NUL character in line 2"),
        (b"fine\nthen \0", "is not text: a NUL character in line 2"),
        (b"\x7fELF\x02\x01\x00\x00", "suffix, Markdown, but a program"),
        (b"PK\x03\x04 any other archive", "an archive, unpack it first"),
        (b"\xff\xfe\x00\xd8", "is not text: neither UTF-8 nor utf-16"),
        (b"---\nacl: finance\n---\nsecret", "acl must be a list"),
        (b"---\nmeta: x\nclearance: -1\n---\nsecret", "clearance must be"),
    ],
)
def test_an_unreadable_file_does_not_affect_others(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    """The reason names the place; other files are read."""
    bad = write(tmp_path, "a.md", content)
    write(tmp_path, "b.md")
    first, second = load_documents([tmp_path], chunker=CHUNKER)

    assert isinstance(first, LoadFailure)
    assert (first.path, first.document_id) == (str(bad), "a.md")
    assert reason in first.reason
    assert "\n" not in first.reason
    assert isinstance(second, LoadedDocument)


@pytest.mark.parametrize("error", [RuntimeError("no\nroot"), RecursionError(), MemoryError()])
def test_any_error_of_a_loader_is_the_failure_of_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """An error that a library raises unexpectedly is named in the reason; other files are read."""

    def fail(file: SourceFile, data: bytes) -> ParsedDocument:
        raise error

    write(tmp_path, "a.html", "<p>text</p>")
    write(tmp_path, "records.jsonl", '{"_id": "b", "text": "Some text."}')
    broken = replace(loaders_by_suffix()[".html"], parse_file=fail)
    monkeypatch.setattr("whence.ingest.reading_process.detect_loader", lambda *_: broken)
    first, second = load_documents([tmp_path], chunker=CHUNKER)

    assert isinstance(first, LoadFailure)
    assert first.reason.startswith(f"cannot be read: {type(error).__name__}")
    assert "\n" not in first.reason
    assert isinstance(second, LoadedDocument)


@pytest.mark.parametrize("tag", ["html hidden", "html aria-hidden='true'", "body hidden"])
def test_a_page_that_is_hidden_as_a_whole_is_read(tmp_path: Path, tag: str) -> None:
    """Scripts show such a page when it is complete."""
    page = write(tmp_path, "a.html", f"<{tag}><p>Some words.</p>")
    assert loaded(page)["a.html"].text.strip() == "Some words."


def test_a_file_that_disappears_does_not_affect_others(tmp_path: Path) -> None:
    """A file may disappear between finding and reading it."""
    write(tmp_path, "a.md")
    gone = write(tmp_path, "b.md")
    outcomes = load_documents([tmp_path], chunker=CHUNKER)
    next(outcomes)
    gone.unlink()
    outcome = next(outcomes)

    assert isinstance(outcome, Skipped | LoadFailure)
    assert outcome.path == str(gone)


def test_a_file_over_the_limit_fails(tmp_path: Path) -> None:
    """The limit is named; a file of just that size is read."""
    path = write(tmp_path, "a.txt", "x" * 100)

    assert "larger than 99 bytes" in failure(path, max_bytes=99).reason
    assert loaded(path, max_bytes=100)


def test_a_document_too_long_for_a_message_fails(tmp_path: Path) -> None:
    """A document travels in one message; what it holds twice counts twice."""
    long = "word " * 500_000
    barely = write(tmp_path, "a.md", f"# Title\n\n{long}")
    far = write(tmp_path, "b.md", long * 2)

    assert "too long for one document" in failure(barely).reason
    assert "too long for one document" in failure(far).reason


def test_a_huge_line_is_cut(tmp_path: Path) -> None:
    """A megabyte without a space or a line end is one document of many chunks."""
    chunker = Chunker(lambda texts: [len(text) // 4 + 1 for text in texts])
    (document,) = load_documents([write(tmp_path, "a.md", "x" * 1_000_000)], chunker=chunker)

    assert isinstance(document, LoadedDocument)
    assert sum(len(chunk.content) for chunk in document.draft.chunks) == 1_000_000


def test_tags_of_the_run_join_those_of_the_document(tmp_path: Path) -> None:
    """Given tags protect documents without any; of two ACLs the tags that both have remain, in every format."""
    front = "---\nacl: [hr, it]\nlabels: [x]\nclearance: 1\n---\n"
    write(tmp_path, "plain.md")
    write(tmp_path, "public.md", "---\nacl: []\n---\nText.")
    write(tmp_path, "r.jsonl", record(_id="r", acl=["it", "hr"], labels=["x"], clearance=1))
    for name in ("m.md", "t.txt", "s.rst", "toml.md"):
        write(tmp_path, name, front + "Text.")
    documents = loaded(tmp_path, tags=DocumentTags(("all", "hr"), ("y",), 2))

    found = {name: document.draft.tags for name, document in documents.items()}
    given = DocumentTags(("all", "hr"), ("y",), 2)
    both = DocumentTags(("hr",), ("x", "y"), 2)
    assert found.pop("plain.md") == found.pop("public.md") == given
    assert found == dict.fromkeys(("r", "m.md", "t.txt", "s.rst", "toml.md"), both)


def test_acls_without_a_common_tag_fail_alone(tmp_path: Path) -> None:
    """Such a document would be public or open itself; it fails with both lists, its neighbours are loaded."""
    write(tmp_path, "a.md", "---\nacl: [tenant-b]\n---\nText.")
    write(tmp_path, "b.md")
    write(tmp_path, "c.jsonl", record(_id="c", acl=["tenant-c"]))
    outcomes = list(load_documents([tmp_path], chunker=CHUNKER, tags=DocumentTags(("tenant-a",))))
    failed = [one for one in outcomes if isinstance(one, LoadFailure)]

    assert [one.document_id for one in failed] == ["a.md", "c"]
    assert len(outcomes) == 3
    assert all("'tenant-a'" in one.reason for one in failed)
    assert "'tenant-b'" in failed[0].reason
    assert "'tenant-c'" in failed[1].reason


def record(**fields: Any) -> str:
    return json.dumps({"_id": "1", "text": "Some text."} | fields)


def test_records_are_documents(tmp_path: Path) -> None:
    """Records state their ids; an integer becomes its digits; blank lines are ignored."""
    lines = [
        record(_id="a", title="T", metadata={"url": "https://example.org/a", "n": [1, None]}),
        "",
        record(_id=7, acl=["x"], labels=["y"], clearance=3, metadata=None, title=None),
    ]
    path = write(tmp_path, "in/c.jsonl", b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    documents = loaded(path.parent)
    a, seven = documents["a"].draft, documents["7"].draft

    assert (a.title, a.source_file, a.source_url) == ("T", "c.jsonl", "https://example.org/a")
    assert a.metadata == {"url": "https://example.org/a", "n": [1, None]}
    assert a.chunks[0].embed_text == "T\nSome text."
    assert seven.tags == DocumentTags(("x",), ("y",), 3)
    assert seven.source_url == "c.jsonl#7"
    assert seven.chunks[0].heading == "Some text."


def test_a_record_with_a_title_only_is_its_title(tmp_path: Path) -> None:
    """Collections hold records without a text; they can be found by their title."""
    draft = loaded(write(tmp_path, "c.jsonl", record(title="A title", text="")))["1"].draft

    assert [chunk.content for chunk in draft.chunks] == ["A title"]


def test_a_record_without_any_text_is_skipped(tmp_path: Path) -> None:
    """Like an empty file."""
    outcome = only(write(tmp_path, "c.jsonl", record(text=" \n", title="")))

    assert isinstance(outcome, Skipped)
    assert outcome.path.endswith("c.jsonl:1")


MALFORMED = {
    "{not json": "not JSON",
    '{"_id": "1", "text": "x"} trailing': "not JSON",
    "[1, 2]": "not an object",
    '"text"': "not an object",
    '{"text": "x"}': "_id is missing",
    '{"_id": "1"}': "text is missing",
    record(text=None): "text is not a string",
    record(text=["x"]): "text is not a string",
    record(_id=""): "_id is blank",
    record(_id=True): "_id must be text",
    record(_id=1.5): "_id must be text",
    record(_id=None): "_id must be text",
    record(_id="a\0"): "NUL",
    record(_id="i" * 1025): "longer than 1,024",
    record(text="a\0b"): "NUL",
    record(text="\ud800"): "surrogate",
    record(title=["x"]): "title must be text",
    record(title="\udc00"): "surrogate",
    record(metadata=[1]): "metadata must be an object",
    record(metadata={"a": "\0"}): "NUL",
    record(metadata={"a": 2**70}): "64 bits",
    record(metadata={"acl": ["x"]}): "has no effect",
    record(acl="finance"): "acl must be a list",
    record(acl=None): "acl must be a list",
    record(acl={"finance": 1}): "acl must be a list",
    record(acl=[""]): "non-empty",
    record(acl=[1]): "non-empty",
    record(acl=["a\0"]): "NUL",
    record(labels="x"): "labels must be a list",
    record(clearance="1"): "clearance must be",
    record(clearance=True): "clearance must be",
    record(clearance=-1): "clearance must be",
    record(clearance=1.0): "clearance must be",
    record(clearance=2**31): "clearance must be",
    record(ACL=["x"]): "not the name of a tag",
    '{"_id": "1", "text": "x", "acl": ["finance"], "acl": []}': "'acl' twice",
    '{"_id": "1", "text": "x", "metadata": {"a": NaN}}': "NaN",
    '{"_id": "1", "text": "x", "metadata": {"a": 1e999}}': "inf",
    '{"_id": "1", "text": "x", "metadata": {"a": ' + "9" * 5000 + "}}": "not JSON",
    '{"_id": "1", "text": "x", "metadata": ' + '{"a":' * 40 + "1" + "}" * 41: "nested",
    "[" * 100_000: "nested",
}


@pytest.mark.parametrize(("line", "reason"), MALFORMED.items(), ids=MALFORMED.values())
def test_an_invalid_record_does_not_affect_others(tmp_path: Path, line: str, reason: str) -> None:
    """File and line are named, and the reason; the records around it are read."""
    path = write(tmp_path, "c.jsonl", "\n".join([record(_id="b"), line, record(_id="c")]))
    before, bad, after = load_documents([path], chunker=CHUNKER)

    assert isinstance(before, LoadedDocument)
    assert isinstance(after, LoadedDocument)
    assert isinstance(bad, LoadFailure)
    assert bad.path == f"{path}:2"
    assert reason in bad.reason
    assert "\n" not in bad.reason


def test_invalid_utf8_fails_its_record(tmp_path: Path) -> None:
    """Other records of the file are read."""
    path = write(tmp_path, "c.jsonl", b'{"_id": "1", "text": "\xff"}\n' + record(_id="2").encode())
    bad, good = load_documents([path], chunker=CHUNKER)

    assert isinstance(bad, LoadFailure)
    assert "not UTF-8" in bad.reason
    assert isinstance(good, LoadedDocument)


def test_a_file_in_another_encoding_fails_as_a_whole(tmp_path: Path) -> None:
    """One failure without an id, not one a line."""
    path = write(tmp_path, "c.jsonl", (record() + "\n").encode("utf-16"))
    outcome = failure(path)

    assert (outcome.path, outcome.document_id) == (str(path), None)
    assert "UTF-16" in outcome.reason


def test_an_id_given_twice_fails_the_second_time(tmp_path: Path) -> None:
    """Within a file and across files: the first stays, the second may carry other rights."""
    write(tmp_path, "a.jsonl", record(acl=["x"]) + "\n" + record(text="again"))
    write(tmp_path, "b.jsonl", record())
    first, second, third = load_documents([tmp_path], chunker=CHUNKER)

    assert isinstance(first, LoadedDocument)
    for outcome, place in ((second, "a.jsonl:2"), (third, "b.jsonl:1")):
        assert isinstance(outcome, LoadFailure)
        assert outcome.path.endswith(place)
        assert "a.jsonl already" in outcome.reason


def test_a_record_over_the_limit_does_not_affect_others(tmp_path: Path) -> None:
    """A line is read up to the limit only."""
    lines = [record(_id="a"), record(_id="b", text="x" * 500), record(_id="c")]
    path = write(tmp_path, "c.jsonl", "\n".join(lines))
    first, second, third = load_documents([path], chunker=CHUNKER, max_bytes=100)

    assert isinstance(first, LoadedDocument)
    assert isinstance(second, LoadFailure)
    assert (second.path, third.draft.document_id) == (f"{path}:2", "c")  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_long_file_of_records_is_streamed(tmp_path: Path) -> None:
    """A file of records is loaded with a small part of it in memory."""
    path = tmp_path / "c.jsonl"
    with path.open("w") as out:
        out.writelines(record(_id=n, text="some words " * 180) + "\n" for n in range(1_000))
    size = path.stat().st_size
    tracemalloc.start()
    count = sum(1 for _ in load_documents([path], chunker=CHUNKER))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size > 1_900_000
    assert count == 1_000
    assert peak < size / 3


def draft(**changes: Any) -> DocumentDraft:
    chunk = ChunkDraft(content="Text.", start=0, end=5, heading="H", section_path="H")
    return replace(DocumentDraft(document_id="d", chunks=(chunk,), title="T"), **changes)


def test_tags_and_places_are_not_part_of_the_content_hash() -> None:
    """Changing tags does not require embedding, nor do lines that moved in the file."""
    moved = (Place(char_start=0, line_start=4, line_end=4),)
    assert content_hash(draft(places=moved)) == content_hash(draft())
    assert content_hash(draft(tags=DocumentTags(("x",)))) == content_hash(draft())
    assert content_hash(draft(digest="old")) == content_hash(draft())


@pytest.mark.parametrize(
    "changes",
    [
        {"document_id": "e"},
        {"title": "U"},
        {"source_file": "f"},
        {"source_url": "u"},
        {"metadata": {"a": 1}},
        {"chunks": ()},
        {"chunks": (ChunkDraft(content="Text.", start=0, end=5, heading="H", section_path="G"),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_all_other_fields_are_part_of_the_content_hash(changes: dict[str, Any]) -> None:
    """Any change of what is stored is a new digest."""
    assert content_hash(draft(**changes)) != content_hash(draft())


def test_the_order_of_metadata_does_not_matter() -> None:
    """Equal documents have equal digests."""
    one, other = draft(metadata={"a": 1, "b": 2}), draft(metadata={"b": 2, "a": 1})

    assert content_hash(one) == content_hash(other)


def test_other_settings_of_the_chunker_are_a_change(tmp_path: Path) -> None:
    """A document with other chunks is stored again."""
    path = write(tmp_path, "a.md", "One sentence here. " * 40)
    small = Chunker(words, max_tokens=32, overlap_tokens=0)
    (other,) = load_documents([path], chunker=small)

    assert isinstance(other, LoadedDocument)
    assert other.draft.digest != loaded(path)["a.md"].draft.digest
