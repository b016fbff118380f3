"""Load notebooks (Jupyter, nbformat 3 and 4): text, code and the text of outputs, by cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_utf8
from whence.ingest.document_builder import build_document, first_heading, lone_heading
from whence.ingest.document_dates import stated_date
from whence.ingest.front_matter import FrontMatter
from whence.ingest.html_elements import PICTURES
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.html import write_fragment
from whence.ingest.loaders.markdown import write_markdown_into
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput

#: Lines of an output that are read; the first and the last ones say most.
_MOST_LINES = 200
#: Codes for the colors of a terminal, and what a program writes over.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?")
#: What stands for a picture beside it: `<Figure size 640x480 with 1 Axes>`.
_OBJECT = re.compile(r"\s*<[\w.]+ ?[^<>]{0,200}>\s*")
_TABLE = re.compile(r"<table\b", re.IGNORECASE)


def load_notebook(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a notebook; anchors are `cell-1` and so on. Its title is its own, else the only top heading."""
    try:
        notebook = json.loads(decode_utf8(data))
    except (ValueError, RecursionError) as error:
        raise BadInput("is not a notebook: it is not JSON") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat", 4), int):
        raise BadInput("is not a notebook: it has no cells")
    metadata = _object(notebook.get("metadata"))
    text = TextBuilder()
    cells = list(_cells(notebook))
    if not cells and "nbformat" not in notebook:
        raise BadInput("is not a notebook: it has no cells")
    language = _language(metadata)
    for number, cell in enumerate(cells, 1):
        text.anchor = f"cell-{number}"
        _write_cell(text, cell, language)
    title = metadata.get("title")
    front = (
        FrontMatter({"title": title}) if isinstance(title, str) and title.strip() else FrontMatter()
    )
    return build_document(
        file,
        text.text,
        text.blocks,
        front=front,
        title=lone_heading(text.blocks) or first_heading(text.blocks),
        places=text.places,
        date=stated_date(metadata),
        left_out=text.left_out,
    )


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells of a notebook; those of the third format are in sheets."""
    sheets = notebook.get("worksheets")
    for sheet in (notebook, *(sheets if isinstance(sheets, list) else ())):
        cells = _object(sheet).get("cells")
        yield from (
            each for each in (cells if isinstance(cells, list) else ()) if isinstance(each, dict)
        )


def _language(metadata: dict[str, Any]) -> str:
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        stated = _object(metadata.get(name)).get(key)
        if isinstance(stated, str) and re.fullmatch(r"[\w+#.-]{1,20}", stated):
            return stated.lower()
    return ""


def _write_cell(text: TextBuilder, cell: dict[str, Any], language: str) -> None:
    kind, anchor = cell.get("cell_type"), text.anchor
    source = _joined(cell.get("source", cell.get("input")))
    if kind == "code":
        own = cell.get("language")
        text.add_code(
            source.split("\n"), language=own if isinstance(own, str) and not language else language
        )
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            _write_output(text, _object(output))
    elif kind == "heading":
        level = cell.get("level")
        text.add_heading(level if isinstance(level, int) and level > 0 else 1, source)
    elif kind == "markdown":
        write_markdown_into(text, source, 0, anchor)
    else:
        text.add_lines(source.split("\n"))
    text.anchor = anchor


def _write_output(text: TextBuilder, output: dict[str, Any]) -> None:
    """Write what a cell printed or returned; of an error the last line, which names it."""
    kind = output.get("output_type")
    if kind in ("stream", "pyout", "execute_result", "display_data"):
        # In the third format the data are members of the output.
        data = _object(output.get("data")) or output
        html = _joined(data.get("text/html", data.get("html")))
        plain = _joined(data.get("text/plain", data.get("text")))
        markdown = _joined(data.get("text/markdown"))
        has_picture = any(
            name.startswith("image/") or name in ("png", "jpeg", "svg") for name in data
        )
        text.left_out[PICTURES] += has_picture
        if markdown:
            write_markdown_into(text, markdown, 0, text.anchor)
        elif _TABLE.search(html):
            _write_table(text, html)
        elif not (has_picture and _OBJECT.fullmatch(plain)):
            _write_lines(text, plain)
    elif kind in ("error", "pyerr"):
        name, value = _joined(output.get("ename")), _joined(output.get("evalue"))
        _write_lines(text, f"{name}: {value}" if value else name)


def _write_table(text: TextBuilder, html: str) -> None:
    text.lead_in("Output")
    write_fragment(text, html)
    text.end_lead_in()


def _write_lines(text: TextBuilder, printed: str) -> None:
    lines = [
        line.rpartition("\r")[2]
        for line in _ESCAPES.sub("", printed).replace("\r\n", "\n").split("\n")
    ]
    if not any(map(str.strip, lines)):
        return
    if len(lines) > _MOST_LINES:
        text.left_out["lines of output"] += len(lines) - _MOST_LINES
        lines = [*lines[: _MOST_LINES // 2], *lines[-_MOST_LINES // 2 :]]
    text.lead_in("Output")
    text.add_code(lines)


def _joined(value: Any) -> str:
    """Return a text that may be written as a list of its lines."""
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


LOADERS = (Loader(name="notebooks", suffixes=(".ipynb",), parse_file=load_notebook, version="4"),)
