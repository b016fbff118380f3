"""A running `whence serve`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx


class Gateway:
    """A running gateway."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process
        self.http = httpx.Client(base_url=url, timeout=60)

    def post(self, path: str, body: Any, token: str = "", **headers: str) -> httpx.Response:
        """Send a request."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self.http.post(path, json=body, headers=headers)


def start(
    cli: Any, *options: str | Path, collection: str = "serve", env: dict[str, str] | None = None
) -> Gateway:
    """Start a gateway on a free port and wait until it is ready."""
    words = ("serve", "--port", "0", "--collection", collection, *options)
    process = cli.start(*words, environment=env)
    for line in process.stderr:
        if line.startswith(b"ready "):
            return Gateway(line.split()[1].decode(), process)
    raise AssertionError(f"ended with {process.wait()}")


@contextmanager
def serving(
    cli: Any, *options: str | Path, collection: str = "serve", env: dict[str, str] | None = None
) -> Iterator[Gateway]:
    """Run a gateway for the block; it must end well and without a traceback."""
    running = start(cli, *options, collection=collection, env=env)
    try:
        yield running
    finally:
        running.http.close()
        running.process.send_signal(signal.SIGTERM)
        _, err = running.process.communicate(timeout=30)
    assert running.process.returncode == 0, err
    assert b"Traceback" not in err
