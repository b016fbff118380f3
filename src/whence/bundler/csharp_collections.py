"""What the elements, members and methods of library collections, dictionaries and tasks are in C#."""

from __future__ import annotations

from collections.abc import Container

from whence.bundler.csharp_project import CSharpProject, ExternalInstance, Value
from whence.bundler.csharp_types import TypeRef


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


def last_part(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]


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
