"""The types of a C# folder by name, and what objects of them have.

Names of types are looked up as the language does: in the types around, the namespaces around from the inside
out, and what the file is using.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from whence.bundler.csharp_types import CSharpFile, CSharpMember, CSharpType, TypeRef

__all__ = (
    "FUNCTION",
    "NUMBERS",
    "PREDEFINED",
    "CSharpProject",
    "Instance",
    "Library",
    "Named",
    "Place",
    "Space",
    "Value",
    "place_of",
)

#: Numbers in the order in which one is taken for the other.
NUMBERS = (
    "sbyte", "byte", "short", "ushort", "int", "uint", "nint", "nuint", "long", "ulong", "float",
    "double", "decimal",
)  # fmt: skip
#: Stands for the type of a lambda, which may be any delegate.
FUNCTION = "=>"
#: What types are without writing that they inherit from it.
_ABOVE_ALL = frozenset({"ValueType", "Enum", "Delegate", "MulticastDelegate", "IEquatable"})
PREDEFINED = frozenset(NUMBERS) | {"string", "bool", "char", "object", "void", "dynamic"}


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
        """Return the type of the folder that a written type means; None when it is none."""
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
        """Return a type and what it inherits from, nearest first; True when all of that is of the folder."""
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
        """Return an object of a written type."""
        if ref is None or ref.name == "?":
            return "unknown"
        found = self.type_of(ref, place)
        if found == "ambiguous":
            return "ambiguous"
        if found is None:
            return Library(ref, place)
        return Instance(found, ref.args, place)

    def space(self, name: str) -> Space | None:
        """Return a namespace by its full name."""
        return Space(name) if name in self._spaces else None

    def named(self, full_name: str) -> CSharpType | None:
        """Return the type with a full name when there is exactly one."""
        several = self._types.get(full_name, [])
        return several[0] if len(several) == 1 else None

    def extensions(self, name: str) -> list[CSharpMember]:
        """Return the extension methods of a name."""
        return self._extensions.get(name, [])

    def field(self, value: Instance | Named, name: str) -> Value | None:
        """Return the value of a field or property; None when there is none of the name."""
        for one in self.line_of(value.of)[0]:
            if name not in one.fields:
                continue
            part = one.parts[0]
            place = Place(part.file, part.namespace, one)
            return self._filled(one.fields[name], place, self.seen_as(value, one))
        return None

    def returned(self, member: CSharpMember, receiver: Value) -> Value:
        """Return what a call of a method gives."""
        if member.returns is not None and member.returns.name in member.type_parameters:
            return "unknown"
        if not isinstance(receiver, Instance | Named):
            return self.value_of(member.returns, place_of(member))
        return self._filled(member.returns, place_of(member), self.seen_as(receiver, member.owner))

    def seen_as(
        self, value: Instance | Named, above: CSharpType, passed: tuple[CSharpType, ...] = ()
    ) -> Instance:
        """Return an object as one of a type that it inherits from, with the generic arguments of that.

        Args:
            value: The object.
            above: The type.
            passed: Types on the way here; broken code may inherit in a circle.
        """
        args = value.args if isinstance(value, Instance) else ()
        outer = value.place if isinstance(value, Instance) else None
        if value.of is above:
            return Instance(above, args, outer)
        for part, _, ref in value.of.bases():
            place = Place(part.file, part.namespace, value.of.owner)
            base = self.type_of(ref, place)
            if not isinstance(base, CSharpType) or base in passed:
                continue
            if above in self.line_of(base)[0]:
                given = tuple(
                    _substituted(each, value.of.type_parameters, args) or each for each in ref.args
                )
                nearer = place if given == ref.args else outer or place
                return self.seen_as(Instance(base, given, nearer), above, (*passed, value.of))
        return Instance(above)

    def _filled(self, ref: TypeRef | None, place: Place, seen: Instance) -> Value:
        """Return an object of a type that is written with the type parameters of another."""
        filled = _substituted(ref, seen.of.type_parameters, seen.args)
        # What takes the place of a parameter means what it means where it is written.
        is_given = filled != ref and seen.place is not None
        return self.value_of(filled, seen.place if is_given and seen.place else place)

    def replaces(self, member: CSharpMember) -> Iterator[CSharpMember]:
        """Yield the members that one takes the place of: overridden ones, and those of interfaces."""
        own = Instance(member.owner)
        for above in self.line_of(member.owner)[0][1:]:
            is_interface = above.parts[0].node.type == "interface_declaration"
            if not (member.may_implement(above) if is_interface else member.is_override):
                continue
            args = self.seen_as(own, above).args
            for other in above.members.get(member.name, ()):
                wanted = [
                    _substituted(each.type, above.type_parameters, args)
                    for each in other.parameters
                ]
                if other.kind == member.kind and wanted == [p.type for p in member.parameters]:
                    yield other

    def fits(self, ref: TypeRef | None, place: Place, value: Value) -> bool:
        """Return whether an argument may be given for a parameter; only what surely cannot may not."""
        if ref is None or ref.name in ("object", "dynamic"):
            return True
        wanted = self.type_of(ref, place)
        return self._is_like(ref, wanted, value) or self._converts(ref, wanted, value)

    def _is_like(
        self, ref: TypeRef, wanted: CSharpType | Literal["ambiguous"] | None, value: Value
    ) -> bool:
        if isinstance(value, Instance):
            if isinstance(wanted, CSharpType):
                return wanted in self.line_of(value.of)[0] or value.of in self.line_of(wanted)[0]
            # Of a library's types it may be what it inherits from them.
            return not self.line_of(value.of)[1] or ref.name.rpartition(".")[2] in _ABOVE_ALL
        if isinstance(value, Library):
            have = value.ref.name
            if have == FUNCTION:
                return ref.name not in PREDEFINED
            if have in PREDEFINED and isinstance(wanted, CSharpType):
                return False
            if have in PREDEFINED and ref.name in PREDEFINED:
                return have == ref.name or (have in NUMBERS and ref.name in NUMBERS)
        return True

    def _converts(
        self, ref: TypeRef, wanted: CSharpType | Literal["ambiguous"] | None, value: Value
    ) -> bool:
        """Return whether one of the two types has an operator that makes the one of the other."""
        holders = list(self.line_of(value.of)[0]) if isinstance(value, Instance) else []
        holders += [wanted] if isinstance(wanted, CSharpType) else []
        for operator in (each for one in holders for each in one.conversions):
            place = place_of(operator)
            given, taken = operator.returns, operator.parameters[0].type
            if given is None or taken is None:
                continue
            made = self.type_of(given, place)
            is_made = made is wanted if wanted is not None else given.name == ref.name
            if is_made and self._is_like(taken, self.type_of(taken, place), value):
                return True
        return False


def place_of(member: CSharpMember) -> Place:
    """Return where the types of a method are written."""
    part = member.parts[0]
    return Place(part.file, part.namespace, member.owner)


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
