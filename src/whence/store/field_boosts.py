"""Boosts of fields in lexical search, recorded with each collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from whence.schema.errors import BadInput

#: Greatest boost of a field.
MAX_BOOST = 10
_LEAST = {"title": 1, "heading": 1, "path": 0}


class FieldBoosts(msgspec.Struct, frozen=True, kw_only=True):
    """Factors for the term frequencies of fields.

    BM25 over weighted occurrences is BM25F with one saturation for all fields (Robertson, Zaragoza and Taylor,
    "Simple BM25 extension to multiple weighted fields", CIKM 2004). The text has boost 1.
    """

    title: int = 1
    """The document's title, 1 to 10."""
    heading: int = 1
    """The nearest heading, 1 to 10; of source code the qualified name of the symbol."""
    path: int = 0
    """The document's id, 0 to 10: of a file its path in what was indexed."""

    def indexed_text(self, text: str, *, title: str, heading: str, path: str) -> str:
        """Return the text to index: the text itself, and each field once less than its boost.

        Args:
            text: The searched text, with title and heading in front where the document has them.
            title: Of the document.
            heading: Of the chunk.
            path: Id of the document.
        """
        more = [title] * (self.title - 1) + [heading] * (self.heading - 1) + [path] * self.path
        return "\n".join([text, *more]) if more else text


def parse_field_boosts(values: Mapping[str, int]) -> FieldBoosts:
    """Check boosts by the names of fields; the others have their defaults.

    Raises:
        BadInput: There is no such field, or a boost is out of range.
    """
    for name, weight in values.items():
        if name not in _LEAST:
            raise BadInput(f"no field {name!r} to boost", hint=f"use one of {', '.join(_LEAST)}")
        hint = f"give {_LEAST[name]} to {MAX_BOOST}"
        if isinstance(weight, bool) or not isinstance(weight, int):
            raise BadInput(f"the boost of {name} must be an integer, not {weight!r}", hint=hint)
        if not _LEAST[name] <= weight <= MAX_BOOST:
            raise BadInput(f"the boost of {name} cannot be {weight}", hint=hint)
    return FieldBoosts(**values)


def parse_boost_options(given: Sequence[str]) -> dict[str, int]:
    """Return the weights of options `FIELD=N`.

    >>> parse_boost_options(["title=3"])
    {'title': 3}

    Raises:
        BadInput: One is no such option, or its field or number is invalid.
    """
    found: dict[str, int] = {}
    for one in given:
        field, _, number = one.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise BadInput(f"--boost {one!r} is not FIELD=N", hint="for example --boost title=3")
        found[field] = int(number)
    parse_field_boosts(found)
    return found
