"""Log records as lines of text: when, how grave, from where, what, and the facts that belong to it."""

from __future__ import annotations

import json
import logging

__all__ = ("LogLines",)

#: What every record has; the rest are facts of who logged it.
_OF_EVERY_RECORD = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)
#: These need quotes, as a reader of `name=value` would take the value to end there.
_BREAKS = frozenset(' "=\\')


class LogLines(logging.Formatter):
    """Formats a record with its `extra` behind the message, as `name=value` (logfmt).

    Args:
        stamped: Whether a line begins with its time.
    """

    def __init__(self, *, stamped: bool = True) -> None:
        stamp = "%(asctime)s " if stamped else ""
        super().__init__(f"{stamp}%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Give the line; a traceback is put behind it by `format`."""
        facts = [
            f"{name}={_value(value)}"
            for name, value in record.__dict__.items()
            if name not in _OF_EVERY_RECORD
        ]
        return " ".join([super().formatMessage(record), *facts])


def _value(value: object) -> str:
    """Give a value that ends where its reader thinks: quoted as JSON does where it could be misread."""
    text = str(value)
    if text and text.isprintable() and not _BREAKS & set(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
