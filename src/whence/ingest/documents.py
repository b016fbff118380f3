"""From paths to documents, one at a time: find, read, cut, and say what could not be."""

from __future__ import annotations

import bisect
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.content_hash import with_digest
from whence.ingest.decoding import read_bytes
from whence.ingest.formats import (
    MAX_DOCUMENT_BYTES,
    Format,
    format_of,
    sniffed,
    supported_suffixes,
)
from whence.ingest.load_results import LoadedDocument, LoadFailure, Outcome, Skipped, Unchanged
from whence.ingest.loaders.jsonl import Record, count_lines
from whence.ingest.sources import SourceFile, checked_paths, find_files
from whence.ingest.tags import combined
from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.errors import BadInput
from whence.schema.ingest import ChunkDraft, DocumentDraft

__all__ = ("MAX_DRAFT_BYTES", "KnownSources", "count", "load")

#: Largest document once cut, in bytes on the wire: one message of a broker carries it whole (5 MiB).
MAX_DRAFT_BYTES = 4 * 2**20

_NO_TAGS = DocumentTags()

#: Sources whose digests are asked for at once, and bytes of them that are held until the answer is there.
_WINDOW_SOURCES = 512
_WINDOW_BYTES = 4 * 2**20


class KnownSources(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored already, so that it need not be parsed again."""

    find: Callable[[Sequence[str]], Callable[[], Mapping[str, str]]]
    """Asks for the source digests stored for some document ids; gives what waits for the answer, in which ids
    without one are left out. Meanwhile the next sources are read."""
    reading: str = ""
    """What shapes the chunks beside the chunker's numbers: the model whose tokens are counted."""


class _Source(msgspec.Struct, frozen=True, gc=False):
    """A document that was read and not yet parsed."""

    document_id: str
    file: SourceFile
    format: Format
    data: bytes
    digest: str
    """Of the bytes and of how they are read; empty when nothing is asked about sources."""
    record: Record | None = None
    """Of a file of records: this one."""

    @property
    def shown(self) -> str:
        """Where it was read, for people."""
        return self.record.where if self.record else self.file.shown

    def parse(self) -> ParsedDocument:
        """Return the document, without blocks when it has no text.

        Raises:
            BadInput: It cannot be understood.
        """
        if self.record:
            return self.record.document()
        return sniffed(self.format, self.data).load(self.file, self.data)


def count(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Count what `load` will yield for some paths, nearly: blank lines of records are counted too.

    Cost: a look at each file, and reading through files of records. What cannot be read counts nothing.
    """
    total = 0
    for file in _files(checked_paths(paths)):
        total += 1
        if isinstance(file, SourceFile) and format_of(file).holds_records:
            try:
                total += count_lines(file.path) - 1
            except OSError:
                continue
    return total


def load(
    paths: Iterable[str | os.PathLike[str]],
    *,
    chunker: Chunker,
    tags: DocumentTags = _NO_TAGS,
    max_bytes: int = MAX_DOCUMENT_BYTES,
    known: KnownSources | None = None,
) -> Iterator[Outcome]:
    """Read everything below some paths; what cannot be read fails alone.

    The paths are checked before this returns; the documents are read as they are asked for. Order is
    by path as given, then by name, then by line. Memory holds one document, up to 8 MiB of those that are read
    ahead when `known` is given, and about 150 bytes for the id of each document so far.

    Args:
        paths: Files and folders.
        chunker: Cuts documents.
        tags: Rights for all documents, joined with each one's own, see `whence.ingest.tags.combined`.
        max_bytes: Largest file of text or record that is one document.
        known: Sources that are stored; those with the same digest are `Unchanged` and not parsed.

    Raises:
        BadInput: A path does not exist, lies inside another, or two files would get one id.
    """
    roots = checked_paths(paths)
    if len(roots) > 1:
        _refuse_equal_ids(roots)
    return _Loading(chunker, tags, max_bytes, known).run(roots)


def _refuse_equal_ids(roots: Sequence[Path]) -> None:
    """Look at all names first: of two files with one id the second would replace the first."""
    seen: dict[str, SourceFile] = {}
    for file in _files(roots):
        if not isinstance(file, SourceFile) or format_of(file).holds_records:
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


_Item = _Source | LoadFailure | Skipped


class _Loading:
    """One pass over some paths."""

    def __init__(
        self, chunker: Chunker, tags: DocumentTags, max_bytes: int, known: KnownSources | None
    ) -> None:
        self._chunker = chunker
        self._tags = tags
        self._max_bytes = max_bytes
        self._known = known
        #: In which file each id so far was.
        self._seen: dict[str, str] = {}
        self._context = hashlib.sha256()
        if known is not None:
            parts = (
                version("whence"),
                known.reading,
                chunker.signature,
                repr(tags),
                str(max_bytes),
            )
            self._context.update(_delimited(parts))

    def run(self, roots: Sequence[Path]) -> Iterator[Outcome]:
        if self._known is None:
            for item in self._items(roots):
                yield self._outcome(item, "")
            return
        asked: Sequence[_Item] = ()
        answer: Callable[[], Mapping[str, str]] = dict
        for window in self._windows(roots):
            # While the store looks one window up, the next is read.
            next_answer = self._known.find(
                [item.document_id for item in window if isinstance(item, _Source)]
            )
            yield from self._outcomes(asked, answer())
            asked, answer = window, next_answer
        yield from self._outcomes(asked, answer())

    def _windows(self, roots: Sequence[Path]) -> Iterator[list[_Item]]:
        """Yield what was found in portions that are asked about at once."""
        window: list[_Item] = []
        size = 0
        for item in self._items(roots):
            window.append(item)
            size += len(item.data) if isinstance(item, _Source) else 0
            if len(window) >= _WINDOW_SOURCES or size >= _WINDOW_BYTES:
                yield window
                window, size = [], 0
        if window:
            yield window

    def _items(self, roots: Sequence[Path]) -> Iterator[_Item]:
        for file in _files(roots):
            if not isinstance(file, SourceFile):
                yield file
                continue
            format_ = format_of(file)
            known_id = None if format_.holds_records else file.document_id
            try:
                if format_.holds_records:
                    yield from self._records(file, format_)
                else:
                    yield self._file(file, format_)
            except BadInput as error:
                yield LoadFailure(path=file.shown, reason=error.message, document_id=known_id)
            except OSError as error:
                reason = f"cannot be read: {error.strerror or error}"
                yield LoadFailure(path=file.shown, reason=reason, document_id=known_id)

    def _file(self, file: SourceFile, format_: Format) -> _Source | Skipped:
        data = read_bytes(file.path, format_.limit(self._max_bytes))
        if not data:
            return Skipped(path=file.shown, reason="empty")
        return _Source(file.document_id, file, format_, data, self._digest(data, file.document_id))

    def _records(self, file: SourceFile, format_: Format) -> Iterator[_Source | LoadFailure]:
        for record in format_.stream(file, self._max_bytes):
            if not isinstance(record, Record):
                yield record
                continue
            digest = self._digest(record.line.strip(), file.document_id)
            yield _Source(record.document_id, file, format_, record.line, digest, record)

    def _digest(self, data: bytes, name: str) -> str:
        if self._known is None:
            return ""
        digest = self._context.copy()
        # The length of the name keeps name and content apart.
        digest.update(b"%d:%b" % (len(name), name.encode()))
        digest.update(data)
        return digest.hexdigest()

    def _outcomes(self, window: Sequence[_Item], stored: Mapping[str, str]) -> Iterator[Outcome]:
        for item in window:
            known = stored.get(item.document_id, "") if isinstance(item, _Source) else ""
            yield self._outcome(item, known)

    def _outcome(self, source: _Item, stored: str) -> Outcome:
        """Cut and check one document."""
        if not isinstance(source, _Source):
            return source
        try:
            self._refuse_known_id(source.document_id)
            if stored and stored == source.digest:
                self._seen[source.document_id] = source.file.document_id
                return Unchanged(document_id=source.document_id, kind=source.format.name)
            parsed = source.parse()
            if not parsed.blocks:
                return Skipped(path=source.shown, reason="holds no text")
            draft = _draft(parsed, self._chunker, combined(parsed.tags, self._tags), source.digest)
        except BadInput as error:
            return LoadFailure(
                path=source.shown, reason=error.message, document_id=source.document_id
            )
        self._seen[source.document_id] = source.file.document_id
        return LoadedDocument(draft=draft, text=parsed.text, kind=source.format.name)

    def _refuse_known_id(self, document_id: str) -> None:
        if document_id in self._seen:
            raise BadInput(f"the id {document_id!r} is in {self._seen[document_id]} already")


def _delimited(parts: Sequence[str]) -> bytes:
    """Return bytes that no other parts give."""
    return b"".join(b"%d:%b" % (len(part), part) for part in (each.encode() for each in parts))


def _draft(
    parsed: ParsedDocument, chunker: Chunker, tags: DocumentTags, source_digest: str
) -> DocumentDraft:
    if len(parsed.text) > MAX_DRAFT_BYTES:
        raise _too_long(len(parsed.text))
    draft = with_digest(
        DocumentDraft(
            document_id=parsed.document_id,
            chunks=_on_pages(chunker.cut(parsed), parsed.pages),
            title=parsed.title,
            source_file=parsed.source_file,
            source_url=parsed.source_url,
            tags=tags,
            metadata=parsed.metadata,
            source_digest=source_digest,
        )
    )
    size = len(encode(draft))
    if size > MAX_DRAFT_BYTES:
        raise _too_long(size)
    return draft


def _on_pages(chunks: tuple[ChunkDraft, ...], pages: Sequence[int]) -> tuple[ChunkDraft, ...]:
    """Return the chunks with the pages they begin on."""
    if not pages:
        return chunks
    return tuple(
        msgspec.structs.replace(chunk, page=bisect.bisect_right(pages, chunk.start))
        for chunk in chunks
    )


def _too_long(size: int) -> BadInput:
    return BadInput(
        f"is too long for one document: {size:,} bytes of {MAX_DRAFT_BYTES:,}, headings and overlap "
        "included; split it"
    )
