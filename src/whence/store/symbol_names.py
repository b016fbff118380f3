"""What chunks are called: in source code the names of symbols, so that who asks for one by name finds it first.

In source code a heading is the qualified name of what is defined below it: `shop.Cart.total` goes by that, by
`Cart.total` and by `total`. Of the chunks of a document under one heading the first is called so. Letters of
ASCII count in either case; written as in the name they fit better. Headings of prose do not name what is said
below them: a section `Harbour` of some minutes is not what Harbour is. There only a heading counts that is the
title of its document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import msgspec

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.text.analysis import is_stop_term

__all__ = (
    "LONGEST_NAME",
    "SupportsSymbols",
    "SymbolMatch",
    "best_matches",
    "is_symbol_heading",
    "parse_symbol_query",
    "symbol_fit",
)

#: Bytes of a heading that can be a name; an entry of an index holds 2,700.
LONGEST_NAME = 400

#: Words among which a name is looked for; more are a question.
_MOST_WORDS = 8
#: What may stand around a name: quotes, a call's brackets, the end of a sentence.
_AROUND = "\"'`()[]{}<>,;!?.:#*&"
_SYMBOL = re.compile(r"[\w$@]+(?:(?:::|[.:#])[\w$@]+)*")
#: What parts a qualified name.
_JOINTS = (b".", b":", b"#")


class SymbolMatch(msgspec.Struct, frozen=True):
    """A visible chunk that goes by a name."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""
    fit: int
    """2: the name is all of what it is called; 1: the last parts of that; 0: either in another case."""


def parse_symbol_query(query_text: str) -> str | None:
    """Return the name that a query consists of, beside stop words; None when it asks for anything else.

    >>> [parse_symbol_query(query) for query in ("the `Cart.total()`", "_private", "total of a cart")]
    ['Cart.total', '_private', None]
    """
    words = query_text.split(maxsplit=_MOST_WORDS)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    strong = [word for word in (one.strip(_AROUND) for one in words) if not _says_nothing(word)]
    if len(strong) != 1 or not _SYMBOL.fullmatch(strong[0]):
        return None
    return strong[0] if len(strong[0].encode()) <= LONGEST_NAME else None


def _says_nothing(word: str) -> bool:
    return not word or is_stop_term(word.lower())


def symbol_fit(name: str, heading: str) -> int | None:
    """Return how well a name fits what a chunk is called, as in `SymbolMatch`; None when it is not called so.

    >>> [symbol_fit("total", one) for one in ("total", "Cart.total", "Cart.Total", "subtotal")]
    [2, 1, 0, None]
    """
    called, asked = heading.encode(errors="replace"), name.encode()
    if not 0 < len(called) <= LONGEST_NAME or b" " in called:
        return None
    # Of bytes only letters of ASCII have a case.
    folded, wanted = called.lower(), asked.lower()
    if folded != wanted and not folded.endswith(tuple(joint + wanted for joint in _JOINTS)):
        return None
    if called == asked:
        return 2
    return 1 if called.endswith(asked) else 0


def is_symbol_heading(heading: str, title: str, document_id: str) -> bool:
    """Return whether a heading is the name of what stands below it.

    Files of source code have their path for a title, which is their id; nodes of a snapshot are called by their
    title.

    Args:
        heading: Of the chunk.
        title: Of its document.
        document_id: Id of the document.
    """
    return title in (heading, document_id)


def best_matches(chunks: Iterable[SymbolMatch], limit: int) -> list[SymbolMatch]:
    """Return the chunks that fit best, equal ones by id, at most `limit`."""
    return sorted(chunks, key=lambda one: (-one.fit, one.chunk_id))[:limit]


@runtime_checkable
class SupportsSymbols(Protocol):
    """A store that knows what its chunks are called."""

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """Return the visible chunks that go by a name, those that fit best first, equal ones by id.

        Those that `filters` do not keep are left out. A collection that does not exist has none. Cost: grows
        with the chunks of that name, hidden ones included.

        Raises:
            BadInput: No visible document has a key of the filters.
        """
        ...
