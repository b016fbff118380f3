"""A process with limits that serves the one that started it: `LimitedProcess` there, `connect` in the process.

Both sides send a length of eight bytes and a message. The process limits its own memory and processor time; the
other side kills it when it takes too long. It ends with the one that started it.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress

import msgspec

_LENGTH = struct.Struct("!Q")
#: Seconds of processor time beyond the time of a document, after which the system ends the process.
_CPU_GRACE_S = 2
#: Bytes that either side can send before the other one receives any.
SEND_BUFFER = 128 * 2**10
#: Seconds that a process has to start.
START_S = 30.0
_READY = b"ready"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of reading one document."""

    seconds: float = 30.0
    memory: int = 2**30
    """Bytes of the process that reads it."""
    output: int = 64 * 2**20
    """Bytes of its text and structure."""
    ocr: str = "auto"
    """Languages in which pictures are read, see `ocr.set_up`."""
    then: str = "it was not indexed"
    """What happens to a document beyond a limit."""

    @property
    def too_slow(self) -> str:
        """Reason of a document that exceeds the time."""
        return f"reading took longer than {self.seconds:g} s (WHENCE_DOCUMENT_TIMEOUT); {self.then}"

    @property
    def too_much_memory(self) -> str:
        """Reason of a document that exceeds the memory."""
        size = format_size(self.memory)
        return f"reading took more than {size} of memory (WHENCE_DOCUMENT_MEMORY); {self.then}"

    @property
    def too_large(self) -> str:
        """Reason of a document whose text exceeds the output."""
        size = format_size(self.output)
        return f"its text is larger than {size} (WHENCE_DOCUMENT_OUTPUT); {self.then}"

    def ended(self, code: int) -> str:
        """Return the reason of a document whose reading ended the process; a signal is a negative code."""
        if code == -signal.SIGXCPU:
            return self.too_slow
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        size = format_size(self.memory)
        return (
            f"reading ended with {name}: the file is damaged, or needs more than {size} of memory"
            f" (WHENCE_DOCUMENT_MEMORY); {self.then}"
        )


def format_size(size: int) -> str:
    """Return a number of bytes in the largest unit that divides it: `1 GB`, `512 MB`."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


class LimitedProcess:
    """A running program of Whence with limits, and the connection to it.

    Args:
        module: Runs when it is started as a program; it calls `connect`.
        limits: Its limits.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, module: str, limits: Limits) -> None:
        self.connection, theirs = socket.socketpair()
        for one in (self.connection, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * SEND_BUFFER)
        lifeline, self._lifeline = os.pipe()
        try:
            # `-m` without `-P` would add the working folder, whose modules are not those of the caller.
            command = [sys.executable, "-P", "-m", module]
            arguments = (theirs.fileno(), lifeline, msgspec.json.encode(limits).decode())
            self._process = subprocess.Popen(
                [*command, *map(str, arguments)],
                pass_fds=(theirs.fileno(), lifeline),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("WHENCE_DEBUG") else subprocess.DEVNULL,
                # An interrupt from the terminal is the caller's to handle.
                process_group=0,
            )
        finally:
            theirs.close()
            os.close(lifeline)
        self.is_ready = False

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def wait(self, seconds: float) -> int:
        """Wait until it ends, kill it after some seconds, and return its exit code, negative for a signal."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()
        return self._process.wait()

    def wait_until_ready(self) -> None:
        """Wait for the start of the program.

        Raises:
            OSError: It takes too long, or the connection was closed.
            EOFError: It ended.
        """
        if not self.is_ready:
            self.connection.settimeout(START_S)
            receive_message(self.connection)
            self.is_ready = True

    def kill(self) -> None:
        """Kill the process; a thread that waits for a message from it gets an error."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._process.kill()

    def end(self, grace_s: float = 0.0) -> int:
        """Kill the process if it does not end by itself, and return its exit code, negative for a signal."""
        code = self.wait(grace_s)
        self.connection.close()
        os.close(self._lifeline)
        return code


def send_message(connection: socket.socket, message: bytes) -> None:
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


def receive_message(connection: socket.socket) -> bytearray:
    """Return the next message."""
    return receive_exactly(connection, receive_length(connection))


def receive_length(connection: socket.socket) -> int:
    """Return the length of the next message."""
    found: int = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size))[0]
    return found


def connect() -> tuple[socket.socket, Limits]:
    """Connect this process to the one that started it, and limit it to the memory of one document."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    _end_with(int(sys.argv[2]))
    limits = msgspec.json.decode(sys.argv[3], type=Limits)
    limit_memory(limits.memory)
    _limit(resource.RLIMIT_CORE, 0)
    send_message(connection, _READY)
    return connection, limits


def limit_memory(size: int) -> None:
    """Limit the memory of this process, in bytes."""
    _limit(resource.RLIMIT_DATA, size)


def _end_with(lifeline: int) -> None:
    """End this process when the one that holds the other end of a pipe ends, whatever this one does then.

    The system sends SIGIO, which ends a process, when the other end is closed.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def limit_processor_time(seconds: float) -> None:
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


def data_bytes() -> int:
    """Return the memory that counts towards the limit; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - called for every document
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0
