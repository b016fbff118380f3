"""Log lines say what happened to which id."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.flow.telemetry.logfmt import LogfmtFormatter

LINES = LogfmtFormatter()
_FACT = re.compile(r' (\w+)=("(?:[^"\\]|\\.)*"|[^ ]*)')


def line(**facts: object) -> str:
    """Format a record with these fields; return the line after its time."""
    known = {"name": "whence.x", "levelname": "WARNING", "msg": "attempt failed", **facts}
    _day, _time, written = LINES.format(logging.makeLogRecord(known)).split(" ", 2)
    return written


def test_fields_follow_the_message() -> None:
    """The fields of `extra` follow the message in their order."""
    assert line() == "WARNING whence.x: attempt failed"
    assert line(action="retry", attempt=2, wait_s=0.5).endswith(
        "attempt failed action=retry attempt=2 wait_s=0.5"
    )


@pytest.mark.parametrize("value", ["two words", "", 'a "quote"', "a=b", "new\nline", "\x1b[31mred"])
def test_values_that_could_be_misread_are_quoted(value: str) -> None:
    """No value can end a line, start a field of its own or send escape sequences."""
    written = line(error=value)
    assert "\n" not in written
    assert "\x1b" not in written
    assert json.loads(written.partition("error=")[2]) == value


@given(st.dictionaries(st.from_regex(r"[a-z]{9,12}", fullmatch=True), st.text(), max_size=4))
def test_fields_can_be_parsed(facts: dict[str, str]) -> None:
    """A parser of `name=value` reads every value back unchanged."""
    found = {
        name: json.loads(text) if text.startswith('"') else text
        for name, text in _FACT.findall(
            line(**facts).removeprefix("WARNING whence.x: attempt failed")
        )
    }
    assert found == facts


def test_a_traceback_follows_its_line() -> None:
    """An exception is printed after the fields of its record."""
    try:
        raise ValueError("no")
    except ValueError as error:
        written = line(action="handle", exc_info=(ValueError, error, error.__traceback__))
    first, *rest = written.splitlines()
    assert first.endswith("action=handle")
    assert rest[-1] == "ValueError: no"


def test_an_exception_may_stay_on_its_line() -> None:
    """Without tracebacks, the exception is a field of its record."""
    record = logging.makeLogRecord(
        {"msg": "failed", "exc_info": (ValueError, ValueError("no"), None)}
    )
    written = LogfmtFormatter(tracebacks=False).format(record)

    assert written.endswith("failed exception=ValueError('no')")
