"""Read the date that a document states as its own, in the forms of the web, of mail and of front matter."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

#: Keys of front matter and the like with the date of a document, the one that says most of how new it is first.
_KEYS = """last_modified lastmodified last_modified_at lastmod last_updated updated updated_at modified
    date_modified revision_date date published publish_date published_at pubdate date_published released
    created created_at date_created creation_date"""
_DATE_KEYS = tuple(_KEYS.split())
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_PARTIAL = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_MARKED = re.compile(r"\$[A-Z]\w*+:([^$]*+)\$")


def iso_date(value: Any) -> str:
    """Return a date or a time in ISO 8601; empty if it is none of these.

    >>> iso_date("2024-03-05T10:00:00Z"), iso_date("Tue, 05 Mar 2024 10:00:00 GMT"), iso_date("2024/3")
    ('2024-03-05T10:00:00Z', '2024-03-05T10:00:00+00:00', '2024-03')
    >>> iso_date("20240305"), iso_date("March 5, 2024"), iso_date("soon")
    ('2024-03-05', '2024-03-05', '')
    """
    text = str(value).strip() if isinstance(value, str | int) else ""
    marked = _MARKED.fullmatch(text)
    text = (marked[1].strip() if marked else text).replace("\u202f", " ")
    compact = _COMPACT.fullmatch(text)
    if compact:
        text = "-".join(compact.groups())
    if not text[:1].isalnum() or len(text) > 60:
        return ""
    with suppress(ValueError):
        dt.datetime.fromisoformat(text)
        return text.replace(" ", "T", 1)
    partial = _PARTIAL.fullmatch(text)
    if partial:
        return _partial(*partial.groups())
    with suppress(ValueError, TypeError, IndexError):
        return parsedate_to_datetime(text).isoformat()
    return _written(text)


def stated_date(values: Mapping[str, Any]) -> str:
    """Return the date among values by key, such as those of front matter, ISO 8601; empty if they have none."""
    by_key = {key.strip().lower().replace("-", "_").replace(" ", "_"): key for key in values}
    dates = (iso_date(values[by_key[key]]) for key in _DATE_KEYS if key in by_key)
    return next(filter(None, dates), "")


def _partial(year: str, month: str | None, day: str | None) -> str:
    with suppress(ValueError):
        whole = dt.date(int(year), int(month or 1), int(day or 1)).isoformat()
        return whole[: 10 if day else 7 if month else 4]
    return ""


def _written(text: str) -> str:
    words = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|[.,]", " ", text).split()
    for form in ("%d %B %Y", "%B %d %Y", "%d %b %Y", "%b %d %Y", "%B %Y", "%b %Y"):
        with suppress(ValueError):
            found = dt.datetime.strptime(" ".join(words), form).replace(tzinfo=dt.UTC).date()
            return found.isoformat()[: 10 if "%d" in form else 7]
    return ""
