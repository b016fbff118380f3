"""Whole outputs that tests compare with files in `tests/unit/expected`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

#: Longest line of an object or a list that is written in one.
_LINE = 160
_FOLDER = Path(__file__).parents[1] / "unit" / "expected"


def assert_expected(name: str, found: Any) -> None:
    """Compare a text, or anything else as JSON, with a file.

    A file that is missing is written, and the test fails: read the file, then keep it. Numbers are compared
    to nine digits after the point.
    """
    text = found if isinstance(found, str) else _as_json(found)
    path = _FOLDER / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was missing and is written now: is it right?")
    assert text == path.read_text(encoding="utf-8")


def _as_json(found: Any) -> str:
    return _written(_rounded(msgspec.to_builtins(found, str_keys=True)), "") + "\n"


def _written(value: Any, indent: str) -> str:
    """Write a value in one line if that is short, else each of its items in lines of its own."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list | tuple) or len(indent) + len(line) <= _LINE:
        return line
    inner = indent + " "
    if isinstance(value, list | tuple):
        items = [_written(one, inner) for one in value]
        opened, closed = "[", "]"
    else:
        items = [
            f"{json.dumps(k, ensure_ascii=False)}: {_written(v, inner)}" for k, v in value.items()
        ]
        opened, closed = "{", "}"
    return f"{opened}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closed}"


def _rounded(found: Any) -> Any:
    if isinstance(found, float):
        return round(found, 9)
    if isinstance(found, list):
        return [_rounded(one) for one in found]
    if isinstance(found, dict):
        return {key: _rounded(one) for key, one in found.items()}
    return found
