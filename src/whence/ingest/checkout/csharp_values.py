"""What a C# name or expression stands for, as far as the sources tell.

Names of types are looked up as the language does: in the types around, the namespaces around from the inside
out, and what the file is using. Expressions have the types that are declared; `var` has that of its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from whence.ingest.checkout.csharp_types import (
    CSharpFile,
    CSharpMember,
    CSharpType,
    TypeRef,
    type_ref,
    words,
)

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ("Body", "CSharpProject", "Instance", "Library", "Named", "Place", "Value")

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
#: What declares one name with its type.
_DECLARING = frozenset(
    {"declaration_pattern", "declaration_expression", "catch_declaration", "parameter"}
)
_NUMBERS = frozenset(
    {
        "int",
        "long",
        "short",
        "byte",
        "uint",
        "ulong",
        "ushort",
        "sbyte",
        "double",
        "float",
        "decimal",
    }
)
_PREDEFINED = _NUMBERS | {"string", "bool", "char", "object", "void", "nint", "nuint", "dynamic"}


class Place(NamedTuple):
    """Where a name stands."""

    file: CSharpFile
    namespace: str
    owner: CSharpType | None


class Instance(NamedTuple):
    """An object of a type of the folder."""

    of: CSharpType
    args: tuple[TypeRef, ...] = ()
    """Generic arguments."""
    place: Place | None = None
    """Where these are written."""


class Library(NamedTuple):
    """An object of a type of a library or of the language."""

    ref: TypeRef
    place: Place


class Named(NamedTuple):
    """A type itself, in the place of an object."""

    of: CSharpType


class Space(NamedTuple):
    """A namespace."""

    name: str


Value: TypeAlias = Instance | Library | Named | Space | Literal["external", "ambiguous", "unknown"]


class CSharpProject:
    """All types of a folder by name.

    Args:
        types: By full name; of several of one name that of the same project is meant, else it is not known.
        files: All files.
    """

    def __init__(self, types: Mapping[str, list[CSharpType]], files: Iterable[CSharpFile]) -> None:
        self._types = types
        self.types = [one for several in types.values() for one in several]
        self._spaces = {
            ".".join(parts[:count])
            for parts in {tuple(name.split(".")) for name in types}
            for count in range(1, len(parts))
        }
        self._global: dict[str, list[str]] = defaultdict(list)
        for file in files:
            self._global[file.project] += file.global_usings
        self._extensions: dict[str, list[CSharpMember]] = defaultdict(list)
        for one in self.types:
            for name, members in one.members.items():
                self._extensions[name] += [each for each in members if each.is_extension]
        self._lines: dict[str, tuple[list[CSharpType], bool]] = {}

    def type_of(self, ref: TypeRef, place: Place) -> CSharpType | Literal["ambiguous"] | None:
        """Give the type of the folder that a written type means; None when it is none."""
        alias = place.file.aliases.get(ref.name)
        if alias is not None and alias != ref:
            return self.type_of(alias, place)
        name = f"{ref.name}`{len(ref.args)}" if ref.args and ref.name != "[]" else ref.name
        for full in self._candidates(name.removeprefix("global::"), place):
            several = self._types.get(full)
            if several:
                same = [one for one in several if one.parts[0].file.project == place.file.project]
                chosen = several if len(several) == 1 else same
                return chosen[0] if len(chosen) == 1 else "ambiguous"
        return self._of_usings(name, place)

    def _candidates(self, name: str, place: Place) -> Iterator[str]:
        """Yield the full names a name may mean in the order in which they count, but for those of usings."""
        owner = place.owner
        while owner is not None:
            for one in self.line_of(owner)[0]:
                yield f"{one.full_name}.{name}"
            owner = owner.owner
        parts = place.namespace.split(".") if place.namespace else []
        for count in range(len(parts), -1, -1):
            yield ".".join((*parts[:count], name))

    def _of_usings(self, name: str, place: Place) -> CSharpType | Literal["ambiguous"] | None:
        file = place.file
        found = {
            one.id: one
            for using in (*file.usings, *self._global[file.project])
            for full in self._candidates_of_using(using, name, place)
            for one in self._types.get(full, ())
        }
        if len(found) > 1:
            same = [one for one in found.values() if one.parts[0].file.project == file.project]
            return same[0] if len(same) == 1 else "ambiguous"
        return next(iter(found.values()), None)

    @staticmethod
    def _candidates_of_using(using: str, name: str, place: Place) -> Iterator[str]:
        yield f"{using}.{name}"
        # Inside a namespace a using may be written relative to it.
        parts = place.namespace.split(".") if place.namespace else []
        for count in range(len(parts), 0, -1):
            yield ".".join((*parts[:count], using, name))

    def line_of(self, owner: CSharpType) -> tuple[list[CSharpType], bool]:
        """Give a type and what it inherits from, nearest first; True when all of that is of the folder."""
        known = self._lines.get(owner.id)
        if known is not None:
            return known
        self._lines[owner.id] = ([owner], True)
        line, whole = [owner], True
        for part, _, ref in owner.bases():
            base = self.type_of(ref, Place(part.file, part.namespace, owner.owner))
            if isinstance(base, CSharpType):
                above, is_whole = self.line_of(base)
                line += [one for one in above if one not in line]
                whole = whole and is_whole
            else:
                whole = False
        self._lines[owner.id] = (line, whole)
        return self._lines[owner.id]

    def value_of(self, ref: TypeRef | None, place: Place) -> Value:
        """Give an object of a written type."""
        if ref is None or ref.name == "?":
            return "unknown"
        found = self.type_of(ref, place)
        if found == "ambiguous":
            return "ambiguous"
        if found is None:
            return Library(ref, place)
        return Instance(found, ref.args, place)

    def space(self, name: str) -> Space | None:
        """Give a namespace by its full name."""
        return Space(name) if name in self._spaces else None

    def named(self, full_name: str) -> CSharpType | None:
        """Give the type with a full name when there is exactly one."""
        several = self._types.get(full_name, [])
        return several[0] if len(several) == 1 else None

    def extensions(self, name: str) -> list[CSharpMember]:
        """Give the extension methods of a name."""
        return self._extensions.get(name, [])

    def field(self, value: Instance | Named, name: str) -> Value | None:
        """Give the value of a field or property; None when there is none of the name."""
        args = value.args if isinstance(value, Instance) else ()
        for one in self.line_of(value.of)[0]:
            if name not in one.fields:
                continue
            part = one.parts[0]
            place = Place(part.file, part.namespace, one)
            ref = _substituted(one.fields[name], one.type_parameters, args)
            outer = value.place if isinstance(value, Instance) and ref in args else None
            return self.value_of(ref, outer or place)
        return None

    def returned(self, member: CSharpMember, receiver: Value) -> Value:
        """Give what a call of a method gives."""
        part = member.parts[0]
        place = Place(part.file, part.namespace, member.owner)
        args = receiver.args if isinstance(receiver, Instance) else ()
        if member.returns is not None and member.returns.name in member.type_parameters:
            return "unknown"
        ref = _substituted(member.returns, member.owner.type_parameters, args)
        if ref is not None and ref in args and isinstance(receiver, Instance) and receiver.place:
            place = receiver.place
        return self.value_of(ref, place)

    def fits(self, ref: TypeRef | None, place: Place, value: Value) -> bool:
        """Tell whether an argument may be given for a parameter; only what surely cannot may not."""
        if ref is None or ref.name in ("object", "dynamic"):
            return True
        wanted = self.type_of(ref, place)
        if isinstance(value, Instance):
            if isinstance(wanted, CSharpType):
                return wanted in self.line_of(value.of)[0] or value.of in self.line_of(wanted)[0]
            return ref.name not in _PREDEFINED
        if isinstance(value, Library):
            have = value.ref.name
            if have in _PREDEFINED and isinstance(wanted, CSharpType):
                return False
            if have in _PREDEFINED and ref.name in _PREDEFINED:
                return have == ref.name or (have in _NUMBERS and ref.name in _NUMBERS)
        return True


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
        self._types: dict[str, list[TypeRef | Node | None]] = defaultdict(list)
        #: Names bound by `foreach`, to what is gone through.
        self._elements: dict[str, Node] = {}
        self.functions: set[str] = set()
        self._open: set[str] = set()
        self._steps = 0
        for name, ref in parameters:
            self._types[name].append(ref)
        for node in code:
            self._read(node)

    def is_local(self, name: str) -> bool:
        """Tell whether a name is a parameter or variable."""
        return name in self._types or name in self._elements

    def of_type(self, ref: TypeRef | None) -> Value:
        """Give an object of a type as it is written here."""
        if ref is not None and ref.name in self._type_parameters:
            return "unknown"
        return self.project.value_of(ref, self.place)

    def value(self, node: Node | None, depth: int = 0) -> Value:
        """Give what an expression stands for."""
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
        if kind == "conditional_access_expression":
            return self._conditional(node, depth)
        if kind == "invocation_expression":
            return self._invoked(node, depth)
        if kind in ("object_creation_expression", "cast_expression", "as_expression"):
            named = node.child_by_field_name("type") or node.child_by_field_name("right")
            return self.of_type(type_ref(named))
        if kind == "predefined_type":
            return Library(TypeRef(words(node)), self.place)
        return self._other(node, depth)

    def call(self, node: Node, depth: int = 0) -> tuple[list[CSharpMember], Value]:
        """Give the methods an invocation may be of and the object they are called on.

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

    def arguments(self, node: Node | None, depth: int = 0) -> list[Value]:
        """Give the values of arguments."""
        if node is None:
            return []
        return [
            self.value(child.named_children[-1], depth + 1) if child.named_children else "unknown"
            for child in node.named_children
            if child.type == "argument"
        ]

    def methods(self, receiver: Value, name: str, arguments: list[Value]) -> list[CSharpMember]:
        """Give the methods of an object, nearest type first, that the arguments fit; else extensions."""
        if isinstance(receiver, Instance | Named):
            for one in self.project.line_of(receiver.of)[0]:
                named = [m for m in one.members.get(name, ()) if m.kind == "Method"]
                found = [member for member in named if self.accepts(member, arguments)]
                if found:
                    return found
        if isinstance(receiver, Instance | Library):
            return [
                member
                for member in self.project.extensions(name)
                if self.accepts(member, [receiver, *arguments]) and self._extends(member, receiver)
            ]
        return []

    def accepts(self, member: CSharpMember, arguments: list[Value]) -> bool:
        """Tell whether a method may be called with these arguments."""
        parameters = member.parameters
        needed = sum(not each.is_optional and not each.is_rest for each in parameters)
        is_open = bool(parameters) and parameters[-1].is_rest
        if len(arguments) < needed or (len(arguments) > len(parameters) and not is_open):
            return False
        part = member.parts[0]
        place = Place(part.file, part.namespace, member.owner)
        generic = {*member.type_parameters, *member.owner.type_parameters}
        return all(
            parameter.is_rest
            or (parameter.type is not None and parameter.type.name in generic)
            or self.project.fits(parameter.type, place, value)
            for parameter, value in zip(parameters, arguments, strict=False)
        )

    def _extends(self, member: CSharpMember, receiver: Instance | Library) -> bool:
        """Tell whether an extension method is of this type, or of all types."""
        wanted = member.parameters[0].type if member.parameters else None
        if wanted is None or wanted.name in member.type_parameters:
            return True
        part = member.parts[0]
        found = self.project.type_of(wanted, Place(part.file, part.namespace, member.owner))
        if isinstance(receiver, Instance):
            return isinstance(found, CSharpType) and found in self.project.line_of(receiver.of)[0]
        return (
            found is None and wanted.name.rpartition(".")[2] == receiver.ref.name.rpartition(".")[2]
        )

    def _bare(self, node: Node, arguments: list[Value]) -> tuple[list[CSharpMember], Value]:
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
        if name == "nameof" or self.is_local(name):
            return [], "external" if name == "nameof" else "unknown"
        outside = self.place.owner is not None and not self.project.line_of(self.place.owner)[1]
        return [], "external" if outside else "unknown"

    def _invoked(self, node: Node, depth: int) -> Value:
        methods, receiver = self.call(node, depth + 1)
        values = {self.project.returned(method, receiver) for method in methods}
        return values.pop() if len(values) == 1 else "unknown"

    def _name(self, node: Node) -> Value:
        name = _plain_name(node)
        if self.is_local(name):
            return self._local(name)
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
        # A capital begins the name of a type of a library, unless it may be inherited.
        is_type = name[:1].isupper() and not inherits
        return "external" if is_type else "unknown"

    def _local(self, name: str) -> Value:
        self._steps += 1
        if name in self._open or self._steps > _MOST_STEPS:
            return "unknown"
        self._open.add(name)
        try:
            if name in self._elements:
                return self._element(self.value(self._elements[name]))
            values = {
                self.value(each) if not isinstance(each, TypeRef | None) else self.of_type(each)
                for each in self._types[name]
            }
            return values.pop() if len(values) == 1 else "unknown"
        finally:
            self._open.discard(name)

    def _element(self, value: Value) -> Value:
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
            return "external"
        return receiver

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
        if kind == "await_expression" and inner:
            return self._awaited(inner[0], depth)
        if kind in ("parenthesized_expression", "postfix_unary_expression") and inner:
            return self.value(inner[0], depth + 1)
        if kind == "element_access_expression":
            value = self.value(node.child_by_field_name("expression"), depth + 1)
            if isinstance(value, Library) and value.ref.args:
                return self.project.value_of(value.ref.args[-1], value.place)
            return "unknown"
        if kind == "binary_expression" and any(child.type == "??" for child in node.children):
            return self.value(node.child_by_field_name("left"), depth + 1)
        return "unknown"

    def _awaited(self, node: Node, depth: int) -> Value:
        """Give what awaiting gives; `x.ConfigureAwait(false)` awaits what x does."""
        value = self.value(node, depth + 1)
        if isinstance(value, Library) and value.ref.name.rpartition(".")[2] in _AWAITED:
            return self._element(value)
        function = node.child_by_field_name("function")
        name = function.child_by_field_name("name") if function is not None else None
        if function is None or words(name) != "ConfigureAwait":
            return "unknown"
        value = self.value(function.child_by_field_name("expression"), depth + 1)
        return self._element(value) if isinstance(value, Library) else "unknown"

    def _read(self, node: Node) -> None:
        """Take the names that code declares; those of functions inside it count as its own."""
        pending = [node]
        while pending:
            at = pending.pop()
            self._declare(at)
            pending.extend(at.named_children)

    def _declare(self, node: Node) -> None:
        kind = node.type
        if kind == "variable_declaration":
            self._declare_variables(node)
        elif kind == "foreach_statement":
            self._declare_element(node)
        elif kind in _DECLARING:
            name = words(node.child_by_field_name("name"))
            if name:
                self._types[name].append(type_ref(node.child_by_field_name("type")))
        elif kind == "lambda_expression":
            only = node.child_by_field_name("parameters")
            if only is not None and only.type in ("identifier", "implicit_parameter"):
                self._types[words(only)].append(None)
        elif kind == "local_function_statement":
            self.functions.add(words(node.child_by_field_name("name")))

    def _declare_variables(self, node: Node) -> None:
        declared = node.child_by_field_name("type")
        is_open = declared is None or declared.type == "implicit_type"
        ref = None if is_open else type_ref(declared)
        for child in node.named_children:
            if child.type == "variable_declarator":
                value = child.named_children[-1] if len(child.named_children) > 1 else None
                self._types[words(child.child_by_field_name("name"))].append(ref or value)

    def _declare_element(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        declared = node.child_by_field_name("type")
        if left is None or left.type != "identifier" or right is None:
            return
        if declared is not None and declared.type != "implicit_type":
            self._types[words(left)].append(type_ref(declared))
        else:
            self._elements[words(left)] = right


def _substituted(
    ref: TypeRef | None, names: tuple[str, ...], args: tuple[TypeRef, ...]
) -> TypeRef | None:
    """Put the generic arguments in the place of the type parameters."""
    if ref is None or not args or len(args) != len(names):
        return TypeRef("?") if ref is not None and ref.name in names else ref
    known = dict(zip(names, args, strict=True))
    if ref.name in known:
        return known[ref.name]
    return TypeRef(ref.name, tuple(_substituted(each, names, args) or each for each in ref.args))


def _plain_name(node: Node | None) -> str:
    """Give a name without generic arguments."""
    if node is not None and node.type == "generic_name":
        node = node.named_children[0]
    return words(node)
