"""Find the line of a file on which some words stand, near the line that a parser reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\w+")
#: Words that are compared.
_WORDS = 3
#: Lines before and after the reported line that are searched.
_BEFORE, _AFTER = 60, 400


class SourceLines:
    """The lines of a file."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._words: dict[int, list[str]] = {}

    def nearest(self, words: str, line: int) -> int:
        """Return the line nearest to a given one that has the first words of a text; the given one if none has.

        Of two lines at the same distance it is the later one. Cost: linear in the lines searched, usually one.

        Args:
            words: The text, as it is shown; its first line counts.
            line: Line to begin at, from 1; 0 for an unknown one.
        """
        first = [found[0] for found in _WORD.finditer(words[:200].lstrip().partition("\n")[0])]
        wanted = first[:_WORDS]
        if not wanted:
            return min(max(line, 1), len(self._lines))
        for count in range(len(wanted), 0, -1):
            for at in self._around(line):
                if _has(self._words_of(at), wanted[:count]):
                    return at
        return min(max(line, 1), len(self._lines))

    def _around(self, line: int) -> Iterator[int]:
        for distance in range(max(_BEFORE, _AFTER)):
            if distance <= _AFTER and 1 <= line + distance <= len(self._lines):
                yield line + distance
            if 0 < distance <= _BEFORE and 1 <= line - distance <= len(self._lines):
                yield line - distance

    def _words_of(self, line: int) -> list[str]:
        if line not in self._words:
            self._words[line] = _WORD.findall(self._lines[line - 1])
        return self._words[line]


def _has(words: list[str], wanted: list[str]) -> bool:
    """Return whether a line has some words in their order, others between them."""
    rest = iter(words)
    return all(word in rest for word in wanted)
