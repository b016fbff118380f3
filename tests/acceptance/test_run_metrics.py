"""A running flow answers probes and scrapes."""

from __future__ import annotations

import signal
import socket
import time
import urllib.error
import urllib.request
from typing import Any


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def status(url: str) -> int:
    """Return the HTTP status of a URL; 0 without a response."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_probes_and_metrics_of_a_running_flow(cli: Any) -> None:
    """Ready when the processors consume; metrics name each of them; SIGTERM exits with 0."""
    port = free_port()
    running = cli.start("run", "document-rag", "--metrics", str(port))
    try:
        end = time.monotonic() + 90
        while status(f"http://127.0.0.1:{port}/ready") != 200 and time.monotonic() < end:
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        live = status(f"http://127.0.0.1:{port}/live")
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)

    assert running.returncode == 0
    assert live == 200
    assert 'whence_ready{flow="document-rag"} 1.0' in text
    for name in ("search", "prompt", "document-rag", "recorder"):
        assert f'whence_replicas_running{{flow="document-rag",processor="{name}"}} 1.0' in text


def test_a_wrong_address_is_refused(cli: Any) -> None:
    """An invalid address is exit 2."""
    result = cli("run", "document-rag", "--metrics", "everywhere")

    assert result.code == 2
    assert "everywhere" in result.err
