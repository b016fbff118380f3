"""Read documents in processes of their own, with limits on time, memory and output.

In: files with their bytes, in order. Out: a parsed document or a reason for each. A process is started with the
first document, reads one after another, and is killed when one takes too long; the next document gets a new
process. Jobs are small messages sent ahead, so that the process parses one document while the caller stores
another.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.limited_process import (
    SEND_BUFFER,
    START_S,
    LimitedProcess,
    Limits,
    receive_exactly,
    receive_length,
    send_message,
)
from whence.ingest.reading_process import Job, Reply
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput, InternalError

_PROGRAM = "whence.ingest.reading_process"
#: A larger job is sent alone: two processes that both send more than the other receives would wait for ever.
_AHEAD_BYTES = SEND_BUFFER - 2**12
#: Seconds in which a process that closed its connection ends.
_GRACE_S = 2.0


class ReaderStopped(InternalError):
    """The reader was closed while it read, or its process cannot be started."""


class DocumentReader:
    """Parses documents in another process, in the order in which they are submitted.

    One thread at a time may use it; any thread may close it.

    Args:
        limits: Limits of each document; a document beyond them fails and the next one is read.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: LimitedProcess | None = None
        #: Held while the process is changed, and while a thread uses it.
        self._lock, self._use = threading.Lock(), threading.Lock()
        self._is_closed = False
        #: Jobs that are not answered, the first `_sent` of which the process has.
        self._jobs: deque[bytes] = deque()
        self._sent = 0
        self._decoder = msgspec.msgpack.Decoder(Reply)

    @property
    def ocr(self) -> str:
        """As of `Limits.ocr`."""
        return self._limits.ocr

    @property
    def is_idle(self) -> bool:
        """Whether every document that was submitted was returned."""
        return not self._jobs

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def submit(self, file: SourceFile, data: bytes, passwords: Iterable[str] = ()) -> None:
        """Add a document to those that are read; one of the passwords may open it."""
        path, secrets = os.fsencode(file.path), tuple(passwords)
        job = Job(path, file.document_id, file.suffix, data, file.encoding, secrets)
        with self._use:
            self._jobs.append(msgspec.msgpack.encode(job))
            self._send_ahead()

    def result(self) -> ParsedDocument:
        """Return the first document that was submitted and not returned; waits for it.

        Raises:
            BadInput: It cannot be read, or not within the limits.
            ReaderStopped: The reader was closed, or the process cannot be started.
        """
        with self._use:
            reply = self._reply()
            self._jobs.popleft()
            self._sent = max(0, self._sent - 1)
            if reply.is_last:
                self._end()
            self._send_ahead()
        if reply.document is None:
            raise BadInput(reply.reason)
        return reply.document

    def close(self) -> None:
        """End the process; a thread that waits for a document gets an error at once."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        with self._use:
            self._end()

    def _send_ahead(self) -> None:
        """Send the jobs that fit beside those that were sent; the first one always."""
        ahead = sum(len(self._jobs[at]) for at in range(self._sent))
        while self._sent < len(self._jobs):
            job = self._jobs[self._sent]
            if self._sent and ahead + len(job) > _AHEAD_BYTES:
                return
            process = self._running()
            process.connection.settimeout(self._limits.seconds + START_S)
            try:
                send_message(process.connection, job)
            except OSError:
                # It ended; the reply to its first job says why.
                return
            self._sent += 1
            ahead += len(job)

    def _reply(self) -> Reply:
        """Return the reply to the first job."""
        process = self._process
        if process is None or not self._sent:
            return self._failed()
        try:
            self._wait_until_ready(process)
            process.connection.settimeout(self._limits.seconds)
            # An empty message says that a page of many begins, each of which has its time.
            while not (length := receive_length(process.connection)):
                continue
            if length > self._limits.output:
                self._end()
                return Reply(None, self._limits.too_large)
            return self._decoder.decode(receive_exactly(process.connection, length))
        except TimeoutError:
            self._end()
            return Reply(None, self._limits.too_slow)
        except (EOFError, OSError):
            return self._failed()

    def _wait_until_ready(self, process: LimitedProcess) -> None:
        try:
            process.wait_until_ready()
        except (EOFError, OSError) as error:
            self._check_open()
            code = self._end(_GRACE_S)
            raise ReaderStopped(
                f"the process that reads documents did not start: it ended with code {code}",
                hint="set WHENCE_DEBUG=1 to see what it prints",
            ) from error

    def _failed(self) -> Reply:
        """Return the reply to a job whose process ended by itself."""
        self._check_open()
        return Reply(None, self._limits.ended(self._end(_GRACE_S)))

    def _running(self) -> LimitedProcess:
        if self._process is not None and not self._sent and not self._process.is_running:
            self._end()
        with self._lock:
            self._check_open()
            if self._process is None:
                try:
                    self._process = LimitedProcess(_PROGRAM, self._limits)
                except OSError as error:
                    raise ReaderStopped(
                        f"no process can be started to read documents: {error}"
                    ) from error
            return self._process

    def _check_open(self) -> None:
        if self._is_closed:
            raise ReaderStopped("reading was stopped")

    def _end(self, grace_s: float = 0.0) -> int:
        """End the process, and let the jobs that it did not answer be sent again."""
        with self._lock:
            process, self._process, self._sent = self._process, None, 0
        return process.end(grace_s) if process is not None else 0


class ReaderPool:
    """Keeps idle readers with their processes, so that the next run finds them started."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._idle: list[DocumentReader] = []

    @contextmanager
    def reader(self) -> Iterator[DocumentReader]:
        """Yield a reader, closed afterwards if it is not done with its documents."""
        reader = self._idle.pop() if self._idle else DocumentReader(self._limits)
        try:
            yield reader
        finally:
            if reader.is_idle and not reader.is_closed and not self._idle:
                self._idle.append(reader)
            else:
                reader.close()

    def close(self) -> None:
        """End the processes of idle readers."""
        while self._idle:
            self._idle.pop().close()
