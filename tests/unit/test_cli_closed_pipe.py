"""A command whose reader of standard output has gone."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

main: Any = importlib.import_module("whence.surfaces.cli.main")


def test_a_write_that_fails_within_the_command_is_no_failure_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library of the command line turns it into an exit with 1; another exit stays what it is."""

    def broken(*_: object, **__: object) -> None:
        try:
            raise BrokenPipeError
        except OSError:
            sys.exit(1)

    def ended(*_: object, **__: object) -> None:
        sys.exit(1)

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(BrokenPipeError):
        main._run([])
    monkeypatch.setattr(main, "app", ended)
    with pytest.raises(SystemExit):
        main._run([])
