"""Resolve C# names and member accesses by the rules of the language, local variables excluded."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from whence.bundler.csharp_methods import Argument, find_methods
from whence.bundler.csharp_project import (
    CSharpProject,
    ExternalInstance,
    Instance,
    NameContext,
    NamespaceValue,
    TypeValue,
    Value,
)
from whence.bundler.csharp_types import CSharpMember, CSharpType, TypeRef, last_part


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


class CollectionTypes:
    """Types of what library collections contain."""

    def __init__(self, project: CSharpProject, type_parameters: Container[str]) -> None:
        self._project = project
        self._type_parameters = type_parameters

    def element(self, value: Value) -> Value:
        """Return an element of a collection, or the result of a task."""
        if isinstance(value, ExternalInstance) and value.ref.name.endswith("Dictionary"):
            return ExternalInstance(TypeRef("KeyValuePair", value.ref.args), value.context)
        if isinstance(value, ExternalInstance) and len(value.ref.args) == 1:
            ref = value.ref.args[0]
            if ref.name not in self._type_parameters:
                return self._project.instance_of(ref, value.context)
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
            return self._project.instance_of(args[name == "Value"], receiver.context)
        if name in ("Keys", "Values"):
            ref = TypeRef("IEnumerable", (args[name == "Values"],))
            return ExternalInstance(ref, receiver.context)
        return "external"

    def out_value(self, receiver: ExternalInstance) -> Value:
        """Return what a method such as `TryGetValue` assigns to its `out` parameter."""
        args = receiver.ref.args
        return self._project.instance_of(args[-1], receiver.context) if args else "unknown"


#: Methods that every object has.
OBJECT_METHODS = frozenset({"Equals", "GetHashCode", "GetType", "ToString", "ReferenceEquals"})


class NameResolver:
    """Resolves names in one type or file."""

    def __init__(
        self, project: CSharpProject, context: NameContext, collections: CollectionTypes
    ) -> None:
        self._project = project
        self._context = context
        self._collections = collections

    def owners(self) -> Iterator[CSharpType]:
        """Yield the enclosing types, the innermost first."""
        owner = self._context.owner
        while owner is not None:
            yield owner
            owner = owner.owner

    def base(self) -> Value:
        """Return `base`: an instance of the nearest base class."""
        if self._context.owner is None:
            return "unknown"
        types, is_complete = self._project.type_and_bases(self._context.owner)
        for one in types[1:]:
            if not one.is_interface:
                return Instance(one)
        return "unknown" if is_complete else "external"

    def name(self, name: str, ref: TypeRef | None) -> Value:
        """Return a field, property, type or namespace."""
        for owner in self.owners():
            found = self._project.field(Instance(owner), name)
            if found is not None:
                return found
        named = self._project.type_of(ref, self._context) if ref else None
        if isinstance(named, CSharpType):
            return TypeValue(named)
        if named == "ambiguous":
            return "ambiguous"
        namespace = self._project.namespace(name)
        if namespace is not None:
            return namespace
        # A capital begins the name of a library type; other names may be inherited from a library.
        is_external = self._has_external_base() or name[:1].isupper()
        return "external" if is_external else "unknown"

    def member(self, receiver: Value, name: str) -> Value:
        """Return a member of a namespace, type or object."""
        if isinstance(receiver, NamespaceValue):
            full = f"{receiver.name}.{name}"
            named = self._project.type_named(full)
            return TypeValue(named) if named else self._project.namespace(full) or "external"
        if isinstance(receiver, Instance | TypeValue):
            found = self._project.field(receiver, name)
            if found is not None:
                return found
            inner = self._project.type_named(f"{receiver.of.full_name}.{name}")
            if inner is not None and isinstance(receiver, TypeValue):
                return TypeValue(inner)
            if receiver.of.parts[0].node.type == "enum_declaration":
                return Instance(receiver.of)
            return "unknown" if self._project.type_and_bases(receiver.of)[1] else "external"
        if isinstance(receiver, ExternalInstance):
            return self._collections.member(receiver, name)
        return receiver

    def unqualified_call(
        self, name: str, arguments: Sequence[Argument], *, is_local: bool
    ) -> tuple[list[CSharpMember], Value]:
        """Return the methods that a call without a receiver may invoke, and the implied receiver."""
        for owner in self.owners():
            found = find_methods(self._project, TypeValue(owner), name, arguments)
            if found:
                return found, Instance(owner)
        for ref in self._context.file.static_usings:
            one = self._project.type_of(ref, self._context)
            if isinstance(one, CSharpType):
                found = find_methods(self._project, TypeValue(one), name, arguments)
                if found:
                    return found, "unknown"
        if is_local:
            return [], "unknown"
        is_external = name == "nameof" or name in OBJECT_METHODS or self._has_external_base()
        return [], "external" if is_external else "unknown"

    def _has_external_base(self) -> bool:
        owner = self._context.owner
        return owner is not None and not self._project.type_and_bases(owner)[1]
