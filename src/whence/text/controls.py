"""Control characters of documents, which must not reach a terminal."""

from __future__ import annotations

import re

#: Control characters but tab and line feed, and those that change the direction of writing: printed raw they
#: could clear a screen, hide text or set a link.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with a replacement character for each control character."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
