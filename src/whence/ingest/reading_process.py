"""The process in which documents are read: jobs in, parsed documents or reasons out, within limits.

`whence.ingest.reader` starts it, and kills it when a document takes too long. Messages are msgpack.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from whence.ingest import ocr
from whence.ingest.blocks import ParsedDocument
from whence.ingest.limited_process import (
    Limits,
    connect,
    data_bytes,
    limit_processor_time,
    receive_exactly,
    receive_length,
    send_message,
)
from whence.ingest.loader_registry import detect_loader, loader_for
from whence.ingest.passwords import unlock
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

#: Characters of a library's error that a reason repeats.
_MAX_REASON_CHARS = 200
#: About the memory of one part of a text in the process that stores it, in bytes.
_PART_BYTES = 64
#: A process that used a larger share of its memory is not used again: what is freed may stay with it.
_REUSE_SHARE = 0.25


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A file to parse. Its path is bytes: a name need not be UTF-8."""

    path: bytes
    document_id: str
    suffix: str
    data: bytes
    encoding: str = ""
    passwords: tuple[str, ...] = ()


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The document of a job, or the reason why there is none."""

    document: ParsedDocument | None
    reason: str = ""
    is_last: bool = False
    """Whether the process ends with this reply."""


def failure_reason(error: BaseException) -> str:
    """Return why a document cannot be read; an error that no loader expected is named by its class."""
    if isinstance(error, BadInput):
        return error.message
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    words = " ".join(str(error).split())[:_MAX_REASON_CHARS]
    return f"cannot be read: {type(error).__name__}: {words}".rstrip(": ")


def read_document(file: SourceFile, data: bytes, passwords: Sequence[str] = ()) -> ParsedDocument:
    """Parse the bytes of a file in this process; one of the passwords may open it."""
    data = unlock(data, passwords)
    loader = detect_loader(loader_for(file), data)
    document: object = loader.parse(file, data)
    if not isinstance(document, ParsedDocument):
        raise TypeError(f"the loader of {loader.name} returned a {type(document).__name__}")
    return document


def main() -> None:
    """Answer jobs until the other side closes."""
    connection, limits = connect()
    decoder = msgspec.msgpack.Decoder(Job)

    def begin_page() -> None:
        limit_processor_time(limits.seconds)
        send_message(connection, b"")

    ocr.set_up(limits.ocr, begin_page)
    out_of_memory = msgspec.msgpack.encode(Reply(None, limits.too_much_memory, is_last=True))
    # Documents are made and freed one at a time, without circles of references between them.
    gc.freeze()
    is_last = False
    with suppress(EOFError, ConnectionError):
        while not is_last:
            length = receive_length(connection)
            try:
                job = decoder.decode(receive_exactly(connection, length))
                limit_processor_time(limits.seconds)
                reply, is_last = _reply(job, limits)
            except MemoryError:
                reply, is_last = out_of_memory, True
            send_message(connection, reply)


def _reply(job: Job, limits: Limits) -> tuple[bytes, bool]:
    """Return the reply to a job, and whether this process should end after it."""
    file = SourceFile(
        path=os.fsdecode(job.path),
        document_id=job.document_id,
        suffix=job.suffix,
        encoding=job.encoding,
    )
    document, reason = None, ""
    try:
        document = read_document(file, job.data, job.passwords)
    except Exception as error:
        if any(isinstance(each, MemoryError) for each in _causes(error)):
            raise MemoryError from error
        reason = failure_reason(error)
    is_last = data_bytes() > _REUSE_SHARE * limits.memory
    if document is not None and len(document.text) > limits.output:
        document, reason = None, limits.too_large
    reply = _encode(Reply(document, reason, is_last))
    parts = sum(len(block.parts) for block in document.blocks) if document else 0
    if len(reply) + _PART_BYTES * parts > limits.output:
        reply = _encode(Reply(None, limits.too_large, is_last))
    return reply, is_last


def _encode(reply: Reply) -> bytes:
    try:
        return msgspec.msgpack.encode(reply)
    except (TypeError, ValueError) as error:
        # What a loader of another package returns may hold anything.
        return msgspec.msgpack.encode(Reply(None, failure_reason(error), reply.is_last))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


if __name__ == "__main__":
    main()
