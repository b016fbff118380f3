"""Signals that request a stop."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import asyncio, os, signal, time
from whence.flow.signals import StopSignals

async def serve():
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        await signals.run(asyncio.Event().wait())
    return signals.interrupted

print(asyncio.run(serve()), flush=True)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
finally:
    print("an exception", flush=True)
"""


def test_interrupted_process_ends_at_the_next_interrupt() -> None:
    """After Ctrl-C another one ends the process with exit code 130, without an exception."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "True\n", "")
