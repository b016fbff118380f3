"""Find the loader of a file, among the built-in ones and those of the entry-point group `whence.loaders`.

The value of an entry point is a `Loader`, or a tuple of them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from whence.ingest import loaders
from whence.ingest.content_detection import (
    ANY_TEXT,
    ARCHIVE,
    HEAD_BYTES,
    PDF_SIGNATURE,
    foreign_kind,
    format_of,
    has_columns,
    has_pdf_signature,
    is_html,
    is_packed,
    is_rtf,
    why_not_text,
)
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput, ConfigError
from whence.schema.plugins import load_plugin, plugin_names

GROUP = "whence.loaders"


def loader_for(file: SourceFile) -> Loader:
    """Return the loader for the suffix of a file; that of any text if no loader has it."""
    by_suffix = loaders_by_suffix()
    return by_suffix.get(file.suffix) or by_suffix[ANY_TEXT]


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


#: Suffixes whose content is known, so that another content under them is found.
_KNOWN_BY_CONTENT = (
    *(
        ".pdf",
        ".docx",
        ".pptx",
        ".xlsx",
        ".xls",
        ".ods",
        ".odt",
        ".odp",
        ".rtf",
        ".epub",
        ".doc",
        ".ppt",
    ),
)


def detect_loader(named: Loader, data: bytes) -> Loader:
    """Return the loader for the content of a file, which takes precedence over its suffix.

    Raises:
        BadInput: It is no document, or one of a format that no loader reads.
    """
    by_suffix = loaders_by_suffix()
    known = [by_suffix[suffix] for suffix in _KNOWN_BY_CONTENT if suffix in by_suffix]
    if named.is_binary and named not in known:
        return named
    head = data[:HEAD_BYTES]
    if what := foreign_kind(head):
        raise BadInput(f"not in the format of its suffix, {named.name}, but {what}")
    if is_packed(head):
        return _packed_loader(named, format_of(data))
    if has_pdf_signature(head) and (named.is_binary or head.startswith(PDF_SIGNATURE)):
        return by_suffix[".pdf"]
    if is_rtf(head):
        return _packed_loader(named, ".rtf")
    if named.detects_html and is_html(head):
        return by_suffix[".html"]
    return _loader_of_text(named, data) if named.is_binary else named


def _loader_of_text(named: Loader, data: bytes) -> Loader:
    """Return the loader of a file without the signature of a binary format.

    Many programs write a page or rows with signs between cells, and name them as an Office file.

    Raises:
        BadInput: It is another one; in place of a PDF a page says why there is no PDF.
    """
    by_suffix = loaders_by_suffix()
    head = data[:HEAD_BYTES]
    page = is_html(head)
    if page and named is not by_suffix.get(".pdf"):
        return by_suffix[".html"]
    is_text = not why_not_text(head, is_whole=len(data) <= HEAD_BYTES)
    if is_text and named is by_suffix[".xls"] and has_columns(head):
        return by_suffix[".csv"]
    what = "a page in HTML" if page else "plain text" if is_text else "damaged, or something else"
    raise BadInput(f"not in the format of its suffix, {named.name}, but {what}")


def _packed_loader(named: Loader, suffix: str) -> Loader:
    """Return the loader of a zip file, a compound file or RTF, whose format was found."""
    by_suffix = loaders_by_suffix()
    if suffix and suffix in by_suffix:
        found = by_suffix[suffix]
        # `.xlsm` and `.xlsb` are found as `.xlsx`; a plug-in may read one of them.
        return named if named.is_binary and named.name == found.name else found
    if suffix:
        raise BadInput(
            f"not in the format of its suffix, {named.name}, but {suffix}, which no loader reads"
        )
    if named.is_binary and named is not loaders_by_suffix().get(".pdf"):
        return named
    raise BadInput(f"not in the format of its suffix, {named.name}, but {ARCHIVE}")
