"""Load documents from paths, one at a time: find files, parse them, split them into chunks."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from whence.ingest.blocks import Member, ParsedDocument
from whence.ingest.catalogue import Catalogue
from whence.ingest.chunking import Chunker
from whence.ingest.content_detection import HEAD_BYTES, is_by_content, readable_suffix
from whence.ingest.decoding import check_encoding, read_bytes
from whence.ingest.document_builder import MAX_TEXT
from whence.ingest.document_dates import iso_date
from whence.ingest.field_validation import merge_tags, validate_id
from whence.ingest.folder_rights import FolderRights
from whence.ingest.load_results import (
    LoadedDocument,
    LoadFailure,
    LoadResult,
    ReadSource,
    Skipped,
    Unchanged,
)
from whence.ingest.loader_registry import loader_for, loaders_by_suffix
from whence.ingest.loaders.base import Loader, Record
from whence.ingest.ocr import OFF as OCR_OFF
from whence.ingest.ocr import PROGRAM as OCR_PROGRAM
from whence.ingest.ocr import signature
from whence.ingest.passwords import Passwords
from whence.ingest.reader import DocumentReader, ReaderStopped
from whence.ingest.reading_process import failure_reason, read_document
from whence.ingest.remote_sources import SourceEntry
from whence.ingest.selection import Selection
from whence.ingest.sources import (
    Found,
    SourceFile,
    file_digest,
    find_files,
    suffix_of,
    time_of_change,
    validate_paths,
)
from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.errors import BadInput, ModelMissing
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.places import Place, place_of
from whence.schema.version import VERSION
from whence.store.document_text import gaps_between

#: Changes when documents must be stored again, e.g. because their text is analysed in another way.
_VERSION = b"whence document 2\n"


def content_hash(draft: DocumentDraft) -> str:
    """Return the SHA-256, in hexadecimal, of what is embedded and shown of a document.

    Its tags, root, places, date, encoding, source digest and what its loader left out are no part of it. It
    covers the wire form with its chunks, so other chunker settings change it where chunk borders move. Lines
    that move in the file change the places alone, and nothing is embedded for them.
    """
    stored = replace(
        draft,
        tags=DocumentTags(),
        root="",
        places=(),
        date="",
        encoding="",
        left_out={},
        digest="",
        source_digest="",
    )
    return hashlib.sha256(_VERSION + encode(stored)).hexdigest()


#: Changes when tags are merged in another way, so that documents that both tag are tagged again.
_MERGE_RULE = "acl: common tags"
#: Largest text file that is one document, and longest record, in bytes.
MAX_DOCUMENT_BYTES = 16 * 2**20
#: Largest binary file, in bytes: most of a PDF or Word file is pictures, which are not read.
_MAX_BINARY_BYTES = 128 * 2**20
#: Largest chunked document, in bytes on the wire: it is one message of a broker (limit 5 MiB).
MAX_DRAFT_BYTES = MAX_TEXT

#: Changes when text is decoded in another way, so that it is read again.
_DECODING = b"decoding 2"
_NO_TAGS = DocumentTags()
#: Nanoseconds after a change within which another one may leave a file with the same time: FAT counts in 2 s.
_SAME_TIME_NS = 2 * 10**9
_COUNT_BLOCK_BYTES = 2**20
#: Sources whose digests are looked up together, and their bytes that are in memory meanwhile.
_WINDOW_SOURCES = 512
_WINDOW_BYTES = 4 * 2**20
#: Plain files up to this size are parsed in this process. Starting another takes as long as parsing a hundred
#: of them, and the worst known of this size takes less than half a second.
_SMALL_BYTES = 8 * 2**10
#: Most documents that a document is inside of: a mail in a mail has 1.
_MAX_DEPTH = 4
#: Files, and their bytes, that are sent to the reader before the first of them is returned.
_AHEAD = 16
_AHEAD_BYTES = 4 * 2**20


class KnownSources(msgspec.Struct, frozen=True, kw_only=True):
    """Sources that are stored, so that unchanged ones are not parsed again."""

    lookup: Callable[[Sequence[str]], Callable[[], Mapping[str, str]]]
    """Starts to look up the source digests of some document ids, and returns a function that waits for the
    result; ids without a digest are absent from it. The next sources are read meanwhile."""
    tokenizer: str = ""
    """Name of the model whose tokens the chunker counts."""
    reads_all: bool = False
    """Whether files are read whose size and time of change are those of the last run."""


class _Source(msgspec.Struct, frozen=True, gc=False):
    document_id: str
    file: SourceFile
    loader: Loader
    data: bytes
    digest: str
    """Of the bytes and of the settings of loading; empty without `KnownSources`."""
    source: ReadSource
    record: Record | None = None
    depth: int = 0
    """How many documents it is inside of."""
    part: str = ""
    """Path for display, if it is a part of the file."""
    is_read: bool = True
    """Whether it has its bytes; else its size and time are those of the last run, and so is its digest."""

    @property
    def display_path(self) -> str:
        return self.part or (self.record.display_path if self.record else self.file.display_path)

    @property
    def line(self) -> int:
        """Line of its record; 0 for a whole file."""
        return self.record.line_number if self.record else 0


def count_documents(paths: Iterable[str | os.PathLike[str]], exclude: Sequence[str] = ()) -> int:
    """Estimate how many results `load_documents` yields for some paths; blank lines of records count as well.

    Cost: one look at each file; files of records are read. Files that cannot be read are not counted.
    """
    total = 0
    for file in _files(validate_paths(paths), exclude=exclude):
        total += 1
        if isinstance(file, SourceFile) and loader_for(file).parse_record is not None:
            try:
                total += _count_lines(file.path) - 1
            except OSError:
                continue
    return total


def load_documents(
    paths: Iterable[str | os.PathLike[str]],
    *,
    chunker: Chunker,
    tags: DocumentTags = _NO_TAGS,
    max_bytes: int = MAX_DOCUMENT_BYTES,
    known: KnownSources | None = None,
    reader: DocumentReader | None = None,
    encoding: str = "",
    catalogue: Catalogue | None = None,
    exclude: Sequence[str] = (),
    rights: FolderRights | None = None,
    only: Selection | None = None,
    passwords: Passwords | None = None,
) -> Iterator[LoadResult]:
    """Load all files below some paths; a file that cannot be read does not affect the others.

    The paths are checked before this returns; the documents are read lazily. The order is that of the paths,
    then by name, then by line. Memory holds one document, up to 8 MiB of sources that are read ahead if
    `known` is given, and about 150 bytes for the id of each document.

    Args:
        paths: Files and folders.
        chunker: Splits documents into chunks.
        tags: Access tags for all documents, merged with those of each document, see `merge_tags`.
        max_bytes: Largest text file or record that is one document.
        known: Stored sources; those with the same digest are `Unchanged` and not parsed.
        reader: Parses files within limits, except small plain ones. Without it all are parsed in this process,
            which is for trusted files.
        encoding: Encoding of text that declares none and is not UTF-8, as Python names it; empty to detect it.
        catalogue: Knows roots and ids of what is stored; without it an id is a path relative to a folder.
        exclude: Patterns of files to leave out.
        rights: Further tags of files by their path; files without a rule fail.
        only: What is looked at of folders; None for all.
        passwords: Of encrypted files; the file that they are from is no document.

    Raises:
        BadInput: A path does not exist, is inside another, or two files would have one id.
    """
    roots = validate_paths(paths)
    if len(roots) > 1 and catalogue is None:
        _refuse_equal_ids(roots)
    run = _LoadRun(chunker, tags, max_bytes, known, reader)
    run.catalogue = catalogue or Catalogue()
    run.exclude, run.rights, run.only = exclude, rights, only
    run.passwords = passwords or run.passwords
    run.encoding = check_encoding(encoding) if encoding else ""
    return run.run(roots)


def _refuse_equal_ids(roots: Sequence[Path]) -> None:
    """Compare all names first: of two files with one id the second would replace the first."""
    first_files: dict[str, SourceFile] = {}
    for file in _files(roots):
        if not isinstance(file, SourceFile) or loader_for(file).records is not None:
            continue
        first = first_files.setdefault(file.document_id, file)
        if first is not file:
            raise BadInput(
                f"{first.display_path} and {file.display_path} would both have the id"
                f" {file.document_id!r}",
                hint="index the folder that holds both, or one collection each",
            )


def _files(
    roots: Sequence[Path],
    catalogue: Catalogue | None = None,
    exclude: Sequence[str] = (),
    only: Selection | None = None,
) -> Iterator[Found]:
    suffixes = loaders_by_suffix().keys()
    for root in roots:
        yield from find_files(root, suffixes, catalogue=catalogue, exclude=exclude, only=only)


_Item = _Source | LoadFailure | Skipped


class _LoadRun:
    def __init__(
        self,
        chunker: Chunker,
        tags: DocumentTags,
        max_bytes: int,
        known: KnownSources | None,
        reader: DocumentReader | None,
    ) -> None:
        self._chunker = chunker
        self._tags = tags
        self._max_bytes = max_bytes
        self._known = known
        self._reader = reader
        self.catalogue = Catalogue()
        self.exclude: Sequence[str] = ()
        self.only: Selection | None = None
        self.rights: FolderRights | None = None
        self.encoding = ""
        self.passwords = Passwords()
        #: File of each document id that was loaded.
        self._loaded: dict[str, str] = {}
        self._settings_hash = hashlib.sha256()
        if known is not None:
            settings = (VERSION, known.tokenizer, chunker.signature, repr(tags))
            merge_rule = (_MERGE_RULE,) if tags.acl else ()
            for part in (*settings, str(max_bytes), *merge_rule):
                self._settings_hash.update(_with_length(part.encode()))

    def run(self, roots: Sequence[Path]) -> Iterator[LoadResult]:
        if self._known is None:
            yield from self._results(self._items(roots), {})
            return
        previous: Sequence[_Item] = ()
        stored_digests: Callable[[], Mapping[str, str]] = dict
        for window in self._windows(roots):
            # The store looks up one window while the next one is read.
            lookup = self._known.lookup(
                [item.document_id for item in window if isinstance(item, _Source)]
            )
            yield from self._results(previous, stored_digests())
            previous, stored_digests = window, lookup
        yield from self._results(previous, stored_digests())

    def _windows(self, roots: Sequence[Path]) -> Iterator[list[_Item]]:
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
        for found in _files(roots, self.catalogue, self.exclude, self.only):
            if not isinstance(found, SourceFile):
                yield self._with_rights(found)
                continue
            if self.passwords.is_their_file(found.path):
                reason = "the file of passwords"
                secret = Skipped(path=found.display_path, reason=reason, is_wanted=False)
                yield self._with_rights(replace(secret, root=found.root, file=found.document_id))
                continue
            file = replace(found, encoding=self.encoding) if self.encoding else found
            loader = loader_for(file)
            source = ReadSource(root=file.root, file=file.document_id)
            try:
                source = replace(source, tags=self._tags_of(file.document_id))
            except BadInput as error:
                failure = _failure(file.display_path, source, error)
                yield replace(failure, tags=None)
                continue
            try:
                if loader.records is None:
                    source = replace(source, document_id=self._document_id(file))
                for item in self._sources(file, loader, source):
                    yield _in_file(item, source)
            except Exception as error:  # noqa: BLE001 - the failure of this file alone
                yield _failure(file.display_path, source, error)

    def _document_id(self, file: SourceFile) -> str:
        written = file.written or file.document_id
        return self.catalogue.document_id(file.root, file.document_id, written)

    def _tags_of(self, path: str) -> DocumentTags:
        """Return the tags that the run gives a file; `BadInput` when the rules have none for it."""
        if self.rights is None:
            return self._tags
        return merge_tags(self.rights.tags_of(path), self._tags)

    def _with_rights(self, found: LoadFailure | Skipped) -> LoadFailure | Skipped:
        """Return a file that is not read with the tags of those who may know of it."""
        try:
            return replace(found, tags=self._tags_of(found.file))
        except BadInput:
            return replace(found, tags=None)

    def _sources(self, file: SourceFile, loader: Loader, source: ReadSource) -> Iterator[_Item]:
        if loader.records is None:
            yield self._file(file, loader, source)
            return
        source = _with_times(source, file.path)
        for record in loader.records(file, self._max_bytes):
            if isinstance(record, Record):
                if loader.parse_record is None:
                    yield self._message(file, record, source)
                    continue
                placed = b"%d:%b" % (record.line_number, record.line.strip())
                digest = self._source_digest(placed, file.document_id, loader, source)
                yield _Source(record.document_id, file, loader, record.line, digest, source, record)
            else:
                yield record

    def _message(self, file: SourceFile, record: Record, source: ReadSource) -> _Source:
        """Return a record that is a file of its own."""
        rest = record.file.document_id.removeprefix(file.document_id)
        document_id = self._document_id(file) + rest
        return self._part(record.file, record.line, source, document_id, path=record.display_path)

    def _file(self, file: SourceFile, loader: Loader, source: ReadSource) -> _Source | Skipped:
        source = _with_times(source, file.path)
        last = self._last_digest(source)
        if not last:
            return self._read(file, loader, source)
        source = replace(source, digest=last)
        digest = self._digest(last, file.document_id, loader, source)
        return _Source(source.document_id, file, loader, b"", digest, source, is_read=False)

    def _last_digest(self, source: ReadSource) -> str:
        """Return the digest of a file that is certainly as the last run read it; else nothing."""
        known = self.catalogue.files.get((source.root, source.file))
        if known is None or self._known is None or self._known.reads_all or not source.modified:
            return ""
        size, modified, digest = known[1]
        return digest if (size, modified) == (source.size, source.modified) else ""

    def _read(self, file: SourceFile, loader: Loader, source: ReadSource) -> _Source | Skipped:
        limit = max(self._max_bytes, _MAX_BINARY_BYTES) if loader.is_binary else self._max_bytes
        data = read_bytes(file.path, limit)
        if not data:
            return Skipped(path=file.display_path, reason="empty", size=0)
        source = replace(source, digest=file_digest(data))
        return self._part(file, data, source, source.document_id)

    def _part(
        self,
        file: SourceFile,
        data: bytes,
        source: ReadSource,
        document_id: str,
        *,
        depth: int = 0,
        path: str = "",
    ) -> _Source:
        """Return a file, or a document inside one, which has a path for display."""
        loader = loader_for(file)
        digest = self._source_digest(data, file.document_id, loader, source)
        return _Source(document_id, file, loader, data, digest, source, depth=depth, part=path)

    def _members(self, parent: _Source, parsed: ParsedDocument) -> Iterator[_Item]:
        """Yield the documents inside a document."""
        for member in parsed.members:
            item = self._member(parent, member)
            yield _in_file(item, parent.source)

    def _member(self, parent: _Source, member: Member) -> _Item:
        document_id = f"{parent.document_id}/{member.name}"
        path = f"{parent.display_path}/{member.name}"
        try:
            suffix = suffix_of(member.name)
            if parent.depth == _MAX_DEPTH:
                raise BadInput(f"inside more than {_MAX_DEPTH} others")  # noqa: TRY301
            validate_id(document_id, "its path")
            suffixes = loaders_by_suffix().keys()
            if is_by_content(suffix, suffixes):
                head = member.data[:HEAD_BYTES]
                suffix = readable_suffix(suffix, suffixes, head, lambda: member.data)
        except BadInput as error:
            part = _inside(parent.file, path)
            return Skipped(path=path, reason=error.message, document_id=document_id, part=part)
        file = replace(parent.file, document_id=document_id, suffix=suffix)
        if not member.data:
            return Skipped(path=path, reason="empty", part=_inside(file, path))
        if loader_for(file).records is not None:
            reason = "a file of records inside a document"
            return Skipped(path=path, reason=reason, part=_inside(file, path))
        depth = parent.depth + 1
        return self._part(file, member.data, parent.source, document_id, depth=depth, path=path)

    def _source_digest(self, data: bytes, name: str, loader: Loader, source: ReadSource) -> str:
        return "" if self._known is None else self._digest(file_digest(data), name, loader, source)

    def _digest(self, of_bytes: str, name: str, loader: Loader, source: ReadSource) -> str:
        digest = self._settings_hash.copy()
        digest.update(b"%d:%b" % (len(name), name.encode()))
        if loader.version:
            digest.update(_with_length(loader.version.encode()))
        if self.rights is not None:
            digest.update(_with_length(repr(source.tags).encode()))
        if self.encoding:
            digest.update(_with_length(self.encoding.encode()))
        if not loader.is_binary:
            digest.update(_DECODING)
        if loader.reads_pictures and self._reader is not None:
            digest.update(_with_length(signature(self._reader.ocr).encode()))
        entry = self.catalogue.entries.get((source.root, source.file))
        if entry is not None:
            digest.update(_with_length(repr((sorted(entry.metadata.items()), entry.url)).encode()))
        # The bytes stand apart: with the same ones only the way of reading has changed.
        return f"{digest.hexdigest()}-{of_bytes}"

    def _results(self, items: Iterable[_Item], stored: Mapping[str, str]) -> Iterator[LoadResult]:
        """Yield the results of some items in order; a few files are sent to the reader ahead of theirs."""
        begun: deque[tuple[_Item, bool]] = deque()
        size = 0
        for found in items:
            item = self._needed(found, stored)
            is_sent = isinstance(item, _Source) and self._send(item, stored)
            begun.append((item, is_sent))
            size += len(item.data) if isinstance(item, _Source) else 0
            while begun and (len(begun) > _AHEAD or size > _AHEAD_BYTES or not begun[0][1]):
                first, was_sent = begun.popleft()
                size -= len(first.data) if isinstance(first, _Source) else 0
                yield from self._finished(first, stored, begun, was_sent)
        while begun:
            first, was_sent = begun.popleft()
            yield from self._finished(first, stored, begun, was_sent)

    def _needed(self, item: _Item, stored: Mapping[str, str]) -> _Item:
        """Read a file with the time of the last run, if what is stored was read in another way or is gone."""
        if not isinstance(item, _Source) or item.is_read or self._is_known(item, stored):
            return item
        try:
            return _in_file(self._read(item.file, item.loader, item.source), item.source)
        except Exception as error:  # noqa: BLE001 - the failure of this file alone
            return _failure(item.file.display_path, item.source, error)

    def _finished(
        self,
        item: _Item,
        stored: Mapping[str, str],
        begun: deque[tuple[_Item, bool]],
        was_sent: bool,
    ) -> Iterator[LoadResult]:
        """Yield the result of an item, and begin the documents inside it."""
        members: list[_Item] = []
        result = self._result(item, stored, was_sent, members)
        if isinstance(item, _Source) and isinstance(result, LoadFailure | Skipped):
            result = replace(result, part=_inside(item.file, item.part))
        yield result
        for each in members:
            begun.append((each, isinstance(each, _Source) and self._send(each, stored)))

    def _send(self, source: _Source, stored: Mapping[str, str]) -> bool:
        """Send a file to the reader if it is to be parsed there; return whether it was sent."""
        is_small = source.loader.is_plain and len(source.data) <= _SMALL_BYTES
        if self._reader is None or is_small or source.record or self._is_known(source, stored):
            return False
        if self._why_skipped(source.loader):
            return False
        self._reader.submit(source.file, source.data, self.passwords)
        return True

    def _why_skipped(self, loader: Loader) -> str:
        """Return why no file of a loader is read; empty when they are."""
        if not loader.is_installed:
            return loader.why_skipped
        is_off = self._reader is not None and self._reader.ocr == "off"
        return OCR_OFF if is_off and loader.program == OCR_PROGRAM else ""

    def _is_known(self, source: _Source, stored: Mapping[str, str]) -> bool:
        return bool(source.digest) and stored.get(source.document_id) == source.digest

    def _is_again(self, source: _Source, stored: Mapping[str, str]) -> bool:
        """Return whether a source is read again though its bytes are stored, as far as is known."""
        known = stored.get(source.document_id, "")
        return bool(known) and known.partition("-")[2] in ("", source.digest.partition("-")[2])

    def _result(
        self, item: _Item, stored: Mapping[str, str], was_sent: bool, members: list[_Item]
    ) -> LoadResult:
        if not isinstance(item, _Source):
            return item
        document_id, kind = item.document_id, item.loader.name
        if document_id in self._loaded:
            if was_sent:
                self._discard()
            reason = f"the id {document_id!r} is in {self._loaded[document_id]} already"
            failure = LoadFailure(
                path=item.display_path, reason=reason, document_id=document_id, line=item.line
            )
            return _in_file(failure, item.source)
        is_known = self._is_known(item, stored)
        reason = "" if is_known else self._why_skipped(item.loader)
        if reason:
            skipped = Skipped(path=item.display_path, reason=reason, document_id=document_id)
            return _in_file(skipped, item.source)
        try:
            parsed = None if is_known else self._parse(item, was_sent)
            draft, size = (None, 0) if parsed is None else self._drafted(parsed, item)
            members.extend(self._members(item, parsed) if parsed and parsed.members else ())
        except (ReaderStopped, ModelMissing):
            # Without its model no document can be cut into chunks.
            raise
        except Exception as error:  # noqa: BLE001 - the failure of this document alone
            failure = _failure(item.display_path, item.source, error, document_id)
            return replace(failure, line=item.line)
        result: LoadResult
        if parsed is None:
            result = Unchanged(document_id=document_id, kind=kind, source=item.source)
        elif draft is None:
            return _in_file(_without_text(item, parsed.left_out), item.source)
        else:
            result = LoadedDocument(
                draft=draft,
                text=parsed.text,
                kind=kind,
                size=size,
                source=item.source,
                is_again=self._is_again(item, stored),
            )
        self._loaded[document_id] = item.file.document_id
        return result

    def _drafted(self, parsed: ParsedDocument, item: _Source) -> tuple[DocumentDraft | None, int]:
        """Return a document with its chunks, and its bytes on the wire; None if it has no text."""
        if not parsed.blocks:
            return None, 0
        source = item.source
        if item.record is None and item.document_id != item.file.document_id:
            # The loader calls a file by its path, which another root of the collection has, too.
            rest = parsed.document_id.removeprefix(item.file.document_id)
            parsed = replace(parsed, document_id=item.document_id + rest)
        if item.part:
            parsed = replace(parsed, source_file=source.file)
        entry = self.catalogue.entries.get((source.root, source.file))
        if entry is not None:
            parsed = _described(parsed, entry)
        tags = merge_tags(parsed.tags, source.tags)
        return _draft(parsed, self._chunker, tags, item.digest, source.root)

    def _discard(self) -> None:
        """Leave out the document that was read for an id that is loaded already."""
        with suppress(BadInput):
            assert self._reader is not None
            self._reader.result()

    def _parse(self, source: _Source, was_sent: bool) -> ParsedDocument:
        if source.record is not None and source.loader.parse_record is not None:
            return source.loader.parse_record(source.record)
        if was_sent and self._reader is not None:
            return self._reader.result()
        # What takes long to decrypt goes to the process with limits.
        passwords = () if self._reader else tuple(self.passwords)
        return read_document(source.file, source.data, passwords)


def _described(parsed: ParsedDocument, entry: SourceEntry) -> ParsedDocument:
    """Return a document with what its source says of its file; its own words have precedence."""
    states_url = parsed.source_url not in ("", parsed.source_file)
    return replace(
        parsed,
        metadata=entry.metadata | parsed.metadata,
        date=parsed.date or iso_date(entry.metadata.get("date", "")),
        source_url=parsed.source_url if states_url else entry.url or parsed.source_url,
    )


def _without_text(item: _Source, left_out: Mapping[str, int]) -> Skipped:
    """Return a document without text, with what it has instead: a text may be a picture of one."""
    seen = {kind: count for kind, count in left_out.items() if count}
    only = f", only {', '.join(sorted(seen))}" if seen else ""
    reason = f"contains no text{only}"
    return Skipped(path=item.display_path, reason=reason, line=item.line, left_out=seen)


def _inside(file: SourceFile, part: str) -> str:
    """Return the path of a document inside a file, from its path for display."""
    return part.removeprefix(f"{file.display_path}/")


def _failure(
    path: str, source: ReadSource, error: Exception, document_id: str | None = None
) -> LoadFailure:
    failure = LoadFailure(
        path=path,
        reason=failure_reason(error),
        document_id=document_id or source.document_id or None,
    )
    return _in_file(failure, source)


_I = TypeVar("_I", bound="_Item")


def _in_file(item: _I, source: ReadSource) -> _I:
    """Return a failure or what was skipped with the file that it is in."""
    if isinstance(item, _Source):
        return item
    return replace(item, root=source.root, file=source.file, tags=source.tags)


def _with_times(source: ReadSource, path: str) -> ReadSource:
    """Return a file with its size and time of change, as they are before it is read."""
    found = os.stat(path)  # noqa: PTH116 - paths are strings here, see `sources`
    changed = time_of_change(found)
    is_certain = time.time_ns() - changed >= _SAME_TIME_NS
    return replace(source, size=found.st_size, modified=changed if is_certain else 0)


def _count_lines(path: str) -> int:
    with open(path, "rb") as stream:  # noqa: PTH123 - paths are strings here, see `sources`
        lines, last = 0, b"\n"
        for block in iter(lambda: stream.read(_COUNT_BLOCK_BYTES), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def _with_length(part: bytes) -> bytes:
    """Prefix bytes with their length, so that concatenated parts are unambiguous."""
    return b"%d:%b" % (len(part), part)


def _draft(
    parsed: ParsedDocument, chunker: Chunker, tags: DocumentTags, source_digest: str, root: str
) -> tuple[DocumentDraft, int]:
    if len(parsed.text) > MAX_DRAFT_BYTES:
        raise _too_long(len(parsed.text))
    chunks = _with_pages(chunker.split(parsed), parsed.places)
    draft = DocumentDraft(
        document_id=parsed.document_id,
        chunks=chunks,
        gaps=gaps_between(parsed.text, chunks),
        places=parsed.places,
        root=root,
        date=parsed.date,
        encoding=parsed.encoding,
        left_out=parsed.left_out,
        title=parsed.title,
        source_file=parsed.source_file,
        source_url=parsed.source_url,
        tags=tags,
        metadata=parsed.metadata,
        source_digest=source_digest,
    )
    draft = replace(draft, digest=content_hash(draft))
    size = len(encode(draft))
    if size > MAX_DRAFT_BYTES:
        raise _too_long(size)
    return draft, size


def _with_pages(chunks: tuple[ChunkDraft, ...], places: Sequence[Place]) -> tuple[ChunkDraft, ...]:
    """Add to each chunk the page it begins on."""
    if not any(place.page for place in places):
        return chunks
    found = ((chunk, place_of(places, chunk.start, chunk.end)) for chunk in chunks)
    return tuple(replace(chunk, page=place.page if place else 0) for chunk, place in found)


def _too_long(size: int) -> BadInput:
    return BadInput(
        f"is too long for one document: {size:,} bytes of {MAX_DRAFT_BYTES:,}, headings and overlap "
        "included; split it"
    )
