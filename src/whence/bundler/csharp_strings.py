"""Evaluate C# strings: literals, interpolated strings and concatenations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.bundler.csharp_types import node_text

if TYPE_CHECKING:
    from tree_sitter import Node

STRINGS = frozenset(
    {"string_literal", "verbatim_string_literal", "raw_string_literal"}
    | {"interpolated_string_expression"}
)
_CONTENT = frozenset({"string_literal_content", "string_content", "raw_string_content"})


def operands(node: Node) -> list[Node]:
    """Return the operands of a chain of binary operators from left to right, without recursion."""
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
    """Return the text of a string expression; None for other expressions. Run-time values become a space.

    `constant` returns the initializer of a constant.
    """
    if node.type != "binary_expression":
        return _text(node) if node.type in STRINGS else None
    if not _is_concatenation(node):
        return None
    parts = [string_text(constant(each) or each) for each in operands(node)]
    return None if all(part is None for part in parts) else "".join(part or " " for part in parts)


def _is_concatenation(node: Node) -> bool:
    at: Node | None = node
    while at is not None and at.type == "binary_expression":
        if node_text(at.child_by_field_name("operator")) != "+":
            return False
        at = at.child_by_field_name("left")
    return True


def _text(node: Node) -> str:
    if node.type == "verbatim_string_literal":
        # Line ends are kept, because they end SQL comments.
        return (node.text or b"").decode()[2:-1].replace('""', '"')
    return " ".join(
        (child.text or b"").decode() for child in node.named_children if child.type in _CONTENT
    )
