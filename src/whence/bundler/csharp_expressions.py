"""What a C# expression stands for, as far as the sources tell.

Expressions have the types that are declared; `var` has that of its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from whence.bundler.csharp_overloads import Argument, accepts, closest, takes
from whence.bundler.csharp_project import (
    FUNCTION,
    CSharpProject,
    Instance,
    Library,
    Named,
    Place,
    Space,
    Value,
    place_of,
)
from whence.bundler.csharp_types import CSharpMember, CSharpType, TypeRef, type_ref, words

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ("OF_OBJECTS", "Body")

#: Types that hand on what they hold, by their last name.
_AWAITED = frozenset({"Task", "ValueTask"})
_DEEPEST = 100
#: Variables that are looked at to tell one expression; ones assigned from one another could take any number.
_MOST_STEPS = 300
_LITERALS = {
    "string_literal": "string",
    "verbatim_string_literal": "string",
    "raw_string_literal": "string",
    "interpolated_string_expression": "string",
    "integer_literal": "int",
    "real_literal": "double",
    "boolean_literal": "bool",
    "character_literal": "char",
}
#: What the names declared in it are for.
_SCOPES = frozenset(
    {"block", "lambda_expression", "anonymous_method_expression", "local_function_statement"}
    | {"foreach_statement", "for_statement", "using_statement", "fixed_statement", "catch_clause"}
    | {"query_expression", "switch_section", "switch_expression_arm"}
)
_EVERYWHERE = (0, 1 << 62)
#: Expressions that have the value of the one inside them.
_SAME_AS_INSIDE = frozenset(
    {
        "parenthesized_expression",
        "postfix_unary_expression",
        "with_expression",
        "checked_expression",
    }
)
#: Types that follow from the kind of an expression.
_KNOWN_TYPES = {
    "typeof_expression": "Type",
    "is_expression": "bool",
    "is_pattern_expression": "bool",
    "sizeof_expression": "int",
    "lambda_expression": FUNCTION,
    "anonymous_method_expression": FUNCTION,
}
_COMPARING = frozenset({"==", "!=", "<", ">", "<=", ">=", "&&", "||"})
#: What declares one name with its type.
_DECLARING = frozenset(
    {"declaration_pattern", "recursive_pattern", "catch_declaration", "parameter"}
    | {"declaration_expression"}
)
#: Methods of LINQ and of lists, by what they give: the same elements, or one of them.
_SAME = frozenset(
    {
        "Where",
        "OrderBy",
        "OrderByDescending",
        "ThenBy",
        "ThenByDescending",
        "Take",
        "TakeWhile",
        "Skip",
    }
    | {
        "SkipWhile",
        "Distinct",
        "Reverse",
        "Concat",
        "Union",
        "Except",
        "Intersect",
        "ToList",
        "ToArray",
    }
    | {"ToHashSet", "AsEnumerable", "AsQueryable", "AsNoTracking", "Include", "FindAll", "Append"}
)
_ONE = frozenset(
    {"First", "FirstOrDefault", "Single", "SingleOrDefault", "Last", "LastOrDefault", "ElementAt"}
    | {"ElementAtOrDefault", "Find", "FindLast", "Peek", "Dequeue", "Pop"}
)
#: Those that hand out what they look for.
_TRYING = frozenset({"TryGetValue", "TryDequeue", "TryPeek", "TryPop", "TryTake", "TryRemove"})
#: Those that take a function of an element besides.
_OF_ELEMENTS = frozenset(
    {
        "Where",
        "OrderBy",
        "OrderByDescending",
        "ThenBy",
        "ThenByDescending",
        "TakeWhile",
        "SkipWhile",
    }
    | {"Select", "SelectMany", "Any", "All", "Count", "Sum", "Min", "Max", "Average", "GroupBy"}
    | {
        "ToDictionary",
        "ToLookup",
        "ForEach",
        "First",
        "FirstOrDefault",
        "Single",
        "SingleOrDefault",
    }
    | {"Last", "LastOrDefault", "Find", "FindLast", "FindAll", "Exists", "RemoveAll", "DistinctBy"}
    | {"MinBy", "MaxBy", "Include", "FindIndex", "TrueForAll"}
)
#: Methods that every object has.
OF_OBJECTS = frozenset({"Equals", "GetHashCode", "GetType", "ToString", "ReferenceEquals"})


class _Element(NamedTuple):
    """Stands for one of what is gone through."""

    of: Node


_Given: TypeAlias = "TypeRef | Node | _Element | None"


class _Local(NamedTuple):
    """A parameter or variable."""

    start: int
    end: int
    """Where it holds, in bytes of the file."""
    given: _Given
    """Its type, or what it is made of."""


class Body:
    """The names that the code of a member, or of a type's fields, sees.

    Args:
        project: All types.
        place: Where it is.
        parameters: Parameters with their types.
        type_parameters: Type parameters, which are types that are not known.
        code: The nodes of the code, of which the declarations are read.
    """

    def __init__(
        self,
        project: CSharpProject,
        place: Place,
        parameters: Iterable[tuple[str, TypeRef | None]],
        type_parameters: Iterable[str],
        code: Iterable[Node],
    ) -> None:
        self.project = project
        self.place = place
        self._type_parameters = set(type_parameters)
        owner = place.owner
        while owner is not None:
            self._type_parameters.update(owner.type_parameters)
            owner = owner.owner
        self._locals: dict[str, list[_Local]] = defaultdict(list)
        self.functions: set[str] = set()
        #: Declarations that are being looked at, by identity.
        self._open: set[int] = set()
        self._steps = 0
        self._kinds: dict[str, Callable[[Node, int], Value]] = {
            "conditional_access_expression": self._conditional,
            "invocation_expression": self._invoked,
            "declaration_expression": self._handed_out,
            "implicit_parameter": self._handed_in,
            "parameter": self._handed_in,
            "await_expression": lambda node, depth: self._awaited(node.named_children[0], depth),
            "element_access_expression": self._indexed,
            "binary_expression": self._binary,
            "conditional_expression": self._branches,
            "switch_expression": self._arms,
        }
        for name, ref in parameters:
            self._add(name, _EVERYWHERE, ref)
        for node in code:
            self._read(node)

    def is_local(self, node: Node) -> bool:
        """Return whether a name is a parameter or variable where it stands."""
        return bool(self._holding(node))

    def of_type(self, ref: TypeRef | None) -> Value:
        """Return an object of a type as it is written here."""
        if ref is not None and ref.name in self._type_parameters:
            return "unknown"
        return self.project.value_of(ref, self.place)

    def value(self, node: Node | None, depth: int = 0) -> Value:
        """Return what an expression stands for."""
        if node is None or depth > _DEEPEST:
            return "unknown"
        if not depth and not self._open:
            self._steps = 0
        kind = node.type
        if kind in ("identifier", "generic_name"):
            return self._name(node)
        if kind in _LITERALS:
            return Library(TypeRef(_LITERALS[kind]), self.place)
        if kind in ("member_access_expression", "qualified_name", "alias_qualified_name"):
            return self._member(node, depth)
        if kind == "predefined_type":
            return Library(TypeRef(words(node)), self.place)
        if kind in ("object_creation_expression", "cast_expression", "as_expression"):
            named = node.child_by_field_name("type") or node.child_by_field_name("right")
            return self.of_type(type_ref(named))
        return self._kinds.get(kind, self._other)(node, depth)

    def constant(self, node: Node) -> Node | None:
        """Return the expression that a name of a constant string stands for; None for other names."""
        if node.type == "identifier":
            if self.is_local(node):
                return None
            name, owners = words(node), []
            owner = self.place.owner
            while owner is not None:
                owners.append(owner)
                owner = owner.owner
        elif node.type == "member_access_expression":
            name = words(node.child_by_field_name("name"))
            value = self.value(node.child_by_field_name("expression"))
            owners = [value.of] if isinstance(value, Instance | Named) else []
        else:
            return None
        lines = (one for owner in owners for one in self.project.line_of(owner)[0])
        return next((one.constants[name] for one in lines if name in one.constants), None)

    def call(self, node: Node, depth: int = 0) -> tuple[list[CSharpMember], Value]:
        """Return the methods an invocation may be of and the object they are called on.

        None and `external`, or none and `unknown`: it is of a library, or not known.
        """
        function = node.child_by_field_name("function")
        if function is None:
            return [], "unknown"
        arguments = self.arguments(node.child_by_field_name("arguments"), depth)
        if function.type in ("identifier", "generic_name"):
            return self._bare(function, arguments)
        if function.type == "member_access_expression":
            receiver = self.value(function.child_by_field_name("expression"), depth + 1)
            name = function.child_by_field_name("name")
        elif function.type == "conditional_access_expression":
            binding = function.named_children[-1]
            if binding.type != "member_binding_expression":
                return [], "unknown"
            receiver = self.value(function.child_by_field_name("condition"), depth + 1)
            name = binding.child_by_field_name("name")
        else:
            return [], "unknown"
        return self.methods(receiver, _plain_name(name), arguments), receiver

    def arguments(self, node: Node | None, depth: int = 0) -> list[Argument]:
        """Return the values of arguments."""
        if node is None:
            return []
        return [
            Argument(self._argument(child, depth), words(child.child_by_field_name("name")))
            for child in node.named_children
            if child.type == "argument"
        ]

    def _argument(self, node: Node, depth: int) -> Value:
        if not node.named_children:
            return "unknown"
        last = node.named_children[-1]
        if last.type == "declaration_expression":
            # What `out var` is follows from the method.
            return self.of_type(type_ref(last.child_by_field_name("type")))
        return self.value(last, depth + 1)

    def methods(self, receiver: Value, name: str, arguments: list[Argument]) -> list[CSharpMember]:
        """Return the methods of an object, nearest type first, that the arguments fit; else extensions.

        Several are given where it is not sure which of them is meant.
        """
        by_number: list[CSharpMember] = []
        if isinstance(receiver, Instance | Named):
            line, whole = self.project.line_of(receiver.of)
            for one in line:
                named = [m for m in one.members.get(name, ()) if _is_called(m)]
                found = [m for m in named if accepts(self.project, m, arguments)]
                if found:
                    return closest(self.project, found, arguments)
                if whole and not by_number:
                    by_number = [member for member in named if takes(member, arguments)]
        if isinstance(receiver, Instance | Library):
            all_of_them = [Argument(receiver), *arguments]
            found = [
                member
                for member in self.project.extensions(name)
                if accepts(self.project, member, all_of_them) and self._extends(member, receiver)
            ]
            if found:
                return closest(self.project, found, all_of_them)
        # The type is known with all that it inherits, so that it is one of them that is called.
        return by_number

    def constructors(self, of: CSharpType, arguments: list[Argument]) -> list[CSharpMember]:
        """Return the constructors of a type that may be meant."""
        own = [one for one in of.members.get(of.name, ()) if one.kind == "Constructor"]
        found = [one for one in own if accepts(self.project, one, arguments)]
        return closest(self.project, found, arguments)

    def delegate(self, function: Node) -> CSharpMember | None:
        """Return the property or event whose value is called."""
        if function.type == "member_access_expression":
            receiver = self.value(function.child_by_field_name("expression"))
            found = receiver.of if isinstance(receiver, Instance | Named) else None
            return self._property(found, words(function.child_by_field_name("name")))
        if function.type != "identifier" or self.is_local(function):
            return None
        owner = self.place.owner
        while owner is not None:
            one = self._property(owner, words(function))
            if one is not None:
                return one
            owner = owner.owner
        return None

    def _property(self, of: CSharpType | None, name: str) -> CSharpMember | None:
        for one in self.project.line_of(of)[0] if of is not None else ():
            for member in one.members.get(name, ()):
                if member.kind in ("Property", "Event"):
                    return member
        return None

    def _extends(self, member: CSharpMember, receiver: Instance | Library) -> bool:
        """Return whether an extension method is of this type, or of all types."""
        wanted = member.parameters[0].type if member.parameters else None
        if wanted is None or wanted.name in member.type_parameters:
            return True
        found = self.project.type_of(wanted, place_of(member))
        if isinstance(receiver, Instance):
            return isinstance(found, CSharpType) and found in self.project.line_of(receiver.of)[0]
        return (
            found is None and wanted.name.rpartition(".")[2] == receiver.ref.name.rpartition(".")[2]
        )

    def _bare(self, node: Node, arguments: list[Argument]) -> tuple[list[CSharpMember], Value]:
        name = _plain_name(node)
        owner = self.place.owner
        while owner is not None:
            found = self.methods(Named(owner), name, arguments)
            if found:
                return found, Instance(owner)
            owner = owner.owner
        for ref in self.place.file.static_usings:
            one = self.project.type_of(ref, self.place)
            found = self.methods(Named(one), name, arguments) if isinstance(one, CSharpType) else []
            if found:
                return found, "unknown"
        if self.is_local(node):
            return [], "unknown"
        if name == "nameof" or name in OF_OBJECTS:
            return [], "external"
        outside = self.place.owner is not None and not self.project.line_of(self.place.owner)[1]
        return [], "external" if outside else "unknown"

    def _invoked(self, node: Node, depth: int) -> Value:
        methods, receiver = self.call(node, depth + 1)
        if not methods and isinstance(receiver, Library):
            return self._of_library(receiver, _called(node))
        values = {self._returned(method, receiver, node) for method in methods}
        return values.pop() if len(values) == 1 else "unknown"

    def _returned(self, method: CSharpMember, receiver: Value, call: Node) -> Value:
        """Return what a call gives; a method `T Get<T>()` what is written in the place of T."""
        ref = method.returns
        if ref is not None and ref.name in method.type_parameters:
            given = _written_arguments(call)
            at = method.type_parameters.index(ref.name)
            return self.of_type(given[at]) if at < len(given) else "unknown"
        return self.project.returned(method, receiver)

    def _of_library(self, receiver: Library, name: str) -> Value:
        """Return what methods of collections give; of all others nothing is known."""
        if len(receiver.ref.args) != 1 or _last(receiver.ref.name) in _AWAITED:
            return "external"
        plain = name.removesuffix("Async")
        if plain in _SAME:
            value: Value = receiver
        elif plain in _ONE:
            value = self._element(receiver)
        else:
            return "external"
        if plain == name:
            return value
        ref = receiver.ref.args[0] if plain in _ONE else receiver.ref
        return Library(TypeRef("Task", (ref,)), receiver.place)

    def _name(self, node: Node) -> Value:
        name = _plain_name(node)
        held = self._holding(node)
        if held:
            return self._local(held)
        owner = self.place.owner
        while owner is not None:
            found = self.project.field(Instance(owner), name)
            if found is not None:
                return found
            owner = owner.owner
        ref = type_ref(node)
        named = self.project.type_of(ref, self.place) if ref else None
        if isinstance(named, CSharpType):
            return Named(named)
        if named == "ambiguous":
            return "ambiguous"
        space = self.project.space(name)
        if space is not None:
            return space
        inherits = self.place.owner is not None and not self.project.line_of(self.place.owner)[1]
        # A capital begins the name of a type of a library; other names may be inherited from one.
        return "external" if inherits or name[:1].isupper() else "unknown"

    def _holding(self, node: Node) -> list[_Local]:
        """Return the declarations of a name that hold where it stands, of the innermost scope only."""
        at = node.start_byte
        found = [
            each for each in self._locals.get(_plain_name(node), ()) if each.start <= at < each.end
        ]
        inner = min((each.end - each.start for each in found), default=0)
        return [each for each in found if each.end - each.start == inner]

    def _local(self, held: list[_Local]) -> Value:
        self._steps += 1
        fresh = [each for each in held if id(each) not in self._open]
        if len(fresh) < len(held) or self._steps > _MOST_STEPS:
            return "unknown"
        self._open.update(map(id, held))
        try:
            values = {self._given(each.given) for each in held}
            return values.pop() if len(values) == 1 else "unknown"
        finally:
            self._open.difference_update(map(id, held))

    def _given(self, given: _Given) -> Value:
        if isinstance(given, _Element):
            return self._element(self.value(given.of))
        return self.of_type(given) if isinstance(given, TypeRef | None) else self.value(given)

    def _handed_out(self, node: Node, depth: int = 0) -> Value:
        """Return what `out var` becomes: the type of the parameter of the method that is called."""
        call, at = _argument_of(node)
        if call is None:
            return "unknown"
        methods, receiver = self.call(call, depth + 1)
        if not methods and isinstance(receiver, Library) and _called(call) in _TRYING:
            args = receiver.ref.args
            return self.project.value_of(args[-1], receiver.place) if args else "unknown"
        if len(methods) != 1 or at >= len(methods[0].parameters):
            return "unknown"
        return self._declared(methods[0], methods[0].parameters[at].type)

    def _declared(self, member: CSharpMember, ref: TypeRef | None) -> Value:
        """Return an object of a type that is written at a method, unless it depends on the call."""
        generic = {*member.type_parameters, *member.owner.type_parameters}
        if ref is None or ref.name in generic:
            return "unknown"
        return self.project.value_of(ref, place_of(member))

    def _handed_in(self, node: Node, depth: int = 0) -> Value:
        """Return what the parameter of a lambda is: an element of a sequence, or what a method tells."""
        above = node.parent
        place = 0
        if above is not None and above.type == "parameter_list":
            place = above.named_children.index(node)
            above = above.parent
        call, at = _argument_of(above) if above is not None else (None, 0)
        if call is None:
            return "unknown"
        methods, receiver = self.call(call, depth + 1)
        if not methods and place == 0 and _called(call).removesuffix("Async") in _OF_ELEMENTS:
            return self._element(receiver)
        at += bool(methods) and methods[0].is_extension and not isinstance(receiver, Named)
        if len(methods) != 1 or at >= len(methods[0].parameters):
            return "unknown"
        wanted = methods[0].parameters[at].type
        while wanted is not None and _last(wanted.name) == "Expression" and wanted.args:
            wanted = wanted.args[0]
        if (
            wanted is None
            or wanted.name not in ("Func", "Action", "Predicate")
            or place >= len(wanted.args)
        ):
            return "unknown"
        return self._declared(methods[0], wanted.args[place])

    def _element(self, value: Value) -> Value:
        if isinstance(value, Library) and value.ref.name.endswith("Dictionary"):
            return Library(TypeRef("KeyValuePair", value.ref.args), value.place)
        if isinstance(value, Library) and len(value.ref.args) == 1:
            ref = value.ref.args[0]
            return (
                "unknown"
                if ref.name in self._type_parameters
                else self.project.value_of(ref, value.place)
            )
        return "unknown"

    def _base(self) -> Value:
        if self.place.owner is None:
            return "unknown"
        line, whole = self.project.line_of(self.place.owner)
        classes = [one for one in line[1:] if one.parts[0].node.type != "interface_declaration"]
        if classes:
            return Instance(classes[0])
        return "external" if not whole else "unknown"

    def _member(self, node: Node, depth: int) -> Value:
        expression = node.child_by_field_name("expression") or node.named_children[0]
        name = _plain_name(node.child_by_field_name("name") or node.named_children[-1])
        return self._of(self.value(expression, depth + 1), name)

    def _of(self, receiver: Value, name: str) -> Value:
        if isinstance(receiver, Space):
            full = f"{receiver.name}.{name}"
            named = self.project.named(full)
            return Named(named) if named else self.project.space(full) or "external"
        if isinstance(receiver, Instance | Named):
            found = self.project.field(receiver, name)
            if found is not None:
                return found
            inner = self.project.named(f"{receiver.of.full_name}.{name}")
            if inner is not None and isinstance(receiver, Named):
                return Named(inner)
            if receiver.of.parts[0].node.type == "enum_declaration":
                return Instance(receiver.of)
            return "unknown" if self.project.line_of(receiver.of)[1] else "external"
        if isinstance(receiver, Library):
            if name in ("Result", "Value") and len(receiver.ref.args) == 1:
                return self._element(receiver)
            return self._of_dictionary(receiver, name)
        return receiver

    def _of_dictionary(self, receiver: Library, name: str) -> Value:
        if len(receiver.ref.args) != 2:
            return "external"
        key, value = receiver.ref.args
        if name in ("Key", "Value"):
            return self.project.value_of(key if name == "Key" else value, receiver.place)
        if name in ("Keys", "Values"):
            ref = TypeRef("IEnumerable", (key if name == "Keys" else value,))
            return Library(ref, receiver.place)
        return "external"

    def _conditional(self, node: Node, depth: int) -> Value:
        receiver = self.value(node.child_by_field_name("condition"), depth + 1)
        binding = node.named_children[-1]
        if binding.type == "member_binding_expression":
            return self._of(receiver, _plain_name(binding.child_by_field_name("name")))
        return "unknown"

    def _other(self, node: Node, depth: int) -> Value:
        kind, inner = node.type, node.named_children
        if kind == "this":
            return Instance(self.place.owner) if self.place.owner else "unknown"
        if kind == "base":
            return self._base()
        if kind in _SAME_AS_INSIDE and inner:
            return self.value(inner[0], depth + 1)
        if kind in ("default_expression", "array_creation_expression"):
            return self.of_type(type_ref(node.child_by_field_name("type")))
        name = _KNOWN_TYPES.get(kind)
        return Library(TypeRef(name), self.place) if name else "unknown"

    def _binary(self, node: Node, depth: int) -> Value:
        sign = words(node.child_by_field_name("operator"))
        if sign in _COMPARING:
            return Library(TypeRef("bool"), self.place)
        sides = [
            self.value(node.child_by_field_name(name), depth + 1) for name in ("left", "right")
        ]
        if sign == "??":
            return sides[0]
        is_text = any(isinstance(each, Library) and each.ref.name == "string" for each in sides)
        return Library(TypeRef("string"), self.place) if sign == "+" and is_text else "unknown"

    def _branches(self, node: Node, depth: int) -> Value:
        names = ("consequence", "alternative")
        return self._any_of([node.child_by_field_name(name) for name in names], depth)

    def _arms(self, node: Node, depth: int) -> Value:
        arms = [each for each in node.named_children if each.type == "switch_expression_arm"]
        return self._any_of([arm.named_children[-1] for arm in arms], depth)

    def _any_of(self, nodes: Iterable[Node | None], depth: int) -> Value:
        """Return the value of several expressions that have the same type; `null` and `throw` have any."""
        plain = ("null_literal", "throw_expression")
        values = {
            self.value(node, depth + 1) for node in nodes if node is None or node.type not in plain
        }
        return values.pop() if len(values) == 1 else "unknown"

    def _indexed(self, node: Node, depth: int) -> Value:
        value = self.value(node.child_by_field_name("expression"), depth + 1)
        if isinstance(value, Library) and value.ref.args:
            return self.project.value_of(value.ref.args[-1], value.place)
        if isinstance(value, Instance):
            for one in self.project.line_of(value.of)[0]:
                found = {
                    self.project.returned(each, value) for each in one.members.get("this[]", ())
                }
                if found:
                    return found.pop() if len(found) == 1 else "unknown"
        return "unknown"

    def _awaited(self, node: Node, depth: int) -> Value:
        """Return what awaiting gives; `x.ConfigureAwait(false)` awaits what x does."""
        value = self.value(node, depth + 1)
        if isinstance(value, Library) and _last(value.ref.name) in _AWAITED:
            return self._element(value)
        function = node.child_by_field_name("function")
        name = function.child_by_field_name("name") if function is not None else None
        if function is None or words(name) != "ConfigureAwait":
            return "unknown"
        value = self.value(function.child_by_field_name("expression"), depth + 1)
        return self._element(value) if isinstance(value, Library) else "unknown"

    def _read(self, node: Node) -> None:
        """Take the names that code declares, each with where it holds."""
        pending = [(node, _EVERYWHERE)]
        while pending:
            at, scope = pending.pop()
            if at.type in _SCOPES:
                scope = (at.start_byte, at.end_byte)
            self._declare(at, scope)
            pending.extend((child, scope) for child in at.named_children)

    def _declare(self, node: Node, scope: tuple[int, int]) -> None:
        kind = node.type
        if kind == "variable_declaration":
            self._declare_variables(node, scope)
        elif kind == "foreach_statement":
            self._declare_element(node, scope)
        elif kind in _DECLARING:
            name = words(node.child_by_field_name("name"))
            declared = node.child_by_field_name("type")
            is_open = declared is None or declared.type == "implicit_type"
            if name:
                self._add(name, scope, node if is_open else type_ref(declared))
        elif kind == "implicit_parameter":
            self._add(words(node), scope, node)
        elif kind == "tuple_pattern":
            for each in node.children_by_field_name("name"):
                self._add(words(each), scope, None)
        elif kind == "from_clause":
            name = words(node.child_by_field_name("name"))
            self._add(name, scope, _Element(node.named_children[-1]))
        elif kind == "local_function_statement":
            self.functions.add(words(node.child_by_field_name("name")))

    def _add(self, name: str, scope: tuple[int, int], given: _Given) -> None:
        self._locals[name].append(_Local(*scope, given))

    def _declare_variables(self, node: Node, scope: tuple[int, int]) -> None:
        declared = node.child_by_field_name("type")
        is_open = declared is None or declared.type == "implicit_type"
        ref = None if is_open else type_ref(declared)
        for child in node.named_children:
            if child.type == "variable_declarator":
                value = child.named_children[-1] if len(child.named_children) > 1 else None
                self._add(words(child.child_by_field_name("name")), scope, ref or value)

    def _declare_element(self, node: Node, scope: tuple[int, int]) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        declared = node.child_by_field_name("type")
        if left is None or left.type != "identifier" or right is None:
            return
        is_open = declared is None or declared.type == "implicit_type"
        self._add(words(left), scope, _Element(right) if is_open else type_ref(declared))


def _plain_name(node: Node | None) -> str:
    """Return a name without generic arguments."""
    if node is not None and node.type == "generic_name":
        node = node.named_children[0]
    return words(node)


def _called(call: Node) -> str:
    """Return the name of the method in a call, without generic arguments."""
    function = call.child_by_field_name("function")
    if function is not None and function.type == "conditional_access_expression":
        function = function.named_children[-1]
    return _plain_name(function.child_by_field_name("name")) if function is not None else ""


def _is_called(member: CSharpMember) -> bool:
    return member.kind == "Method" and not member.is_explicit


def _written_arguments(call: Node) -> tuple[TypeRef, ...]:
    """Return the generic arguments that a call writes."""
    function = call.child_by_field_name("function")
    if function is not None and function.type == "conditional_access_expression":
        function = function.named_children[-1]
    name = function.child_by_field_name("name") if function is not None else None
    found = type_ref(name or function)
    return found.args if found is not None else ()


def _argument_of(node: Node) -> tuple[Node | None, int]:
    """Return the call that a node is an argument of, and at which place."""
    argument = node.parent
    listed = argument.parent if argument is not None else None
    call = listed.parent if listed is not None else None
    if argument is None or listed is None or call is None or call.type != "invocation_expression":
        return None, 0
    if argument.type != "argument" or argument.child_by_field_name("name") is not None:
        return None, 0
    return call, [each for each in listed.named_children if each.type == "argument"].index(argument)


def _last(name: str) -> str:
    """Return the last part of a name with dots."""
    return name.rpartition(".")[2]
