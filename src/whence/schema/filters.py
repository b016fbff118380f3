"""Filters on metadata: how programs and people write them, and when a document matches.

A filter is a set of conditions on the metadata of a document, where each key has one value or several; a chunk
matches when all conditions hold. Values are typed: the number 2020 is not the text "2020", `true` is not
"true", and a range of dates compares texts that are ISO dates with nothing else.

Programs write an object, key to condition; see `parse_filters`:

    {"lang": "en", "year": {"gte": 2020}, "tag": ["a", "b"], "source_file": {"prefix": "guides/"}}
    {"or": [{"lang": "en"}, {"year": 2020, "not": {"tag": "draft"}}]}

The keys `or`, `and` and `not` join filters and nest; metadata of these names cannot be filtered.

People write options; see `parse_filter_options`: `lang=en`, `lang!=de`, `year>=2020`, `tag=a,b`,
`source_file^=guides/`, or such an object.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from whence.schema.errors import BadInput

#: Keys of each chunk: the section path under two names, the nearest heading, and the index.
CHUNK_KEYS: Final = ("section_path", "header_path", "heading", "chunk_index")
#: Keys that every document has, whatever its metadata.
DOCUMENT_KEYS: Final = ("document_id", "title", "source_file", "source_url")
FILTER_SYNTAX: Final = (
    "KEY=VALUE, KEY=A,B (any of), KEY=LOW..HIGH, KEY>=LOW, KEY>LOW, KEY<=HIGH, KEY<HIGH (numbers or dates),"
    ' KEY^=PREFIX, KEY!=VALUE, or JSON with or, and, not: {"or": [{"KEY": VALUE}, {"not": {"KEY": VALUE}}]}'
)
BODY_SYNTAX: Final = (
    'A key has a value, a list of alternatives, a range such as {"gte": 2020, "lt": 2024}, or a prefix:'
    ' {"prefix": "guides/"}. `or` and `and` have a list of such objects, `not` has one.'
)
OPTION_SYNTAX: Final = (
    "Repeatable. KEY=A,B matches either value; KEY=LOW..HIGH, KEY>=LOW or KEY<HIGH a range of numbers or dates;"
    " KEY^=PREFIX a prefix, such as that of a path; KEY!=VALUE excludes. Or JSON with `or`, `and` and `not`."
)
#: Longest prefix, in characters; a longer text is indexed as its beginning and its digest.
MAX_PREFIX_CHARS: Final = 200
_MAX_CONDITIONS = 64
_MAX_VALUES = 10_000
_MAX_KEY_CHARS = 200
_MAX_DEPTH = 8

_OPERATORS: Final = ("any", "prefix", "gt", "gte", "lt", "lte", "all")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?\Z", re.ASCII)
_OPTION = re.compile(
    r"(?P<key>(?:[^=<>^!]|!(?!=))+)(?P<operator>!=|\^=|>=|<=|=|>|<)(?P<value>.*)\Z", re.DOTALL
)
_RANGE_OPERATORS: Final = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}
#: PostgreSQL stores no NUL and UTF-8 no half of a surrogate pair.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NO_TEXT_REASON = "its value has characters that are not text"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


class FilterValue(msgspec.Struct, frozen=True):
    """A value of metadata in the form in which it is compared."""

    kind: Literal["text", "number", "flag"]
    """Type; values of different kinds are never equal."""
    text: str
    """The value as text; a number in its shortest form, a long text as its beginning and its digest."""
    number: float | None = None
    """Value of a number; seconds since 1970 (UTC) of a text that is an ISO date."""


class Bound(msgspec.Struct, frozen=True):
    """One end of a range."""

    value: float
    """A number, or seconds since 1970 (UTC)."""
    strict: bool
    """True excludes the value itself."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on one key; exactly one of `any_of`, `prefix` and a range is set."""

    key: str
    any_of: tuple[FilterValue, ...] = ()
    """Values of which the document must have one."""
    prefix: str = ""
    is_date_range: bool = False
    """True for a range of dates, False for one of numbers."""
    low: Bound | None = None
    high: Bound | None = None


class Logic(msgspec.Struct, frozen=True):
    """Filters joined by a word."""

    word: Literal["or", "and", "not"]
    """`not` holds when the parts do not all hold."""
    parts: tuple[Condition | Logic, ...]
    """At least one."""


Filters = tuple[Condition | Logic, ...]
"""All of them must hold."""


# Values


def to_filter_value(value: object) -> FilterValue | None:
    """Return the form in which a value is compared; None for null, a list or an object.

    >>> to_filter_value(2020.0) == to_filter_value(2020)
    True
    >>> to_filter_value("2020") == to_filter_value(2020)
    False
    """
    if isinstance(value, bool):
        return FilterValue("flag", "true" if value else "false")
    if isinstance(value, int | float):
        return _number_value(value)
    if isinstance(value, str) and value:
        return FilterValue("text", _index_text(value), _timestamp(value))
    return None


def _number_value(value: float) -> FilterValue | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    return FilterValue("number", str(int(value) if number.is_integer() else number), number)


def _index_text(text: str) -> str:
    """Shorten a long text: an entry of a PostgreSQL index holds about 2,700 bytes."""
    if len(text) <= MAX_PREFIX_CHARS:
        return text
    return f"{text[:MAX_PREFIX_CHARS]}\x01{hashlib.sha256(text.encode()).hexdigest()}"


def _timestamp(text: str) -> float | None:
    """Return the seconds since 1970 of an ISO date or time, UTC when no zone is named; None for other texts."""
    if not (_DATE.match(text) or _TIME.match(text)):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH).total_seconds()
    except (ValueError, OverflowError):
        return None


def document_values(document_id: str, metadata: Mapping[str, Any]) -> list[tuple[str, FilterValue]]:
    """Return each key of a document's metadata with each of its values, without repeats.

    Keys of chunks and nested objects are left out; each item of a list is a value.
    """
    found: dict[tuple[str, FilterValue], None] = {}
    for key, value in {**metadata, "document_id": document_id}.items():
        if key in CHUNK_KEYS or not 0 < len(key) <= _MAX_KEY_CHARS:
            continue
        for one in value if isinstance(value, list | tuple) else (value,):
            if (item := to_filter_value(one)) is not None:
                found[key, item] = None
    return list(found)


def matches(condition: Condition, values: Iterable[FilterValue]) -> bool:
    """Return whether one of the values of its key fulfils a condition."""
    return any(_fulfils(condition, value) for value in values)


def holds(filters: Filters, values: Sequence[tuple[str, FilterValue | None]]) -> bool:
    """Return whether all filters hold for the values of one chunk, each with its key."""
    return all(_holds(one, values) for one in filters)


def _holds(one: Condition | Logic, values: Sequence[tuple[str, FilterValue | None]]) -> bool:
    if isinstance(one, Condition):
        return matches(one, (value for key, value in values if value and key == one.key))
    if one.word == "not":
        return not holds(one.parts, values)
    combine = any if one.word == "or" else all
    return combine(_holds(part, values) for part in one.parts)


def conditions_of(filters: Filters) -> Iterator[Condition]:
    """Yield every condition, also those within `or`, `and` and `not`, in the order of the filter."""
    for one in filters:
        if isinstance(one, Condition):
            yield one
        else:
            yield from conditions_of(one.parts)


def _fulfils(condition: Condition, value: FilterValue) -> bool:
    if condition.any_of:
        return any(value.kind == one.kind and value.text == one.text for one in condition.any_of)
    if condition.prefix:
        return value.kind == "text" and value.text.startswith(condition.prefix)
    number, low, high = value.number, condition.low, condition.high
    if number is None or value.kind != ("text" if condition.is_date_range else "number"):
        return False
    if low is not None and (number < low.value or (low.strict and number == low.value)):
        return False
    return high is None or number < high.value or (number == high.value and not high.strict)


# Filters of programs


def parse_filters(filters: object) -> Filters:
    """Parse the filters of a search, key to condition; `BadInput` has a hint with the valid forms.

    A condition is a value (text, number, true or false), a list of values of which the document must have one,
    or an object of `any` (such a list), `prefix` (text), and `gt`, `gte`, `lt`, `lte` (numbers or ISO dates),
    all of which must hold; `all` is a list of conditions. `or` and `and` have a list of filters, `not` a
    filter; a document without the key fulfils `not`.
    """
    found = _parse(filters, 0)
    count = 0
    for condition in conditions_of(found):
        _check_built_in_key(condition)
        count += 1
    if count > _MAX_CONDITIONS:
        raise BadInput(f"a filter has at most {_MAX_CONDITIONS} conditions, not {count}")
    return found


def _parse(filters: object, depth: int) -> Filters:
    if not isinstance(filters, Mapping):
        raise BadInput(f"filters must be an object, not {type(filters).__name__}", hint=_ALLOWED)
    if depth > _MAX_DEPTH:
        raise BadInput(f"a filter nests at most {_MAX_DEPTH} times", hint=_ALLOWED)
    found: list[Condition | Logic] = []
    for key, value in filters.items():
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY_CHARS or _NO_TEXT.search(key):
            raise BadInput(f"{str(key)[:100]!r} is not a key of metadata", hint=_ALLOWED)
        if key == "not":
            found.append(Logic("not", _some(key, _parse(value, depth + 1))))
        elif key == "or":
            found.append(_joined("or", value, depth))
        elif key == "and":
            found.append(_joined("and", value, depth))
        else:
            found += _conditions(key, value)
    return tuple(found)


def _joined(word: Literal["or", "and"], filters: object, depth: int) -> Logic:
    if not isinstance(filters, list | tuple):
        raise BadInput(f"`{word}` must be a list of filters", hint=_ALLOWED)
    parts = [Logic("and", _some(word, _parse(one, depth + 1))) for one in filters]
    return Logic(word, _some(word, tuple(parts)))


def _some(word: str, filters: Filters) -> Filters:
    if not filters:
        raise BadInput(f"a filter of `{word}` is empty", hint=_ALLOWED)
    return filters


_ALLOWED = (
    "a condition is a value, a list of values (any of), or an object of any, prefix, gt, gte, lt, lte, all;"
    " `or` and `and` have a list of filters, `not` a filter"
)


def _conditions(key: str, value: object) -> list[Condition]:
    if isinstance(value, Mapping):
        return _by_operators(key, value)
    values = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return [_any_of(key, values)]


def _by_operators(key: str, value: Mapping[Any, Any]) -> list[Condition]:
    unknown = [str(name)[:40] for name in value if name not in _OPERATORS]
    if unknown or not value:
        raise BadInput(f"the filter on {key!r} has no operator {', '.join(unknown)}", hint=_ALLOWED)
    found: list[Condition] = []
    if "any" in value:
        if not isinstance(value["any"], list | tuple | set | frozenset):
            raise _bad(key, "`any` must be a list of values")
        found.append(_any_of(key, value["any"]))
    if "prefix" in value:
        found.append(_prefix(key, value["prefix"]))
    if "all" in value:
        found += _all_of(key, value["all"])
    ends = {name: value[name] for name in ("gt", "gte", "lt", "lte") if name in value}
    return [*found, _range(key, ends)] if ends else found


def _all_of(key: str, values: object) -> list[Condition]:
    if not isinstance(values, list | tuple) or not values:
        raise _bad(key, "`all` must be a list of conditions")
    if any(isinstance(one, Mapping) and "all" in one for one in values):
        raise _bad(key, "`all` cannot be nested in `all`")
    return [condition for one in values for condition in _conditions(key, one)]


def _any_of(key: str, values: Iterable[object]) -> Condition:
    listed = list(values)
    if not 0 < len(listed) <= _MAX_VALUES:
        raise _bad(key, f"1 to {_MAX_VALUES} values are allowed, not {len(listed)}")
    read = []
    for one in listed:
        if isinstance(one, str) and _NO_TEXT.search(one):
            raise _bad(key, _NO_TEXT_REASON)
        item = to_filter_value(one)
        if item is None:
            raise _bad(key, f"{str(one)[:40]!r} is not a text, number, true or false")
        read.append(item)
    return Condition(key=key, any_of=tuple(dict.fromkeys(read)))


def _prefix(key: str, value: object) -> Condition:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PREFIX_CHARS:
        raise _bad(key, f"a prefix is a text of 1 to {MAX_PREFIX_CHARS} characters")
    if _NO_TEXT.search(value):
        raise _bad(key, _NO_TEXT_REASON)
    return Condition(key=key, prefix=value)


def _range(key: str, ends: Mapping[str, object]) -> Condition:
    if {"gt", "gte"} <= ends.keys() or {"lt", "lte"} <= ends.keys():
        raise _bad(key, "a range has one lower and one upper end")
    bounds: dict[str, Bound] = {}
    kinds = set()
    for name, value in ends.items():
        is_date, bounds[name[0]] = _bound(key, name, value)
        kinds.add(is_date)
    if len(kinds) > 1:
        raise _bad(key, "one end is a number and the other a date")
    return Condition(key=key, is_date_range=kinds.pop(), low=bounds.get("g"), high=bounds.get("l"))


def _bound(key: str, name: str, value: object) -> tuple[bool, Bound]:
    """Parse one end of a range; return whether it is a date, and the end.

    A day ends where the next begins, so that `lte` a day includes all of it.
    """
    read = to_filter_value(value)
    if read is None or read.number is None:
        raise _bad(key, f"{str(value)[:40]!r} is neither a number nor a date like 2024-05-31")
    if read.kind == "text" and _DATE.match(read.text) and name in ("gt", "lte"):
        return True, Bound(read.number + _DAY.total_seconds(), strict=name == "lte")
    return read.kind == "text", Bound(read.number, strict=name in ("gt", "lt"))


def _check_built_in_key(condition: Condition) -> None:
    is_range = condition.low is not None or condition.high is not None
    if condition.key == "chunk_index" and (condition.prefix or condition.is_date_range):
        raise _bad("chunk_index", "it is a number")
    if condition.key in ("document_id", *CHUNK_KEYS[:3]) and is_range:
        raise _bad(condition.key, "it is a text, which has no range")


def _bad(key: str, reason: str) -> BadInput:
    return BadInput(f"the filter on {key[:100]!r} is invalid: {reason}", hint=_ALLOWED)


def unknown_key_error(key: str, known: Sequence[str]) -> BadInput:
    """Return the error for a key that no visible document has; `known` are the keys they have."""
    listed = ", ".join([*DOCUMENT_KEYS, *CHUNK_KEYS, *(k for k in known if k not in DOCUMENT_KEYS)])
    return BadInput(
        f"cannot filter by {key[:100]!r}: no document here has it",
        hint=f"filter by one of {listed}",
    )


# Filters of people


def parse_filter_options(options: Iterable[str]) -> dict[str, Any]:
    """Parse filters in the form `FILTER_SYNTAX`; all must hold, also several on one key.

    A value that looks like a number, `true` or `false` matches that value and the text. A value with commas is
    written in double quotes, as in a CSV file. An option that begins with `{` is a filter in JSON.

    >>> parse_filter_options(["lang=en,de", "year>=2020", "source_file^=guides/"])
    {'lang': ['en', 'de'], 'year': {'gte': 2020}, 'source_file': {'prefix': 'guides/'}}
    >>> parse_filter_options(["day=2024-01-01..2024-01-31"])
    {'day': {'gte': '2024-01-01', 'lte': '2024-01-31'}}
    >>> parse_filter_options(["lang=en", "tag!=draft"])
    {'lang': 'en', 'and': [{'not': {'tag': 'draft'}}]}
    """
    found: dict[str, list[Any]] = {}
    joined: list[Any] = []
    for option in options:
        if option.lstrip().startswith("{"):
            joined.append(_json_option(option))
            continue
        match = _OPTION.match(option)
        if match is None or not match["key"].strip():
            raise BadInput(
                f"{option[:100]!r} is not a filter", hint=f"filters are written {FILTER_SYNTAX}"
            )
        key = match["key"].strip()
        if match["operator"] != "=" and not match["value"].strip():
            raise _without_value(key)
        value = _option_value(key, match["operator"], match["value"])
        if match["operator"] == "!=":
            joined.append({"not": {key: value}})
        else:
            found.setdefault(key, []).append(value)
    read = {key: many[0] if len(many) == 1 else {"all": many} for key, many in found.items()}
    return {**read, "and": joined} if joined else read


def _json_option(option: str) -> Any:
    try:
        return msgspec.json.decode(option)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise BadInput(f"{option[:100]!r} is not JSON: {error}", hint=_ALLOWED) from error


def _option_value(key: str, operator: str, text: str) -> Any:
    if operator == "^=":
        return {"prefix": text}
    if operator in _RANGE_OPERATORS:
        end = _end(text)
        if end is None:
            text = text.strip()
            raise _bad(key, f"{text[:40]!r} is neither a number nor a date like 2024-05-31")
        return {_RANGE_OPERATORS[operator]: end}
    low, dots, high = text.partition("..")
    ends = {name: _end(one) for name, one in (("gte", low), ("lte", high)) if one}
    if dots and ends and None not in ends.values():
        return ends
    values = [typed for part in _split(key, text) for typed in _typed(part)]
    return values[0] if len(values) == 1 else values


def _split(key: str, text: str) -> list[str]:
    try:
        (parts,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        parts = [text]  # An unbalanced quote is part of the value.
    parts = [part for part in parts if part]
    if not parts:
        raise _without_value(key)
    return parts


def _without_value(key: str) -> BadInput:
    hint = f"filters are written {FILTER_SYNTAX}"
    return BadInput(f"the filter on {key[:100]!r} has no value", hint=hint)


def _typed(text: str) -> list[Any]:
    if text in ("true", "false"):
        return [text, text == "true"]
    number = _number(text) if _NUMBER.match(text) else math.inf
    return [text, number] if math.isfinite(number) else [text]


def _end(text: str) -> float | str | None:
    """Return a number or the text of a date; None for other texts."""
    text = text.strip()
    if _NUMBER.match(text):
        return _number(text)
    return None if _timestamp(text) is None else text


def _number(text: str) -> float:
    digits = text.lstrip("+-")
    return int(text) if digits.isdigit() and len(digits) < 19 else float(text)
