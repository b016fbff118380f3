"""Log records as lines of text: when, how grave, from where, what, and the facts that belong to it."""

from __future__ import annotations

import json
import logging
import sys

__all__ = ("LogfmtFormatter", "log_to_stderr")

#: What every record has; the rest are facts of who logged it.
_OF_EVERY_RECORD = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)
#: These need quotes, as a reader of `name=value` would take the value to end there.
_BREAKS = frozenset(' "=\\')


def log_to_stderr(level: str) -> None:
    """Send the log records of this process from a level on to stderr, unless they go somewhere already.

    Raises:
        ValueError: There is no such level.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogfmtFormatter())
    logging.basicConfig(level=level, handlers=[handler])


class LogfmtFormatter(logging.Formatter):
    """Formats a record with its `extra` behind the message, as `name=value` (logfmt)."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line; a traceback is put behind it by `format`."""
        facts = [
            f"{name}={_value(value)}"
            for name, value in record.__dict__.items()
            if name not in _OF_EVERY_RECORD
        ]
        return " ".join([super().formatMessage(record), *facts])


def _value(value: object) -> str:
    """Return a value that ends where its reader thinks: quoted as JSON does where it could be misread."""
    text = str(value)
    if text and text.isprintable() and not _BREAKS & set(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
