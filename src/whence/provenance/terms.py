"""Typed literals: convert Python values to terms and back."""

from __future__ import annotations

from whence.provenance.namespaces import XSD_BOOLEAN, XSD_DATE_TIME, XSD_DOUBLE, XSD_INTEGER
from whence.schema.terms import Term

Scalar = str | int | float | bool
"""Type of a setting."""

#: Ranks and counts are mostly small; terms are immutable, so these are shared.
_SMALL = tuple(Term("l", "", str(number), XSD_INTEGER) for number in range(512))
_NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
_TRUE = Term("l", "", "true", XSD_BOOLEAN)
_FALSE = Term("l", "", "false", XSD_BOOLEAN)


def integer(value: int) -> Term:
    """Return an `xsd:integer`."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    return Term("l", "", str(int(value)), XSD_INTEGER)


def double(value: float) -> Term:
    """Return an `xsd:double` that reads back as the same number."""
    text = repr(float(value))
    return Term("l", "", _NOT_FINITE.get(text, text), XSD_DOUBLE)


def boolean(value: bool) -> Term:
    """Return an `xsd:boolean`."""
    return _TRUE if value else _FALSE


def date_time(value: str) -> Term:
    """Return an `xsd:dateTime` from an ISO 8601 text."""
    return Term("l", "", value, XSD_DATE_TIME)


def scalar(value: Scalar) -> Term:
    """Return a literal of the datatype that fits the value; a string stays plain."""
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return double(value)
    return Term("l", "", str(value))


def read_scalar(term: Term) -> Scalar:
    """Return the Python value of a literal; a text that does not fit its datatype stays a string."""
    text = term.value
    try:
        if term.datatype == XSD_INTEGER:
            return int(text)
        if term.datatype == XSD_DOUBLE:
            return float(text)
    except ValueError:
        return text
    if term.datatype == XSD_BOOLEAN:
        return text in {"true", "1"}
    return text
