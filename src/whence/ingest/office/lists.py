"""Write the paragraphs of a list, each with its level and its number or bullet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from whence.ingest.line_breaks import add_run
from whence.ingest.text_builder import TextBuilder


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
