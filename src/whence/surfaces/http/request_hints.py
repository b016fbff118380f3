"""Hints of errors for those who send requests: they have neither command line nor settings of the server."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from whence.operations.ask import Ask
from whence.operations.search import Search
from whence.schema.errors import ModelMissing, Unavailable, WhenceError
from whence.surfaces.http.bodies import body_of

_OPTION: Final = re.compile(r"--([a-z][a-z-]*)")
#: A command, an option or a setting.
_COMMAND_LINE: Final = re.compile(r"\bwhence [a-z]|--[a-z]|\bWHENCE_[A-Z]")
_OPERATOR: Final = "ask whoever runs this server: its settings have to change"
_BETWEEN: Final = re.compile(r"(; |, or )")


def hint_of(error: WhenceError) -> str:
    """Return the hint of an error for a request; a fault that only settings mend names who has them."""
    hint = request_hint(error.hint)
    is_of_settings = isinstance(error, Unavailable | ModelMissing)
    return hint or (_OPERATOR if error.hint and is_of_settings else "")


def request_hint(hint: str) -> str:
    """Return the parts of a hint that fit a request; empty when none does.

    Options that are fields of questions and searches are named as these.

    >>> request_hint("give fewer passages (--doc-limit), or set WHENCE_WRITER_WINDOW")
    'give fewer passages (`doc_limit`)'
    """
    named = _OPTION.sub(_as_field, hint)
    first, *others = _BETWEEN.split(named)
    parts = [("", first), *zip(others[::2], others[1::2], strict=True)]
    kept = [(between, text) for between, text in parts if not _COMMAND_LINE.search(text)]
    return "".join(between + text for between, text in kept).removeprefix(
        kept[0][0] if kept else ""
    )


def _as_field(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    return f"`{name}`" if name in _fields() else option[0]


@cache
def _fields() -> frozenset[str]:
    return frozenset(name for form in (Ask, Search) for name in body_of(form).__struct_fields__)
