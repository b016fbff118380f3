"""Refuse HTML that takes the parser much longer, or deeper, than other pages of its size."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

#: Nested elements; browsers allow 512.
_MAX_DEPTH = 256
#: Unclosed elements; the time of the parser is quadratic in them.
_MAX_UNCLOSED = 4096
#: Attributes of one tag; the time of the parser is quadratic in them, and it copies them.
_MAX_ATTRIBUTES = 1000
#: A tag with its attributes; comments and what is no markup are passed over.
_WHOLE_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<(script|style)\b.*?(?:</\1|\Z)"
    r"""|<[a-z][^\s/>]*+((?:[\s/]*+(?:=[^\s/>=]*+|[^\s/>=]++)(?:\s*+=\s*+(?:"[^"]*+"?+|'[^']*+'?+|[^\s>"'][^\s>]*+)?)?)*+)""",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"""(?:=[^\s/>=]*+|[^\s/>=]++)(?:\s*+=\s*+(?:"[^"]*+"?+|'[^']*+'?+|[^\s>"'][^\s>]*+)?)?"""
)
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)", re.IGNORECASE)
#: Elements that need no closing tag.
_NAMES = """area base br col embed hr img input link meta source track wbr
    p li dt dd tr td th thead tbody tfoot option colgroup"""
_UNCLOSED = frozenset(_NAMES.split())


def refuse_costly(source: str) -> None:
    """Refuse what would take the parser much longer than other pages of the size.

    Raises:
        BadInput: A tag has more than 1,000 attributes, or more than 4,096 elements are not closed.
    """
    for tag in _WHOLE_TAG.finditer(source):
        start, end = tag.span(2)
        if end - start > 2 * _MAX_ATTRIBUTES:
            many = islice(_ATTRIBUTE.finditer(source, start, end), _MAX_ATTRIBUTES, None)
            if next(many, None) is not None:
                raise BadInput(f"has an element with more than {_MAX_ATTRIBUTES:,} attributes")
    _refuse_unclosed(source)


def _refuse_unclosed(source: str) -> None:
    open_by_name: Counter[str] = Counter()
    opened = 0
    for found in _TAG.finditer(source):
        name = found[2].lower()
        if name in _UNCLOSED:
            continue
        if not found[1]:
            open_by_name[name] += 1
            opened += 1
            if opened > _MAX_UNCLOSED:
                raise BadInput(f"leaves more than {_MAX_UNCLOSED:,} elements open")
        elif open_by_name[name]:
            # A closing tag without an open element of its name closes nothing.
            open_by_name[name] -= 1
            opened -= 1


def refuse_deep(page: LexborHTMLParser) -> None:
    """Refuse a page whose elements are nested deeper than 256.

    Raises:
        BadInput: They are.
    """
    node, depth = page.root, 0
    while node is not None:
        below = node.child
        if below is not None:
            node, depth = below, depth + 1
            if depth > _MAX_DEPTH:
                raise BadInput(f"has elements nested deeper than {_MAX_DEPTH}")
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
        node = node.next if node is not None else None
