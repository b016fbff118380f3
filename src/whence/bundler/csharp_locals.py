"""Find the parameters and local variables of C# code, and the byte ranges where each is in scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from whence.bundler.csharp_types import TypeRef, node_text, parse_type

if TYPE_CHECKING:
    from tree_sitter import Node

#: Nodes that limit the scope of the names declared in them.
_SCOPES = frozenset(
    {"block", "lambda_expression", "anonymous_method_expression", "local_function_statement"}
    | {"foreach_statement", "for_statement", "using_statement", "fixed_statement", "catch_clause"}
    | {"query_expression", "switch_section", "switch_expression_arm"}
)
_WHOLE_FILE = (0, 1 << 62)
#: Nodes that declare one name and its type.
_DECLARATIONS = frozenset(
    {"declaration_pattern", "recursive_pattern", "catch_declaration", "parameter"}
    | {"declaration_expression"}
)


class ElementOf(NamedTuple):
    """An element of the collection that an expression yields."""

    collection: Node


ValueSource: TypeAlias = "TypeRef | Node | ElementOf | None"


class LocalVariable(NamedTuple):
    """A parameter or variable."""

    start: int
    end: int
    """Where it is in scope, in bytes of the file."""
    source: ValueSource
    """Its declared type, or the node that determines its value; None if unknown."""


class LocalVariables:
    """The parameters and variables of a member, or of the initializers of a type."""

    def __init__(
        self, parameters: Iterable[tuple[str, TypeRef | None]], code: Iterable[Node]
    ) -> None:
        self._by_name: dict[str, list[LocalVariable]] = defaultdict(list)
        #: Names of local functions.
        self.functions: set[str] = set()
        for name, ref in parameters:
            self._add(name, _WHOLE_FILE, ref)
        for node in code:
            self._read(node)

    def at(self, node: Node) -> list[LocalVariable]:
        """Return the declarations of a name in the innermost scope around a node; usually at most one."""
        position = node.start_byte
        in_scope = [
            each
            for each in self._by_name.get(plain_name(node), ())
            if each.start <= position < each.end
        ]
        innermost = min((each.end - each.start for each in in_scope), default=0)
        return [each for each in in_scope if each.end - each.start == innermost]

    def _read(self, node: Node) -> None:
        pending = [(node, _WHOLE_FILE)]
        while pending:
            current, scope = pending.pop()
            if current.type in _SCOPES:
                scope = (current.start_byte, current.end_byte)
            self._declare(current, scope)
            pending.extend((child, scope) for child in current.named_children)

    def _declare(self, node: Node, scope: tuple[int, int]) -> None:
        kind = node.type
        if kind == "variable_declaration":
            self._declare_variables(node, scope)
        elif kind == "foreach_statement":
            self._declare_element(node, scope)
        elif kind in _DECLARATIONS:
            if name := _name_of(node):
                self._add(name, scope, _declared_type(node, node))
        elif kind == "implicit_parameter":
            self._add(node_text(node), scope, node)
        elif kind == "from_clause":
            self._add(_name_of(node), scope, ElementOf(node.named_children[-1]))
        elif kind == "local_function_statement":
            self.functions.add(_name_of(node))
        elif kind == "tuple_pattern":
            for each in node.children_by_field_name("name"):
                self._add(node_text(each), scope, None)

    def _declare_element(self, node: Node, scope: tuple[int, int]) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and left.type == "identifier" and right is not None:
            self._add(node_text(left), scope, _declared_type(node, ElementOf(right)))

    def _declare_variables(self, node: Node, scope: tuple[int, int]) -> None:
        ref = _declared_type(node, None)
        for child in node.named_children:
            if child.type == "variable_declarator":
                value = child.named_children[-1] if len(child.named_children) > 1 else None
                self._add(_name_of(child), scope, ref or value)

    def _add(self, name: str, scope: tuple[int, int], source: ValueSource) -> None:
        self._by_name[name].append(LocalVariable(*scope, source))


def _name_of(node: Node) -> str:
    return node_text(node.child_by_field_name("name"))


def _declared_type(node: Node, otherwise: ValueSource) -> ValueSource:
    """Return the type that a declaration states; `otherwise` for `var` and for none."""
    declared = node.child_by_field_name("type")
    is_open = declared is None or declared.type == "implicit_type"
    return otherwise if is_open else parse_type(declared)


def plain_name(node: Node | None) -> str:
    """Return a name without generic arguments."""
    if node is not None and node.type == "generic_name":
        node = node.named_children[0]
    return node_text(node)
