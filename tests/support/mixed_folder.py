"""A folder of mixed files, each of which states one fact at a known place."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

from openpyxl import Workbook
from tests.support.office_files import archive, odf_file, office_file, relations, root, word_file
from tests.support.pdf_canvas import Canvas, canvas_pdf

_SYLLABLES = [
    one + vowel + end for one in "bdfgklmnprstvz" for vowel in "aeiou" for end in ("", "n", "r")
]
_FILLER = (
    "The committee met twice and agreed on the order of business.",
    "Deliveries arrive at the side door and are checked by two people.",
    "All rooms are aired in the morning and locked in the evening.",
)


class Fact(NamedTuple):
    """A fact of a file."""

    path: str
    name: str
    """What it is about; no other file has it."""
    word: str
    """What is said of it."""
    place: dict[str, Any]
    """Fields of the location of the words."""

    @property
    def sentence(self) -> str:
        """The fact as a sentence."""
        return f"The password of {self.name} is {self.word}."


_Made = tuple[bytes, dict[str, Any]]


def _lines(fact: Fact, begin: str = "") -> tuple[str, int]:
    """Return a text and the line of the fact in it."""
    lines = [*([begin, ""] if begin else []), _FILLER[0], "", fact.sentence, "", _FILLER[1]]
    return "\n".join(lines) + "\n", lines.index(fact.sentence) + 1


def _text(fact: Fact) -> _Made:
    text, line = _lines(fact)
    return text.encode(), {"line_start": line}


def _markdown(fact: Fact) -> _Made:
    text, line = _lines(fact, f"# Notes of {fact.name}")
    return text.encode(), {"line_start": line}


def _rst(fact: Fact) -> _Made:
    title = f"Notes of {fact.name}"
    return f"{title}\n{'=' * len(title)}\n\n{fact.sentence}\n".encode(), {"line_start": 4}


def _html(fact: Fact) -> _Made:
    page = f"<html><body><h1>Notes</h1><p>{_FILLER[0]}</p><h2 id='it'>Words</h2><p>{fact.sentence}</p></body></html>"
    return page.encode(), {"anchor": "it"}


def _mhtml(fact: Fact) -> _Made:
    message = EmailMessage()
    message["Subject"] = "Saved page"
    message.set_content(_html(fact)[0].decode(), subtype="html")
    return message.as_bytes(), {"anchor": "it"}


def _word(fact: Fact) -> _Made:
    body = "".join(
        f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in (_FILLER[0], fact.sentence)
    )
    return word_file(body), {}


def _pdf(fact: Fact) -> _Made:
    pages = [Canvas() for _ in range(3)]
    for number, page in enumerate(pages):
        words = [_FILLER[number], fact.sentence] if number == 1 else [_FILLER[number]]
        page.lines(72, 700, words)
    return canvas_pdf(pages), {"page": 2}


def _workbook(fact: Fact) -> _Made:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Budget"
    other = book.create_sheet("Words")
    sheet.append(["Item", "Sum"])
    sheet.append(["Paper", 12])
    other.append(["Name", "Password"])
    other.append(["Somebody", "nothing"])
    other.append([fact.name, fact.word])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue(), {"sheet": "Words", "row_start": 3}


def _table(separator: str) -> Callable[[Fact], _Made]:
    def made(fact: Fact) -> _Made:
        rows = [("Name", "Password"), ("Somebody", "nothing"), (fact.name, fact.word)]
        return "\n".join(map(separator.join, rows)).encode(), {"line_start": 3}

    return made


def _presentation(fact: Fact) -> _Made:
    def slide(words: str) -> str:
        text = f"<p:txBody><a:p><a:r><a:t>{words}</a:t></a:r></a:p></p:txBody>"
        shape = f'<p:sp><p:nvSpPr><p:cNvPr id="2"/><p:nvPr/></p:nvSpPr><p:spPr/>{text}</p:sp>'
        return root("p:sld", f"<p:cSld><p:spTree>{shape}</p:spTree></p:cSld>")

    slides = (_FILLER[0], _FILLER[1], fact.sentence)
    ids = "".join(f'<p:sldId r:id="s{at}"/>' for at in range(len(slides)))
    links = {f"s{at}": f"slide slides/s{at}.xml" for at in range(len(slides))}
    files: dict[str, str | bytes] = {
        f"ppt/slides/s{at}.xml": slide(words) for at, words in enumerate(slides)
    }
    files["ppt/slides/_rels/s0.xml.rels"] = relations()
    main = root("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>")
    return office_file("ppt/presentation.xml", main, links, files), {"slide": 3}


def _odt(fact: Fact) -> _Made:
    body = "".join(f"<text:p>{each}</text:p>" for each in (_FILLER[0], fact.sentence))
    return odf_file("text", body), {}


def _rtf(fact: Fact) -> _Made:
    return rf"{{\rtf1\ansi {_FILLER[0]}\par {fact.sentence}\par }}".encode(), {}


def _mail(fact: Fact) -> _Made:
    message = EmailMessage()
    message["From"], message["To"] = "ida@example.org", "tom@example.org"
    message["Subject"], message["Date"] = f"About {fact.name}", "Tue, 03 Mar 2026 09:30:00 +0000"
    message["Message-ID"] = f"<{fact.name}@example.org>"
    message.set_content(f"{_FILLER[0]}\n\n{fact.sentence}\n")
    return message.as_bytes(), {"message": "2026-03-03"}


def _book(fact: Fact) -> _Made:
    page = f"<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>One</h1><p>{fact.sentence}</p></body></html>"
    package = (
        "<package xmlns='http://www.idpf.org/2007/opf' version='3.0'><metadata"
        " xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:title>Book</dc:title></metadata><manifest><item id='c'"
        " href='one.xhtml' media-type='application/xhtml+xml'/></manifest><spine><itemref idref='c'/></spine></package>"
    )
    container = (
        "<container xmlns='urn:oasis:names:tc:opendocument:xmlns:container' version='1.0'><rootfiles><rootfile"
        " full-path='book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>"
    )
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
    return archive({**parts, "book.opf": package, "one.xhtml": page}), {}


def _notebook(fact: Fact) -> _Made:
    cells = [
        {"cell_type": "code", "source": "x = 1", "outputs": [], "metadata": {}},
        {"cell_type": "markdown", "source": fact.sentence, "metadata": {}},
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    return json.dumps(notebook).encode(), {"anchor": "cell-2"}


def _json(fact: Fact) -> _Made:
    entry = {"name": fact.name, "password": fact.word}
    return json.dumps({"title": "Notes", "entry": entry}, indent=2).encode(), {}


def _yaml(fact: Fact) -> _Made:
    return f"title: Notes\nentry:\n  name: {fact.name}\n  password: {fact.word}\n".encode(), {}


def _toml(fact: Fact) -> _Made:
    return (
        f'title = "Notes"\n[entry]\nname = "{fact.name}"\npassword = "{fact.word}"\n'.encode(),
        {},
    )


def _xml(fact: Fact) -> _Made:
    return (
        f"<?xml version='1.0'?>\n<notes><note><text>{fact.sentence}</text></note></notes>\n".encode(),
        {},
    )


def _log(fact: Fact) -> _Made:
    lines = [
        f"2026-02-03 10:00:0{n} INFO {words}" for n, words in enumerate((_FILLER[0], fact.sentence))
    ]
    return "\n".join(lines).encode(), {"line_start": 2}


#: Formats by the end of a name; a name that begins with no dot is that of the file itself.
FORMATS: dict[str, Callable[[Fact], _Made]] = {
    ".md": _markdown, ".txt": _text, ".rst": _rst, ".html": _html, ".mhtml": _mhtml, ".docx": _word,
    ".pdf": _pdf, ".xlsx": _workbook, ".csv": _table(";"), ".tsv": _table("\t"), ".pptx": _presentation,
    ".odt": _odt, ".rtf": _rtf, ".eml": _mail, ".epub": _book, ".ipynb": _notebook, ".json": _json,
    ".yaml": _yaml, ".toml": _toml, ".xml": _xml, ".log": _log, ".conf": _text, ".unknown": _text,
    "README": _text, "Dockerfile": _text,
}  # fmt: skip


def write_mixed_folder(folder: Path, count: int, *, seed: int = 5) -> list[Fact]:
    """Write files of all formats in turn, and return the fact of each. The same seed writes the same bytes."""
    chance = random.Random(seed)
    names = _words(chance, 2 * count)
    facts: list[Fact] = []
    for number in range(count):
        kind = list(FORMATS)[number % len(FORMATS)]
        file = f"file-{number}{kind}" if kind.startswith(".") else kind
        path = f"folder-{number % 7}/{number}/{file}"
        fact = Fact(path, names[2 * number].capitalize(), names[2 * number + 1], {})
        data, place = FORMATS[kind](fact)
        whole = folder / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(data)
        facts.append(fact._replace(place=place))
    return facts


def _words(chance: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(chance.choices(_SYLLABLES, k=3))] = None
    return list(found)
