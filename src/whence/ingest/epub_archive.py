"""Read the parts of an e-book: its archive with limits, its package, and the titles of its chapters."""

from __future__ import annotations

import io
import zipfile
import zlib
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from whence.ingest.text_builder import collapse_spaces
from whence.schema.errors import BadInput, error_text

#: Largest unpacked size of the parts that are read, in bytes, and most parts of the text.
_MAX_UNPACKED_BYTES = 64 * 2**20
_MAX_CHAPTERS = 5000
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
#: Ways of making fonts unreadable outside a book; all others encrypt text.
_FONT_ALGORITHMS = frozenset(
    ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"]
)
_XHTML = frozenset(["application/xhtml+xml", "text/html", "application/html+xml"])


class DamagedPart(BadInput):
    """A part of an archive that cannot be read, while others may."""


class Archive:
    """A ZIP archive whose parts are read up to a size all together.

    Raises:
        BadInput: It is damaged, or encrypted.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._what = what
        self._left = _MAX_UNPACKED_BYTES
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise BadInput(f"is not a readable {what}: {error_text(error)[:200]}") from error
        self.names = frozenset(self._archive.namelist())

    def read(self, name: str) -> bytes:
        """Return a part.

        Raises:
            DamagedPart: It is damaged.
            BadInput: It is encrypted, or the parts unpack to more than the limit.
            KeyError: There is none.
        """
        entry = self._archive.getinfo(name)
        if entry.flag_bits & 1:
            raise BadInput("is protected by a password")
        try:
            with self._archive.open(entry) as part:
                data = part.read(self._left + 1)
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            NotImplementedError,
            EOFError,
            zlib.error,
        ) as error:
            raise DamagedPart(f"has a damaged part {name}: {error_text(error)[:200]}") from error
        self._left -= len(data)
        if self._left < 0:
            raise BadInput(f"unpacks to more than {_MAX_UNPACKED_BYTES:,} bytes, the limit")
        return data


class Package(NamedTuple):
    """What the package of a book states."""

    title: str
    authors: tuple[str, ...]
    date: str
    """As it is written; empty for none."""
    chapters: tuple[str, ...]
    """Paths of the parts with text, in reading order."""
    titles: dict[str, str]
    """Titles of chapters in the contents, by path."""
    contents: frozenset[str]
    """Paths of the parts that are the contents or the cover."""


def open_book(data: bytes) -> tuple[Archive, Package]:
    """Return the archive of a book and its package.

    Raises:
        BadInput: It is damaged, or protected by digital rights management.
    """
    archive = Archive(data, "EPUB book")
    _refuse_encrypted(archive)
    try:
        container = _parse(archive.read(_CONTAINER))
        path = next((each.get("full-path", "") for each in _named(container, "rootfile")), "")
        package = _parse(archive.read(path))
    except KeyError as error:
        raise BadInput(f"is not a readable EPUB book: it has no {error_text(error)}") from error
    return archive, _read_package(archive, package, path)


def _refuse_encrypted(archive: Archive) -> None:
    if _ENCRYPTION not in archive.names:
        return
    methods = [
        each.get("Algorithm", "")
        for data in _named(_parse(archive.read(_ENCRYPTION)), "EncryptedData")
        for each in list(data)
        if _name(each) == "EncryptionMethod"
    ]
    if any(method not in _FONT_ALGORITHMS for method in methods):
        raise BadInput(
            "is protected by digital rights management (DRM): its text is encrypted, export it without"
        )


def _read_package(archive: Archive, package: ET.Element, path: str) -> Package:
    folder = dirname(path)
    items = {each.get("id", ""): each for each in _named(package, "item")}
    paths = {
        key: normpath(join(folder, unquote(each.get("href", "")))) for key, each in items.items()
    }
    # Parts that are no part of the main text, such as notes, come last.
    order = sorted(_named(package, "itemref"), key=lambda each: each.get("linear") == "no")
    spine = dict.fromkeys(each.get("idref", "") for each in order)
    chapters = [
        paths[key]
        for key in spine
        if key in items
        and items[key].get("media-type", "") in _XHTML
        and paths[key] in archive.names
    ]
    if len(chapters) > _MAX_CHAPTERS:
        raise BadInput(f"has more than {_MAX_CHAPTERS:,} parts with text")
    contents = [
        key for key, each in items.items() if "nav" in (each.get("properties") or "").split()
    ]
    ncx = [
        key for key, each in items.items() if each.get("media-type") == "application/x-dtbncx+xml"
    ]
    guide = [
        normpath(join(folder, unquote(each.get("href", "").partition("#")[0])))
        for each in _named(package, "reference")
        if each.get("type") in ("toc", "cover")
    ]
    titles: dict[str, str] = {}
    for key in (*contents, *ncx):
        if not titles and paths[key] in archive.names:
            titles = _titles(archive.read(paths[key]), dirname(paths[key]))
    return Package(
        title=_first(package, "title"),
        authors=tuple(collapse_spaces(each.text or "") for each in _named(package, "creator")),
        date=_modified(package) or _first(package, "date"),
        chapters=tuple(chapters),
        titles=titles,
        contents=frozenset([*(paths[key] for key in contents), *guide]),
    )


def _titles(source: bytes, folder: str) -> dict[str, str]:
    """Return the first title of each part in the contents: a list of links (EPUB 3) or an NCX (EPUB 2)."""
    found: dict[str, str] = {}
    try:
        tree = _parse(source)
    except BadInput:
        return found
    links = [(each.get("href", ""), "".join(each.itertext())) for each in _named(tree, "a")] + [
        (
            next((one.get("src", "") for one in _named(each, "content")), ""),
            next(("".join(one.itertext()) for one in _named(each, "navLabel")), ""),
        )
        for each in _named(tree, "navPoint")
    ]
    for href, words in links:
        target = normpath(join(folder, unquote(href.partition("#")[0])))
        title = collapse_spaces(words)
        if title:
            found.setdefault(target, title)
    return found


def _modified(package: ET.Element) -> str:
    """Return the date of the last change, which a conversion also writes, only where a book states no other."""
    if _first(package, "date"):
        return ""
    stated = (
        each.text or ""
        for each in _named(package, "meta")
        if each.get("property") == "dcterms:modified"
    )
    return next(stated, "").strip()


def _first(tree: ET.Element, name: str) -> str:
    return next((collapse_spaces("".join(each.itertext())) for each in _named(tree, name)), "")


def _named(tree: ET.Element, name: str) -> list[ET.Element]:
    return [each for each in tree.iter() if _name(each) == name]


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _parse(source: bytes) -> ET.Element:
    """Return the tree of XML; entities of its own are refused, because they may grow without end."""
    if b"<!ENTITY" in source:
        raise BadInput("defines entities in its package, which is not read")
    try:
        return ET.fromstring(source)  # noqa: S314 - without entities nothing grows
    except ET.ParseError as error:
        raise BadInput(f"has a damaged package: {error_text(error)[:200]}") from error
