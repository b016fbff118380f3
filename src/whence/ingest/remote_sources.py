"""Sources: places that are no folders of this machine, whose files are indexed by an address.

An address is `NAME:...` or `NAME+SCHEME:...`; NAME is that of an entry point of the group `whence.sources`. Its
value is a function that takes the address and a folder of its own, and returns a `RemoteSource`. What a source
lists is copied into a folder first (`whence.operations.mirrors`), so a source knows nothing of documents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from whence.schema.errors import BadInput
from whence.schema.plugins import load_plugin, plugin_names

GROUP = "whence.sources"
#: Beginning of an address, as the names of schemes of URLs (RFC 3986), with the plug-in before a `+`.
_ADDRESS = re.compile(r"([a-z][a-z0-9.-]*)(?:\+[a-z0-9.+-]+)?:")

#: User and password of a URL.
_USER = re.compile(r"//[^/@]*@")


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a source."""

    path: str
    """Relative to the source, with `/`."""
    version: str
    """Changes when the bytes change, e.g. a hash or an `ETag`."""
    size: int = -1
    """Bytes; -1 when the source does not know."""
    metadata: dict[str, str] = {}
    """What the source knows of the file, e.g. its author; of an unchanged file it may be left out. A `date`,
    ISO 8601, is that of a document that states none itself."""
    url: str = ""
    """Where a person finds it."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All files of a source at a moment."""

    entries: Sequence[SourceEntry]
    state: str = ""
    """Given to the next listing, e.g. a commit; empty for a source that has no use for it."""


class RemoteSource(Protocol):
    """A place with files; one thread at a time uses it."""

    name: str
    """Default name of the root of its documents."""

    def list_entries(self, state: str) -> Listing:
        """Return all files; the state is that of the last listing whose files are known, or empty.

        Raises:
            BadInput: There is no such place, or it cannot be read.
            Unavailable: It does not answer.
        """

    def open_entry(self, entry: SourceEntry) -> BinaryIO:
        """Return the bytes of a file, to be read once and closed."""

    def close(self) -> None:
        """Free what is held."""


def is_address(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the address of a source; what exists on disk is a path."""
    text = os.fspath(path)
    return _ADDRESS.match(text) is not None and not os.path.lexists(text)


def shown_address(address: str) -> str:
    """Return an address without the name and password that it may have.

    >>> shown_address("git+https://ada:secret@example.org/handbook@main")
    'git+https://example.org/handbook@main'
    """
    return _USER.sub("//", address, count=1)


def open_source(address: str, folder: Path) -> RemoteSource:
    """Open the source of an address.

    Args:
        address: See the module.
        folder: Where the source may keep what it needs; created by the source.

    Raises:
        BadInput: No source has such addresses, or the address is none of its own.
    """
    found = _ADDRESS.match(address)
    name = found[1] if found else ""
    make = load_plugin(GROUP, name, what="the source")
    if make is None:
        known = ", ".join(plugin_names(GROUP))
        raise BadInput(
            f"{shown_address(address)} cannot be read: neither a path nor an address of a source",
            hint=f"check the path; sources that are installed: {known}",
        )
    source: RemoteSource = make(address, folder)
    return source
