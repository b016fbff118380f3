"""Documents that are small on disk and costly to read, each made in memory when asked for.

`BOMBS` names them; a bomb of another size shows how the cost grows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tests.support.documents import docx_file, pdf_file
from tests.support.office_files import odf_file

_MIB: Final = 2**20


class Bomb(NamedTuple):
    """A document: the suffix of its file, its size in what it repeats, and how it is made from that."""

    suffix: str
    size: int
    make: Callable[[int], bytes]

    def data(self, share: float = 1.0) -> bytes:
        """Return the document, or one that repeats a share as often."""
        return self.make(int(self.size * share))


def _pdf(stream: bytes, filters: bytes = b"", pages: int = 1) -> bytes:
    """Return a PDF whose one page has this content; the tree of pages names it `pages` times."""
    kids = b" ".join([b"4 0 R"] * pages)
    entry = b"/Filter [%b]" % filters if filters else b""
    return pdf_file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count %d/Kids[%b]>>" % (pages, kids),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>>>>>",
            b"<</Length %d%b>>stream\n%b\nendstream" % (len(stream), entry, stream),
            b"<<>>",
        ]
    )


def _deflated_twice(mebibytes: int) -> bytes:
    """Return a PDF whose page is as many MiB of spaces, deflated and deflated again."""
    packer = zlib.compressobj(9)
    block = b" " * _MIB
    once = b"".join([*(packer.compress(block) for _ in range(mebibytes)), packer.flush()])
    return _pdf(zlib.compress(once, 9), b"/FlateDecode/FlateDecode")


def _one_page_many_times(pages: int) -> bytes:
    lines = b"".join(b"(word of a line %d) Tj T* " % at for at in range(400))
    return _pdf(b"BT /F 10 Tf 12 TL 50 780 Td %bET" % lines, pages=pages)


def _repeated(piece: str, *, before: str = "", after: str = "") -> Callable[[int], bytes]:
    """Return what repeats a piece between two others; `%d` in it is the number of the repetition."""

    def make(count: int) -> bytes:
        inner = "".join(piece % at for at in range(count)) if "%d" in piece else piece * count
        return f"{before}{inner}{after}".encode()

    return make


def _code(suffix: str, piece: str, before: str = "") -> Bomb:
    return Bomb(suffix, 600_000 // len(piece), _repeated(piece, before=before))


def _substitutions(width: int) -> bytes:
    """Return reStructuredText of eight substitutions, each of which names the next one `width` times."""
    lines = [f".. |s{at}| replace:: {f'|s{at + 1}| ' * width}" for at in range(8)]
    return "\n".join(["|s0|", "", *lines, ".. |s8| replace:: word", ""]).encode()


_CELL = "<w:tc><w:tcPr><w:gridSpan w:val='63'/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"
_RAISED = "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>x</w:t></w:r><w:r><w:t>y</w:t></w:r>"
_ODF_ITEM = "<text:list-item><text:p>x</text:p></text:list-item>"
#: By name. The sizes are those of an attack: each took 10 s or a gigabyte, or more, when it was found.
BOMBS: Final[Mapping[str, Bomb]] = {
    "docx-paragraphs": Bomb(".docx", 2_500_000, lambda count: docx_file("<w:p/>" * count)),
    "docx-cells": Bomb(
        ".docx", 100_000, lambda count: docx_file(f"<w:tbl><w:tr>{_CELL * count}</w:tr></w:tbl>")
    ),
    "docx-raised": Bomb(".docx", 100_000, lambda count: docx_file(f"<w:p>{_RAISED * count}</w:p>")),
    "odt-items": Bomb(
        ".odt",
        100_000,
        lambda count: odf_file("text", f"<text:list>{_ODF_ITEM * count}</text:list>"),
    ),
    "rtf-cells": Bomb(".rtf", 400_000, _repeated(r"\intbl a\cell\row", before=r"{\rtf1 ")),
    "rtf-notes": Bomb(".rtf", 200_000, _repeated(r"{\footnote a}", before=r"{\rtf1 ")),
    "pdf-deflated-twice": Bomb(".pdf", 1_700, _deflated_twice),
    "pdf-one-page": Bomb(".pdf", 5_000, _one_page_many_times),
    "html-ruby": Bomb(".html", 40_000, _repeated("<rb></i>")),
    "html-formatting": Bomb(".html", 60_000, _repeated("<p><b></p>")),
    "html-links": Bomb(".html", 60_000, _repeated("<a><div>")),
    "html-attributes": Bomb(".html", 60_000, _repeated(" a%d", before="<p", after=">x</p>")),
    "html-many-attributes": Bomb(
        ".html",
        4_000,
        _repeated("<p><i>x", before=f"<font {' '.join(f'a{at}' for at in range(4096))}>"),
    ),
    "html-nav": Bomb(
        ".html", 4 * _MIB // 11, _repeated("<div></div>", before="<nav>", after="</nav>x")
    ),
    "html-lists": Bomb(
        ".html", 300_000, _repeated("<ul><li><a>x</a></li></ul>", before="<article>")
    ),
    "html-headings": Bomb(".html", 4 * _MIB // 12, _repeated("<h1>a</h1>\n")),
    "html-inline": Bomb(".html", 3_000, _repeated("<i>x<b>y</b>" * 20 + "</i>" * 20)),
    "html-comments": Bomb(".html", 400_000, _repeated("<!-- -->\n")),
    "markdown-newlines": Bomb(".md", 16 * _MIB - 1, _repeated("\n", after="x")),
    "markdown-headings": Bomb(".md", _MIB, _repeated("# a\n")),
    "markdown-brackets": Bomb(".md", 500_000, _repeated("[")),
    "markdown-links": Bomb(".md", 100_000, _repeated("[a](")),
    "markdown-emphasis": Bomb(".md", 200_000, _repeated("*a _")),
    "markdown-ticks": Bomb(".md", 2_000, lambda n: b" ".join(b"`" * at for at in range(n))),
    "markdown-quotes": Bomb(".md", 100_000, _repeated("> " * 60 + "\n")),
    "markdown-tables": Bomb(
        ".md", 20_000, _repeated("|", before="a|b\n-|-\n", after="\n" + "|" * 9)
    ),
    "text-newlines": Bomb(".txt", 16 * _MIB - 1, _repeated("\n", after="x")),
    "text-titles": Bomb(".txt", 700_000, _repeated("a\n===\n")),
    "rst-newlines": Bomb(".rst", 16 * _MIB - 1, _repeated("\n", after="x")),
    "rst-sections": Bomb(".rst", 500_000 // 8, _repeated("aaa\n===\n")),
    "rst-different-sections": Bomb(".rst", 30_000, _repeated("a%d\n======\n\nx\n\n")),
    "rst-substitutions": Bomb(".rst", 20, _substitutions),
    "rst-items": Bomb(".rst", 100_000, _repeated("- a\n")),
    "rst-ticks": Bomb(".rst", 100_000, _repeated("`a ")),
    "rst-stars": Bomb(".rst", 100_000, _repeated("*a ")),
    "rust-less": _code(".rs", "a<"),
    "rust-bars": _code(".rs", "|"),
    "rust-turbofish": _code(".rs", "a::<"),
    "go-brackets": _code(".go", "[", "package p\nvar a "),
    "go-parens": _code(".go", "func(", "package p\nvar a = "),
    "go-tokens": _code(".go", "a<", "package p\nvar a = "),
    "cpp-less": _code(".cpp", "a<"),
    "cpp-parens": _code(".cpp", "("),
    "cpp-stars": _code(".cpp", "*"),
    "java-less": _code(".java", "a<"),
    "java-parens": _code(".java", "("),
    "java-at": _code(".java", "@a "),
    "python-parens": _code(".py", "("),
    "csharp-less": _code(".cs", "a<"),
    "c-parens": _code(".c", "("),
    "js-parens": _code(".js", "("),
    "js-less": _code(".js", "a<"),
    "ts-less": _code(".ts", "a<"),
    "csv-rows": Bomb(".csv", 300_000, _repeated("a,%d\n")),
    "csv-quotes": Bomb(".csv", 300_000, _repeated('a,"b\n')),
    "csv-cells": Bomb(".csv", 2_000_000, _repeated("a,", after="\n1,2\n")),
    "json-records": Bomb(
        ".json", 300_000, _repeated('{"a": %d},\n', before="[", after='{"a": 1}]')
    ),
    "json-arrays": Bomb(".json", 500_000, _repeated("[1],", before="[", after="1]")),
    "json-members": Bomb(
        ".json", 300_000, _repeated('"k%d": {"a": 1}, ', before="{", after='"b": 1}')
    ),
    "xml-elements": Bomb(".xml", 500_000, _repeated("<b>x</b>", before="<a>", after="</a>")),
    "xml-attributes": Bomb(".xml", 100_000, _repeated(" a%d='1'", before="<a", after="/>")),
    "xml-mixed": Bomb(".xml", 300_000, _repeated("x<b/>", before="<a>", after="</a>")),
    "yaml-lines": Bomb(".yaml", 500_000, _repeated("  a: 1\n")),
    "mail-quotes": Bomb(".eml", 300_000, _repeated("a:\n\n> b\n", before="Subject: x\n\n")),
    "mail-fields": Bomb(".eml", 300_000, _repeated("X-%d: y\n", after="\nx")),
    "mail-words": Bomb(
        ".eml", 100_000, _repeated("=?utf-8?Q?a?= ", before="Subject: ", after="\n\nx")
    ),
    "text-unknown": Bomb("", 1_000_000, _repeated("a b\n")),
    "sql-begin": Bomb(".sql", 100_000, _repeated("begin ")),
    "sql-semicolons": Bomb(".sql", 200_000, _repeated("create procedure p as begin x; ")),
    "sql-dollars": Bomb(".sql", 100_000, _repeated("$a%d$ ")),
}
