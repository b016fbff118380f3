"""Runs a program many times without loading it each time: a process loads it once and forks for every run.

A run is a process of its own, with its own arguments, environment, folder and output, as if it had been started
anew; only what imports do is done already. Run as a module it is the process that forks.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

_NUMBER = struct.Struct("!i")


class ForkServer:
    """Runs one program, one run at a time; Linux and macOS only.

    Args:
        entry: What a run calls, `module:function`; it ends with `SystemExit`.
        preload: Modules to load beside that of `entry`. They may start no threads.
        python: The interpreter.
    """

    def __init__(
        self, entry: str, preload: Sequence[str] = (), python: str = sys.executable
    ) -> None:
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [python, "-m", __name__, str(other.fileno()), entry, *preload],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def run(
        self,
        words: Sequence[str | bytes | Path],
        *,
        environment: Mapping[str, str],
        folder: Path,
        timeout_s: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end; its standard input is empty.

        Args:
            words: Its arguments, the name of the program first.
            environment: All of its environment. Variables that Python reads at its start have no effect.
            folder: Its working directory.
            timeout_s: Seconds until it is killed.

        Raises:
            TimeoutError: It did not end in time.
        """
        with (
            Path(os.devnull).open("rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as errors,
        ):
            streams = [nothing.fileno(), out.fileno(), errors.fileno()]
            process = self.start(words, environment=environment, folder=folder, streams=streams)
            code = self.wait(process, timeout_s)
            written = []
            for stream in (out, errors):
                stream.seek(0)
                written.append(stream.read())
        return subprocess.CompletedProcess(list(words), code, *written)

    def start(
        self,
        words: Sequence[str | bytes | Path],
        *,
        environment: Mapping[str, str],
        folder: Path,
        streams: Sequence[int],
    ) -> int:
        """Start a run and return its process id; `wait` must follow before the next run.

        Args:
            words: Its arguments, the name of the program first.
            environment: All of its environment. Variables that Python reads at its start have no effect.
            folder: Its working directory.
            streams: Descriptors of its standard input, output and error output, which the caller may close.
        """
        order = json.dumps([[os.fsdecode(word) for word in words], dict(environment), str(folder)])
        body = order.encode()
        socket.send_fds(self._socket, [_NUMBER.pack(len(body))], list(streams))
        self._socket.sendall(body)
        return self._read()

    def wait(self, process: int, timeout_s: float) -> int:
        """Return the exit code of the run that was started last.

        Raises:
            TimeoutError: It did not end in time and was killed.
        """
        self._socket.settimeout(timeout_s)
        try:
            return self._read()
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
            self._socket.settimeout(None)
            self._read()
            raise
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()

    def _read(self) -> int:
        number: int = _NUMBER.unpack(_exactly(self._socket, _NUMBER.size))[0]
        return number


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: There are fewer.
    """
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the other side has closed the connection")
        data += part
    return data


def _serve(connection: socket.socket) -> bool:
    """Fork for every order; True in a process that is to run, False when there are no more orders."""
    while True:
        head, streams, *_ = socket.recv_fds(connection, _NUMBER.size, 3)
        if not head:
            return False
        order = json.loads(_exactly(connection, _NUMBER.unpack(head)[0]))
        process = os.fork()
        if not process:
            connection.close()
            _become(order, streams)
            return True
        for stream in streams:
            os.close(stream)
        connection.sendall(_NUMBER.pack(process))
        status = os.waitpid(process, 0)[1]
        connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(order: list[Any], streams: list[int]) -> None:
    words, environment, folder = order
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words


class _End:
    """The last exit handler of a run: it ends the process before what is loaded is torn down.

    Tearing down looks at every object, so the system would copy each page of them: two thirds of a short run.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        # Handlers are called in the opposite order.
        atexit.register(self)

    def __call__(self) -> None:
        if self.code is not None:
            for stream in (sys.stdout, sys.stderr):
                if not stream.closed:
                    stream.flush()
            os._exit(self.code)

    def after(self, run: Callable[[], None]) -> None:
        """Run a program, which may end with `SystemExit`."""
        self.code = 1  # also when it fails
        try:
            run()
            self.code = 0
        except SystemExit as error:
            if error.code is None or isinstance(error.code, int):
                self.code = error.code or 0
            raise


def _main() -> None:
    end = _End()
    number, entry, *preload = sys.argv[1:]
    module, _, name = entry.partition(":")
    run: Callable[[], None] = getattr(import_module(module), name)
    for one in preload:
        import_module(one)
    # What is loaded stays as it is: collecting would only copy the pages that it looks at.
    gc.collect()
    gc.freeze()
    if _serve(socket.socket(fileno=int(number))):
        end.after(run)


if __name__ == "__main__":
    _main()
