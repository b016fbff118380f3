"""Serve a model on this machine by llama.cpp, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PACKAGE: Final = "xllamacpp==2026.10.11549"
#: Runs in that environment: prints the address, and ends with its standard input.
_SERVER: Final = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx = sys.argv[1], int(sys.argv[2])
params.hostnames, params.port, params.n_parallel = ["127.0.0.1"], 0, 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def serve(model: Path, window: int, home: Path) -> Iterator[str]:
    """Serve a model with a window in tokens; yield the address of OpenAI's API there.

    Raises:
        SystemExit: The server cannot be installed, or does not start.
    """
    command = [str(_environment(home)), "-c", _SERVER, str(model), str(window)]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            if not address:
                sys.exit(f"the model's server does not start: see {log.name}")
            yield f"{address}/v1"
        finally:
            server.kill()
            server.wait()


def _environment(home: Path) -> Path:
    """Return the interpreter with llama.cpp."""
    folder = home / f"server-{_PACKAGE.partition('==')[2]}"
    python = folder / "bin" / "python"
    if not (folder / "ready").is_file():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", _PACKAGE]
        if subprocess.run(pip, check=False).returncode:
            sys.exit(f"{_PACKAGE} cannot be installed")
        (folder / "ready").touch()
    return python
