"""Blocks of a text whose lines mean something: settings, data, scripts, logs. It stays as in the file."""

from __future__ import annotations

import re

from whence.ingest.blocks import Block
from whence.text.spans import Span, lines, paragraphs

#: Name of a section of settings, as in `[database]` or `[[server]]`.
_SECTION = re.compile(r"\[{1,2}([^\[\]\n]{1,120})\]{1,2}[ \t]*+(?:[#;].*)?")
#: Most lines above a line that are repeated with it.
_MAX_LEADS = 6
_MAX_LEAD_CHARACTERS = 120


def line_blocks(text: str) -> tuple[Block, ...]:
    r"""Return a block for each group of lines without a blank line, or the name of a section, between them.

    The heading of lines below the name of a section is that name. A line that is indented below others has
    these as its leads, so that a chunk which begins there is embedded with them: the keys above a value.
    Line ends must be `\n`. Cost: linear.
    """
    blocks: list[Block] = []
    path: tuple[str, ...] = ()
    above: list[tuple[int, Span]] = []
    for start, end in paragraphs(text, 0, len(text)):
        parts: list[Span] = []
        leads: list[tuple[Span, ...]] = []
        for span in lines(text, start, end):
            section = _SECTION.fullmatch(text, *span)
            if section:
                _add_block(blocks, path, parts, leads)
                path, parts, leads, above = (section[1].strip(),), [], [], []
            indent = span[0] - (text.rfind("\n", 0, span[0]) + 1)
            while above and above[-1][0] >= indent:
                above.pop()
            parts.append(span)
            leads.append(tuple(lead for _, lead in above[-_MAX_LEADS:]))
            if span[1] - span[0] <= _MAX_LEAD_CHARACTERS:
                above.append((indent, span))
        _add_block(blocks, path, parts, leads)
    return tuple(blocks)


def _add_block(
    blocks: list[Block],
    path: tuple[str, ...],
    parts: list[Span],
    leads: list[tuple[Span, ...]],
) -> None:
    if parts:
        kept = tuple(leads) if any(leads) else ()
        blocks.append(Block("atomic", path, tuple(parts), (), kept))
