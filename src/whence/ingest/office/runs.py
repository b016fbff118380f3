"""Put the text of a paragraph together from runs: what was deleted or is hidden is counted, not written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from whence.ingest.text_builder import BREAK, raised

#: Level of a heading that is a bold paragraph: below those of styles.
BOLD_LEVEL = 10
_MOST_TITLE_WORDS = 24
STRUCK, HIDDEN = "struck passages", "hidden passages"
#: Soft hyphens, zero-width spaces and joiners of words, byte order marks: no reader sees or types them.
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
#: Readings of neighbouring characters are one reading of the word.
_RUBY = re.compile("(?:\x01[^\x01\x02\x03]*\x02[^\x01\x02\x03]*\x03)+")
_RUBY_PART = re.compile("\x01([^\x01\x02]*)\x02([^\x01\x02\x03]*)\x03")


class RunText:
    """The visible text of a paragraph.

    Args:
        counts: Passages that are left out are counted here; runs one after another are one passage.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._pieces: list[str] = []
        self._raised = ""
        self._omitted = ""
        self.marks: list[str] = []
        """Marks of notes in it."""
        self.is_bold = True
        """Whether all that is visible is bold."""

    def add(self, text: str, *, is_raised: bool = False, is_bold: bool = False) -> None:
        """Add visible text."""
        words = text.translate(_INVISIBLE)
        if not words:
            return
        self._omitted = ""
        if not words.isspace():
            self.is_bold &= is_bold
        if is_raised:
            self._raised += words
            return
        self._end_raised()
        self._pieces.append(words)

    def omit(self, text: str, kind: str) -> None:
        """Count a text that is left out, as `STRUCK` or `HIDDEN`."""
        if text.strip() and self._omitted != kind:
            self._counts[kind] += 1
            self._omitted = kind

    def add_mark(self, mark: str) -> None:
        """Add the mark of a note, apart from a number before it."""
        self._end_raised()
        self._pieces.append(f"[{mark}]")
        self.marks.append(mark)

    def add_ruby(self, base: str, reading: str) -> None:
        """Add characters with their reading, which follows the word in brackets."""
        self._end_raised()
        self._pieces.append(f"\x01{base.strip()}\x02{reading.strip()}\x03")

    @property
    def text(self) -> str:
        """The text so far."""
        self._end_raised()
        return _RUBY.sub(_with_reading, "".join(self._pieces))

    def _end_raised(self) -> None:
        if self._raised:
            words, self._raised = self._raised, ""
            before = self._pieces[-1] if self._pieces else ""
            self._pieces.append(raised(words, before))


def _with_reading(found: re.Match[str]) -> str:
    pairs = _RUBY_PART.findall(found[0])
    base, reading = ("".join(each) for each in zip(*pairs, strict=True))
    return f"{base}({reading})" if reading else base


def is_title(text: str, *, is_bold: bool) -> bool:
    """Return whether a paragraph is a heading without a style of one: a short bold line, no sentence."""
    words = text.split()
    is_short = 1 < len(words) <= _MOST_TITLE_WORDS and not words[-1].endswith((".", ":", "!"))
    return is_bold and is_short and BREAK not in text.strip()


def without_marks(text: str, marks: Iterable[str]) -> str:
    """Return a heading without the marks of notes, which would look like citations.

    >>> without_marks("Hotels[1]", ["1"])
    'Hotels'
    """
    for mark in filter(None, marks):
        text = text.replace(f"[{mark}]", "", 1)
    return text
