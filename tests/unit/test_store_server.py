"""What the log of a server is taken to tell."""

from __future__ import annotations

import pytest

from whence.store.postgres.server.process import _cause

WENT_WELL = "2026-01-01 10:00:00.000 UTC [7] LOG:  redo is not required"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([], ""),
        ([WENT_WELL], ""),
        ([WENT_WELL, "2026 UTC [7] FATAL:  no room", WENT_WELL], "no room"),
        (["2026 UTC [7] FATAL:  the database system is starting up"], ""),
        (["postgres: cannot execute", WENT_WELL], "postgres: cannot execute"),
    ],
)
def test_messages_of_success_are_not_a_cause(lines: list[str], cause: str) -> None:
    """The log of a killed server has no cause; its last messages of success do not explain its end."""
    assert _cause(lines) == cause
