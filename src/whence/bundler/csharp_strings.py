"""The text of C# strings: literals, interpolated ones, and sums of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.bundler.csharp_types import words

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ("STRINGS", "operands", "string_text")

STRINGS = frozenset(
    {"string_literal", "verbatim_string_literal", "raw_string_literal"}
    | {"interpolated_string_expression"}
)
_PARTS = frozenset({"string_literal_content", "string_content", "raw_string_content"})


def operands(node: Node) -> list[Node]:
    """Return what a chain of operators joins, from left to right; a long one is as deep as it is long."""
    found: list[Node] = []
    pending = [node]
    while pending:
        at = pending.pop()
        if at.type == "binary_expression":
            sides = (at.child_by_field_name("right"), at.child_by_field_name("left"))
            pending += [side for side in sides if side is not None]
        else:
            found.append(at)
    return found


def string_text(node: Node, constant: Callable[[Node], Node | None] = lambda _: None) -> str | None:
    """Return the text of a string; None for what is none. What is only known at run time becomes a space.

    Args:
        node: A literal, or a sum with one in it.
        constant: Gives the string that a name stands for.
    """
    if node.type != "binary_expression":
        return _text(node) if node.type in STRINGS else None
    if not _is_sum(node):
        return None
    parts = [string_text(constant(each) or each) for each in operands(node)]
    return None if all(part is None for part in parts) else "".join(part or " " for part in parts)


def _is_sum(node: Node) -> bool:
    at: Node | None = node
    while at is not None and at.type == "binary_expression":
        if words(at.child_by_field_name("operator")) != "+":
            return False
        at = at.child_by_field_name("left")
    return True


def _text(node: Node) -> str:
    if node.type == "verbatim_string_literal":
        # With its line ends, or a comment of SQL would go on to its end.
        return (node.text or b"").decode()[2:-1].replace('""', '"')
    return " ".join(
        (child.text or b"").decode() for child in node.named_children if child.type in _PARTS
    )
