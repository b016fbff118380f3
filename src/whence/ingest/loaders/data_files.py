"""Load data: JSON and XML. `plain_text` reads YAML, TOML and other settings, line by line.

A file that people write or read stays as it is, line by line: the text of a small file of settings is what its
author wrote, comments included, and a quote of it is found in the file. Records are rows of a table instead;
what stands on one long line, or is marked up as XML is, is written as headings and `key: value`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from whence.ingest.blocks import ParsedDocument, line_places
from whence.ingest.data_nodes import Node, flatten_small, write_nodes
from whence.ingest.decoding import DecodedText, decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.line_blocks import line_blocks
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.ingest.xml_events import XmlReader

#: A file with a longer line was written by a program for programs.
_LONG_LINE = 500
#: Deepest nesting of JSON that is written out.
_MAX_DEPTH = 100
_SPACE = " \t\n\r"


def load_json(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load JSON: records as rows, one long line as `key: value`, all other, valid or not, line by line."""
    decoded = decode_text(data, file.encoding)
    source = decoded.text
    records = _records(source)
    if records:
        return _written(file, decoded, [Node("", tuple(records))])
    if max(map(len, source.split("\n")), default=0) > _LONG_LINE:
        try:
            nodes = list(_json_nodes(_DECODER.decode(source), 0))
        except (ValueError, RecursionError):
            return _as_lines(file, decoded)
        return _written(file, decoded, nodes)
    return _as_lines(file, decoded)


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, of which two may have one name."""


#: Numbers stay as they are written.
_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=str, parse_int=str)


def _records(source: str) -> list[Node]:
    """Return the objects of an array of flat objects, with their lines; none if it is something else."""
    at, line, counted = _skip(source, 0), 1, 0
    if source[at : at + 1] != "[":
        return []
    records: list[Node] = []
    at = _skip(source, at + 1)
    while source[at : at + 1] == "{":
        try:
            value, end = _DECODER.raw_decode(source, at)
            nodes = tuple(_json_nodes(value, 0))
        except (ValueError, RecursionError):
            return []
        if not all(isinstance(node.value, str) for node in nodes):
            return []
        line += source.count("\n", counted, at)
        last = line + source.count("\n", at, end)
        records.append(Node("", nodes, (line, last)))
        line, counted = last, end
        at = _skip(source, end)
        if source[at : at + 1] != ",":
            break
        at = _skip(source, at + 1)
    is_whole = source[at : at + 1] == "]" and not source[at + 1 :].strip()
    return records if is_whole and len(records) > 1 else []


def _skip(source: str, at: int) -> int:
    while at < len(source) and source[at] in _SPACE:
        at += 1
    return at


def _json_nodes(value: Any, depth: int) -> Iterator[Node]:
    """Yield the members of an object or an array as nodes; plain values of an array are one node."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, _Pairs):
        yield from flatten_small(
            node for key, item in value for node in _json_member(key, item, depth)
        )
    elif isinstance(value, list):
        yield from _json_member("", value, depth)
    else:
        yield Node("", _shown(value))


def _json_member(key: str, value: Any, depth: int) -> Iterator[Node]:
    if isinstance(value, _Pairs):
        yield Node(key, tuple(_json_nodes(value, depth + 1)))
    elif not isinstance(value, list):
        yield Node(key, _shown(value))
    elif any(isinstance(item, list) for item in value):
        for item in value:
            yield from _json_member(key, item, depth + 1)
    else:
        yield Node(key, ", ".join(map(_shown, value)))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def load_xml(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load XML: elements alike as rows of a table, others as headings and `name: text`.

    Raises:
        BadInput: It defines entities, which may expand to any size, or is nested too deeply.
    """
    decoded = decode_text(data, file.encoding)
    tree = _XmlTree()
    try:
        # The text is not in the encoding that its declaration states any more.
        tree.reader.parser.Parse(decoded.text.encode(), True)
    except expat.ExpatError:
        return _as_lines(file, decoded)
    return _written(file, decoded, tree.nodes)


class _Element:
    """An element that is open."""

    def __init__(self, name: str, line: int) -> None:
        self.name, self.line = name, line
        self.nodes: list[Node] = []
        self.words: list[str] = []
        """Its text, with that of the elements in it."""
        self.attributes = 0
        """How many of the first nodes are attributes."""
        self.has_text = False
        """Whether there is text directly in it."""

    def add_text(self, words: str) -> None:
        self.words.append(words)
        self.has_text |= bool(words.strip())


class _XmlTree:
    """Builds the nodes of XML: attributes as elements; an element with text between others is one text."""

    def __init__(self) -> None:
        self.reader = XmlReader(self._start, self._end, encoding="utf-8")
        self._open = [_Element("", 1)]

    @property
    def nodes(self) -> list[Node]:
        """The nodes of what was parsed."""
        return self._open[0].nodes

    def _start(self, name: str, values: dict[str, str]) -> None:
        self._open[-1].add_text(self.reader.taken())
        element = _Element(name, self.reader.line)
        lines = (element.line, element.line)
        element.nodes.extend(
            Node(key, value, lines)
            for key, value in values.items()
            if value and not key.startswith(("xmlns", "xsi:", "xml:"))
        )
        element.attributes = len(element.nodes)
        self._open.append(element)

    def _end(self, name: str, words: str) -> None:
        element = self._open.pop()
        element.add_text(words)
        above, lines = self._open[-1], (element.line, self.reader.line)
        above.words.extend(element.words)
        if element.has_text:
            above.nodes.append(Node(name, " ".join("".join(element.words).split()), lines))
            above.nodes.extend(
                node._replace(name=f"{name}.{node.name}")
                for node in element.nodes[: element.attributes]
            )
        elif element.nodes:
            above.nodes.append(Node(name, flatten_small(element.nodes), lines))


def _written(file: SourceFile, decoded: DecodedText, nodes: list[Node]) -> ParsedDocument:
    text = TextBuilder()
    write_nodes(text, nodes)
    return build_document(
        file,
        text.text,
        text.blocks,
        encoding=decoded.encoding,
        left_out=decoded.left_out,
        places=text.places,
    )


def _as_lines(file: SourceFile, decoded: DecodedText) -> ParsedDocument:
    blocks = line_blocks(decoded.text)
    return build_document(
        file,
        decoded.text,
        blocks,
        encoding=decoded.encoding,
        left_out=decoded.left_out,
        places=line_places(decoded.text, blocks),
    )


LOADERS = (
    Loader(
        name="JSON",
        suffixes=(".json", ".jsonc", ".json5", ".geojson", ".webmanifest"),
        parse_file=load_json,
    ),
    Loader(
        name="XML",
        suffixes=(".xml", ".xsd", ".xsl", ".rss", ".atom", ".plist", ".opml", ".wsdl"),
        parse_file=load_xml,
        detects_html=True,
    ),
)
