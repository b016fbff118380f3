"""Data, settings, logs and text of unknown kinds: lines as they are, records as rows, binary files named."""

from __future__ import annotations

from pathlib import Path

import pytest

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument, Skipped
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.sources import SourceFile, suffix_of
from whence.schema.errors import BadInput
from whence.schema.places import locate

CHUNKER = Chunker(lambda texts: [len(text.split()) for text in texts])


def parsed(name: str, data: str | bytes) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    raw = data.encode() if isinstance(data, str) else data
    return detect_loader(loader_for(file), raw).parse(file, raw)


def lines_of(document: ParsedDocument, words: str) -> tuple[int | None, int | None]:
    start = document.text.index(words)
    location = locate(document.places, start, start + len(words))
    return location.line_start, location.line_end


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.yaml", "db:\n  primary:\n    # the main one\n    port: 5432\n---\nother: &a [1, 2]\n"),
        ("a.toml", "[server]\nport = 8080  # open\n"),
        ("a.json", '{\n  // a comment\n  "server": {\n    "port": 8080\n  }\n}\n'),
        ("a.conf", "server {\n    listen 80;\n}\n"),
        ("a.sh", "#!/bin/sh\nif true; then\n    exit 3\nfi\n"),
        ("Dockerfile", "FROM python:3.11\nRUN make \\\n    setup\n"),
        ("a.rb", "class A\n  def fee\n    12\n  end\nend\n"),
    ],
)
def test_settings_and_scripts_stay_as_they_are(name: str, source: str) -> None:
    """The text is that of the file, comments and indents included, and places are its lines."""
    document = parsed(name, source)
    first, *_, last = source.rstrip("\n").split("\n")
    number = source.rstrip("\n").count("\n") + 1

    assert document.text == source
    assert lines_of(document, first) == (1, 1)
    at = source.rindex(last.strip())
    assert locate(document.places, at, at + 1).line_end == number


def test_a_passage_of_settings_has_the_keys_above_it() -> None:
    """A chunk that begins inside a section is embedded with its name and the keys that it is indented below."""
    items = "".join(f"    item{at}: value {at}\n" for at in range(300))
    document = parsed("a.yaml", f"shop:\n  prices:\n{items}")
    later = CHUNKER.split(document)[1:]
    sections = parsed("a.ini", "[database]\nport = 5432\n[web]\nport = 80\n")

    assert later
    assert all("shop:" in chunk.embed_text and "prices:" in chunk.embed_text for chunk in later)
    assert [block.path for block in sections.blocks] == [("database",), ("web",)]


def test_the_colors_of_a_log_are_left_out() -> None:
    """Escapes of a terminal are no text; lines stay lines."""
    document = parsed("a.log", "\x1b[31mERROR\x1b[0m disk full\n\x1b]0;title\x07INFO ok\n")

    assert document.text == "ERROR disk full\nINFO ok\n"
    assert lines_of(document, "INFO") == (2, 2)


@pytest.mark.parametrize("name", ["README", "LICENSE", "notes.unknown"])
def test_prose_without_a_known_suffix_is_read_as_text(name: str) -> None:
    """Wrapped lines of prose are joined, as in a text file."""
    text = "The harbour office keeps the keys of all sheds,\nand gives them out until noon on every day of work."

    assert parsed(name, text).text == text.replace("\n", " ")


def test_records_are_rows_as_they_are_written() -> None:
    """An array of flat objects is a table: numbers keep their digits, rows know their lines."""
    document = parsed(
        "a.json",
        '[\n  {"name": "Bolt", "price": 1.50, "size": {"unit": "mm", "length": 7}},\n'
        '  {"name": "Nut",\n   "price": 2, "tags": ["a", "b"]}\n]',
    )

    assert document.text == (
        "| name | price | size.unit | size.length | tags |\n|---|---|---|---|---|\n"
        "| Bolt | 1.50 | mm | 7 | |\n| Nut | 2 | |  | a, b |"
    )
    assert lines_of(document, "| Bolt") == (2, 2)
    assert lines_of(document, "| Nut") == (3, 4)


def test_one_long_line_of_json_is_written_out() -> None:
    """Objects become headings and `key: value`; of two members with one name none is lost."""
    filler = "word " * 120
    document = parsed(
        "a.json",
        '{"title": "Kiln", "price": {"amount": 1.0, "currency": "EUR"}, "price": 2, "parts":'
        f' [{{"no": 1, "name": "door"}}, {{"no": 2, "name": "lock"}}], "text": "{filler}"}}',
    )

    assert document.text.startswith(
        "title: Kiln\n\nprice\n\namount: 1.0\ncurrency: EUR\n\nprice: 2\n\n"
    )
    assert "parts\n\n| no | name |\n|---|---|\n| 1 | door |\n| 2 | lock |" in document.text


def test_xml_is_read_without_its_markup() -> None:
    """Elements alike are rows, attributes are cells, entities are characters; lines are those of the file."""
    document = parsed(
        "a.xml",
        '<?xml version="1.0"?>\n<catalog xmlns="urn:x"><title>H&#228;user &amp; more</title>\n'
        '<plant id="p1"><name>Bloodroot</name><price currency="EUR">2.40</price></plant>\n'
        '<plant id="p2"><name>Columbine</name><price currency="EUR">9.37</price></plant>\n'
        "<note>Some <b>bold</b> text.</note></catalog>",
    )

    assert document.text == (
        "catalog\n\ntitle: H\u00e4user & more\n\nplant\n\n"
        "| id | name | price | price.currency |\n|---|---|---|---|\n"
        "| p1 | Bloodroot | 2.40 | EUR |\n| p2 | Columbine | 9.37 | EUR |\n\nnote: Some bold text."
    )
    assert lines_of(document, "| p2") == (4, 4)
    assert lines_of(document, "Some bold") == (5, 5)


def test_xml_in_an_encoding_that_it_declares_is_read() -> None:
    """The parser reads the decoded text, whatever the declaration says."""
    source = '<?xml version="1.0" encoding="koi8-r"?><a><b>\u041f\u0440\u0430\u0432\u043e</b></a>'

    assert "\u041f\u0440\u0430\u0432\u043e" in parsed("a.xml", source.encode("koi8-r")).text
    assert "\u041f\u0440\u0430\u0432\u043e" in parsed("a.xml", source).text


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "defines the entity 'b'"),
        (
            "a.xml",
            '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
            "defines the entity",
        ),
        ("a.xml", "<a>" * 100_000, "nested more than"),
    ],
)
def test_hostile_xml_is_refused(name: str, source: str, reason: str) -> None:
    """No entity is expanded or fetched, and nesting has an end."""
    with pytest.raises(BadInput, match=reason):
        parsed(name, source)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.json", "[" * 100_000),
        ("a.json", '{"a":' * 100_000),
        ("a.json", '[{"a": 1}, {"b": '),
        ("a.xml", "<a><b>not closed</a>"),
        ("a.yaml", "a: &a [x]\nb: &b [*a, *a]\n" * 1000),
    ],
    ids=range(5),
)
def test_damaged_data_is_text(name: str, source: str) -> None:
    """What does not parse is read line by line; nothing of YAML is expanded."""
    assert parsed(name, source).text.strip() == source.strip()


def test_files_are_found_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a known suffix is read by its content, or skipped with what it is."""
    monkeypatch.setenv("PATH", "")
    files = {
        "README": b"A text.",
        "data.bin": bytes(range(256)) * 20,
        "mail-17": b"From: a@b\nTo: c@d\nSubject: Fee\n\nIt is 12 euro.",
        "page.saved": b"<!doctype html><p>A page.</p>",
        "photo.dat": b"\xff\xd8\xff\xe0 JFIF",
        "picture.png": b"\x89PNG",
        "song.mp3": b"ID3\4",
        "tool": b"\x7fELF\2\1\1",
        "archive.zip": b"PK\3\4",
        "~$plan.docx": b"lock",
        "Thumbs.db": b"x",
        ".hidden": b"x",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    results = list(load_documents([tmp_path], chunker=CHUNKER))
    read = {one.draft.document_id: one.kind for one in results if isinstance(one, LoadedDocument)}
    skipped = {one.document_id: one.reason for one in results if isinstance(one, Skipped)}

    assert read == {"README": "text", "mail-17": "mail", "page.saved": "HTML"}
    assert skipped == {
        "archive.zip": "an archive, unpack it first",
        "data.bin": "not text",
        "photo.dat": "a JPEG picture",
        "picture.png": "a picture; OCR, which would read its text, is not installed (Debian: tesseract-ocr)",
        "song.mp3": "a sound or a video",
        "tool": "a program",
    }
