"""Write lists, each paragraph with its level and its number or bullet, and code of several paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from whence.ingest.line_breaks import add_run
from whence.ingest.text_builder import BREAK, TextBuilder


def nothing() -> None:
    """Write nothing below an item."""


class Item(NamedTuple):
    """A paragraph of a list: its level from 0, its mark without a space, its text, and what follows it."""

    level: int
    mark: str
    text: str
    write_below: Callable[[], None] = nothing


def write_items(text: TextBuilder, items: Sequence[Item]) -> None:
    """Write a list, each item below the last one of a level above it; an item without text is left out."""
    shown = [each for each in items if each.text.strip() or each.write_below is not nothing]
    if not shown:
        return
    with text.block():
        at = 0
        while at < len(shown):
            item = shown[at]
            end = at + 1
            while end < len(shown) and shown[end].level > item.level:
                end += 1
            with text.item(f"{item.mark} "):
                add_run(text, item.text)
                item.write_below()
                write_items(text, shown[at + 1 : end])
            at = end


class PendingBlocks:
    """Paragraphs of the same list, or lines of the same code, until something else comes.

    Args:
        text: What they are written to.
    """

    def __init__(self, text: TextBuilder) -> None:
        self._text = text
        self._items: list[Item] = []
        self._code: list[str] = []

    @property
    def has_items(self) -> bool:
        """Whether a list is open."""
        return bool(self._items)

    def add_item(self, item: Item) -> None:
        """Add a paragraph of a list."""
        if self._code:
            self.end()
        self._items.append(item)

    def add_code(self, words: str) -> None:
        """Add a paragraph of code; an empty one is a blank line in it."""
        if self._items:
            self.end()
        self._code += words.split(BREAK)

    def end(self) -> None:
        """Write what was added."""
        items, self._items = self._items, []
        code, self._code = self._code, []
        write_items(self._text, items)
        self._text.add_code(code)
