"""JSON Lines to documents: one record a line, each read, checked and failed on its own.

A record is `{"_id", "title"?, "text", "metadata"?, "acl"?, "labels"?, "clearance"?, "source_url"?}`; a
corpus in BEIR's layout is one. `_id` is text, or an integer that is taken as its digits. A record with a
title and a blank text is the text of its title; one with neither is skipped. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any
from urllib.parse import quote

import msgspec

from whence.ingest.blocks import ParsedDocument, prose_blocks
from whence.ingest.decoding import decode_utf8, refuse_wide_encoding
from whence.ingest.document_builder import first_line
from whence.ingest.field_validation import checked_id, checked_metadata, one_line, take_source_url
from whence.ingest.load_results import LoadFailure
from whence.ingest.sources import SourceFile
from whence.ingest.strict_json import parse_object
from whence.ingest.tags import own_tags
from whence.schema.errors import BadInput

__all__ = ("Record", "count_lines", "load_jsonl")

_READ_BYTES = 2**20


class Record(msgspec.Struct, frozen=True):
    """A record whose id is known, and whose text is not yet looked at."""

    file: SourceFile
    where: str
    """Path with `:LINE`."""
    document_id: str
    line: bytes
    values: dict[str, Any]

    def document(self) -> ParsedDocument:
        """Return its document, without blocks when it has no text.

        Raises:
            BadInput: Something in it is malformed.
        """
        return _document(self.file, self.where, self.document_id, self.values)


def count_lines(path: str) -> int:
    """Count the lines of a file, about a gigabyte a second.

    Raises:
        OSError: It cannot be read.
    """
    with open(path, "rb") as stream:  # noqa: PTH123 - paths are strings here, see `sources`
        blocks = iter(lambda: stream.read(_READ_BYTES), b"")
        count, last = 0, b"\n"
        for block in blocks:
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def load_jsonl(file: SourceFile, max_bytes: int) -> Iterator[Record | LoadFailure]:
    """Read records one by one; memory holds one line at a time, however long the file.

    Raises:
        BadInput: The whole file is in another encoding.
        OSError: It cannot be read.
    """
    with open(file.path, "rb") as stream:  # noqa: PTH123 - paths are strings here, see `sources`
        for number, line in enumerate(_lines(stream, max_bytes), 1):
            where = f"{file.shown}:{number}"
            if number == 1:
                refuse_wide_encoding(line or b"")
            if line is None:
                reason = f"is longer than {max_bytes:,} bytes, the limit for one document"
                yield LoadFailure(path=where, reason=reason)
            elif line.strip():
                yield _outcome(file, where, line)


def _lines(stream: IO[bytes], limit: int) -> Iterator[bytes | None]:
    """Yield the lines; None for one that is longer than the limit."""
    while line := stream.readline(limit + 2):
        if len(line.rstrip(b"\r\n")) <= limit:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(limit)
        yield None


def _outcome(file: SourceFile, where: str, line: bytes) -> Record | LoadFailure:
    try:
        values = parse_object(decode_utf8(line))
        return Record(file, where, _id(values), line, values)
    except BadInput as error:
        return LoadFailure(path=where, reason=error.message)


def _id(record: dict[str, Any]) -> str:
    if "_id" not in record:
        raise BadInput("_id is missing")
    return checked_id(record["_id"], "_id")


def _document(
    file: SourceFile, where: str, document_id: str, record: dict[str, Any]
) -> ParsedDocument:
    tags = own_tags(record)
    if not isinstance(record.get("text"), str):
        raise BadInput("text is missing" if "text" not in record else "text is not a string")
    title = one_line(record.get("title"), "title")
    metadata = record.get("metadata")
    metadata = checked_metadata({} if metadata is None else metadata)
    inner_url, metadata = take_source_url(metadata)
    outer_url, _ = take_source_url(record)
    text = _checked_text(record["text"]) if record["text"].strip() else title
    blocks = prose_blocks(text, 0, len(text))
    return ParsedDocument(
        document_id=document_id,
        shown=where,
        text=text,
        blocks=blocks,
        title=title,
        fallback=title or first_line(text, blocks) or PurePosixPath(file.document_id).stem,
        tags=tags,
        source_file=file.document_id,
        source_url=outer_url or inner_url or f"{quote(file.document_id)}#{quote(document_id)}",
        metadata=metadata,
    )


def _checked_text(text: str) -> str:
    r"""Return the text with line ends as `\n`, refusing what escapes in JSON can smuggle in."""
    try:
        return decode_utf8(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput("text holds half a surrogate pair, which is no character") from error
