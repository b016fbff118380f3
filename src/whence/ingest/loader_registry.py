"""Find the loader of a file, among the built-in ones and those of the entry-point group `whence.loaders`.

The value of an entry point is a `Loader`, or a tuple of them.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from whence.ingest import loaders
from whence.ingest.loaders.base import Loader
from whence.ingest.office.archive import kind_of_archive, refuse_encrypted
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput, ConfigError
from whence.schema.plugins import load_plugin, plugin_names

GROUP = "whence.loaders"


def loader_for(file: SourceFile) -> Loader:
    """Return the loader for the suffix of a file, which must be a supported one."""
    return loaders_by_suffix()[file.suffix]


@cache
def loaders_by_suffix() -> Mapping[str, Loader]:
    """Return all loaders by the suffixes they read.

    Cost: about 20 ms, once; the libraries that read a format are imported with its first file.
    """
    found: dict[str, tuple[str, Loader]] = {}
    for origin, loader in (*_built_in(), *_plugins()):
        for suffix in loader.suffixes:
            other, _ = found.setdefault(suffix, (origin, loader))
            if other != origin:
                raise ConfigError(
                    f"{other} and {origin} both read {suffix} files",
                    hint="uninstall one of the two packages",
                )
    return {suffix: loader for suffix, (_, loader) in found.items()}


def _built_in() -> Iterator[tuple[str, Loader]]:
    for module in pkgutil.iter_modules(loaders.__path__):
        for loader in getattr(import_module(f"{loaders.__name__}.{module.name}"), "LOADERS", ()):
            yield f"the built-in loader for {loader.name}", loader


def _plugins() -> Iterator[tuple[str, Loader]]:
    for name in plugin_names(GROUP):
        offered = load_plugin(GROUP, name)
        for loader in offered if isinstance(offered, tuple) else (offered,):
            if not isinstance(loader, Loader):
                raise ConfigError(
                    f"the plug-in {name!r} of group {GROUP} is {type(loader).__name__}, not a Loader",
                    hint="its entry point must name a whence.ingest.loaders.base.Loader",
                )
            yield f"the plug-in {name!r}", loader


_ARCHIVE = "an archive, unpack it first"
#: First bytes of files that are not documents.
_SIGNATURES = {
    "a PNG picture": (b"\x89PNG\r\n\x1a\n",),
    "a JPEG picture": (b"\xff\xd8\xff",),
    "a GIF picture": (b"GIF8",),
    "a program": (b"\x7fELF", b"MZ\x90\0", b"\xca\xfe\xba\xbe", b"\0asm"),
    "an SQLite database": (b"SQLite format 3\0",),
    "an old Office file, save it in a newer format": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
    _ARCHIVE: (
        b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd"
    ),
}  # fmt: skip
_ZIP, _RTF = b"PK\x03\x04", b"{\\rtf"
#: Binary formats that are recognized by content, so that a wrong suffix does no harm.
_RECOGNIZED = (".pdf", ".docx", ".pptx", ".odt", ".rtf")
#: A PDF may begin with other bytes (PDF 1.7, appendix H.3.4.1, note 13).
_PDF_SIGNATURE, _PDF_WITHIN = b"%PDF-", 1024
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEAD_BYTES = 4096


def detect_loader(named: Loader, data: bytes) -> Loader:
    """Return the loader for the content of a file: PDF, office files and HTML are recognized by it."""
    by_suffix = loaders_by_suffix()
    pdf = by_suffix[".pdf"]
    if named.is_binary and named not in [by_suffix[suffix] for suffix in _RECOGNIZED]:
        return named
    head = data[:_HEAD_BYTES]
    refuse_encrypted(data)
    for what, signatures in _SIGNATURES.items():
        if head.startswith(signatures):
            raise BadInput(f"is not {named.name} but {what}")
    is_pdf = _PDF_SIGNATURE in head[:_PDF_WITHIN]
    if is_pdf and (named.is_binary or head.startswith(_PDF_SIGNATURE)):
        return pdf
    if head.startswith(_RTF):
        return by_suffix[".rtf"]
    if head.startswith(_ZIP):
        return _archive_loader(named, data)
    if named.detects_html and _HTML_START.match(head):
        return by_suffix[".html"]
    if named.is_binary:
        raise BadInput(f"is not {named.name}, as its suffix states")
    return named


def _archive_loader(named: Loader, data: bytes) -> Loader:
    """Return the loader for an archive by what is in it; a damaged one is that of its suffix."""
    try:
        found = loaders_by_suffix().get(kind_of_archive(data))
    except BadInput:
        if not named.is_binary:
            raise BadInput(f"is not {named.name} but {_ARCHIVE}") from None
        return named
    if found is None:
        raise BadInput(f"is not {named.name} but {_ARCHIVE}")
    return found
