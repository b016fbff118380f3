"""Read files for the bench, one named on each line of the standard input; print one JSON object for each.

    python benchmarks/fidelity/reading.py whence|markitdown|docling|expected

`whence`, `markitdown` and `docling` print `{"text": ...}`, or `{}` for a format that is not tried. `expected`
prints what a library of the format reads:
`{"words": TEXT, "tables": [[[CELL, ...], ...], ...], "hidden": [TEXT, ...]}`. A file that cannot be read has
`{"error": ...}`. Imports stand where they are needed: each reader has an environment of its own.
"""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import logging
import re
import sys
from collections import Counter
from pathlib import Path


def whence(path):
    """Read a file as `whence index` does."""
    from whence.ingest.loader_registry import loader_for
    from whence.ingest.sources import SourceFile

    file = SourceFile(path=str(path), document_id=path.name, suffix=path.suffix)
    return {"text": loader_for(file).parse(file, path.read_bytes()).text}


def markitdown(path):
    """Read a file by markitdown, with its defaults."""
    from markitdown import MarkItDown

    return {"text": MarkItDown().convert(str(path)).text_content}


def docling(path):
    """Read a file by docling's reader of its format; that of PDFs needs torch and models, and is not tried."""
    from docling.backend.html_backend import HTMLDocumentBackend
    from docling.backend.md_backend import MarkdownDocumentBackend
    from docling.backend.msexcel_backend import MsExcelDocumentBackend
    from docling.backend.mspowerpoint_backend import MsPowerpointDocumentBackend
    from docling.backend.msword_backend import MsWordDocumentBackend
    from docling.backend.opendocument_backend import (
        OdpDocumentBackend,
        OdsDocumentBackend,
        OdtDocumentBackend,
    )
    from docling.datamodel.base_models import InputFormat
    from docling.datamodel.document import InputDocument

    backends = {
        "docx": MsWordDocumentBackend,
        "pptx": MsPowerpointDocumentBackend,
        "xlsx": MsExcelDocumentBackend,
        "html": HTMLDocumentBackend,
        "md": MarkdownDocumentBackend,
        "odt": OdtDocumentBackend,
        "odp": OdpDocumentBackend,
        "ods": OdsDocumentBackend,
    }
    kind = path.suffix[1:]
    if kind not in backends:
        return {}
    source = InputDocument(
        path_or_stream=path, format=InputFormat(kind), backend=backends[kind], filename=path.name
    )
    return {"text": source._backend.convert().export_to_markdown()}


def expected(path):
    """Read what is expected by a library of the format."""
    return {"tables": [], "hidden": []} | LIBRARIES[path.suffix](path)


def _docx(path):  # noqa: C901 - one walk over what a document nests
    import docx
    from docx.table import Table

    words, tables, hidden = [], [], []

    def paragraph(each):
        for run in each.runs:
            gone = run.font.hidden or run.font.strike or run.font.double_strike
            if gone:
                hidden.append(run.text)
        return "".join(
            run.text
            for item in each.iter_inner_content()
            for run in getattr(item, "runs", [item])
            if not (run.font.hidden or run.font.strike or run.font.double_strike)
        )

    def blocks(holder):
        for block in holder.iter_inner_content():
            if not isinstance(block, Table):
                words.append(paragraph(block))
                continue
            has_tables = any(cell.tables for row in block.rows for cell in row.cells)
            rows = []
            for row in block.rows:
                cells, seen = [], set()
                for cell in row.cells:
                    if id(cell._tc) not in seen:
                        seen.add(id(cell._tc))
                        cells.append("\n".join(paragraph(each) for each in cell.paragraphs))
                        words.append(cells[-1])
                        for inner in cell.tables:
                            words.extend(own.text for line in inner.rows for own in line.cells)
                rows.append(cells)
            # A frame of one cell is no table.
            if not has_tables and len(rows) + len(rows[0]) > 2:
                tables.append(rows)

    blocks(docx.Document(str(path)))
    return {"words": "\n".join(words), "tables": tables, "hidden": hidden}


def _pptx(path):
    import pptx

    words, tables = [], []

    def shapes(holder):
        for shape in holder:
            if getattr(shape, "shapes", None) is not None:
                shapes(shape.shapes)
            elif getattr(shape, "has_table", False) and shape.has_table:
                rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
                tables.append(rows)
                words.extend(cell for row in rows for cell in row)
            elif shape.has_text_frame and "SLIDE_NUMBER" not in str(
                shape.placeholder_format.type if shape.is_placeholder else ""
            ):
                words.append(shape.text_frame.text)

    for slide in pptx.Presentation(str(path)).slides:
        shapes(slide.shapes)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            words.append(slide.notes_slide.notes_text_frame.text)
    return {"words": "\n".join(words), "tables": tables}


def _pdf(path):
    """Words that two libraries see, in the order of the one that knows columns, without running titles.

    A line in whose place the drawn page shows nothing is hidden.
    """
    from pdfminer.high_level import extract_pages
    from pdfminer.layout import LTTextContainer, LTTextLine
    from pypdf import PdfReader
    from pypdfium2 import PdfDocument

    if PdfReader(str(path)).is_encrypted:
        raise ValueError("asks for a password")
    seen = Counter(
        word
        for page in PdfReader(str(path)).pages
        for word in _tokens(_unhyphenated(page.extract_text()))
    )
    drawn = PdfDocument(str(path))
    pages = [
        [
            line.get_text().rstrip("\n")
            for box in page
            if isinstance(box, LTTextContainer)
            for line in ([box] if isinstance(box, LTTextLine) else box)
            if _shows(picture, page, line)
        ]
        for page, picture in zip(extract_pages(str(path)), map(_picture, drawn), strict=True)
    ]
    running = Counter(
        re.sub(r"\d+", "#", line.strip()) for page in pages for line in {*page} if line.strip()
    )
    text = "\n".join(
        line
        for page in pages
        for line in page
        if running[re.sub(r"\d+", "#", line.strip())] < 3 and not line.strip().isdecimal()
    )
    kept = []
    for word in _tokens(_unhyphenated(text)):
        if seen[word] > 0:
            seen[word] -= 1
            kept.append(word)
    return {"words": " ".join(kept)}


def _picture(page):
    """Return a page as it is drawn, a pixel a point; None if it is turned or cut."""
    if page.get_rotation() or page.get_cropbox() != page.get_mediabox():
        return None
    return page.render(scale=1, may_draw_forms=False).to_pil().convert("L")


def _shows(picture, page, line):
    """Whether the place of a line has ink."""
    if picture is None:
        return True
    left, bottom, right, top = (round(edge) for edge in line.bbox)
    height = round(page.height)
    dark, light = picture.crop((left, height - top, right + 1, height - bottom + 1)).getextrema()
    return light - dark > 16


def _unhyphenated(text):
    return re.sub(r"(?<=[a-z])[-\u00ad\u2010]\s*\n\s*(?=[a-z])", "", text)


def _tokens(text):
    return re.findall(r"[^\W_]+", text)


def _odf(path):
    from odf.opendocument import load
    from odf.teletype import extractText

    document = load(str(path))
    body = document.body
    words, tables = [], []

    def cells(row):
        found = []
        for cell in row.childNodes:
            if cell.qname[1] in ("table-cell", "covered-table-cell"):
                times = int(cell.getAttribute("numbercolumnsrepeated") or 1)
                own = "\n".join(
                    extractText(each) for each in cell.childNodes if each.qname[1] == "p"
                )
                found.extend([own] * (times if own else min(times, 1)))
        return found

    def walk(node):
        for child in node.childNodes:
            kind = getattr(child, "qname", ("", ""))[1]
            if kind in ("p", "h"):
                words.append(extractText(child))
            elif kind == "table":
                rows = [cells(row) for row in _below(child, "table-row")]
                tables.append(rows)
                words.extend(cell for row in rows for cell in row)
            elif kind not in ("tracked-changes", "annotation", "forms", "table-of-content", "scripts"):  # fmt: skip
                walk(child)

    walk(body)
    return {"words": "\n".join(words), "tables": tables}


def _below(node, kind):
    for child in node.childNodes:
        if getattr(child, "qname", ("", ""))[1] == kind:
            yield child
        elif child.nodeType == 1:
            yield from _below(child, kind)


def _xlsx(path):
    import openpyxl

    book = openpyxl.load_workbook(str(path), data_only=True)
    tables, words, hidden = [], [], []
    for sheet in book.worksheets:
        gone_columns = {key for key, one in sheet.column_dimensions.items() if one.hidden}
        rows = []
        for row in sheet.iter_rows():
            cells = []
            for cell in row:
                # The shown form of numbers and dates with a format of their own is not known to the library.
                if isinstance(cell.value, str) or (
                    isinstance(cell.value, int) and cell.number_format == "General"
                ):
                    is_hidden = (
                        sheet.sheet_state != "visible"
                        or sheet.row_dimensions[cell.row].hidden
                        or cell.column_letter in gone_columns
                    )
                    (hidden if is_hidden else cells).append(str(cell.value))
            rows.append(cells)
        tables.append(rows)
        words.extend(cell for row in rows for cell in row)
    return {"words": "\n".join(words), "tables": tables, "hidden": hidden}


def _xls(path):
    import xlrd

    with contextlib.redirect_stdout(sys.stderr):
        book = xlrd.open_workbook(str(path), formatting_info=True)
    tables, words, hidden = [], [], []
    for sheet in book.sheets():
        rows = []
        for at in range(sheet.nrows):
            cells = []
            for column, cell in enumerate(sheet.row(at)):
                gone = sheet.visibility or any(
                    info is not None and info.hidden
                    for info in (sheet.rowinfo_map.get(at), sheet.colinfo_map.get(column))
                )
                if cell.ctype == xlrd.XL_CELL_TEXT:
                    (hidden if gone else cells).append(cell.value)
            rows.append(cells)
        tables.append(rows)
        words.extend(cell for row in rows for cell in row)
    return {"words": "\n".join(words), "tables": tables, "hidden": hidden}


def _eml(path):
    with path.open("rb") as stream:
        message = email.message_from_binary_file(stream, policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    words = body.get_content() if body is not None else ""
    if body is not None and body.get_content_subtype() == "html":
        words = _visible(words)[0]
    lines = [line for line in words.splitlines() if not line.startswith(">")]
    return {"words": "\n".join([str(message["subject"] or ""), *lines])}


def _ipynb(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {"words": "\n".join("".join(cell["source"]) for cell in cells)}


def _visible(page):
    """Return the text of a page and the texts that it crosses out or hides."""
    from bs4 import BeautifulSoup, Comment

    soup = BeautifulSoup(page, "html5lib")
    hidden = []
    for each in soup(["script", "style", "template", "title", "del", "s", "strike"]):
        if each.name in ("del", "s", "strike"):
            hidden.append(each.get_text(" "))
        each.extract()
    # A list of headings and numbers of lines are made by the program; marks of notes stand apart.
    for each in soup.select(".toc, .linenos, .footnote-backref"):
        each.extract()
    for each in soup.select("sup a"):
        each.insert_before(" ")
    for each in soup(string=lambda text: isinstance(text, Comment)):
        each.extract()
    inline = [
        "a",
        "abbr",
        "b",
        "code",
        "em",
        "i",
        "q",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
    ]
    for each in soup.find_all(lambda one: one.name not in inline):
        each.insert_after("\n")
        each.insert_before("\n")
    return soup.get_text(), hidden


def page(path):
    """Read what is expected from a page that a package has beside its source."""
    from bs4 import BeautifulSoup

    text = path.read_text(encoding="utf-8", errors="replace")
    words, hidden = _visible(text)
    tables = [
        [[cell.get_text() for cell in row(["td", "th"])] for row in table("tr")]
        for table in BeautifulSoup(text, "html5lib")("table")
    ]
    return {"words": words, "hidden": hidden, "tables": tables}


#: Parts of a page that lead to others, or to its editor.
_TOOLS = "nav, [role=navigation], .nav, .navbar, .menu, .mw-editsection"
_UNDISPLAYED = "[hidden], [style*='display:none'], [style*='display: none']"


def plain(path):
    """Read what is expected from a text beside its source; tags, addresses and signs of lists are no words.

    Links and emphasis part no letters: a reader sees `[this][1]that` as one word. What the page hides is hidden
    text, and what leads to other pages is no text of this one.
    """
    from bs4 import BeautifulSoup

    text = path.read_text(encoding="utf-8", errors="replace")
    text = re.sub(r"^\s*o (?=\S)|^\[/?code\]$", "", text, flags=re.MULTILINE)
    text = re.sub(r"</?(?:sup|sub|b|i|em|strong|code|span)>", "", text)
    text = re.sub(r"<[a-zA-Z/][^<>]*>", " ", text)
    text = re.sub(r"\]\([^)]*\)|\]\[[^\]]*\]", "", text)
    text = re.sub(r"^\s*\[[^\]]+\]: .*$|<\w+:[^>]*>", " ", text, flags=re.MULTILINE)
    hidden = re.findall(r"~~(.+?)~~", text)
    text = re.sub(r"~~.+?~~", "", text)
    source = path.with_suffix(".html").read_text(encoding="utf-8", errors="replace")
    soup = BeautifulSoup(source, "html5lib")
    for each in soup.select(_UNDISPLAYED):
        if each.get_text() in text:
            hidden.append(each.get_text())
            text = text.replace(each.get_text(), "")
    for words in (words for each in soup.select(_TOOLS) for words in each.stripped_strings):
        text = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", "", text, count=1)
    return {"words": text, "hidden": hidden, "tables": []}


LIBRARIES = {
    ".docx": _docx,
    ".pptx": _pptx,
    ".pdf": _pdf,
    ".odt": _odf,
    ".odp": _odf,
    ".ods": _odf,
    ".xlsx": _xlsx,
    ".xls": _xls,
    ".eml": _eml,
    ".ipynb": _ipynb,
    ".html": page,
    ".md": plain,
    ".txt": plain,
}
READERS = {"whence": whence, "markitdown": markitdown, "docling": docling, "expected": expected}


def main() -> None:
    """Read each file that is named."""
    logging.disable(logging.CRITICAL)
    read = READERS[sys.argv[1]]
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            found = read(Path(line.rstrip("\n")))
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is the result of the file
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
