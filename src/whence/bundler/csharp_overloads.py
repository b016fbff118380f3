"""Which of several C# methods of one name a call is of.

The rules are those of the language as far as the types of the arguments are known: what cannot be called is
left out, and of the rest that one is meant whose parameters are nearer at one argument and farther at none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whence.bundler.csharp_project import (
    NUMBERS,
    CSharpProject,
    Instance,
    Library,
    Value,
    place_of,
)
from whence.bundler.csharp_types import CSharpMember, CSharpType, Parameter, TypeRef

__all__ = ("Argument", "accepts", "closest", "takes")

#: Steps to what is not inherited: by a conversion of the types' own, and to `object`.
_CONVERTED = 1000
_OBJECT = 2000


class Argument(NamedTuple):
    """What is given to a method."""

    value: Value
    name: str = ""
    """Of the parameter, where it is told."""


def takes(member: CSharpMember, arguments: Sequence[Argument]) -> bool:
    """Return whether a method has parameters for these arguments, whatever their types."""
    return _bound(member, arguments) is not None


def accepts(project: CSharpProject, member: CSharpMember, arguments: Sequence[Argument]) -> bool:
    """Return whether a method may be called with these arguments; only what surely may not is left out."""
    bound = _bound(member, arguments)
    place = place_of(member)
    generic = _generic(member)
    return bound is not None and all(
        parameter.is_rest
        or (parameter.type is not None and parameter.type.name in generic)
        or project.fits(parameter.type, place, argument.value)
        for parameter, argument in zip(bound, arguments, strict=True)
    )


def closest(
    project: CSharpProject, members: Sequence[CSharpMember], arguments: Sequence[Argument]
) -> list[CSharpMember]:
    """Return the one that is meant among methods that accept the arguments; all where that is not sure.

    Cost grows with the square of the methods.
    """
    for one in members:
        if all(one is other or _is_better(project, one, other, arguments) for other in members):
            return [one]
    return list(members)


def _bound(member: CSharpMember, arguments: Sequence[Argument]) -> list[Parameter] | None:
    """Return the parameter of each argument; None when there is not one for each, or one is missing."""
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
        elif parameters and parameters[-1].is_rest:
            found.append(parameters[-1])
        else:
            return None
    needed = {each.name for each in parameters if not each.is_optional and not each.is_rest}
    return found if needed <= {each.name for each in found} else None


def _is_better(
    project: CSharpProject, one: CSharpMember, other: CSharpMember, arguments: Sequence[Argument]
) -> bool:
    ours, theirs = _bound(one, arguments) or [], _bound(other, arguments) or []
    is_nearer = False
    for argument, mine, its in zip(arguments, ours, theirs, strict=False):
        first, second = _wanted(one, mine, argument), _wanted(other, its, argument)
        if first == second:
            continue
        near = _distance(project, one, first, argument.value)
        far = _distance(project, other, second, argument.value)
        # Nothing is nearer than the type itself, be the other way known or not.
        if near != 0 and (near is None or far is None or near > far):
            return False
        is_nearer = is_nearer or near == 0 or near != far
    return is_nearer or _rank(one, ours, arguments) < _rank(other, theirs, arguments)


def _rank(
    member: CSharpMember, bound: Iterable[Parameter], arguments: Sequence[Argument]
) -> tuple[bool, bool, bool]:
    """Order methods whose parameters are the same: plain ones come first."""
    return (
        any(each.is_rest for each in bound),
        bool(member.type_parameters),
        len(member.parameters) > len(arguments),
    )


def _wanted(member: CSharpMember, parameter: Parameter, argument: Argument) -> TypeRef | None:
    """Return the type that an argument has to have; that of one more argument is that of the elements."""
    ref = parameter.type
    is_whole = isinstance(argument.value, Library) and argument.value.ref.name == "[]"
    if parameter.is_rest and ref is not None and ref.name == "[]" and not is_whole:
        ref = ref.args[0]
    return None if ref is not None and ref.name in _generic(member) else ref


def _distance(
    project: CSharpProject, member: CSharpMember, ref: TypeRef | None, value: Value
) -> int | None:
    """Return how far an argument is from a parameter, 0 for the same type; None when it is not known."""
    if not isinstance(value, Instance | Library):
        return None
    if ref is None:
        # A type parameter becomes the type of the argument.
        return 0
    if ref.name == "object":
        return _OBJECT
    wanted = project.type_of(ref, place_of(member))
    if isinstance(value, Instance):
        if not isinstance(wanted, CSharpType):
            return None
        line = project.line_of(value.of)[0]
        return line.index(wanted) if wanted in line else _CONVERTED
    if wanted is not None:
        return _CONVERTED if isinstance(wanted, CSharpType) else None
    if value.ref == ref:
        return 0
    if value.ref.name in NUMBERS and ref.name in NUMBERS:
        return abs(NUMBERS.index(ref.name) - NUMBERS.index(value.ref.name))
    return None


def _generic(member: CSharpMember) -> frozenset[str]:
    return frozenset((*member.type_parameters, *member.owner.type_parameters))
