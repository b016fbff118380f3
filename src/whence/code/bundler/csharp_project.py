"""Look up the types of a C# folder by name, their members, and the values these have.

Type names are looked up by the rules of the language: in the enclosing types, in the enclosing namespaces from
the inside out, and in the usings of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from whence.code.bundler.csharp_types import (
    CSharpFile,
    CSharpMember,
    CSharpType,
    NameContext,
    TypeRef,
    last_part,
)

#: Numeric types; conversion distance is the distance in this order.
NUMBERS = (
    "sbyte", "byte", "short", "ushort", "int", "uint", "nint", "nuint", "long", "ulong", "float",
    "double", "decimal",
)  # fmt: skip
#: Type name of a lambda, which converts to any delegate.
LAMBDA_TYPE = "=>"
#: Base types that a declaration does not name.
_IMPLICIT_BASES = frozenset({"ValueType", "Enum", "Delegate", "MulticastDelegate", "IEquatable"})
PREDEFINED = frozenset(NUMBERS) | {"string", "bool", "char", "object", "void", "dynamic"}


class Instance(NamedTuple):
    """An instance of a type of the folder."""

    of: CSharpType
    args: tuple[TypeRef, ...] = ()
    context: NameContext | None = None
    """Where the arguments are written."""


class ExternalInstance(NamedTuple):
    """An instance of a type of a library or of the language."""

    ref: TypeRef
    context: NameContext


class TypeValue(NamedTuple):
    """A type used as a value, as in `Type.Member`."""

    of: CSharpType


class NamespaceValue(NamedTuple):
    """A namespace."""

    name: str


#: Value of an expression. `external`: of a library; `ambiguous`: of one of several types of the folder.
Value: TypeAlias = (
    Instance
    | ExternalInstance
    | TypeValue
    | NamespaceValue
    | Literal["external", "ambiguous", "unknown"]
)
#: A type of the folder, `ambiguous` if several match, None if none does.
TypeLookup: TypeAlias = CSharpType | Literal["ambiguous"] | None


class CSharpProject:
    """All types of a folder by name.

    Args:
        types: By full name; of several types of one name that of the same project is used, else none.
        files: All files.
    """

    def __init__(self, types: Mapping[str, list[CSharpType]], files: Iterable[CSharpFile]) -> None:
        self._types = types
        self.types = [one for several in types.values() for one in several]
        self._namespaces = {
            ".".join(parts[:count])
            for parts in {tuple(name.split(".")) for name in types}
            for count in range(1, len(parts))
        }
        self._global_usings: dict[str, list[str]] = defaultdict(list)
        for file in files:
            self._global_usings[file.project] += file.global_usings
        self._extensions: dict[str, list[CSharpMember]] = defaultdict(list)
        for one in self.types:
            for name, members in one.members.items():
                self._extensions[name] += [each for each in members if each.is_extension]
        self._hierarchies: dict[str, tuple[list[CSharpType], bool]] = {}

    def type_of(self, ref: TypeRef, context: NameContext) -> TypeLookup:
        """Return the type that a type reference names."""
        alias = context.file.aliases.get(ref.name)
        if alias is not None and alias != ref:
            return self.type_of(alias, context)
        name = f"{ref.name}`{len(ref.args)}" if ref.args and ref.name != "[]" else ref.name
        for full in self._candidates(name.removeprefix("global::"), context):
            several = self._types.get(full)
            if several:
                same = [one for one in several if one.project == context.file.project]
                chosen = several if len(several) == 1 else same
                return chosen[0] if len(chosen) == 1 else "ambiguous"
        return self._from_usings(name, context)

    def _candidates(self, name: str, context: NameContext) -> Iterator[str]:
        """Yield the full names that a name may have, in order of precedence, without usings."""
        for owner in context.owners():
            for one in self.type_and_bases(owner)[0]:
                yield f"{one.full_name}.{name}"
        yield from context.full_names(name)

    def _from_usings(self, name: str, context: NameContext) -> TypeLookup:
        file = context.file
        found = {
            one.id: one
            for using in (*file.usings, *self._global_usings[file.project])
            # A using inside a namespace may be relative to it.
            for full in context.full_names(f"{using}.{name}")
            for one in self._types.get(full, ())
        }
        if len(found) > 1:
            same = [one for one in found.values() if one.project == file.project]
            return same[0] if len(same) == 1 else "ambiguous"
        return next(iter(found.values()), None)

    def type_and_bases(self, owner: CSharpType) -> tuple[list[CSharpType], bool]:
        """Return a type and its bases, nearest first, and whether all of them are defined in the folder."""
        if owner.id in self._hierarchies:
            return self._hierarchies[owner.id]
        self._hierarchies[owner.id] = ([owner], True)
        types, is_complete = [owner], True
        for part, _, ref in owner.bases():
            base = self.type_of(ref, part.context)
            if isinstance(base, CSharpType):
                inherited, is_base_complete = self.type_and_bases(base)
                types += [one for one in inherited if one not in types]
                is_complete = is_complete and is_base_complete
            else:
                is_complete = False
        self._hierarchies[owner.id] = (types, is_complete)
        return self._hierarchies[owner.id]

    def instance_of(self, ref: TypeRef | None, context: NameContext) -> Value:
        """Return an instance of a type reference."""
        if ref is None or ref.name == "?":
            return "unknown"
        found = self.type_of(ref, context)
        if isinstance(found, CSharpType):
            return Instance(found, ref.args, context)
        return found or ExternalInstance(ref, context)

    def namespace(self, name: str) -> NamespaceValue | None:
        """Return a namespace by its full name."""
        return NamespaceValue(name) if name in self._namespaces else None

    def type_named(self, full_name: str) -> CSharpType | None:
        """Return the type with a full name if there is exactly one."""
        several = self._types.get(full_name, [])
        return several[0] if len(several) == 1 else None

    def extensions(self, name: str) -> list[CSharpMember]:
        """Return the extension methods of a name."""
        return self._extensions.get(name, [])

    def field(self, value: Instance | TypeValue, name: str) -> Value | None:
        """Return the value of a field or property; None if it does not exist."""
        for one in self.type_and_bases(value.of)[0]:
            if name in one.fields:
                context = one.parts[0].context._replace(owner=one)
                return self._with_arguments(one.fields[name], context, self.as_base(value, one))
        return None

    def return_value(self, member: CSharpMember, receiver: Value) -> Value:
        """Return the result of a call."""
        if member.returns is not None and member.returns.name in member.type_parameters:
            return "unknown"
        if not isinstance(receiver, Instance | TypeValue):
            return self.instance_of(member.returns, member.context)
        as_owner = self.as_base(receiver, member.owner)
        return self._with_arguments(member.returns, member.context, as_owner)

    def as_base(
        self,
        value: Instance | TypeValue,
        base_type: CSharpType,
        passed: tuple[CSharpType, ...] = (),
    ) -> Instance:
        """Return an object as an instance of a base type, with the generic arguments of that type."""
        args = value.args if isinstance(value, Instance) else ()
        outer = value.context if isinstance(value, Instance) else None
        if value.of is base_type:
            return Instance(base_type, args, outer)
        for part, _, ref in value.of.bases():
            base = self.type_of(ref, part.context)
            if not isinstance(base, CSharpType) or base in passed:
                continue
            if base_type in self.type_and_bases(base)[0]:
                given = tuple(
                    _substituted(each, value.of.type_parameters, args) or each for each in ref.args
                )
                nearer = part.context if given == ref.args else outer or part.context
                return self.as_base(Instance(base, given, nearer), base_type, (*passed, value.of))
        return Instance(base_type)

    def _with_arguments(self, ref: TypeRef | None, context: NameContext, seen: Instance) -> Value:
        """Return an instance of a type reference that may use the type parameters of another type."""
        filled = _substituted(ref, seen.of.type_parameters, seen.args)
        # A type argument is looked up where it is written.
        is_given = filled != ref and seen.context is not None
        return self.instance_of(filled, seen.context if is_given and seen.context else context)

    def overridden_members(self, member: CSharpMember) -> Iterator[CSharpMember]:
        """Yield the members that a member overrides or implements."""
        own = Instance(member.owner)
        for above in self.type_and_bases(member.owner)[0][1:]:
            if not (member.may_implement(above) if above.is_interface else member.is_override):
                continue
            args = self.as_base(own, above).args
            for other in above.members.get(member.name, ()):
                wanted = [
                    _substituted(each.type, above.type_parameters, args)
                    for each in other.parameters
                ]
                if other.kind == member.kind and wanted == [p.type for p in member.parameters]:
                    yield other

    def accepts_argument(self, ref: TypeRef | None, context: NameContext, value: Value) -> bool:
        """Return False if an argument certainly cannot be passed for a parameter."""
        if ref is None or ref.name in ("object", "dynamic"):
            return True
        wanted = self.type_of(ref, context)
        return self._is_assignable(ref, wanted, value) or self._converts(ref, wanted, value)

    def _is_assignable(self, ref: TypeRef, wanted: TypeLookup, value: Value) -> bool:
        if isinstance(value, Instance):
            if isinstance(wanted, CSharpType):
                return (
                    wanted in self.type_and_bases(value.of)[0]
                    or value.of in self.type_and_bases(wanted)[0]
                )
            # It may inherit from a library type.
            return not self.type_and_bases(value.of)[1] or last_part(ref.name) in _IMPLICIT_BASES
        if isinstance(value, ExternalInstance):
            have = value.ref.name
            if have == LAMBDA_TYPE:
                return ref.name not in PREDEFINED
            if have in PREDEFINED and isinstance(wanted, CSharpType):
                return False
            if have in PREDEFINED and ref.name in PREDEFINED:
                return have == ref.name or (have in NUMBERS and ref.name in NUMBERS)
        return True

    def _converts(self, ref: TypeRef, wanted: TypeLookup, value: Value) -> bool:
        """Return whether one of the two types has an implicit conversion to the parameter type."""
        declaring = list(self.type_and_bases(value.of)[0]) if isinstance(value, Instance) else []
        declaring += [wanted] if isinstance(wanted, CSharpType) else []
        for operator in (each for one in declaring for each in one.conversions):
            given, taken = operator.returns, operator.parameters[0].type
            if given is None or taken is None:
                continue
            made = self.type_of(given, operator.context)
            is_made = made is wanted if wanted is not None else given.name == ref.name
            accepted = self.type_of(taken, operator.context)
            if is_made and self._is_assignable(taken, accepted, value):
                return True
        return False


def _substituted(
    ref: TypeRef | None, names: tuple[str, ...], args: tuple[TypeRef, ...]
) -> TypeRef | None:
    if ref is None or not args or len(args) != len(names):
        return TypeRef("?") if ref is not None and ref.name in names else ref
    known = dict(zip(names, args, strict=True))
    if ref.name in known:
        return known[ref.name]
    return TypeRef(ref.name, tuple(_substituted(each, names, args) or each for each in ref.args))
