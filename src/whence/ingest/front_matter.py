"""Read front matter: the lines between two `---` (a subset of YAML) or two `+++` (TOML) at the top of a text.

The subset is `key: value` with text, a number, `true`, `false` or `null`; `key: [a, "b c"]`, or `key:` and
lines `- a` below it; comments and empty lines. A YAML parser is not used, because documents contain values
that are not YAML, such as `title: Part 1: Start`. A number that would be written in another way is text, such
as `1.10`. A value in another form is kept as text, except for access
tags (`acl`, `labels`, `clearance`): one that is invalid, indented or repeated is an error, because ignoring it
would make the document public.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from typing import Any

import msgspec

from whence.ingest.field_validation import TAG_NAMES
from whence.schema.errors import BadInput

_KEY = re.compile(r"""(["']?)([A-Za-z_][\w. -]*?)\1[ \t]*:(?:[ \t]+(.*))?$""")
_TAGS = re.compile(r"""["']?\b(acl|labels|clearance)\b["']?\s*[:=]""", re.IGNORECASE)
_ITEM = re.compile(
    r"""[ \t]*+(?:("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|([^\s,\[\]{}"'&*!|>%@`#](?:[ \t]*+[^, \t\[\]{}])*+))?"""
    r"[ \t]*+(,|\])"
)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})\Z")
_FLOAT = re.compile(r"[+-]?\d+\.\d+\Z")
_COMMENT = re.compile(r"(?s)(?:^|[ \t])#.*")
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}


class FrontMatter(msgspec.Struct, frozen=True):
    """The front matter of a document."""

    values: dict[str, Any] = {}
    end: int = 0
    """Offset after the front matter."""


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a text, if it has any.

    A first line `---` begins front matter if the next line that is not empty has the form `key: value`;
    otherwise it is a thematic break.
    """
    lead = len(text) - len(text.lstrip())
    fence = text[lead : text.find("\n", lead)].rstrip() if "\n" in text[lead:] else ""
    if fence not in ("---", "+++"):
        return FrontMatter()
    begin = text.find("\n", lead) + 1
    closing = re.compile(r"(?m)^(?:---|\.\.\.)[ \t]*$" if fence == "---" else r"(?m)^\+\+\+[ \t]*$")
    close = closing.search(text, begin)
    block = text[begin : close.start() if close else len(text)]
    if not _looks_like_front_matter(block, fence):
        found = _TAGS.search(block if close else block.lstrip().partition("\n")[0])
        if found:
            raise BadInput(f"states {found[1]!r} between two lines `---` that are not front matter")
        return FrontMatter()
    if close is None:
        raise BadInput(f"the front matter is not closed by a line {fence!r}")
    values = _read_yaml(block) if fence == "---" else _read_toml(block)
    return FrontMatter(values, min(close.end() + 1, len(text)))


def _looks_like_front_matter(block: str, fence: str) -> bool:
    lines = (line.strip() for line in block.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), None)
    if first is None:
        return False
    return bool(_KEY.match(first)) if fence == "---" else "=" in first or first.startswith("[")


def _read_toml(block: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the front matter is not TOML: {error}") from error
    return {key: _to_json(value) for key, value in values.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        if any(key.casefold() in TAG_NAMES for key in value):
            raise BadInput(
                "the front matter states access tags inside a table, write them above it"
            )
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def _read_yaml(block: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value, below in _entries(block):
        if key in values:
            raise BadInput(f"the front matter states {key!r} twice")
        try:
            values[key] = _value(value, below)
        except ValueError as error:
            if key.casefold() in TAG_NAMES:
                raise BadInput(f"{key} is invalid: {error}") from error
            values[key] = "\n".join([value, *below]).strip()
    return values


def _entries(block: str) -> list[tuple[str, str, list[str]]]:
    """Return key, value, and the lines below that are indented or begin with a dash."""
    entries: list[tuple[str, str, list[str]]] = []
    for number, line in enumerate(block.split("\n"), 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line)
        if found:
            entries.append((found[2], (found[3] or "").strip(), []))
            continue
        if not entries or not (line[0] in " \t" or line.startswith("-")):
            raise BadInput(f"line {number} of the front matter is not `key: value`")
        if _TAGS.match(line.strip(" \t-")):
            raise BadInput(
                f"line {number} of the front matter states access tags, do not indent it"
            )
        entries[-1][2].append(line.strip())
    return entries


def _value(value: str, below: list[str]) -> Any:
    if value.startswith("["):
        items, rest = _flow_list(value)
        if below or not re.fullmatch(r"[ \t]*(#.*)?", rest):
            raise ValueError(f"there is more after the list in {value!r}")
        return items
    plain = _without_comment(value)
    if not below:
        return _scalar(plain)
    if plain or not all(line == "-" or line.startswith("- ") for line in below):
        raise ValueError(f"{' '.join([value, *below])!r} is neither a value nor a list")
    return [_scalar(_without_comment(line[1:].strip())) for line in below]


def _without_comment(value: str) -> str:
    return value if value.startswith(('"', "'")) else _COMMENT.sub("", value).strip()


def _flow_list(value: str) -> tuple[list[Any], str]:
    """Parse `[a, "b"]`; return the items and the text after it."""
    items: list[Any] = []
    at = 1
    while True:
        found = _ITEM.match(value, at)
        if not found:
            raise ValueError(f"{value!r} is not a list on one line")
        quoted, bare, mark = found.groups()
        if quoted is not None or bare is not None:
            items.append(_scalar(quoted or bare))
        elif mark == ",":
            raise ValueError(f"{value!r} has an empty item")
        if mark == "]":
            return items, value[found.end() :]
        at = found.end()


def _scalar(value: str) -> Any:
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    if value[0] == '"':
        return _double_quoted(value)
    if value[0] == "'":
        if not re.fullmatch(r"'(?:[^']|'')*'", value):
            raise ValueError(f"{value} is not closed")
        return value[1:-1].replace("''", "'")
    if value[0] in "&*!|>%@`{}[]" or value.startswith("- "):
        raise ValueError(f"{value!r} needs quotes")
    if _INTEGER.match(value):
        return int(value)
    # `1.10` is no number: it would be written `1.1`.
    return float(value) if _FLOAT.match(value) and str(float(value)) == value else value


def _double_quoted(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"{value} is not a quoted text") from error
