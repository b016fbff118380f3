"""Numbers as a workbook shows them: by the codes of their formats (ECMA-376, part 1, 18.8.30 and 18.8.31)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from whence.ingest.spreadsheets.cells import Cell

GENERAL = "General"
#: Formats that have a number and no code in the file; dates in it are those of the user's country.
BUILT_IN = {
    0: GENERAL, 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "yyyy-mm-dd", 16: "yyyy-mm-dd", 17: "yyyy-mm", 18: "h:mm", 19: "h:mm:ss",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;-#,##0", 38: "#,##0;-#,##0",
    39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00", 41: "#,##0", 42: "#,##0", 43: "#,##0.00", 44: "#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
_TOKEN = re.compile(
    r"""(?isx) "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | _(?P<space>.) | \*(?P<fill>.)
    | \[(?P<elapsed>h+|m+|s+)\] | \[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\] | \[(?P<other>[^\]]*)\]
    | (?P<general>general) | (?P<ampm>am/pm|a/p) | (?P<science>e[+-]0+) | (?P<date>[ymdhsbeg]+(?:\.0+)?)
    | (?P<digits>[0\#?][0\#?,.]*|\.[0\#?]+) | (?P<separator>;) | (?P<fraction>/) | (?P<text>@)
    | (?P<percent>%) | (?P<literal>.)"""
)
_LITERALS = ("quoted", "escaped", "currency", "literal", "percent", "fraction")
#: Days of the calendars that workbooks count from.
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - cells have no zone
#: The last day of the year 9999.
_MAX_DAYS = 2_958_466
#: Until this day the calendar of 1900 has a 29 February that did not exist.
_FALSE_LEAP_DAY = 60
_SIGNIFICANT = 15


class _Section(NamedTuple):
    """How numbers of one sign are shown."""

    tokens: tuple[tuple[str, str], ...]
    """Kind and text of each."""
    kinds: frozenset[str]


def shown_number(value: float, code: str, *, epoch_1904: bool = False) -> Cell:
    """Return a cell with a number as a format shows it; dates and times as ISO 8601 writes them.

    >>> shown_number(0.125, "0.0%").text, shown_number(1250000, '#,##0.00 "€"').text
    ('12.5%', '1,250,000.00 €')
    >>> shown_number(46082, "d. mmm yy").text, shown_number(1.0, "General").text
    ('2026-03-01', '1')
    """
    sections = _sections(code)
    section = sections[0]
    signed = value
    if value < 0 and len(sections) > 1:
        section, signed = sections[1], -value
    elif value == 0 and len(sections) > 2:
        section = sections[2]
    if section.kinds & {"date", "elapsed"}:
        if (date := _date(value, section, epoch_1904=epoch_1904)) is not None:
            return date
        return Cell(general(value), "number")
    if not section.kinds & {"digits", "quoted", "escaped", "currency", "literal"}:
        return Cell(general(value), "number")
    return Cell(_number(signed, section), "number")


def general(value: float) -> str:
    """Return a number without a format: at most 15 digits, no `.0`.

    >>> general(1.0), general(0.1 + 0.2), general(1e21)
    ('1', '0.3', '1e+21')
    """
    if value == int(value) and abs(value) < 10**_SIGNIFICANT:
        return str(int(value))
    return f"{value:.{_SIGNIFICANT}g}"


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[_Section, ...]:
    sections: list[list[tuple[str, str]]] = [[]]
    for found in _TOKEN.finditer(code):
        kind = str(found.lastgroup)
        if kind == "separator":
            sections.append([])
        elif kind not in ("space", "fill", "other"):
            sections[-1].append((kind, found[kind]))
    return tuple(
        _Section(tuple(tokens), frozenset(kind for kind, _ in tokens)) for tokens in sections
    )


def _date(value: float, section: _Section, *, epoch_1904: bool) -> Cell | None:
    """Return a date or a time, as exact as the format shows it; None if no calendar has it."""
    if not 0 <= value < _MAX_DAYS:
        return None
    elapsed = next((text for kind, text in section.tokens if kind == "elapsed"), "")
    letters = "".join(text for kind, text in section.tokens if kind == "date").lower()
    has_seconds = "s" in letters + elapsed
    seconds = round(value * 86_400)
    if elapsed:
        hours, rest = divmod(seconds, 3600)
        shown = f"{hours}:{rest // 60:02}"
        return Cell(f"{shown}:{rest % 60:02}" if has_seconds else shown, "date")
    if epoch_1904:
        moment = _EPOCH_1904 + timedelta(seconds=seconds)
    else:
        shift = 1 if value < _FALSE_LEAP_DAY else 0
        moment = _EPOCH + timedelta(days=shift, seconds=seconds)
    has_day = bool(set(letters) & set("de")) or ("y" not in letters and value >= 1)
    has_time = bool(set(letters) & set("hs"))
    time = moment.strftime("%H:%M:%S" if has_seconds else "%H:%M") if has_time else ""
    if "m" in letters and "y" in letters and not has_day:
        date = f"{moment:%Y-%m}"
    elif "y" in letters and not has_day:
        date = f"{moment.year:04}"
    elif has_time and not set(letters) & set("yd"):
        date = ""
    else:
        date = f"{moment:%Y-%m-%d}"
    return Cell(" ".join(filter(None, (date, time))), "date")


def _number(value: float, section: _Section) -> str:
    patterns = [text for kind, text in section.tokens if kind == "digits"]
    kinds = section.kinds
    if "science" in kinds:
        decimals = len(patterns[0].partition(".")[2]) if patterns else 0
        return f"{value:.{decimals}E}"
    if "fraction" in kinds:
        return general(value)
    if len(patterns) > 1 and (parted := _in_parts(value, patterns, section)):
        return parted
    percents = sum(kind == "percent" for kind, _ in section.tokens)
    body = _digits(value * 100**percents, patterns[0]) if patterns else general(value)
    sign = "-" if value < 0 and body.strip("-0.,") else ""
    shown, done = "", False
    for kind, text in section.tokens:
        if kind in ("digits", "general") and not done:
            shown, done = shown + body.lstrip("-"), True
        elif kind in _LITERALS and kind != "fraction":
            shown += "%" if kind == "percent" else text
    return " ".join(f"{sign}{shown}".split())


def _digits(value: float, pattern: str) -> str:
    """Return a number by a pattern such as `#,##0.00`."""
    whole, _, decimals = pattern.rstrip(",").partition(".")
    scale = len(pattern) - len(pattern.rstrip(","))
    places, least = len(decimals.replace(",", "")), decimals.count("0")
    try:
        exact = Decimal(repr(value)).scaleb(-3 * scale)
        rounded = abs(exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
    except InvalidOperation:
        return general(abs(value))
    integer, _, fraction = f"{rounded:f}".partition(".")
    while len(fraction) > least and fraction.endswith("0"):
        fraction = fraction[:-1]
    integer = integer.rjust(whole.count("0"), "0") if integer != "0" or "0" in whole else ""
    if "," in whole:
        integer = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", integer)
    if not fraction:
        # An account shows `-` in place of 0 by a pattern without a digit that is always shown.
        return integer or ("0" if set(whole) <= {"#", ","} else "")
    return f"{integer or '0'}.{fraction}"


def _in_parts(value: float, patterns: list[str], section: _Section) -> str:
    """Return an integer with literals between its digits, as a telephone number has; empty if it is none."""
    if value != int(value) or any("." in pattern for pattern in patterns):
        return ""
    digits = str(abs(int(value))).rjust(sum(map(len, patterns)), "0")
    shown: list[str] = []
    left = len(patterns)
    for kind, text in reversed(section.tokens):
        if kind == "digits":
            left -= 1
            size = len(text) if left else len(digits)
            shown.append(digits[-size:] if size else "")
            digits = digits[:-size]
        elif kind in _LITERALS:
            shown.append(text)
    return "".join(reversed(shown))
