"""Load JSON Lines: one record a line; an invalid record does not affect the others.

A record is `{"_id", "title"?, "text", "metadata"?, "acl"?, "labels"?, "clearance"?, "source_url"?}`; a
BEIR corpus has this format. `_id` is text or an integer, which becomes its digits. If the text is blank, the
title is used as text; a record without both is skipped. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any
from urllib.parse import quote

from whence.ingest.blocks import ParsedDocument, prose_blocks
from whence.ingest.decoding import decode_utf8, refuse_wide_encoding
from whence.ingest.document_builder import first_line
from whence.ingest.field_validation import (
    parse_tags,
    single_line,
    split_source_url,
    validate_id,
    validate_metadata,
)
from whence.ingest.load_results import LoadFailure
from whence.ingest.loaders.base import Loader, Record
from whence.ingest.sources import SourceFile
from whence.ingest.strict_json import parse_object
from whence.schema.errors import BadInput
from whence.schema.places import Place


def read_records(file: SourceFile, max_bytes: int) -> Iterator[Record | LoadFailure]:
    """Read records one by one; memory holds one line at a time, however long the file."""
    with open(file.path, "rb") as stream:  # noqa: PTH123 - paths are strings here, see `sources`
        for number, line in enumerate(_lines(stream, max_bytes), 1):
            where = f"{file.display_path}:{number}"
            if number == 1:
                refuse_wide_encoding(line or b"")
            if line is None:
                reason = f"is longer than {max_bytes:,} bytes, the limit for one document"
                yield LoadFailure(path=where, reason=reason, line=number)
            elif line.strip():
                yield _record(file, number, line)


def _lines(stream: IO[bytes], limit: int) -> Iterator[bytes | None]:
    while line := stream.readline(limit + 2):
        if len(line.rstrip(b"\r\n")) <= limit:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(limit)
        yield None


def _record(file: SourceFile, number: int, line: bytes) -> Record | LoadFailure:
    where = f"{file.display_path}:{number}"
    try:
        values = parse_object(decode_utf8(line))
        return Record(file, where, _id(values), line, values, number)
    except BadInput as error:
        return LoadFailure(path=where, reason=error.message, line=number)


def _id(record: dict[str, Any]) -> str:
    if "_id" not in record:
        raise BadInput("_id is missing")
    return validate_id(record["_id"], "_id")


def parse_record(source: Record) -> ParsedDocument:
    """Parse a record; a document without text has no blocks."""
    file, document_id, record = source.file, source.document_id, source.values
    tags = parse_tags(record)
    if not isinstance(record.get("text"), str):
        raise BadInput("text is missing" if "text" not in record else "text is not a string")
    title = single_line(record.get("title"), "title")
    metadata = record.get("metadata")
    metadata = validate_metadata({} if metadata is None else metadata)
    inner_url, metadata = split_source_url(metadata)
    outer_url, _ = split_source_url(record)
    text = _checked_text(record["text"]) if record["text"].strip() else title
    blocks = prose_blocks(text, 0, len(text))
    return ParsedDocument(
        document_id=document_id,
        display_path=source.display_path,
        text=text,
        blocks=blocks,
        places=(Place(char_start=0, line_start=source.line_number, line_end=source.line_number),),
        title=title,
        fallback_title=title or first_line(text, blocks) or PurePosixPath(file.document_id).stem,
        tags=tags,
        source_file=file.document_id,
        source_url=outer_url or inner_url or f"{quote(file.document_id)}#{quote(document_id)}",
        metadata=metadata,
    )


def _checked_text(text: str) -> str:
    r"""Return the text with line ends as `\n`, refusing NUL and surrogates from JSON escapes."""
    try:
        return decode_utf8(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput("text holds an unpaired surrogate, which is not a character") from error


LOADERS = (
    Loader(
        name="JSON Lines", suffixes=(".jsonl",), records=read_records, parse_record=parse_record
    ),
)
