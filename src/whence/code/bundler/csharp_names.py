"""Resolve C# names and member accesses by the rules of the language, local variables excluded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from whence.code.bundler.csharp_project import (
    NUMBERS,
    CSharpProject,
    ExternalInstance,
    Instance,
    NamespaceValue,
    TypeValue,
    Value,
)
from whence.code.bundler.csharp_types import (
    CSharpMember,
    CSharpType,
    NameContext,
    Parameter,
    TypeRef,
    field_of,
    last_part,
    parse_type,
)
from whence.code.loaders.source_code import node_text

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
        left, right = field_of(node, "left"), field_of(node, "right")
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
    return node_text(field_of(node, "name"))


def _declared_type(node: Node, otherwise: ValueSource) -> ValueSource:
    """Return the type that a declaration states; `otherwise` for `var` and for none."""
    declared = field_of(node, "type")
    is_open = declared is None or declared.type == "implicit_type"
    return otherwise if is_open else parse_type(declared)


def plain_name(node: Node | None) -> str:
    """Return a name without generic arguments."""
    if node is not None and node.type == "generic_name":
        node = node.named_children[0]
    return node_text(node)


def called_name(function: Node | None) -> Node | None:
    """Return the node with the name that a call has, from the function of the call."""
    if function is not None and function.type == "conditional_access_expression":
        function = function.named_children[-1]
    return function and (field_of(function, "name") or function)


#: Distances of a user-defined conversion and of the conversion to `object`; an inherited type has its depth.
_CONVERSION_DISTANCE = 1000
_OBJECT_DISTANCE = 2000


class Argument(NamedTuple):
    """An argument of a call."""

    value: Value
    name: str = ""
    """Parameter name of a named argument; empty otherwise."""


def find_methods(
    project: CSharpProject, receiver: Value, name: str, arguments: Sequence[Argument]
) -> list[CSharpMember]:
    """Return the methods that a call may invoke: those of the nearest type, else extension methods.

    More than one is returned if overload resolution is not certain.
    """
    by_count: list[CSharpMember] = []
    if isinstance(receiver, Instance | TypeValue):
        types, is_complete = project.type_and_bases(receiver.of)
        for one in types:
            overloads = [
                member
                for member in one.members.get(name, ())
                if member.kind == "Method" and not member.is_explicit
            ]
            found = [each for each in overloads if _accepts(project, each, arguments)]
            if found:
                return _best(project, found, arguments)
            if is_complete and not by_count:
                by_count = [each for each in overloads if _bind(each, arguments) is not None]
    if isinstance(receiver, Instance | ExternalInstance):
        with_receiver = [Argument(receiver), *arguments]
        found = [
            member
            for member in project.extensions(name)
            if _accepts(project, member, with_receiver) and _extends(project, member, receiver)
        ]
        if found:
            return _best(project, found, with_receiver)
    # All base types are known, so one of their methods must be the target.
    return by_count


def find_constructors(
    project: CSharpProject, of: CSharpType, arguments: Sequence[Argument]
) -> list[CSharpMember]:
    """Return the constructors of a type that an object creation may invoke."""
    own = [one for one in of.members.get(of.name, ()) if one.kind == "Constructor"]
    return _best(project, [one for one in own if _accepts(project, one, arguments)], arguments)


def find_property(project: CSharpProject, of: CSharpType | None, name: str) -> CSharpMember | None:
    """Return the property or event of a type or its bases."""
    types = project.type_and_bases(of)[0] if of is not None else ()
    named = (member for one in types for member in one.members.get(name, ()))
    return next((member for member in named if member.kind in ("Property", "Event")), None)


def _extends(
    project: CSharpProject, member: CSharpMember, receiver: Instance | ExternalInstance
) -> bool:
    """Return whether an extension method is defined for the type of the receiver, or for all types."""
    wanted = member.parameters[0].type if member.parameters else None
    if wanted is None or wanted.name in member.type_parameters:
        return True
    found = project.type_of(wanted, member.context)
    if isinstance(receiver, Instance):
        return isinstance(found, CSharpType) and found in project.type_and_bases(receiver.of)[0]
    return found is None and last_part(wanted.name) == last_part(receiver.ref.name)


def _accepts(project: CSharpProject, member: CSharpMember, arguments: Sequence[Argument]) -> bool:
    """Return False if a method certainly cannot be called with these arguments."""
    bound = _bind(member, arguments)
    context = member.context
    generic = _generic(member)
    return bound is not None and all(
        parameter.is_params
        or (parameter.type is not None and parameter.type.name in generic)
        or project.accepts_argument(parameter.type, context, argument.value)
        for parameter, argument in zip(bound, arguments, strict=True)
    )


def _best(
    project: CSharpProject, members: Sequence[CSharpMember], arguments: Sequence[Argument]
) -> list[CSharpMember]:
    """Return the best of the methods that accept the arguments; all of them if none is certainly the best."""
    for one in members:
        if all(one is other or _is_better(project, one, other, arguments) for other in members):
            return [one]
    return list(members)


def _bind(member: CSharpMember, arguments: Sequence[Argument]) -> list[Parameter] | None:
    """Return the parameter of each argument; None if an argument or a required parameter is left over."""
    parameters = member.parameters
    by_name = {each.name: each for each in parameters}
    found: list[Parameter] = []
    for at, argument in enumerate(arguments):
        if argument.name:
            named = by_name.get(argument.name)
            if named is None:
                return None
            found.append(named)
        elif at < len(parameters):
            found.append(parameters[at])
        elif parameters and parameters[-1].is_params:
            found.append(parameters[-1])
        else:
            return None
    required = {each.name for each in parameters if not each.is_optional and not each.is_params}
    return found if required <= {each.name for each in found} else None


def _is_better(
    project: CSharpProject, one: CSharpMember, other: CSharpMember, arguments: Sequence[Argument]
) -> bool:
    ours, theirs = _bind(one, arguments) or [], _bind(other, arguments) or []
    is_nearer = False
    for argument, mine, its in zip(arguments, ours, theirs, strict=False):
        first, second = _wanted(one, mine, argument), _wanted(other, its, argument)
        if first == second:
            continue
        near = _distance(project, one, first, argument.value)
        far = _distance(project, other, second, argument.value)
        # Nothing is nearer than the same type, even if the other distance is unknown.
        if near != 0 and (near is None or far is None or near > far):
            return False
        is_nearer = is_nearer or near == 0 or near != far
    return is_nearer or _rank(one, ours, arguments) < _rank(other, theirs, arguments)


def _rank(
    member: CSharpMember, bound: Iterable[Parameter], arguments: Sequence[Argument]
) -> tuple[bool, bool, bool]:
    """Return a sort key for equal parameter types: non-generic methods without defaults come first."""
    return (
        any(each.is_params for each in bound),
        bool(member.type_parameters),
        len(member.parameters) > len(arguments),
    )


def _wanted(member: CSharpMember, parameter: Parameter, argument: Argument) -> TypeRef | None:
    """Return the parameter type for an argument; for `params` the element type."""
    ref = parameter.type
    is_array = isinstance(argument.value, ExternalInstance) and argument.value.ref.name == "[]"
    if parameter.is_params and ref is not None and ref.name == "[]" and not is_array:
        ref = ref.args[0]
    return None if ref is not None and ref.name in _generic(member) else ref


def _distance(
    project: CSharpProject, member: CSharpMember, ref: TypeRef | None, value: Value
) -> int | None:
    """Return the conversion distance from an argument to a parameter, 0 for the same type; None if unknown."""
    if not isinstance(value, Instance | ExternalInstance):
        return None
    if ref is None:
        # A type parameter is inferred from the argument.
        return 0
    if ref.name == "object":
        return _OBJECT_DISTANCE
    wanted = project.type_of(ref, member.context)
    if isinstance(value, Instance):
        if not isinstance(wanted, CSharpType):
            return None
        types = project.type_and_bases(value.of)[0]
        return types.index(wanted) if wanted in types else _CONVERSION_DISTANCE
    if wanted is not None:
        return _CONVERSION_DISTANCE if isinstance(wanted, CSharpType) else None
    if value.ref == ref:
        return 0
    if value.ref.name in NUMBERS and ref.name in NUMBERS:
        return abs(NUMBERS.index(ref.name) - NUMBERS.index(value.ref.name))
    return None


def _generic(member: CSharpMember) -> frozenset[str]:
    return frozenset((*member.type_parameters, *member.owner.type_parameters))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Methods of LINQ and of lists that return the same elements, and those that return one of them.
_SAME_ELEMENTS = _names(
    "Where OrderBy OrderByDescending ThenBy ThenByDescending Take TakeWhile Skip SkipWhile Distinct Reverse Concat"
    " Union Except Intersect ToList ToArray ToHashSet AsEnumerable AsQueryable AsNoTracking Include FindAll Append"
)
_ONE_ELEMENT = _names(
    "First FirstOrDefault Single SingleOrDefault Last LastOrDefault ElementAt ElementAtOrDefault Find FindLast Peek"
    " Dequeue Pop"
)
#: Methods that return an element through an `out` parameter.
TRY_METHODS = _names("TryGetValue TryDequeue TryPeek TryPop TryTake TryRemove")
#: Methods whose callback takes an element.
ELEMENT_CALLBACKS = _names(
    "Where OrderBy OrderByDescending ThenBy ThenByDescending TakeWhile SkipWhile Select SelectMany Any All Count Sum"
    " Min Max Average GroupBy ToDictionary ToLookup ForEach First FirstOrDefault Single SingleOrDefault Last"
    " LastOrDefault Find FindLast FindAll Exists RemoveAll DistinctBy MinBy MaxBy Include FindIndex TrueForAll"
)
_TASKS = frozenset({"Task", "ValueTask"})


def is_task(value: Value) -> bool:
    """Return whether a value is a `Task` or `ValueTask`."""
    return isinstance(value, ExternalInstance) and last_part(value.ref.name) in _TASKS


class CollectionTypes(NamedTuple):
    """Types of what library collections contain."""

    project: CSharpProject
    type_parameters: Container[str]

    def element(self, value: Value) -> Value:
        """Return an element of a collection, or the result of a task."""
        if isinstance(value, ExternalInstance) and value.ref.name.endswith("Dictionary"):
            return ExternalInstance(TypeRef("KeyValuePair", value.ref.args), value.context)
        if isinstance(value, ExternalInstance) and len(value.ref.args) == 1:
            ref = value.ref.args[0]
            if ref.name not in self.type_parameters:
                return self.project.instance_of(ref, value.context)
        return "unknown"

    def call_result(self, receiver: ExternalInstance, name: str) -> Value:
        """Return the result of a method of a collection; `external` for other methods."""
        if len(receiver.ref.args) != 1 or is_task(receiver):
            return "external"
        plain = name.removesuffix("Async")
        if plain not in _SAME_ELEMENTS and plain not in _ONE_ELEMENT:
            return "external"
        if plain == name:
            return receiver if plain in _SAME_ELEMENTS else self.element(receiver)
        ref = receiver.ref.args[0] if plain in _ONE_ELEMENT else receiver.ref
        return ExternalInstance(TypeRef("Task", (ref,)), receiver.context)

    def member(self, receiver: ExternalInstance, name: str) -> Value:
        """Return a property of a nullable, a task, a dictionary or its items; `external` for others."""
        args = receiver.ref.args
        if name in ("Result", "Value") and len(args) == 1:
            return self.element(receiver)
        if len(args) != 2:
            return "external"
        if name in ("Key", "Value"):
            return self.project.instance_of(args[name == "Value"], receiver.context)
        if name in ("Keys", "Values"):
            ref = TypeRef("IEnumerable", (args[name == "Values"],))
            return ExternalInstance(ref, receiver.context)
        return "external"

    def out_value(self, receiver: ExternalInstance) -> Value:
        """Return what a method such as `TryGetValue` assigns to its `out` parameter."""
        args = receiver.ref.args
        return self.project.instance_of(args[-1], receiver.context) if args else "unknown"


#: Methods that every object has.
OBJECT_METHODS = frozenset({"Equals", "GetHashCode", "GetType", "ToString", "ReferenceEquals"})


class NameResolver(NamedTuple):
    """Resolves names in one type or file."""

    project: CSharpProject
    context: NameContext
    collections: CollectionTypes

    def base(self) -> Value:
        """Return `base`: an instance of the nearest base class."""
        if self.context.owner is None:
            return "unknown"
        types, is_complete = self.project.type_and_bases(self.context.owner)
        for one in types[1:]:
            if not one.is_interface:
                return Instance(one)
        return "unknown" if is_complete else "external"

    def name(self, name: str, ref: TypeRef | None) -> Value:
        """Return a field, property, type or namespace."""
        for owner in self.context.owners():
            found = self.project.field(Instance(owner), name)
            if found is not None:
                return found
        named = self.project.type_of(ref, self.context) if ref else None
        if isinstance(named, CSharpType):
            return TypeValue(named)
        if named == "ambiguous":
            return "ambiguous"
        namespace = self.project.namespace(name)
        if namespace is not None:
            return namespace
        # A capital begins the name of a library type; other names may be inherited from a library.
        is_external = self._has_external_base() or name[:1].isupper()
        return "external" if is_external else "unknown"

    def member(self, receiver: Value, name: str) -> Value:
        """Return a member of a namespace, type or object."""
        if isinstance(receiver, NamespaceValue):
            full = f"{receiver.name}.{name}"
            named = self.project.type_named(full)
            return TypeValue(named) if named else self.project.namespace(full) or "external"
        if isinstance(receiver, Instance | TypeValue):
            found = self.project.field(receiver, name)
            if found is not None:
                return found
            inner = self.project.type_named(f"{receiver.of.full_name}.{name}")
            if inner is not None and isinstance(receiver, TypeValue):
                return TypeValue(inner)
            if receiver.of.parts[0].node.type == "enum_declaration":
                return Instance(receiver.of)
            return "unknown" if self.project.type_and_bases(receiver.of)[1] else "external"
        if isinstance(receiver, ExternalInstance):
            return self.collections.member(receiver, name)
        return receiver

    def unqualified_call(
        self, name: str, arguments: Sequence[Argument], *, is_local: bool
    ) -> tuple[list[CSharpMember], Value]:
        """Return the methods that a call without a receiver may invoke, and the implied receiver."""
        for owner in self.context.owners():
            found = find_methods(self.project, TypeValue(owner), name, arguments)
            if found:
                return found, Instance(owner)
        for ref in self.context.file.static_usings:
            one = self.project.type_of(ref, self.context)
            if isinstance(one, CSharpType):
                found = find_methods(self.project, TypeValue(one), name, arguments)
                if found:
                    return found, "unknown"
        if is_local:
            return [], "unknown"
        is_external = name == "nameof" or name in OBJECT_METHODS or self._has_external_base()
        return [], "external" if is_external else "unknown"

    def _has_external_base(self) -> bool:
        owner = self.context.owner
        return owner is not None and not self.project.type_and_bases(owner)[1]
