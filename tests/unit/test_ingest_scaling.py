"""What reading takes grows with the size of a document, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.document_bombs import BOMBS
from tests.support.documents import docx_file

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.decoding import MAX_LINES
from whence.ingest.document_builder import MAX_TEXT
from whence.ingest.loaders import html as html_loader
from whence.ingest.loaders import pdf as pdf_loader
from whence.ingest.pdf_pieces import Page, PageText, Piece
from whence.ingest.reading_process import read_document
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

#: Share of the attack's size at which a bomb is read here; the other reading is of twice the size.
SHARES = {
    "docx-cells": 0.002,
    "docx-paragraphs": 0.002,
    "docx-raised": 0.005,
    "html-comments": 0.005,
    "html-headings": 0.003,
    "html-inline": 0.03,
    "html-lists": 0.003,
    "html-nav": 0.005,
    "markdown-brackets": 0.01,
    "markdown-emphasis": 0.005,
    "markdown-headings": 0.001,
    "markdown-newlines": 0.0005,
    "markdown-quotes": 0.003,
    "odt-items": 0.005,
    "rst-different-sections": 0.01,
    "rst-items": 0.005,
    "rst-newlines": 0.0005,
    "rst-sections": 0.005,
    "csv-rows": 0.005,
    "csv-quotes": 0.005,
    "csv-cells": 0.001,
    "json-records": 0.003,
    "json-arrays": 0.003,
    "json-members": 0.003,
    "xml-elements": 0.003,
    "xml-attributes": 0.01,
    "xml-mixed": 0.005,
    "yaml-lines": 0.002,
    "mail-quotes": 0.003,
    "mail-fields": 0.003,
    "mail-words": 0.01,
    "text-unknown": 0.002,
    "rtf-cells": 0.002,
    "rtf-notes": 0.003,
    "sql-begin": 0.01,
    "sql-dollars": 0.01,
    "sql-semicolons": 0.003,
    "text-newlines": 0.001,
    "text-titles": 0.001,
    "cpp-parens": 0.02,
    "go-brackets": 0.02,
    "java-at": 0.02,
    "rust-bars": 0.02,
}


def parse(suffix: str, data: bytes) -> ParsedDocument:
    name = f"a{suffix}"
    return read_document(SourceFile(path=name, document_id=name, suffix=suffix), data)


def calls_of(work: Callable[[], object]) -> int:
    """Return the calls of functions that some work makes, those of C included."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", SHARES)
def test_twice_the_document_takes_about_twice_the_calls(name: str) -> None:
    """Less than three times; four times would be quadratic."""
    bomb = BOMBS[name]
    small, large = bomb.data(SHARES[name]), bomb.data(2 * SHARES[name])
    parse(bomb.suffix, small)
    once = calls_of(lambda: parse(bomb.suffix, small))
    assert calls_of(lambda: parse(bomb.suffix, large)) < 3 * once + 1000


def test_substitutions_that_name_one_another_are_made_once() -> None:
    """Eight levels of twenty names each do not become 25 billion words; one that names itself ends."""
    bomb = BOMBS["rst-substitutions"]
    narrow, wide = bomb.make(10), bomb.make(20)
    parse(".rst", narrow)
    once = calls_of(lambda: parse(".rst", narrow))
    assert calls_of(lambda: parse(".rst", wide)) < 3 * once
    assert len(parse(".rst", wide).text) <= 20_000

    shown = parse(".rst", b"|a| |b|\n\n.. |a| replace:: x |b|\n.. |b| replace:: y |a|\n")
    assert shown.text.startswith("x y")
    several = parse(".rst", b"|a| |a|\n\n.. |a| replace:: *so* ``it`` |c|\n.. |c| replace:: is\n")
    assert several.text == "so `it` is so `it` is"


@pytest.mark.parametrize("name", ["rst-ticks", "rst-stars"])
def test_a_very_long_paragraph_is_taken_without_markup(name: str) -> None:
    """Docutils would look for the end of each mark in all of the text behind it."""
    words = BOMBS[name].data(0.2).decode()
    assert parse(".rst", words.encode()).text == words.strip()
    assert parse(".rst", b"*a* " * 2_000).text == " ".join("a" * 2_000)


def test_closing_tags_without_an_element_close_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that stay open are counted before the parser, whose time is quadratic in them."""
    monkeypatch.setattr(html_loader, "refuse_deep", lambda _: pytest.fail("was parsed"))
    with pytest.raises(BadInput, match="leaves more than 4,096 elements open"):
        parse(".html", BOMBS["html-ruby"].data(0.2))


@pytest.mark.parametrize("name", ["html-attributes", "html-many-attributes"])
def test_many_attributes_are_refused_before_the_parser(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser compares each attribute of a tag with the others; text in comments and scripts is none."""
    good = " ".join(f'a{at}="<b>"' for at in range(1000))
    words = "word " * 2_000
    page = f"<p {good}>One</p><!-- <b {words}--><!--><script>if (1 <b {words}) </script><i>two</i>"
    assert parse(".html", page.encode()).text == "One\n\ntwo"
    monkeypatch.setattr(html_loader, "refuse_deep", lambda _: pytest.fail("was parsed"))
    with pytest.raises(BadInput, match="an element with more than 1,000 attributes"):
        parse(".html", BOMBS[name].data())


def test_links_in_many_open_brackets_are_text() -> None:
    """Links before and beside them are read; a bracket inside twenty open ones is a character."""
    text = parse(".md", f"[one](u) {'[' * 150}[two](u){']' * 150} [three](u)".encode()).text
    assert text == f"one {'[' * 150}[two](u){']' * 150} three"


def test_parsing_of_code_ends() -> None:
    """A grammar that finds no end is stopped, and the next file is read."""
    endless = (Path(__file__).parent.parent / "fuzz/corpus/typescript/endless.tsx").read_bytes()
    with pytest.raises(BadInput, match="too many steps"):
        parse(".tsx", endless)
    assert parse(".tsx", b"function f() {}\n").blocks[0].path == ("f",)


def test_paragraphs_that_announce_one_another_share_chunks() -> None:
    """Text ending in a colon stays with what follows, but a thousand of these are no thousand chunks."""
    count = Chunker(lambda texts: [len(text.split()) for text in texts])
    assert len(count.split(parse(".md", b"a:\n\n" * 1_000))) < 10


def test_lines_are_limited() -> None:
    """A text of blank lines is refused before a parser makes an object for each."""
    assert parse(".txt", b"\n" * MAX_LINES + b"x").text == "x"
    for suffix in (".md", ".rst", ".txt", ".py", ".sql"):
        with pytest.raises(BadInput, match="has more than 1,000,000 lines"):
            parse(suffix, b"\n" * (MAX_LINES + 1) + b"x")
    with pytest.raises(BadInput, match="has more than 1,000,000 lines"):
        parse(".txt", b"\r" * (MAX_LINES + 1))


def test_a_page_that_is_named_many_times_ends_with_the_longest_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pages are read until their text is longer than a document may be."""
    read = []
    text = PageText([Piece("word " * (MAX_TEXT // 50), 0, 10, 0, 10)], [], [], 1)
    page = Page([text], 0, 0, 0, 1, characters=MAX_TEXT // 10)
    monkeypatch.setattr(
        pdf_loader, "read_page", lambda _page, number, *_: read.append(number) or page
    )
    with pytest.raises(BadInput, match="has more than 4,194,304 characters of text"):
        parse(".pdf", BOMBS["pdf-one-page"].data())
    assert len(read) == 11


def test_empty_paragraphs_of_word_are_left_out() -> None:
    """The text is the same with thousands of them, in all forms, between and beside other paragraphs."""
    empty = '<w:p/><w:p w:rsidR="1"/><w:p></w:p><w:p w:x="2"></w:p>'
    words = "<w:p><w:r><w:t>One.</w:t></w:r></w:p>{0}<w:p><w:r><w:t>Two.</w:t></w:r></w:p>{0}"
    cells = f"<w:tbl><w:tr><w:tc>{words}</w:tc><w:tc>{{0}}</w:tc></w:tr></w:tbl>"
    few, many = ((words + cells).format(empty * count) for count in (1, 500))
    assert parse(".docx", docx_file(many)).text == parse(".docx", docx_file(few)).text != ""
