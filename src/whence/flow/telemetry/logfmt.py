"""Formats log records as lines of text, with their `extra` fields in logfmt."""

from __future__ import annotations

import json
import logging
import sys

#: Attributes of every record; all others come from `extra`.
_STANDARD = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})
#: Characters that need quotes in a value.
_SPECIAL = frozenset(' "=\\')


def log_to_stderr(level: str) -> None:
    """Log to stderr from a level on, unless logging is configured already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogfmtFormatter())
    logging.basicConfig(level=level, handlers=[handler])


class LogfmtFormatter(logging.Formatter):
    """Formats a record with its `extra` behind the message, as `name=value` (logfmt)."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line; `format` appends a traceback."""
        fields = [
            f"{name}={_value(value)}"
            for name, value in record.__dict__.items()
            if name not in _STANDARD
        ]
        return " ".join([super().formatMessage(record), *fields])


def _value(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not _SPECIAL & set(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
