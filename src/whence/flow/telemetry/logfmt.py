"""Formats log records as lines of text, with their `extra` fields in logfmt."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO

#: Attributes of every record; all others come from `extra`.
_STANDARD = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})
#: Characters that need quotes in a value.
_SPECIAL = frozenset(' "=\\')


def log_to_stderr(level: str, *, tracebacks: bool = True) -> None:
    """Log to stderr from a level on, unless logging is configured already.

    Without tracebacks, each fault is logged once, however many services report it.
    """
    handler = StderrLog(sys.stderr, repeats=tracebacks)
    handler.setFormatter(LogfmtFormatter(tracebacks=tracebacks))
    logging.basicConfig(level=level, handlers=[handler])


class StderrLog(logging.StreamHandler[TextIO]):
    """Writes records, and knows whether an error was among them.

    Args:
        stream: Where to.
        repeats: Whether to write a record of a processor whose field `error` a former record had.
    """

    def __init__(self, stream: TextIO, *, repeats: bool = True) -> None:
        super().__init__(stream)
        self.has_error = False
        self._repeats = repeats
        self._errors: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.has_error |= record.levelno >= logging.ERROR
        error = str(getattr(record, "error", ""))
        if error in self._errors and hasattr(record, "processor"):
            return
        if error and not self._repeats:
            self._errors.add(error)
        super().emit(record)


class LogfmtFormatter(logging.Formatter):
    """Formats a record with its `extra` behind the message, as `name=value` (logfmt)."""

    def __init__(self, *, tracebacks: bool = True) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._tracebacks = tracebacks

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        """Return the traceback, or the exception alone on the line of its record."""
        return super().formatException(ei) if self._tracebacks else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line; `format` appends a traceback."""
        fields = [
            f"{name}={_value(value)}"
            for name, value in record.__dict__.items()
            if name not in _STANDARD
        ]
        if record.exc_info and not self._tracebacks:
            fields.append(f"exception={_value(repr(record.exc_info[1]))}")
        return " ".join([super().formatMessage(record), *fields])


def _value(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not _SPECIAL & set(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
