"""Conditions on metadata: what a search may be narrowed by, and how people and programs write it.

A document states facts: each key of its metadata with one value or several. A filter keeps the chunks for which
all its conditions hold; it can only ever take away. Values are typed: the number 2020 is not the text "2020",
`true` is not "true", and a range of dates looks at texts that are ISO dates and at nothing else.

As a program gives it, key to value; all keys must hold:

    {"lang": "en", "year": {"gte": 2020}, "tag": ["a", "b"], "source_file": {"prefix": "guides/"}}

As people write it, see `parse_filter_options`: `lang=en`, `year>=2020`, `tag=a,b`, `source_file^=guides/`.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from whence.schema.errors import BadInput

__all__ = (
    "CHUNK_KEYS",
    "DOCUMENT_KEYS",
    "FILTER_SYNTAX",
    "MAX_PREFIX_CHARS",
    "Bound",
    "Condition",
    "FilterValue",
    "Filters",
    "document_values",
    "matches",
    "parse_filter_options",
    "parse_filters",
    "to_filter_value",
    "unknown_key_error",
)

#: Keys that each chunk has for itself: two texts of one meaning, the nearest heading, and its place.
CHUNK_KEYS: Final = ("section_path", "header_path", "heading", "chunk_index")
#: Keys that every document has, whatever its metadata.
DOCUMENT_KEYS: Final = ("document_id", "title", "source_file", "source_url")
FILTER_SYNTAX: Final = (
    "KEY=VALUE, KEY=A,B (any of), KEY=LOW..HIGH, KEY>=LOW, KEY>LOW, KEY<=HIGH, KEY<HIGH (numbers or dates),"
    " KEY^=PREFIX"
)
#: Longest prefix, in characters; a longer text is kept as its start and its digest.
MAX_PREFIX_CHARS: Final = 200
#: Most conditions and most alternatives of one filter: beyond that it is a mistake or an attack.
_MOST_CONDITIONS = 64
_MOST_VALUES = 10_000
_LONGEST_KEY = 200

_OPERATORS: Final = ("any", "prefix", "gt", "gte", "lt", "lte", "all")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_OPTION = re.compile(r"(?P<key>[^=<>^]+)(?P<operator>\^=|>=|<=|=|>|<)(?P<value>.*)\Z", re.DOTALL)
_WORDS: Final = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


class FilterValue(msgspec.Struct, frozen=True):
    """One value in the form it is compared in."""

    kind: Literal["text", "number", "flag"]
    """What it is; values of different kinds are never equal."""
    text: str
    """Itself; a number in its shortest form, a long text as its start and its digest."""
    number: float | None = None
    """A number's value, or the seconds since 1970 (UTC) of a text that is an ISO date."""


class Bound(msgspec.Struct, frozen=True):
    """One end of a range."""

    value: float
    """A number, or seconds since 1970 (UTC)."""
    strict: bool
    """True when the value itself is outside."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What must hold for one key; exactly one of `any_of`, `prefix` and a range is set."""

    key: str
    """Key of the metadata."""
    any_of: tuple[FilterValue, ...] = ()
    """One of these must be stated."""
    prefix: str = ""
    """A text must begin so."""
    is_date_range: bool = False
    """For a range: True when it is one of dates, False for numbers."""
    low: Bound | None = None
    """Lower end of a range."""
    high: Bound | None = None
    """Upper end of a range."""


Filters = tuple[Condition, ...]


# --- facts -----------------------------------------------------------------------------------------


def to_filter_value(value: object) -> FilterValue | None:
    """Give the form in which a value is compared; None for what cannot be (null, a list, an object).

    >>> to_filter_value(2020.0) == to_filter_value(2020)
    True
    >>> to_filter_value("2020") == to_filter_value(2020)
    False
    """
    if isinstance(value, bool):
        return FilterValue("flag", "true" if value else "false")
    if isinstance(value, int | float):
        return _number_fact(value)
    if isinstance(value, str) and value:
        return FilterValue("text", _kept(value), _instant(value))
    return None


def _number_fact(value: float) -> FilterValue | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    if isinstance(value, int):
        return FilterValue("number", str(value), number)
    return FilterValue("number", str(int(number) if number.is_integer() else number), number)


def _kept(text: str) -> str:
    """Give a text as it is kept: an entry of an index has room for some 2,700 bytes."""
    if len(text) <= MAX_PREFIX_CHARS:
        return text
    return f"{text[:MAX_PREFIX_CHARS]}\x01{hashlib.sha256(text.encode()).hexdigest()}"


def _instant(text: str) -> float | None:
    """Give the seconds since 1970 of an ISO date or time, UTC when no zone is named; None for others."""
    if not (_DATE.match(text) or _TIME.match(text)):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH).total_seconds()
    except (ValueError, OverflowError):
        return None


def document_values(document_id: str, metadata: Mapping[str, Any]) -> list[tuple[str, FilterValue]]:
    """Give what a document states: each key with each of its values, without repeats.

    Args:
        document_id: Its id.
        metadata: What its chunks show; keys that each chunk has for itself are left out. Of a list each value
            counts; objects inside are not looked into.
    """
    found: dict[tuple[str, FilterValue], None] = {}
    for key, value in {**metadata, "document_id": document_id}.items():
        if key in CHUNK_KEYS or not 0 < len(key) <= _LONGEST_KEY:
            continue
        for one in value if isinstance(value, list | tuple) else (value,):
            fact = to_filter_value(one)
            if fact is not None:
                found[key, fact] = None
    return list(found)


def matches(condition: Condition, facts: Iterable[FilterValue]) -> bool:
    """Tell whether a condition holds for what is stated of its key."""
    return any(_fits(condition, fact) for fact in facts)


def _fits(condition: Condition, fact: FilterValue) -> bool:
    if condition.any_of:
        return any(fact.kind == one.kind and fact.text == one.text for one in condition.any_of)
    if condition.prefix:
        return fact.kind == "text" and fact.text.startswith(condition.prefix)
    if fact.number is None or fact.kind != ("text" if condition.is_date_range else "number"):
        return False
    low, high = condition.low, condition.high
    above = low is None or fact.number > low.value or (fact.number == low.value and not low.strict)
    below = (
        high is None or fact.number < high.value or (fact.number == high.value and not high.strict)
    )
    return above and below


# --- from programs ---------------------------------------------------------------------------------


def parse_filters(filters: object) -> Filters:
    """Read the conditions of a search.

    Args:
        filters: Key to condition. A condition is a value (text, number, true or false), a list of values of
            which one must be stated, or an object of `any` (such a list), `prefix` (text), and `gt`, `gte`,
            `lt`, `lte` (numbers or ISO dates), all of which must hold; `all` is a list of conditions.

    Raises:
        BadInput: It is nothing of the kind; the hint says what is allowed.
    """
    if not isinstance(filters, Mapping):
        raise BadInput(f"filters must be an object, not {type(filters).__name__}", hint=_ALLOWED)
    found: list[Condition] = []
    for key, value in filters.items():
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or not _storable(key):
            raise BadInput(f"{str(key)[:100]!r} is not a key of metadata", hint=_ALLOWED)
        found += _conditions(key, value)
    if len(found) > _MOST_CONDITIONS:
        raise BadInput(f"a filter has at most {_MOST_CONDITIONS} conditions, not {len(found)}")
    for condition in found:
        _check_of_chunk(condition)
    return tuple(found)


_ALLOWED = "a condition is a value, a list of values (any of), or an object of any, prefix, gt, gte, lt, lte, all"


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
        raise _bad(key, "`all` cannot stand inside of `all`")
    return [condition for one in values for condition in _conditions(key, one)]


def _any_of(key: str, values: Iterable[object]) -> Condition:
    listed = list(values)
    if not 0 < len(listed) <= _MOST_VALUES:
        raise _bad(key, f"1 to {_MOST_VALUES} values can be asked for, not {len(listed)}")
    facts = []
    for one in listed:
        if isinstance(one, str):
            _check_text(key, one)
        fact = to_filter_value(one)
        if fact is None:
            raise _bad(key, f"{str(one)[:40]!r} is no text, number, true or false")
        facts.append(fact)
    return Condition(key=key, any_of=tuple(dict.fromkeys(facts)))


def _prefix(key: str, value: object) -> Condition:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PREFIX_CHARS:
        raise _bad(key, f"a prefix is a text of 1 to {MAX_PREFIX_CHARS} characters")
    _check_text(key, value)
    return Condition(key=key, prefix=value)


def _range(key: str, ends: Mapping[str, object]) -> Condition:
    if {"gt", "gte"} <= ends.keys() or {"lt", "lte"} <= ends.keys():
        raise _bad(key, "a range has one lower and one upper end")
    read = {name: _bound(key, name, value) for name, value in ends.items()}
    kinds = {is_date_range for is_date_range, _ in read.values()}
    if len(kinds) > 1:
        raise _bad(key, "one end is a number and the other a date")
    low = next((bound for name, (_, bound) in read.items() if name.startswith("g")), None)
    high = next((bound for name, (_, bound) in read.items() if name.startswith("l")), None)
    return Condition(key=key, is_date_range=kinds.pop(), low=low, high=high)


def _bound(key: str, name: str, value: object) -> tuple[bool, Bound]:
    """Read one end; a day ends where the next begins, so that `lte` a day takes all of it."""
    fact = to_filter_value(value)
    if fact is None or fact.number is None:
        raise _bad(key, f"{str(value)[:40]!r} is neither a number nor a date like 2024-05-31")
    if fact.kind == "number":
        return False, Bound(fact.number, strict=name in ("gt", "lt"))
    if not _DATE.match(str(value)):
        return True, Bound(fact.number, strict=name in ("gt", "lt"))
    end = fact.number + _DAY.total_seconds()
    return True, {
        "gte": Bound(fact.number, strict=False),
        "gt": Bound(end, strict=False),
        "lt": Bound(fact.number, strict=True),
        "lte": Bound(end, strict=True),
    }[name]


def _check_of_chunk(condition: Condition) -> None:
    """Refuse what a key that is always there cannot be asked."""
    is_range = condition.low is not None or condition.high is not None
    if condition.key == "chunk_index" and (condition.prefix or condition.is_date_range):
        raise _bad("chunk_index", "it is a number")
    if condition.key in ("document_id", *CHUNK_KEYS[:3]) and is_range:
        raise _bad(condition.key, "it is a text, which has no range")


def _bad(key: str, reason: str) -> BadInput:
    return BadInput(f"the filter on {key[:100]!r} cannot be: {reason}", hint=_ALLOWED)


def _check_text(key: str, text: str) -> None:
    if not _storable(text):
        raise _bad(key, "its value holds characters that are no text")


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def unknown_key_error(key: str, known: Sequence[str]) -> BadInput:
    """Give the error for a key that no visible document has; `known` are those there are."""
    listed = ", ".join([*DOCUMENT_KEYS, *CHUNK_KEYS, *(k for k in known if k not in DOCUMENT_KEYS)])
    return BadInput(
        f"cannot filter by {key[:100]!r}: no document here has it",
        hint=f"filter by one of {listed}",
    )


# --- from people -----------------------------------------------------------------------------------


def parse_filter_options(options: Iterable[str]) -> dict[str, Any]:
    """Read conditions as people write them; several all hold, also on one key.

    What looks like a number, `true` or `false` stands for that and for the text alike. Values with commas go
    into double quotes, as in a CSV file.

    >>> parse_filter_options(["lang=en,de", "year>=2020", "source_file^=guides/"])
    {'lang': ['en', 'de'], 'year': {'gte': 2020}, 'source_file': {'prefix': 'guides/'}}
    >>> parse_filter_options(["day=2024-01-01..2024-01-31"])
    {'day': {'gte': '2024-01-01', 'lte': '2024-01-31'}}

    Raises:
        BadInput: An option is not of this form; the hint lists the forms.
    """
    found: dict[str, list[Any]] = {}
    for option in options:
        match = _OPTION.match(option)
        if match is None or not match["key"].strip():
            raise BadInput(
                f"{option[:100]!r} is no filter", hint=f"filters are written {FILTER_SYNTAX}"
            )
        key = match["key"].strip()
        if match["operator"] != "=" and not match["value"].strip():
            raise _without_value(key)
        found.setdefault(key, []).append(_option_value(key, match["operator"], match["value"]))
    return {key: given[0] if len(given) == 1 else {"all": given} for key, given in found.items()}


def _option_value(key: str, operator: str, text: str) -> Any:
    if operator == "^=":
        return {"prefix": text}
    if operator in _WORDS:
        return {_WORDS[operator]: _end(key, text)}
    low, dots, high = text.partition("..")
    if dots and (low or high) and all(_is_end(one) for one in (low, high) if one):
        return {name: _end(key, one) for name, one in (("gte", low), ("lte", high)) if one}
    values = [typed for part in _split(key, text) for typed in _typed(part)]
    return values[0] if len(values) == 1 else values


def _split(key: str, text: str) -> list[str]:
    """Give the parts between commas that are not in quotes."""
    try:
        (parts,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        parts = [text]  # A quote that is none of ours is part of the value.
    parts = [part for part in parts if part]
    if not parts:
        raise _without_value(key)
    return parts


def _without_value(key: str) -> BadInput:
    hint = f"filters are written {FILTER_SYNTAX}"
    return BadInput(f"the filter on {key[:100]!r} has no value", hint=hint)


def _typed(text: str) -> list[Any]:
    """Give the values that a word may stand for, itself first."""
    if text in ("true", "false"):
        return [text, text == "true"]
    number = _number(text) if _NUMBER.match(text) else math.inf
    return [text, number] if math.isfinite(number) else [text]


def _is_end(text: str) -> bool:
    text = text.strip()
    return bool(_NUMBER.match(text)) or _instant(text) is not None


def _end(key: str, text: str) -> Any:
    text = text.strip()
    if not _is_end(text):
        raise _bad(key, f"{text[:40]!r} is neither a number nor a date like 2024-05-31")
    return _number(text) if _NUMBER.match(text) else text


def _number(text: str) -> float:
    digits = text.lstrip("+-")
    return int(text) if digits.isdigit() and len(digits) < 19 else float(text)
