"""E-books, saved pages and notebooks: their text, its order and places, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.office import archive
from whence.ingest.sources import SourceFile, suffix_of
from whence.schema.errors import BadInput
from whence.schema.places import place_of

CONTAINER = '<container><rootfiles><rootfile full-path="book/a.opf"/></rootfiles></container>'
PACKAGE = """\
<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The Mill</dc:title><dc:creator>Ida Kern</dc:creator><dc:creator>Jo Bell</dc:creator>
<dc:date>2021-05-06</dc:date></metadata><manifest>
<item id="toc" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="text/two.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one%20.xhtml" media-type="application/xhtml+xml"/>
<item id="end" href="text/notes.xhtml" media-type="application/xhtml+xml"/>
<item id="pic" href="a.png" media-type="image/png"/></manifest>
<spine><itemref idref="toc"/><itemref idref="end" linear="no"/><itemref idref="one"/><itemref idref="two"/></spine>
</package>"""


def chapter(body: str) -> str:
    return f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>{body}</body></html>'


PARTS = {
    "META-INF/container.xml": CONTAINER,
    "book/a.opf": PACKAGE,
    "book/toc.xhtml": chapter('<nav><ol><li><a href="text/one%20.xhtml">The wheel</a></li></ol></nav>'),
    "book/text/one .xhtml": chapter(
        '<p id="p">It turns<a epub:type="noteref" href="notes.xhtml#n">1</a> <a id="z"/>daily.</p><img src="a.png"/>'
    ),
    "book/text/two.xhtml": chapter('<h1 id="h">The race</h1><p>Water.</p>'),
    "book/text/notes.xhtml": chapter(
        '<h2>Notes</h2><aside id="n"><p>1. Of oak. <a href="one%20.xhtml#p">\u21a9</a></p></aside>'
    ),
}  # fmt: skip


def book(**changes: str) -> bytes:
    """Return a book; `changes` replace or add parts, their names with `_` for `/` as in `book_a.opf`."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (PARTS | changes).items():
            archive.writestr(name, text)
    return data.getvalue()


def parsed(name: str, data: bytes) -> ParsedDocument:
    file = SourceFile(path=name, document_id=name, suffix=suffix_of(name))
    return detect_loader(loader_for(file), data).parse(file, data)


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    return json.dumps({"nbformat": 4, "metadata": metadata, "cells": cells}).encode()


def test_a_book_has_its_chapters_in_order() -> None:
    """Chapters follow the spine; one without a heading has its title of the contents."""
    document = parsed("a.epub", book())

    assert document.text == (
        "The wheel\n\nIt turns[1] daily.\n\nNote 1: Of oak.\n\nThe race\n\nWater."
    )
    assert (document.title, document.date) == ("The Mill", "2021-05-06")
    assert document.metadata["author"] == "Ida Kern, Jo Bell"
    assert document.left_out == {"pictures": 1}


def test_places_of_a_book_name_the_chapter() -> None:
    """An anchor is the path of a chapter in the book, with the id of an element; a note keeps its own."""
    document = parsed("a.epub", book())
    found = [
        place.anchor
        for word in ("wheel", "daily", "oak", "Water")
        for at in [document.text.index(word)]
        if (place := place_of(document.places, at, at + len(word)))
    ]

    assert found == [
        "book/text/one .xhtml",
        "book/text/one .xhtml#p",
        "book/text/notes.xhtml#n",
        "book/text/two.xhtml#h",
    ]


def test_titles_of_an_older_book_are_read() -> None:
    """EPUB 2 has the titles of chapters in an NCX."""
    ncx = (
        '<ncx><navMap><navPoint><navLabel><text>Old wheel</text></navLabel><content src="text/one%20.xhtml#p"/>'
        "</navPoint></navMap></ncx>"
    )
    older = PACKAGE.replace(
        '<item id="toc" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav"/>',
        '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>',
    )

    document = parsed("a.epub", book(**{"book/a.opf": older, "book/toc.ncx": ncx}))

    assert document.text.startswith("Old wheel\n\nIt turns")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"META-INF/encryption.xml": "<e><EncryptedData><EncryptionMethod Algorithm='x:aes'/></EncryptedData></e>"}, "DRM"),
        ({"book/a.opf": '<!DOCTYPE p [<!ENTITY a "aaaa">]><package>&a;</package>'}, "entities"),
        ({"book/a.opf": "<package>"}, "not a readable EPUB"),
        ({"book/a.opf": "<package/>"}, "no part with text"),
        ({"META-INF/container.xml": "<container/>"}, "not a readable EPUB"),
    ],
)  # fmt: skip
def test_a_book_that_cannot_be_read_says_why(changes: dict[str, str], reason: str) -> None:
    """An encrypted or damaged book, or one whose package may grow without end, is refused with the reason."""
    with pytest.raises(BadInput, match=reason):
        parsed("a.epub", book(**changes))


def test_fonts_of_a_book_may_be_obscured() -> None:
    """Encryption of fonts alone is none of the text."""
    fonts = "<e><EncryptedData><EncryptionMethod Algorithm='http://www.idpf.org/2008/embedding'/></EncryptedData></e>"

    assert "Water." in parsed("a.epub", book(**{"META-INF/encryption.xml": fonts})).text


def test_a_book_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts together have a limit, whatever sizes the archive states."""
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 100_000)
    chapters = {"book/text/two.xhtml": chapter("<p>a</p>" * 20_000)}

    with pytest.raises(BadInput, match="unpacks to more than 100,000 bytes"):
        parsed("a.epub", book(**chapters))


def test_a_saved_page_is_read() -> None:
    """The page is read in the encoding of its part; its address is where it was saved from."""
    saved = (
        b"From: <Saved by Blink>\nSnapshot-Content-Location: https://example.org/p\nSubject: =?utf-8?Q?Caf=C3=A9s?=\n"
        b'MIME-Version: 1.0\nContent-Type: multipart/related; type="text/html"; boundary="B"\n\n'
        b"--B\nContent-Type: text/html; charset=windows-1252\nContent-Transfer-Encoding: quoted-printable\n\n"
        b'<body><nav>Home</nav><p>Caf=E9 <del>40</del> 55 euro <img src=3D"cid:x"></p></body>\n'
        b"--B\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\naGFsbG8=\n"
        b"--B\nContent-Type: text/html\n\n<p>A frame.\n--B--\n"
    )

    document = parsed("a.mhtml", saved)

    assert document.text == "Caf\u00e9 55 euro"
    assert (document.title, document.source_url) == ("Caf\u00e9s", "https://example.org/p")
    assert document.left_out == {"struck passages": 1, "pictures": 1}


@pytest.mark.parametrize(
    "data", [b"Some text.", b"MIME-Version: 1.0\nContent-Type: text/plain\n\nText."]
)
def test_what_is_no_saved_page_says_so(data: bytes) -> None:
    """A file without a page in it is refused."""
    with pytest.raises(BadInput, match="no part with HTML"):
        parsed("a.mht", data)


def test_a_notebook_has_text_code_and_outputs() -> None:
    """Cells follow in order; of outputs their text and tables are read, pictures are counted."""
    outputs = [
        {"output_type": "stream", "text": ["1\n", "\x1b[31mred\x1b[0m\n", "10%\r100%\n"]},
        {"output_type": "execute_result", "data": {"text/html": "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "text/plain": "a"}},
        {"output_type": "display_data", "data": {"image/png": "x", "text/plain": "<Figure size 1x1 with 1 Axes>"}},
        {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["File x", "raise"]},
    ]  # fmt: skip
    document = parsed(
        "a.ipynb",
        notebook(
            {"cell_type": "markdown", "source": ["# Mill\n", "\n", "~~No~~ Yes."]},
            {"cell_type": "code", "source": "x = 1\nx", "outputs": outputs},
            {"cell_type": "raw", "source": "Mill Lane\nAston"},
            language_info={"name": "python"},
        ),
    )

    assert document.text == (
        "Mill\n\nYes.\n\n```python\nx = 1\nx\n```\n\nOutput:\n\n```\n1\nred\n100%\n```\n\n"
        "Output:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nOutput:\n\n```\nValueError: bad\n```\n\nMill Lane\nAston"
    )
    assert document.title == "Mill"
    assert document.left_out == {"struck passages": 1, "pictures": 1}


def test_places_of_a_notebook_are_cells() -> None:
    """Each part has the number of its cell, whatever headings and pages are in it."""
    document = parsed(
        "a.ipynb",
        notebook(
            {"cell_type": "markdown", "source": "# A {#x}\n\nOne."},
            {"cell_type": "markdown", "source": "<p id=y>Two.</p>\n\nThree."},
        ),
    )
    found = {
        word: place.anchor
        for word in ("A", "One", "Three")
        for at in [document.text.index(word)]
        if (place := place_of(document.places, at, at + 1))
    }

    assert found == {"A": "cell-1", "One": "cell-1", "Three": "cell-2"}


def test_a_long_output_is_shortened() -> None:
    """The first and last lines of an output stay; how many are left out is counted."""
    printed = "".join(f"line {number}\n" for number in range(1000))
    document = parsed(
        "a.ipynb",
        notebook(
            {
                "cell_type": "code",
                "source": "x",
                "outputs": [{"output_type": "stream", "text": printed}],
            }
        ),
    )

    assert "line 0\n" in document.text
    assert "line 999" in document.text
    assert "line 500" not in document.text
    assert document.left_out["lines of output"] == 801


def test_an_older_notebook_is_read() -> None:
    """The third format has its cells in sheets, headings as cells, and outputs without `data`."""
    older = {
        "nbformat": 3,
        "metadata": {},
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": "Mill"},
                    {"cell_type": "code", "language": "python", "input": "x", "outputs": [{"output_type": "pyout", "text": "7"}]},
                ]
            }
        ],
    }  # fmt: skip

    document = parsed("a.ipynb", json.dumps(older).encode())

    assert document.text == "Mill\n\n```python\nx\n```\n\nOutput:\n\n```\n7\n```"


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"cells": 7}', b"{}", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_notebook_says_so(data: bytes) -> None:
    """A file that is not JSON, or has no cells, is refused with the reason."""
    with pytest.raises(BadInput):
        parsed("a.ipynb", data)


def test_a_damaged_chapter_is_counted() -> None:
    """The other chapters of a book are read."""
    data = bytearray(book())
    start = data.index(b"book/text/two.xhtml") + len("book/text/two.xhtml")
    data[start + 20 : start + 40] = b"\xff" * 20

    document = parsed("a.epub", bytes(data))

    assert "It turns[1] daily." in document.text
    assert document.left_out["parts"] == 1
