"""From paths to documents, one at a time: find, read, cut, and say what could not be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.digest import with_digest
from whence.ingest.outcomes import LoadedDocument, LoadFailure, Skipped
from whence.ingest.sources import SourceFile, checked_paths, find_files, suffix_of
from whence.ingest.tags import combined
from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.errors import BadInput
from whence.schema.ingest import DocumentDraft

__all__ = ("MAX_DOCUMENT_BYTES", "MAX_DRAFT_BYTES", "load", "supported_suffixes")

#: Largest file that is one document, and longest record of a `.jsonl`, in bytes.
MAX_DOCUMENT_BYTES = 16 * 2**20
#: Largest document once cut, in bytes on the wire: one message of a broker carries it whole (5 MiB).
MAX_DRAFT_BYTES = 4 * 2**20

_NO_TAGS = DocumentTags()

Loaded = ParsedDocument | LoadFailure | Skipped
Loader = Callable[[SourceFile, int], Iterator[Loaded]]


class _Format(msgspec.Struct, frozen=True):
    """How files with one suffix are read."""

    module: str
    function: str
    one_document: bool = True
    """False when the ids are those of records in the file."""

    def loader(self) -> Loader:
        """Import the loader, so that a kind of file costs nothing until one is met."""
        from importlib import import_module

        loader: Loader = getattr(import_module(f"whence.ingest.{self.module}"), self.function)
        return loader


_MARKDOWN = _Format("markdown", "load_markdown")
_TEXT = _Format("text", "load_text")
_FORMATS: Mapping[str, _Format] = {
    ".jsonl": _Format("jsonl", "load_jsonl", one_document=False),
    ".markdown": _MARKDOWN,
    ".md": _MARKDOWN,
    ".text": _TEXT,
    ".txt": _TEXT,
}


def supported_suffixes() -> tuple[str, ...]:
    """Give the suffixes of the files that are read, sorted."""
    return tuple(sorted(_FORMATS))


def load(
    paths: Iterable[str | os.PathLike[str]],
    *,
    chunker: Chunker,
    tags: DocumentTags = _NO_TAGS,
    max_bytes: int = MAX_DOCUMENT_BYTES,
) -> Iterator[LoadedDocument | LoadFailure | Skipped]:
    """Read everything below some paths; what cannot be read fails alone.

    The paths are checked before this returns; the documents are read as they are asked for. Order is
    by path as given, then by name, then by line. Memory holds one document and about 150 bytes for the
    id of each document so far.

    Args:
        paths: Files and folders.
        chunker: Cuts documents.
        tags: Rights for all documents, joined with each one's own, see `whence.ingest.tags.combined`.
        max_bytes: Largest file or record that is one document.

    Raises:
        BadInput: A path does not exist, lies inside another, or two files would get one id.
    """
    roots = checked_paths(paths)
    if len(roots) > 1:
        _refuse_equal_ids(roots)
    return _loaded(roots, chunker, tags, max_bytes)


def _refuse_equal_ids(roots: Sequence[Path]) -> None:
    """Look at all names first: of two files with one id the second would replace the first."""
    seen: dict[str, SourceFile] = {}
    for file in _files(roots):
        if (
            not isinstance(file, SourceFile)
            or not _FORMATS[suffix_of(file.document_id)].one_document
        ):
            continue
        first = seen.setdefault(file.document_id, file)
        if first is not file:
            raise BadInput(
                f"{first.shown} and {file.shown} would both have the id {file.document_id!r}",
                hint="index the folder that holds both, or one collection each",
            )


def _files(roots: Sequence[Path]) -> Iterator[SourceFile | LoadFailure | Skipped]:
    for root in roots:
        yield from find_files(root, supported_suffixes())


def _loaded(
    roots: Sequence[Path], chunker: Chunker, tags: DocumentTags, max_bytes: int
) -> Iterator[LoadedDocument | LoadFailure | Skipped]:
    seen: dict[str, str] = {}
    for file in _files(roots):
        if not isinstance(file, SourceFile):
            yield file
            continue
        for item in _parsed(file, max_bytes):
            if isinstance(item, ParsedDocument):
                yield _finished(item, chunker, tags, seen)
            else:
                yield item


def _parsed(file: SourceFile, max_bytes: int) -> Iterator[Loaded]:
    """Yield what is in a file, and last the reason why it cannot be read further."""
    format_ = _FORMATS[suffix_of(file.document_id)]
    known_id = file.document_id if format_.one_document else None
    try:
        yield from format_.loader()(file, max_bytes)
    except BadInput as error:
        yield LoadFailure(path=file.shown, reason=error.message, document_id=known_id)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        yield LoadFailure(path=file.shown, reason=reason, document_id=known_id)


def _finished(
    parsed: ParsedDocument, chunker: Chunker, tags: DocumentTags, seen: dict[str, str]
) -> LoadedDocument | LoadFailure | Skipped:
    """Cut and check one document; `seen` tells in which file each id so far was."""
    if not parsed.blocks:
        return Skipped(path=parsed.shown, reason="holds no text")
    try:
        _refuse_known_id(parsed.document_id, seen)
        draft = _draft(parsed, chunker, combined(parsed.tags, tags))
    except BadInput as error:
        return LoadFailure(path=parsed.shown, reason=error.message, document_id=parsed.document_id)
    seen[parsed.document_id] = parsed.source_file
    return LoadedDocument(draft=draft, text=parsed.text)


def _refuse_known_id(document_id: str, seen: Mapping[str, str]) -> None:
    if document_id in seen:
        raise BadInput(f"the id {document_id!r} is in {seen[document_id]} already")


def _draft(parsed: ParsedDocument, chunker: Chunker, tags: DocumentTags) -> DocumentDraft:
    if len(parsed.text) > MAX_DRAFT_BYTES:
        raise _too_long(len(parsed.text))
    draft = with_digest(
        DocumentDraft(
            document_id=parsed.document_id,
            chunks=chunker.cut(parsed),
            title=parsed.title,
            source_file=parsed.source_file,
            source_url=parsed.source_url,
            tags=tags,
            metadata=parsed.metadata,
        )
    )
    size = len(encode(draft))
    if size > MAX_DRAFT_BYTES:
        raise _too_long(size)
    return draft


def _too_long(size: int) -> BadInput:
    return BadInput(
        f"is too long for one document: {size:,} bytes of {MAX_DRAFT_BYTES:,}, headings and overlap "
        "included; split it"
    )
