"""Reading the concepts that a language model named."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ("read_concepts",)

#: What models put in front of the items of a list although they are told not to.
_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)])\s+")
#: Longest concept in characters; what is longer is no search phrase but prose.
_MAX_CHARS = 500


def read_concepts(text: str, *, limit: int) -> tuple[str, ...]:
    r"""Give the concepts of a reply: one a line, bullets and blanks stripped, each once, in order.

    >>> read_concepts("- return policy\n\n2. refund\nRefund", limit=5)
    ('return policy', 'refund')
    """
    seen: set[str] = set()
    concepts: list[str] = []
    for concept in _lines(text):
        if concept.casefold() in seen:
            continue
        if len(concepts) == limit:
            break
        seen.add(concept.casefold())
        concepts.append(concept)
    return tuple(concepts)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        concept = _BULLET.sub("", line.strip()).replace("\0", "").strip()
        if concept:
            yield concept[:_MAX_CHARS].strip()
