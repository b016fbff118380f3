"""Find the edges of C# sources: what each type and member calls, uses and inherits from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from whence.code.bundler.code_graph import CodeGraph, Resolution
from whence.code.bundler.csharp_expressions import ExpressionResolver
from whence.code.bundler.csharp_names import (
    OBJECT_METHODS,
    called_name,
    find_constructors,
    plain_name,
)
from whence.code.bundler.csharp_project import (
    CSharpProject,
    ExternalInstance,
    Instance,
    TypeValue,
    Value,
)
from whence.code.bundler.csharp_types import (
    STRINGS,
    CSharpFile,
    CSharpMember,
    CSharpType,
    NameContext,
    Part,
    TypeRef,
    child_of_type,
    field_of,
    parse_type,
    read_file,
)
from whence.code.bundler.source_files import SourceText
from whence.code.loaders.source_code import node_text

if TYPE_CHECKING:
    from tree_sitter import Node

_CONTENT = frozenset({"string_literal_content", "string_content", "raw_string_content"})


def operands(node: Node) -> list[Node]:
    """Return the operands of a chain of binary operators from left to right, without recursion."""
    found: list[Node] = []
    pending = [node]
    while pending:
        at = pending.pop()
        if at.type == "binary_expression":
            sides = (field_of(at, "right"), field_of(at, "left"))
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
        if node_text(field_of(at, "operator")) != "+":
            return False
        at = field_of(at, "left")
    return True


def _text(node: Node) -> str:
    if node.type == "verbatim_string_literal":
        # Line ends are kept, because they end SQL comments.
        return (node.text or b"").decode()[2:-1].replace('""', '"')
    return " ".join(
        (child.text or b"").decode() for child in node.named_children if child.type in _CONTENT
    )


_NAMES = frozenset({"identifier", "generic_name", "qualified_name"})
_ACCESSES = frozenset({"member_access_expression", "conditional_access_expression"})
_CREATIONS = frozenset({"object_creation_expression", "implicit_object_creation_expression"})
#: Nodes whose names are types.
_TYPE_NODES = frozenset(
    {"base_list", "type_argument_list", "nullable_type", "array_type", "typeof_expression"}
)
#: Parts of a type declaration that belong to the type, not to a member.
_TYPE_PARTS = frozenset(
    {"attribute_list", "base_list", "type_parameter_constraints_clause", "parameter_list"}
)
_TYPE_MEMBERS = frozenset(
    {"field_declaration", "event_field_declaration", "enum_member_declaration"}
)


def read_csharp(sources: Iterable[SourceText], graph: CodeGraph) -> None:
    """Add the definitions of C# sources and the edges between them.

    Cost is linear in the sources, times the namespaces and usings in which a name is looked up.
    """
    types: dict[str, list[CSharpType]] = {}
    files = [read_file(source, types, graph) for source in sources if source.language == "csharp"]
    graph.begin()
    _EdgeFinder(CSharpProject(types, files), graph).read(files)


class _EdgeFinder:
    def __init__(self, project: CSharpProject, graph: CodeGraph) -> None:
        self._project = project
        self._graph = graph
        self._handlers: dict[str, Callable[[Node, ExpressionResolver], None]] = {
            "invocation_expression": self._call,
            "constructor_initializer": self._constructor_initializer,
            "member_access_expression": self._access,
            "initializer_expression": self._object_initializer,
            "with_initializer": self._with_initializer,
            "subpattern": self._subpattern,
            "attribute": self._attribute,
            **dict.fromkeys(_CREATIONS, self._creation),
            **dict.fromkeys(_NAMES, self._reference),
            "binary_expression": self._binary,
            **dict.fromkeys(STRINGS, self._string),
        }
        #: Number of methods of each name: a call by a name of several is ambiguous.
        self._method_counts = Counter(
            member.name
            for one in project.types
            for members in one.members.values()
            for member in members
        )

    def read(self, files: Iterable[CSharpFile]) -> None:
        for step in self._steps(files):
            try:
                step()
            except RecursionError:
                self._graph.nested_too_deeply()

    def _steps(self, files: Iterable[CSharpFile]) -> Iterator[Callable[[], None]]:
        for one in self._project.types:
            yield partial(self._type, one)
            for members in one.members.values():
                for member in members:
                    for part in member.parts:
                        yield partial(self._member, member, part)
        for file in files:
            yield partial(self._top_level_statements, file)

    def _type(self, one: CSharpType) -> None:
        for part, node, ref in one.bases():
            self._graph.enter(one.id, part.context.file.path)
            self._edge_to_type("inherits", self._project.type_of(ref, part.context))
            inside = part.context._replace(owner=one)
            self._visit_all(node, ExpressionResolver(self._project, inside, (), (), (node,)))
        for part in one.parts:
            self._graph.enter(one.id, part.context.file.path)
            body = field_of(part.node, "body")
            members = body.named_children if body is not None else ()
            own = [child for child in part.node.named_children if child.type in _TYPE_PARTS]
            own += [child for child in members if child.type in _TYPE_MEMBERS]
            inside = part.context._replace(owner=one)
            resolver = ExpressionResolver(self._project, inside, (), (), own)
            for node in own:
                if node.type != "base_list":
                    self._visit(node, resolver)

    def _member(self, member: CSharpMember, part: Part) -> None:
        self._graph.enter(member.id, part.context.file.path)
        for other in self._project.overridden_members(member):
            self._graph.record_edge("inherits", other.id)
        parameters = [(each.name, each.type) for each in member.parameters]
        if member.kind in ("Property", "Indexer"):
            parameters.append(("value", member.returns))
        resolver = ExpressionResolver(
            self._project, part.context, parameters, member.type_parameters, (part.node,)
        )
        self._visit_all(part.node, resolver)

    def _top_level_statements(self, file: CSharpFile) -> None:
        if file.statements:
            self._graph.enter(file.path, file.path)
            context = NameContext(file, "", None)
            resolver = ExpressionResolver(self._project, context, (), (), file.statements)
            for node in file.statements:
                self._visit(node, resolver)

    def _visit_all(self, node: Node | None, resolver: ExpressionResolver) -> None:
        """Visit everything inside a node except the name it declares."""
        for child in _children(node) if node is not None else ():
            self._visit(child, resolver)

    def _visit(self, node: Node | None, resolver: ExpressionResolver) -> None:
        """Visit a node and everything inside, without recursion for nodes that have no handler."""
        pending = [node] if node is not None else []
        while pending:
            current = pending.pop()
            handle = self._handlers.get(current.type)
            if handle is not None:
                handle(current, resolver)
            else:
                pending.extend(reversed(_children(current)))

    def _visit_type_arguments(self, node: Node | None, resolver: ExpressionResolver) -> None:
        if node is not None and node.type == "generic_name":
            for arguments in node.named_children[1:]:
                self._visit_all(arguments, resolver)

    def _string(self, node: Node, resolver: ExpressionResolver) -> None:
        self._graph.record_string(string_text(node), _recipient(node))
        self._visit_interpolations(node, resolver)

    def _binary(self, node: Node, resolver: ExpressionResolver) -> None:
        """Visit operands; concatenated strings are one string."""
        text = string_text(node, resolver.constant)
        self._graph.record_string(text, _recipient(node))
        for each in operands(node):
            if text is None or each.type not in STRINGS:
                self._visit(each, resolver)
            else:
                self._visit_interpolations(each, resolver)

    def _visit_interpolations(self, node: Node, resolver: ExpressionResolver) -> None:
        for child in node.named_children:
            if child.type == "interpolation":
                self._visit_all(child, resolver)

    def _call(self, node: Node, resolver: ExpressionResolver) -> None:
        function = field_of(node, "function")
        methods, receiver = resolver.call(node)
        delegate = resolver.delegate(function) if function is not None and not methods else None
        methods = [delegate] if delegate is not None else methods
        name = plain_name(called_name(function))
        self._graph.record_call(self._resolution(methods, receiver, function, resolver), name)
        if len(methods) == 1:
            self._graph.record_edge("calls", methods[0].id)
        if function is not None:
            self._visit_function(function, resolver)
        self._visit_all(field_of(node, "arguments"), resolver)

    def _visit_function(self, function: Node, resolver: ExpressionResolver) -> None:
        """Visit the receiver and the type arguments of a call, but not the name of the method."""
        if function.type in _ACCESSES:
            self._visit(field_of(function, "expression", "condition"), resolver)
            self._visit_type_arguments(field_of(function, "name"), resolver)
        elif function.type in _NAMES:
            self._visit_type_arguments(function, resolver)
        else:
            self._visit(function, resolver)

    def _resolution(
        self,
        methods: list[CSharpMember],
        receiver: Value,
        function: Node | None,
        resolver: ExpressionResolver,
    ) -> Resolution:
        name = plain_name(called_name(function))
        if len(methods) == 1:
            return "resolved"
        if methods:
            return "ambiguous"
        if function is not None and function.type == "identifier" and name in resolver.functions:
            return "resolved"
        if receiver == "external" or isinstance(receiver, ExternalInstance):
            return "external"
        if isinstance(receiver, Instance | TypeValue):
            is_complete = self._project.type_and_bases(receiver.of)[1]
            return "unresolved" if is_complete and name not in OBJECT_METHODS else "external"
        is_ambiguous = receiver == "ambiguous" or self._method_counts[name] > 1
        return "ambiguous" if is_ambiguous else "unresolved"

    def _creation(self, node: Node, resolver: ExpressionResolver) -> None:
        stated = field_of(node, "type")
        ref = parse_type(stated) if stated is not None else _target_type(node)
        self._record_creation(resolver.instance_of(ref), node, resolver)
        for child in node.named_children:
            if child != stated:
                self._visit(child, resolver)
            else:
                self._visit_type_arguments(child, resolver)

    def _record_creation(self, value: Value, node: Node, resolver: ExpressionResolver) -> None:
        if not isinstance(value, Instance):
            is_external = value == "external" or isinstance(value, ExternalInstance)
            missing: Resolution = "external" if is_external else "unresolved"
            self._graph.record_call("ambiguous" if value == "ambiguous" else missing)
            return
        self._graph.record_call("resolved")
        arguments = field_of(node, "arguments") or child_of_type(node, "argument_list")
        found = find_constructors(self._project, value.of, resolver.arguments(arguments))
        # If the constructor is ambiguous, the type is known.
        self._graph.record_edge("calls", found[0].id if len(found) == 1 else value.of.id)

    def _constructor_initializer(self, node: Node, resolver: ExpressionResolver) -> None:
        owner = resolver.context.owner
        is_this = any(child.type == "this" for child in node.children)
        value = Instance(owner) if is_this and owner is not None else resolver.names.base()
        self._record_creation(value, node, resolver)
        self._visit_all(node, resolver)

    def _object_initializer(self, node: Node, resolver: ExpressionResolver) -> None:
        """Visit `new X { A = 1 }`, where `A` is a member of `X`."""
        for child in node.named_children:
            left, right = field_of(child, "left"), field_of(child, "right")
            if child.type != "assignment_expression" or left is None or right is None:
                self._visit(child, resolver)
                continue
            value = resolver.value(node.parent)
            if left.type == "identifier" and isinstance(value, Instance):
                self._use_member(value, node_text(left))
            self._visit(right, resolver)

    def _with_initializer(self, node: Node, resolver: ExpressionResolver) -> None:
        """Visit `x with { A = 1 }`, where `A` is a member of `x`."""
        value = resolver.value(node.parent)
        if isinstance(value, Instance):
            self._use_member(value, node_text(node.named_children[0]))
        for child in node.named_children[1:]:
            self._visit(child, resolver)

    def _subpattern(self, node: Node, resolver: ExpressionResolver) -> None:
        """Visit `A: pattern`, where `A` is a member of the matched value."""
        for child in node.named_children[1:] or node.named_children:
            self._visit(child, resolver)

    def _attribute(self, node: Node, resolver: ExpressionResolver) -> None:
        ref = parse_type(field_of(node, "name"))
        if ref is not None:
            for each in (ref, ref._replace(name=f"{ref.name}Attribute")):
                if self._edge_to_type("uses", self._project.type_of(each, resolver.context)):
                    break
        self._visit_all(node, resolver)

    def _reference(self, node: Node, resolver: ExpressionResolver) -> None:
        self._visit_type_arguments(node, resolver)
        if node.type == "identifier" and resolver.is_local(node):
            return
        self._constant(node, resolver)
        owner = resolver.context.owner
        if node.type == "identifier" and owner is not None and not _is_type_name(node):
            self._use_member(Instance(owner), node_text(node))
            if self._project.field(Instance(owner), node_text(node)) is not None:
                return
        ref = parse_type(node)
        if ref is not None:
            self._edge_to_type("uses", self._project.type_of(ref, resolver.context))

    def _access(self, node: Node, resolver: ExpressionResolver) -> None:
        expression = field_of(node, "expression")
        if expression is None:
            return
        self._constant(node, resolver)
        value = resolver.value(node)
        if isinstance(value, TypeValue):
            self._graph.record_edge("uses", value.of.id)
        receiver = resolver.value(expression)
        if isinstance(receiver, Instance | TypeValue):
            self._use_member(receiver, node_text(field_of(node, "name")))
        self._visit(expression, resolver)

    def _constant(self, node: Node, resolver: ExpressionResolver) -> None:
        initializer = resolver.constant(node)
        if initializer is not None:
            self._graph.record_string(string_text(initializer), _recipient(node))

    def _use_member(self, receiver: Instance | TypeValue, name: str) -> None:
        """Record the use of a property, event or method group, unless it is overloaded."""
        for one in self._project.type_and_bases(receiver.of)[0]:
            members = [each for each in one.members.get(name, ()) if each.kind != "Constructor"]
            if len(members) == 1:
                self._graph.record_edge("uses", members[0].id)
            if members:
                return

    def _edge_to_type(self, relation: str, found: object) -> bool:
        if isinstance(found, CSharpType):
            self._graph.record_edge(relation, found.id)
        return isinstance(found, CSharpType)


def _children(node: Node) -> list[Node]:
    """Return the nodes inside a node except the name it declares."""
    name = field_of(node, "name")
    return [child for child in node.named_children if child != name]


def _target_type(node: Node) -> TypeRef | None:
    """Return the type that `new()` creates: that of the declared variable, field or property."""
    parent = node.parent
    while parent is not None and parent.type in ("equals_value_clause", "variable_declarator"):
        parent = parent.parent
    if parent is None or parent.type not in ("variable_declaration", "property_declaration"):
        return None
    return parse_type(field_of(parent, "type"))


def _is_type_name(node: Node) -> bool:
    """Return whether only a type can have its name here."""
    parent = node.parent
    if parent is None:
        return False
    declared = field_of(parent, "type", "returns")
    return declared == node or parent.type in _TYPE_NODES


def _recipient(node: Node) -> str:
    """Return the method or attribute that a string is an argument of, or the variable it is assigned to."""
    parent = node.parent
    for _ in range(3):
        if parent is None:
            return ""
        if parent.type == "invocation_expression":
            return plain_name(called_name(field_of(parent, "function")))
        if parent.type == "attribute":
            return node_text(field_of(parent, "name"))
        if parent.type == "assignment_expression":
            return plain_name(called_name(field_of(parent, "left")))
        parent = parent.parent
    return ""
