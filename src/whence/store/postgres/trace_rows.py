"""Rows of traces: what is stored of a record, and whether a row is as it was stored."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from whence.schema.document_rag import TraceRecord
from whence.schema.errors import CodecError
from whence.store.commitment import SALT_BYTES, commit
from whence.store.postgres.driver import iso_utc
from whence.store.trace_body import pack, read_record, unpack

#: Columns of a row in the order of `TraceRow`.
COLUMNS = "answer_id, collection, body, names, acl_tags, labels, clearance, salt, recorded_at"
#: Beginning of a chunk id that names the document.
_DOCUMENT_KEY = re.compile("urn:chunk:[^:]*:[^:]*:")
#: What stands among the names of a trace whose question was corrected, or failed; no document is called so.
CORRECTED = "\0corrected"


class TraceRow(NamedTuple):
    """What is stored of a trace."""

    answer_id: str
    collection: str
    body: bytes
    names: list[int]
    acl_tags: list[str]
    labels: list[str]
    clearance: int
    salt: bytes
    recorded_at: datetime

    def digest(self, packed: bytes | None = None) -> bytes:
        """Return the commitment to the trace, 32 bytes; `packed` is its body as JSON, if that is at hand."""
        packed = unpack(self.body) if packed is None else packed
        return commit(packed, self.body, iso_utc(self.recorded_at), self.salt)


def make_row(record: TraceRecord, recorded_at: datetime) -> tuple[TraceRow, bytes]:
    """Return the row of a record, with a new salt, and its digest. Cost: linear in its triples."""
    packed = pack(record)
    row = _row(record, recorded_at, zlib.compress(packed), os.urandom(SALT_BYTES))
    return row, row.digest(packed)


def _row(record: TraceRecord, recorded_at: datetime, body: bytes, salt: bytes) -> TraceRow:
    return TraceRow(
        answer_id=record.answer_id,
        collection=record.collection,
        body=body,
        names=_names(record),
        acl_tags=sorted(record.access.acl_tags),
        labels=sorted(record.access.labels),
        clearance=record.access.clearance,
        salt=salt,
        recorded_at=recorded_at,
    )


def row_faults(row: Mapping[str, Any], digest: bytes) -> Iterator[str]:
    """Yield what of a row is not as it was stored. Cost: linear in its triples.

    Args:
        row: The columns of `COLUMNS`, by name.
        digest: The commitment to the trace.
    """
    if row["salt"] is None:
        yield "the trace has lost its salt"
        return
    stored = TraceRow(*(row[name] for name in TraceRow._fields))
    try:
        record = read_record(stored.body)
        same = stored.digest() == digest
    except (CodecError, ValueError, KeyError, TypeError) as error:
        yield f"the trace cannot be read: {error}"
        return
    if not same:
        yield "the trace is not the one that was recorded"
        return
    # What the row repeats of the record, to find it and to decide who may read it.
    again = _row(record, stored.recorded_at, stored.body, stored.salt)
    for name in TraceRow._fields:
        if getattr(again, name) != getattr(stored, name):
            yield f"the column {name} does not belong to the trace"


def hash_name(name: str) -> int:
    """Return the first 64 bits of the SHA-256 of a name; two names with equal ones are not to be expected."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


def _names(record: TraceRecord) -> list[int]:
    """Return the sorted hashes of all that may be the name of a document, and of `CORRECTED`."""
    objects = {triple.o for event in record.events for triple in event.triples}
    keys = (_DOCUMENT_KEY.match(one.iri) for one in objects if one.iri)
    names = {key[0] for key in keys if key}
    names |= {one.value for one in objects if one.value and not one.datatype}
    if record.answer is not None:
        names |= {citation.document_id for citation in record.answer.citations}
    if record.answer is None or record.answer.corrections:
        names.add(CORRECTED)
    return sorted(map(hash_name, names))
