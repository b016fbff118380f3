"""Small questions about the elements of a page, which several modules ask."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import TYPE_CHECKING

from whence.ingest.text_builder import collapse_spaces

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

COMMENT_TAGS = frozenset(["-comment", "_comment", "!--"])
LISTS = frozenset(["ul", "ol", "menu", "dl"])
HEADINGS = {f"h{level}": level for level in range(1, 7)}
ALL_HEADINGS = ", ".join(HEADINGS)
_BLOCK_NAMES = """address article aside blockquote body caption center dd details dialog div dt fieldset figcaption figure
    footer form header hgroup hr html legend li main nav optgroup option p pre section summary table tbody td tfoot
    th thead tr"""
#: Block elements, which begin on a line of their own.
BLOCKS = LISTS.union(HEADINGS, _BLOCK_NAMES.split())


def children(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the elements and texts in an element."""
    return node.iter(include_text=True)


def classes(node: LexborNode) -> frozenset[str]:
    """Return the classes of an element."""
    return frozenset(attribute(node, "class").split())


def attribute(node: LexborNode, name: str) -> str:
    """Return an attribute without white space around it; empty if there is none."""
    return (node.attributes.get(name) or "").strip()


def has_words(node: LexborNode) -> bool:
    """Return whether an element contains letters or digits."""
    return any(map(str.isalnum, node.text()))


def words_of(node: LexborNode) -> str:
    """Return the text of an element as one line."""
    return collapse_spaces(node.text())


def ancestors(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the elements around an element, the nearest first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def has_ancestor(node: LexborNode, ids: Set[int]) -> bool:
    """Return whether an element is inside one of those with some `mem_id`s."""
    return any(each.mem_id in ids for each in ancestors(node))


def outermost(nodes: Collection[LexborNode]) -> list[LexborNode]:
    """Return the elements that are in none of the others, each once.

    A removed element must not be touched again, so those are what may be removed.
    """
    by_id = {node.mem_id: node for node in nodes}
    return [node for node in by_id.values() if not has_ancestor(node, by_id.keys())]
