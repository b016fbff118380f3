"""Word wrap of streamed text."""

from __future__ import annotations

import re

#: Splits before each white space: a part is a space and the word after it.
_BEFORE_SPACE = re.compile(r"(?=\s)")


class Wrapping:
    """Wraps a stream of text between words.

    Args:
        width: Columns of a line; None for no wrapping.
    """

    def __init__(self, width: int | None) -> None:
        self._width = width
        self._column = 0
        self._unfinished = ""

    def add(self, text: str, *, end: bool) -> str:
        """Return the text to print now: all but the last word, which may continue; at the end all of it.

        A word wider than a line is not wrapped.

        Args:
            text: The next piece.
            end: Whether it is the last piece.
        """
        if self._width is None:
            return text
        *whole, last = _BEFORE_SPACE.split(self._unfinished + text)
        if end:
            whole.append(last)
        self._unfinished = "" if end else last
        return "".join(self._placed(word, self._width) for word in whole)

    def _placed(self, word: str, width: int) -> str:
        """Place a word, with the space before it, on this line or the next."""
        from rich.cells import cell_len

        if word.startswith("\n"):
            self._column = cell_len(word[1:])
            return word
        columns = cell_len(word)
        if self._column and self._column + columns > width:
            word = "\n" + word.lstrip()
            self._column = cell_len(word[1:])
            return word
        self._column += columns
        return word
