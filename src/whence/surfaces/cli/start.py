"""The entry point of the program `whence`: imports it, which takes a quarter of a second, and runs it."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the program; Ctrl-C while it is imported ends it without a traceback."""
    former = signal.getsignal(signal.SIGINT)
    # Jobs in the background of a shell ignore the signal.
    if former is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from whence.surfaces.cli.main import main as run

    signal.signal(signal.SIGINT, former)
    run()
