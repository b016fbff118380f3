"""Read the package of an e-book, and the titles of its chapters."""

from __future__ import annotations

from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from whence.ingest.office.archive import DamagedPart, OfficeArchive
from whence.ingest.text_builder import collapse_spaces
from whence.schema.errors import BadInput

#: Most parts of the text.
_MAX_CHAPTERS = 5000
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
#: Ways of making fonts unreadable outside a book; all others encrypt text.
_FONT_ALGORITHMS = frozenset(
    ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"]
)
_XHTML = frozenset(["application/xhtml+xml", "text/html", "application/html+xml"])


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


def open_book(data: bytes) -> tuple[OfficeArchive, Package]:
    """Return the archive of a book and its package.

    Raises:
        BadInput: It is damaged, or protected by digital rights management.
    """
    archive = OfficeArchive(data, "EPUB book")
    _refuse_encrypted(archive)
    container = archive.xml(_CONTAINER)
    path = next((each.get("full-path", "") for each in _named(container, "rootfile")), "")
    package = archive.xml(path)
    return archive, _read_package(archive, package, path)


def _refuse_encrypted(archive: OfficeArchive) -> None:
    if _ENCRYPTION not in archive:
        return
    methods = [
        each.get("Algorithm", "")
        for data in _named(archive.xml(_ENCRYPTION), "EncryptedData")
        for each in list(data)
        if _name(each) == "EncryptionMethod"
    ]
    if any(method not in _FONT_ALGORITHMS for method in methods):
        raise BadInput(
            "is protected by digital rights management (DRM): its text is encrypted, export it without"
        )


def _read_package(archive: OfficeArchive, package: ET.Element, path: str) -> Package:
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
        if key in items and items[key].get("media-type", "") in _XHTML and paths[key] in archive
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
        if not titles and paths[key] in archive:
            titles = _titles(archive, paths[key])
    return Package(
        title=_first(package, "title"),
        authors=tuple(collapse_spaces(each.text or "") for each in _named(package, "creator")),
        date=_modified(package) or _first(package, "date"),
        chapters=tuple(chapters),
        titles=titles,
        contents=frozenset([*(paths[key] for key in contents), *guide]),
    )


def _titles(archive: OfficeArchive, path: str) -> dict[str, str]:
    """Return the first title of each part in the contents: a list of links (EPUB 3) or an NCX (EPUB 2)."""
    found: dict[str, str] = {}
    try:
        tree = archive.xml(path)
    except DamagedPart:
        return found
    folder = dirname(path)
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
