"""Edges of C# sources: what each type and member calls, uses and inherits from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from whence.bundler.code_graph import CallOutcome, Edge, Findings, NamedCall, Quoted
from whence.bundler.csharp_expressions import OF_OBJECTS, Body
from whence.bundler.csharp_project import (
    CSharpProject,
    Instance,
    Library,
    Named,
    Place,
    Value,
)
from whence.bundler.csharp_strings import STRINGS, operands, string_text
from whence.bundler.csharp_types import (
    CSharpFile,
    CSharpMember,
    CSharpType,
    Part,
    TypeRef,
    read_file,
    type_ref,
    words,
)
from whence.bundler.source_files import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ("read_csharp",)

_NAMES = frozenset({"identifier", "generic_name", "qualified_name"})
_CREATIONS = frozenset({"object_creation_expression", "implicit_object_creation_expression"})
_TYPE_PLACES = frozenset(
    {"base_list", "type_argument_list", "nullable_type", "array_type", "typeof_expression"}
)
#: Parts of a type's declaration that are not its members: fields, attributes, what it inherits from.
_OWN_PARTS = frozenset(
    {"attribute_list", "base_list", "type_parameter_constraints_clause", "parameter_list"}
)
_OWN_MEMBERS = frozenset(
    {"field_declaration", "event_field_declaration", "enum_member_declaration"}
)


def read_csharp(sources: Iterable[SourceText], findings: Findings) -> None:
    """Add the definitions of C# sources and the edges between them.

    Cost grows with the sources; each name is looked up where it stands, which takes as many steps as there
    are namespaces and usings there.
    """
    types: dict[str, list[CSharpType]] = {}
    files = [
        read_file(source, types, findings) for source in sources if source.language == "csharp"
    ]
    finder = _EdgeFinder(CSharpProject(types, files), findings)
    finder.read(files)


class _EdgeFinder:
    """Walks the code of each definition."""

    def __init__(self, project: CSharpProject, findings: Findings) -> None:
        self._project = project
        self._findings = findings
        self._source = ""
        self._file = ""
        self._takers: dict[str, Callable[[Node, Body], None]] = {
            "invocation_expression": self._call,
            "constructor_initializer": self._initializer,
            "member_access_expression": self._access,
            "initializer_expression": self._initialized,
            "with_initializer": self._changed,
            "subpattern": self._matched,
            "attribute": self._attribute,
            **dict.fromkeys(_CREATIONS, self._creation),
            **dict.fromkeys(_NAMES, self._reference),
            "binary_expression": self._joined,
            **dict.fromkeys(STRINGS, self._quote),
        }
        #: How many methods have a name, to tell what could be meant from what can not.
        self._methods = Counter(
            member.name
            for one in project.types
            for members in one.members.values()
            for member in members
        )

    def read(self, files: Iterable[CSharpFile]) -> None:
        """Add the edges of all types, their members, and statements outside of types.

        What is nested too deeply keeps the edges found so far.
        """
        for work in self._work(files):
            try:
                work()
            except RecursionError:
                reason = f"is nested too deeply in {self._source}; edges are missing"
                self._findings.failures.append((self._file, reason))

    def _work(self, files: Iterable[CSharpFile]) -> Iterator[Callable[[], None]]:
        for one in self._project.types:
            yield partial(self._type, one)
            for members in one.members.values():
                for member in members:
                    for part in member.parts:
                        yield partial(self._member, member, part)
        for file in files:
            yield partial(self._statements, file)

    def _type(self, one: CSharpType) -> None:
        self._source = one.id
        for part, node, ref in one.bases():
            self._file = part.file.path
            place = Place(part.file, part.namespace, one.owner)
            base = self._project.type_of(ref, place)
            if isinstance(base, CSharpType):
                self._connect("inherits", base.id)
            body = self._body(part, one, (), (), (node,))
            self._visit_all(node, body)
        for part in one.parts:
            self._file = part.file.path
            inside = part.node.child_by_field_name("body")
            own = [child for child in part.node.named_children if child.type in _OWN_PARTS]
            own += [
                child
                for child in (inside.named_children if inside is not None else ())
                if child.type in _OWN_MEMBERS
            ]
            body = self._body(part, one, (), (), own)
            for node in own:
                if node.type != "base_list":
                    self._visit(node, body)

    def _member(self, member: CSharpMember, part: Part) -> None:
        self._source, self._file = member.id, part.file.path
        for other in self._project.replaces(member):
            self._connect("inherits", other.id)
        parameters = [(each.name, each.type) for each in member.parameters]
        if member.kind in ("Property", "Indexer"):
            parameters.append(("value", member.returns))
        body = self._body(part, member.owner, parameters, member.type_parameters, (part.node,))
        self._visit_all(part.node, body)

    def _statements(self, file: CSharpFile) -> None:
        if file.statements:
            self._source = self._file = file.path
            place = Place(file, "", None)
            body = Body(self._project, place, (), (), file.statements)
            for node in file.statements:
                self._visit(node, body)

    def _body(
        self,
        part: Part,
        owner: CSharpType,
        parameters: Iterable[tuple[str, TypeRef | None]],
        type_parameters: Iterable[str],
        code: Iterable[Node],
    ) -> Body:
        place = Place(part.file, part.namespace, owner)
        return Body(self._project, place, parameters, type_parameters, code)

    def _visit_all(self, node: Node, body: Body) -> None:
        """Look at all that is inside a node but for the name it declares."""
        for child in _inside(node):
            self._visit(child, body)

    def _visit(self, node: Node, body: Body) -> None:
        """Look at a node and all that is inside; a sum of a thousand parts is as deep as it is long."""
        pending = [node]
        while pending:
            at = pending.pop()
            take = self._takers.get(at.type)
            if take is not None:
                take(at, body)
            else:
                pending.extend(reversed(_inside(at)))

    def _quote(self, node: Node, body: Body) -> None:
        self._quoted(string_text(node), node)
        self._interpolated(node, body)

    def _quoted(self, text: str | None, node: Node) -> None:
        if text is not None:
            self._findings.quote(Quoted(self._source, self._file, text, _taker(node)))

    def _joined(self, node: Node, body: Body) -> None:
        """Look at what operators join; a sum of strings is one string."""
        text = string_text(node, body.constant)
        self._quoted(text, node)
        for each in operands(node):
            if text is None or each.type not in STRINGS:
                self._visit(each, body)
            else:
                self._interpolated(each, body)

    def _interpolated(self, node: Node, body: Body) -> None:
        for child in node.named_children:
            if child.type == "interpolation":
                self._visit_all(child, body)

    def _call(self, node: Node, body: Body) -> None:
        function = node.child_by_field_name("function")
        methods, receiver = body.call(node)
        held = body.delegate(function) if function is not None and not methods else None
        methods = [held] if held is not None else methods
        self._count(methods, receiver, function, body)
        if len(methods) == 1:
            self._connect("calls", methods[0].id)
        if function is not None:
            self._visit_called(function, body)
        arguments = node.child_by_field_name("arguments")
        if arguments is not None:
            self._visit_all(arguments, body)

    def _visit_called(self, function: Node, body: Body) -> None:
        """Look at what is called but for the name of the method."""
        if function.type in ("member_access_expression", "conditional_access_expression"):
            first = function.child_by_field_name("expression")
            first = first or function.child_by_field_name("condition")
            if first is not None:
                self._visit(first, body)
            name = function.child_by_field_name("name")
        else:
            name = function
        if name is not None and name.type == "generic_name":
            for arguments in name.named_children[1:]:
                self._visit_all(arguments, body)
        elif name is function and function.type not in (
            *_NAMES,
            "member_access_expression",
            "conditional_access_expression",
        ):
            self._visit(function, body)

    def _count(
        self, methods: list[CSharpMember], receiver: Value, function: Node | None, body: Body
    ) -> None:
        outcome: CallOutcome
        name = _called_name(function)
        if len(methods) == 1:
            outcome = "resolved"
        elif methods:
            outcome = "ambiguous"
        elif function is not None and function.type == "identifier" and name in body.functions:
            outcome = "resolved"
        elif receiver == "external" or isinstance(receiver, Library):
            outcome = "external"
        elif isinstance(receiver, Instance | Named):
            whole = self._project.line_of(receiver.of)[1]
            outcome = "unresolved" if whole and name not in OF_OBJECTS else "external"
        else:
            several = receiver == "ambiguous" or self._methods[name] > 1
            outcome = "ambiguous" if several else "unresolved"
        if outcome != "resolved":
            self._findings.named_calls.append(NamedCall(self._source, self._file, name))
        self._findings.calls[outcome] += 1

    def _creation(self, node: Node, body: Body) -> None:
        named = node.child_by_field_name("type")
        ref = type_ref(named) if named is not None else self._wanted(node)
        value = body.of_type(ref)
        self._created(value, node, body)
        for child in node.named_children:
            if child != named:
                self._visit(child, body)
            elif child.type == "generic_name":
                for arguments in child.named_children[1:]:
                    self._visit_all(arguments, body)

    def _created(self, value: Value, node: Node, body: Body) -> None:
        if not isinstance(value, Instance):
            outcome: CallOutcome = "external" if isinstance(value, Library) else "unresolved"
            self._findings.calls["ambiguous" if value == "ambiguous" else outcome] += 1
            return
        self._findings.calls["resolved"] += 1
        arguments = node.child_by_field_name("arguments")
        if arguments is None:
            arguments = next((c for c in node.named_children if c.type == "argument_list"), None)
        constructors = body.constructors(value.of, body.arguments(arguments))
        # Which of several constructors is meant may not be known; the type is.
        self._connect("calls", constructors[0].id if len(constructors) == 1 else value.of.id)

    def _wanted(self, node: Node) -> TypeRef | None:
        """Return the type that `new()` makes: that of the variable, field or property it is for."""
        above = node.parent
        while above is not None and above.type in ("equals_value_clause", "variable_declarator"):
            above = above.parent
        if above is None or above.type not in ("variable_declaration", "property_declaration"):
            return None
        return type_ref(above.child_by_field_name("type"))

    def _initializer(self, node: Node, body: Body) -> None:
        owner = body.place.owner
        own = any(child.type == "this" for child in node.children)
        base = Instance(owner) if own and owner is not None else self._above(owner)
        self._created(base, node, body)
        self._visit_all(node, body)

    def _above(self, owner: CSharpType | None) -> Value:
        if owner is None:
            return "unknown"
        line, whole = self._project.line_of(owner)
        for one in line[1:]:
            if one.parts[0].node.type != "interface_declaration":
                return Instance(one)
        return "unknown" if whole else Library(TypeRef("?"), Place(owner.parts[0].file, "", owner))

    def _initialized(self, node: Node, body: Body) -> None:
        """Look at `new X { A = 1 }`, where `A` is of X and not of the code around."""
        for child in node.named_children:
            left = child.child_by_field_name("left")
            right = child.child_by_field_name("right")
            if child.type != "assignment_expression" or left is None or right is None:
                self._visit(child, body)
                continue
            value = body.value(node.parent)
            if left.type == "identifier" and isinstance(value, Instance):
                self._use_member(value, words(left))
            self._visit(right, body)

    def _changed(self, node: Node, body: Body) -> None:
        """Look at `x with { A = 1 }`, where `A` is of x."""
        value = body.value(node.parent)
        if isinstance(value, Instance):
            self._use_member(value, words(node.named_children[0]))
        for child in node.named_children[1:]:
            self._visit(child, body)

    def _matched(self, node: Node, body: Body) -> None:
        """Look at `A: pattern`, where `A` is of what is matched."""
        for child in node.named_children[1:] or node.named_children:
            self._visit(child, body)

    def _attribute(self, node: Node, body: Body) -> None:
        name = node.child_by_field_name("name")
        ref = type_ref(name)
        if ref is not None:
            long = ref._replace(name=f"{ref.name}Attribute")
            for each in (ref, long):
                found = self._project.type_of(each, body.place)
                if isinstance(found, CSharpType):
                    self._connect("uses", found.id)
                    break
        self._visit_all(node, body)

    def _reference(self, node: Node, body: Body) -> None:
        if node.type == "generic_name":
            for arguments in node.named_children[1:]:
                self._visit_all(arguments, body)
        if node.type == "identifier" and body.is_local(node):
            return
        self._constant(node, body)
        owner = body.place.owner
        if node.type == "identifier" and owner is not None and not _names_type(node):
            self._use_member(Instance(owner), words(node))
            if self._project.field(Instance(owner), words(node)) is not None:
                return
        ref = type_ref(node)
        found = self._project.type_of(ref, body.place) if ref is not None else None
        if isinstance(found, CSharpType):
            self._connect("uses", found.id)

    def _access(self, node: Node, body: Body) -> None:
        expression = node.child_by_field_name("expression")
        name = node.child_by_field_name("name")
        if expression is None:
            return
        self._constant(node, body)
        value = body.value(node)
        if isinstance(value, Named):
            self._connect("uses", value.of.id)
        receiver = body.value(expression)
        if isinstance(receiver, Instance | Named):
            self._use_member(receiver, words(name))
        self._visit(expression, body)

    def _constant(self, node: Node, body: Body) -> None:
        """Take the name of a constant for the string it stands for."""
        written = body.constant(node)
        if written is not None:
            self._quoted(string_text(written), node)

    def _use_member(self, receiver: Instance | Named, name: str) -> None:
        """Connect a property, event, or a method that is handed on; of several overloads none."""
        for one in self._project.line_of(receiver.of)[0]:
            members = one.members.get(name, [])
            members = [member for member in members if member.kind != "Constructor"]
            if len(members) == 1:
                self._connect("uses", members[0].id)
            if members:
                return

    def _connect(self, relation: str, target: str) -> None:
        self._findings.connect(Edge(self._source, relation, target, self._file))


def _inside(node: Node) -> list[Node]:
    """Return the nodes inside a node but for the name it declares."""
    name = node.child_by_field_name("name")
    return [child for child in node.named_children if child != name]


def _called_name(function: Node | None) -> str:
    """Return the name of the method in what is called."""
    if function is None:
        return ""
    if function.type == "conditional_access_expression":
        function = function.named_children[-1]
    name = function.child_by_field_name("name") or function
    return words(name.named_children[0] if name.type == "generic_name" else name)


def _names_type(node: Node) -> bool:
    """Return whether a name stands where only a type can."""
    above = node.parent
    if above is None:
        return False
    declared = above.child_by_field_name("type") or above.child_by_field_name("returns")
    return declared == node or above.type in _TYPE_PLACES


def _taker(node: Node) -> str:
    """Return what a string is given to: the method, the attribute, or what is assigned to."""
    above = node.parent
    for _ in range(3):
        if above is None:
            return ""
        if above.type == "invocation_expression":
            return _called_name(above.child_by_field_name("function"))
        if above.type == "attribute":
            return words(above.child_by_field_name("name"))
        if above.type == "assignment_expression":
            return _called_name(above.child_by_field_name("left"))
        above = above.parent
    return ""
