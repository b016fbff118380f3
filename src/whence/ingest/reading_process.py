"""The process in which documents are read: jobs in, parsed documents or reasons out, within limits.

`whence.ingest.reader` starts it as `python -m whence.ingest.reading_process SOCKET LIFELINE LIMITS`, and kills
it when a document takes too long. It limits its own memory and processor time, and ends with the process that
started it. Both sides send a length of eight bytes and a msgpack message.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.loader_registry import detect_loader, loaders_by_suffix
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

_LENGTH = struct.Struct("!Q")
#: The first message of the process.
READY = b"ready"
#: Characters of a library's error that a reason repeats.
_MAX_REASON_CHARS = 200
#: About the memory of one part of a text in the process that stores it, in bytes.
_PART_BYTES = 64
#: A process that used a larger share of its memory is not used again: what is freed may stay with it.
_REUSE_SHARE = 0.25
#: Seconds of processor time beyond the time of a document, after which the system ends the process.
_CPU_GRACE_S = 2


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of reading one document."""

    seconds: float = 30.0
    memory: int = 2**30
    """Bytes of the process that reads it."""
    output: int = 64 * 2**20
    """Bytes of its text and structure."""

    @property
    def too_slow(self) -> str:
        """Reason of a document that exceeds the time."""
        return f"reading took longer than {self.seconds:g} s (WHENCE_DOCUMENT_TIMEOUT); it was not indexed"

    @property
    def too_much_memory(self) -> str:
        """Reason of a document that exceeds the memory."""
        size = format_size(self.memory)
        return (
            f"reading took more than {size} of memory (WHENCE_DOCUMENT_MEMORY); it was not indexed"
        )

    @property
    def too_large(self) -> str:
        """Reason of a document whose text exceeds the output."""
        size = format_size(self.output)
        return f"its text is larger than {size} (WHENCE_DOCUMENT_OUTPUT); it was not indexed"

    def crashed(self, name: str) -> str:
        """Return the reason of a document whose reading ended the process with a signal."""
        size = format_size(self.memory)
        return (
            f"reading ended with {name}: the file is damaged, or needs more than {size} of memory"
            " (WHENCE_DOCUMENT_MEMORY); it was not indexed"
        )


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A file to parse. Its path is bytes: a name need not be UTF-8."""

    path: bytes
    document_id: str
    suffix: str
    data: bytes


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The document of a job, or the reason why there is none."""

    document: ParsedDocument | None
    reason: str = ""
    is_last: bool = False
    """Whether the process ends with this reply."""


def format_size(size: int) -> str:
    """Return a number of bytes in the largest unit that divides it: `1 GB`, `512 MB`."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def failure_reason(error: BaseException) -> str:
    """Return why a document cannot be read; an error that no loader expected is named by its class."""
    if isinstance(error, BadInput):
        return error.message
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    words = " ".join(str(error).split())[:_MAX_REASON_CHARS]
    return f"cannot be read: {type(error).__name__}: {words}".rstrip(": ")


def read_document(file: SourceFile, data: bytes) -> ParsedDocument:
    """Parse the bytes of a file in this process."""
    loader = detect_loader(loaders_by_suffix()[file.suffix], data)
    document: object = loader.parse(file, data)
    if not isinstance(document, ParsedDocument):
        raise TypeError(f"the loader of {loader.name} returned a {type(document).__name__}")
    return document


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message with its length."""
    connection.sendall(_LENGTH.pack(len(message)))
    connection.sendall(message)


def receive_exactly(connection: socket.socket, size: int) -> bytearray:
    """Return so many bytes.

    Raises:
        EOFError: The other side is closed.
    """
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = connection.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count
    return data


def receive_length(connection: socket.socket) -> int:
    """Return the length of the next message."""
    found: int = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size))[0]
    return found


def main() -> None:
    """Answer jobs until the other side closes."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    _end_with(int(sys.argv[2]))
    limits = msgspec.json.decode(sys.argv[3], type=Limits)
    _limit(resource.RLIMIT_DATA, limits.memory)
    _limit(resource.RLIMIT_CORE, 0)
    decoder = msgspec.msgpack.Decoder(Job)
    out_of_memory = msgspec.msgpack.encode(Reply(None, limits.too_much_memory, is_last=True))
    # Documents are made and freed one at a time, without circles of references between them.
    gc.freeze()
    is_last = False
    with suppress(EOFError, ConnectionError):
        send(connection, READY)
        while not is_last:
            length = receive_length(connection)
            try:
                job = decoder.decode(receive_exactly(connection, length))
                _limit_processor_time(limits.seconds)
                reply, is_last = _reply(job, limits)
            except MemoryError:
                reply, is_last = out_of_memory, True
            send(connection, reply)


def _end_with(lifeline: int) -> None:
    """End this process when the one that holds the other end of a pipe ends, whatever this one does then.

    The system sends SIGIO, which ends a process, when the other end is closed.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_processor_time(seconds: float) -> None:
    """Let the system end this process if the one that waits for it does not."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    spent = usage.ru_utime + usage.ru_stime
    _limit(resource.RLIMIT_CPU, int(spent + seconds) + _CPU_GRACE_S)


def _limit(what: int, value: int) -> None:
    """Lower a limit; the one that the system or the user has set stays the most."""
    _, most = resource.getrlimit(what)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(what, (value, most))


def _reply(job: Job, limits: Limits) -> tuple[bytes, bool]:
    """Return the reply to a job, and whether this process should end after it."""
    file = SourceFile(path=os.fsdecode(job.path), document_id=job.document_id, suffix=job.suffix)
    document, reason = None, ""
    try:
        document = read_document(file, job.data)
    except Exception as error:
        if any(isinstance(each, MemoryError) for each in _causes(error)):
            raise MemoryError from error
        reason = failure_reason(error)
    is_last = _data_bytes() > _REUSE_SHARE * limits.memory
    if document is not None and len(document.text) > limits.output:
        document, reason = None, limits.too_large
    reply = _encode(Reply(document, reason, is_last))
    parts = sum(len(block.parts) for block in document.blocks) if document else 0
    if len(reply) + _PART_BYTES * parts > limits.output:
        reply = _encode(Reply(None, limits.too_large, is_last))
    return reply, is_last


def _data_bytes() -> int:
    """Return the memory that counts towards the limit; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - called for every document
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


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
