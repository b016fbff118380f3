"""A flow file as a tree whose nodes know where they stand, and the list of what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from whence.flow.definition import nearest
from whence.schema.errors import ConfigError

__all__ = ("Entry", "FlowError", "Node", "Problem", "Problems")


class Node(msgspec.Struct, frozen=True):
    """One mapping, list or scalar of the file."""

    kind: Literal["mapping", "list", "scalar"]
    line: int
    """Line, 1 or more."""
    column: int
    """Column of the first character, 1 or more."""
    value: Any = None
    """Of a scalar: a string, integer, float, boolean or None."""
    items: tuple[Node, ...] = ()
    """Of a list: its items."""
    entries: tuple[Entry, ...] = ()
    """Of a mapping: its entries in the order of the file, repeated keys included."""

    def plain(self) -> Any:
        """Return the node as dicts, lists and scalars; of a repeated key the last one counts."""
        if self.kind == "mapping":
            return {entry.key.value: entry.node.plain() for entry in self.entries}
        if self.kind == "list":
            return [item.plain() for item in self.items]
        return self.value

    def describe(self) -> str:
        """Say in a few words what it is, for an error."""
        if self.kind != "scalar":
            return f"a {self.kind}"
        return "empty" if self.value is None else repr(self.value)


class Entry(msgspec.Struct, frozen=True):
    """A key of a mapping with its value."""

    key: Node
    node: Node


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong, ordered by place."""

    line: int
    column: int
    message: str
    hint: str = ""


class FlowError(ConfigError):
    """A flow file is wrong; nothing was started.

    Args:
        source: The file.
        problems: All that was found, at least one; the first makes the message.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(set(problems)))
        first, *rest = self.problems
        message = f"{source}:{first.line}:{first.column}: {first.message}"
        if rest:
            lines = ", ".join(str(problem.line) for problem in rest[:10])
            message += f" (and {len(rest)} more, line {lines})"
        super().__init__(message, hint=first.hint or "correct the flow file and run it again")


class Problems:
    """Collects what is wrong with one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Problem] = []

    def at(self, node: Node, message: str, hint: str = "") -> None:
        """Note a problem at a node."""
        self.found.append(Problem(node.line, node.column, message, hint))

    def raise_if_any(self) -> None:
        """Raise all problems as one error.

        Raises:
            FlowError: There is at least one.
        """
        if self.found:
            raise FlowError(self.source, self.found)

    def fields(
        self,
        node: Node,
        what: str,
        allowed: tuple[str, ...] | None = None,
        required: tuple[str, ...] = (),
    ) -> dict[str, Entry]:
        """Return the entries of a mapping by key; wrong ones are noted and left out.

        Args:
            node: Should be a mapping.
            what: Words for it in errors.
            allowed: Keys that it may have; any when None.
            required: Keys that it must have.
        """
        if node.kind != "mapping":
            self.at(node, f"{what} must be a mapping, not {node.describe()}")
            return {}
        found: dict[str, Entry] = {}
        for entry in node.entries:
            key = entry.key.value
            if not isinstance(key, str) or not key:
                self.at(entry.key, f"a key of {what} must be a word, not {entry.key.describe()}")
            elif key in found:
                first = found[key].key.line
                self.at(
                    entry.key,
                    f"two writers of {key!r} in {what}: it has a value in line {first} already",
                    "keep one of the two",
                )
            elif allowed is not None and key not in allowed:
                self.at(
                    entry.key,
                    f"unknown key {key!r} in {what}{nearest(key, allowed)}",
                    f"its keys: {', '.join(allowed) or 'none'}",
                )
            else:
                found[key] = entry
        for key in required:
            if key not in found:
                self.at(node, f"{what} lacks the key {key!r}")
        return found

    def text(self, entry: Entry | None, what: str, default: str = "") -> str:
        """Return a text; anything else is noted."""
        if entry is None:
            return default
        value = entry.node.value
        if entry.node.kind != "scalar" or not isinstance(value, str) or not value:
            self.at(entry.node, f"{what} must be a text, not {entry.node.describe()}")
            return default
        return value
