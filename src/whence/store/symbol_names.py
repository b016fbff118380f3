"""Names of symbols, by which identifier queries rank definitions above mentions.

In source code a heading is the qualified name of the symbol that is defined below it: queries for
`shop.Cart.total`, `Cart.total` and `total` match it. Of the chunks of a document under one heading the first
matches. The case of ASCII letters is ignored, but an exact match is better. Headings of prose are not symbols:
a section `Harbour` of some minutes does not define Harbour. There only a heading that is the title of its
document counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

#: Longest name in bytes; an entry of an index holds 2,700.
LONGEST_NAME = 400
#: Characters that join the parts of a qualified name.
_JOINTS = (b".", b":", b"#")


class SymbolMatch(msgspec.Struct, frozen=True):
    """A visible chunk that defines the symbol of a name."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""
    fit: int
    """2: the name is the whole qualified name; 1: its last parts; 0: either, in another case."""


def symbol_fit(name: str, heading: str) -> int | None:
    """Return how well a name matches a heading, as `SymbolMatch.fit`; None when it does not.

    >>> [symbol_fit("total", one) for one in ("total", "Cart.total", "Cart.Total", "subtotal")]
    [2, 1, 0, None]
    """
    called, asked = heading.encode(errors="replace"), name.encode()
    if not 0 < len(called) <= LONGEST_NAME or b" " in called:
        return None
    # Lowering bytes folds ASCII letters only.
    folded, wanted = called.lower(), asked.lower()
    if folded != wanted and not folded.endswith(tuple(joint + wanted for joint in _JOINTS)):
        return None
    if called == asked:
        return 2
    return 1 if called.endswith(asked) else 0


def is_symbol_heading(heading: str, title: str, document_id: str) -> bool:
    """Return whether a heading is the name of a symbol.

    A file of source code has its path, which is its id, as title; a node of a snapshot has its name.

    Args:
        heading: Of the chunk.
        title: Of its document.
        document_id: Id of the document.
    """
    return title in (heading, document_id)


def best_matches(chunks: Iterable[SymbolMatch], limit: int) -> list[SymbolMatch]:
    """Return the best matches, equal ones by id, at most `limit`."""
    return sorted(chunks, key=lambda one: (-one.fit, one.chunk_id))[:limit]
