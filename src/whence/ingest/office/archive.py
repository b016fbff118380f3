"""Read the parts of an office file or a book: an archive of XML files that name one another."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element
from xml.parsers.expat import ExpatError

from whence.ingest.content_detection import DAMAGED_ZIP
from whence.ingest.document_dates import iso_date
from whence.ingest.xml_events import XmlReader, feed
from whence.schema.errors import BadInput, error_text

#: Largest unpacked size of the parts that are read whole, in bytes.
MAX_UNPACKED_BYTES = 128 * 2**20
#: Errors of damaged archives and of damaged XML.
_DAMAGED = (*DAMAGED_ZIP, ET.ParseError, ExpatError, LookupError)
#: Namespaces of the strict form of the standard, and those of the form that is usual.
_STRICT = {
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    ),
    b"http://purl.oclc.org/ooxml/officeDocument/math": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/math"
    ),
    **{
        b"http://purl.oclc.org/ooxml/" + kind: b"http://schemas.openxmlformats.org/" + kind_2006
        for kind, kind_2006 in (
            (b"wordprocessingml/main", b"wordprocessingml/2006/main"),
            (b"presentationml/main", b"presentationml/2006/main"),
            (b"spreadsheetml/main", b"spreadsheetml/2006/main"),
            (b"drawingml/main", b"drawingml/2006/main"),
            (b"drawingml/chart", b"drawingml/2006/chart"),
            (b"drawingml/diagram", b"drawingml/2006/diagram"),
            (b"drawingml/picture", b"drawingml/2006/picture"),
            (b"drawingml/wordprocessingDrawing", b"drawingml/2006/wordprocessingDrawing"),
        )
    },
}
#: What programs write where a title would stand.
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|presentation|word document|powerpoint presentation|slide)?[\s\d_-]*"
    r"|microsoft (?:word|powerpoint)\b.*|\w*[- ]?powerpoint[- ]?\w*|.*\.(?:docx?|dotx?|rtf|odt|odp|pptx?|pdf|tmp)",
    re.IGNORECASE,
)
_DECLARATIONS = re.compile(rb"<!DOCTYPE[^>\[]*\[")


class DamagedPart(BadInput):
    """A part that is absent or damaged, while others may be read."""


class Relation(NamedTuple):
    """A part that another one refers to."""

    kind: str
    """Last word of its type, e.g. `image`."""
    target: str
    """Name of the part; of an external target its address."""
    is_external: bool


class OfficeArchive:
    """The parts of a file, each unpacked when it is read, all within one limit.

    Args:
        data: The bytes of the file.
        what: The format, for errors: `Word document`.
        max_bytes: Largest unpacked size of the parts that are read; `MAX_UNPACKED_BYTES` if it is None.

    Raises:
        BadInput: It is no archive.
    """

    def __init__(self, data: bytes, what: str, max_bytes: int | None = None) -> None:
        self.what = what
        self.damaged: set[str] = set()
        """Parts that are referred to and absent, or that cannot be read."""
        self._limit = self._left = max_bytes or MAX_UNPACKED_BYTES
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except zipfile.BadZipFile as error:
            raise self.unreadable("it is damaged or cut short") from error
        except _DAMAGED as error:
            raise self.unreadable(error) from error
        # Some programs write backslashes, and names in other letters than those they refer to.
        self._parts = {
            info.filename.replace("\\", "/").lstrip("/").lower(): info
            for info in self._archive.infolist()
        }

    def unreadable(self, error: object) -> DamagedPart:
        """Return the error that the file, or a part of it, cannot be read."""
        words = error_text(error) if isinstance(error, BaseException) else str(error)
        return DamagedPart(f"is not a readable {self.what}: {words[:200]}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._parts

    def names(self) -> list[str]:
        """Return the names of the parts, in lower case, in the order of the archive."""
        return list(self._parts)

    def read(self, name: str) -> bytes:
        """Return the bytes of a part.

        Raises:
            DamagedPart: It is absent or damaged.
            BadInput: It is encrypted, or the parts exceed the limit together.
        """
        info = self._counted(name)
        try:
            return self._archive.read(info)
        except _DAMAGED as error:
            raise self.unreadable(error) from error

    def feed(self, name: str, reader: XmlReader) -> None:
        """Feed a part to a reader of events, which memory need not hold.

        Raises:
            DamagedPart: As `read`; what the reader has got before stays.
            BadInput: As `read`, or the reader refuses it.
        """
        info = self._counted(name)
        try:
            with self._archive.open(info) as stream:
                feed(reader, stream)
        except BadInput:
            raise
        except _DAMAGED as error:
            raise self.unreadable(error) from error

    def _counted(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of a part, whose stated size the library never exceeds."""
        info = self._parts.get(name.lower().lstrip("/"))
        if info is None:
            raise self.unreadable(f"it has no part {name}")
        if info.flag_bits & 1:
            raise BadInput("is protected by a password")
        self._left -= info.file_size
        if self._left < 0:
            raise BadInput(f"unpacks to more than {self._limit:,} bytes, which is the limit")
        return info

    def xml(self, name: str) -> Element:
        """Return the tree of a part.

        Raises:
            DamagedPart: As `read`; or it is not XML, or declares entities.
            BadInput: As `read`.
        """
        data = self.read(name)
        if b"purl.oclc.org/ooxml" in data:
            for strict, usual in _STRICT.items():
                data = data.replace(strict, usual)
        try:
            return parse_xml(data)
        except _DAMAGED as error:
            raise self.unreadable(error) from error

    def optional_xml(self, name: str) -> Element | None:
        """Return the tree of a part; None if it is absent or damaged, which is noted."""
        try:
            return self.xml(name)
        except DamagedPart:
            self.damaged.add(name)
            return None

    def relations(self, part: str) -> dict[str, Relation]:
        """Return what a part refers to, by id; the empty name is the whole file."""
        folder, _, name = part.rpartition("/")
        links = posixpath.join(folder, "_rels", f"{name}.rels")
        root = self.optional_xml(links) if links in self else None
        if root is None:
            return {}
        found = {}
        for each in root:
            target, kind = each.get("Target", ""), each.get("Type", "").rpartition("/")[2]
            is_external = each.get("TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target)))
                target = target.lstrip("/")
            found[each.get("Id", "")] = Relation(kind, target, is_external)
        return found

    def main_part(self) -> str:
        """Return the name of the part that the file is about.

        Raises:
            BadInput: None is named.
        """
        for relation in self.relations("").values():
            if relation.kind == "officeDocument" and relation.target in self:
                return relation.target
        for usual in ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml"):
            if usual in self:
                return usual
        raise BadInput(f"is not a readable {self.what}: no main part is named")

    def properties(self) -> tuple[str, str]:
        """Return the title and the date of the file's properties, each empty when it says nothing."""
        named = [
            each.target
            for each in self.relations("").values()
            if each.kind == "core-properties" and each.target in self
        ]
        name = next(iter(named), "docProps/core.xml")
        root = self.optional_xml(name) if name in self else None
        values = {each.tag.rpartition("}")[2]: each.text or "" for each in root or ()}
        days = (iso_date(values.get(each, "")) for each in ("modified", "created"))
        return telling_title(values.get("title", "")), next(filter(None, days), "")


def parse_xml(data: bytes) -> Element:
    """Return the tree of an XML text.

    Raises:
        ValueError: It declares entities or the like within itself, which no office program does.
        ET.ParseError: It is not well-formed.
        LookupError: Its encoding is unknown.
    """
    head = data.replace(b"\0", b"") if b"\0" in data[:200] else data
    if _DECLARATIONS.search(head):
        raise ValueError("it declares entities")
    # defusedxml would parse by Python, ten times slower; entities are refused above.
    return ET.fromstring(data)  # noqa: S314


def telling_title(title: str) -> str:
    """Return a title of properties as one line, or nothing if it names a file or a program chose it."""
    line = " ".join(title.split())
    says_nothing = _NO_TITLE.fullmatch(line) or not any(map(str.isalpha, line))
    return "" if says_nothing else line
