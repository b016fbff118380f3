"""Find the regular expressions of the source, and texts for which one takes more than linear time."""

from __future__ import annotations

import ast
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import whence

SOURCE = Path(whence.__file__).parent
_FUNCTIONS = {
    *("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
}
_ONE_CHARACTER = {codes.LITERAL, codes.ANY, codes.IN, codes.NOT_LITERAL}
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}
_CHARACTERS = "a1A _-.,:;|/\\\"'`<>()[]{}#*+=~^$&%!?@x\t\né\0eあ"
_ENDS = ("", "\0", "!\n", "\n\nx")
#: Sizes of the texts that are tried, in characters.
_SIZES = (25, 200, 2000)
#: Processor seconds that are too short to compare, and those after which a trial is stopped.
_SHORT_S = 0.003
_STOP_S = 0.5


class Expression(NamedTuple):
    """A regular expression of the source."""

    place: str
    """File and line."""
    pattern: str | bytes
    flags: int
    methods: frozenset[str]
    """How it is used: `match`, `sub`, ..."""


def expressions() -> tuple[list[Expression], list[str]]:
    """Return the expressions of the source, and the calls whose pattern is only known when they run."""
    found: list[Expression] = []
    unknown: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if not any(
            isinstance(node, ast.Import) and any(name.name == "re" for name in node.names)
            for node in ast.walk(tree)
        ):
            continue
        file = str(path.relative_to(SOURCE))
        name = ".".join(["whence", *path.relative_to(SOURCE).with_suffix("").parts])
        scope = vars(importlib.import_module(name.removesuffix(".__init__")))
        names, methods = _uses(tree)
        for call in ast.walk(tree):
            if not _is_call(call):
                continue
            pattern = _pattern(call.args[0], scope)
            if pattern is None:
                unknown.append(f"{file}: {ast.unparse(call)}")
                continue
            used = {call.func.attr}
            if "compile" in used:
                used = methods.get(names.get(call, ""), {"search"})
            found.append(
                Expression(f"{file}:{call.lineno}", pattern, _flags(call, scope), frozenset(used))
            )
    return found, unknown


def _is_call(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "re"
        and node.func.attr in _FUNCTIONS
    )


def _uses(tree: ast.Module) -> tuple[dict[ast.AST, str], dict[str, set[str]]]:
    """Return the name to which each expression is assigned, and the methods that are called by name."""
    names: dict[ast.AST, str] = {}
    methods: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names |= dict.fromkeys(ast.walk(node.value), ast.unparse(target))
        elif isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
            methods.setdefault(ast.unparse(node.value), set()).add(node.attr)
    return names, methods


def _value(node: ast.expr, scope: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(scope))
    except NameError:
        return None


def _pattern(node: ast.expr, scope: dict[str, Any]) -> Any:
    """Return a pattern; what a formatted one takes from variables is replaced by a word."""
    if not isinstance(node, ast.JoinedStr):
        return _value(node, scope)
    parts = []
    for part in node.values:
        value = part.value if isinstance(part, ast.Constant) else None
        if isinstance(part, ast.FormattedValue):
            value = _value(part.value, scope)
        parts.append("x1" if value is None else str(value))
    return "".join(parts)


def _flags(call: ast.Call, scope: dict[str, Any]) -> int:
    values = [_value(node, scope) for node in [*call.args[1:], *(k.value for k in call.keywords)]]
    return sum(int(value) for value in values if isinstance(value, re.RegexFlag))


def slow_text(expression: Expression) -> str | None:
    """Return the description of a text for which the time grows faster than its size; None when none was found.

    The texts come from the pattern: a text that matches what comes before a repeat, then one that the repeat
    takes, many times, then one that lets the match fail.
    """
    compiled = re.compile(expression.pattern, expression.flags)
    for before, part in sorted(_attacks(expression)):
        for end in _ENDS:
            for method in sorted(expression.methods):
                run = _runner(compiled, method)

                def made(size: int, before: str = before, part: str = part, end: str = end) -> Any:
                    text = before + part * (size // len(part)) + end
                    is_bytes = isinstance(expression.pattern, bytes)
                    return text.encode("latin-1", "replace") if is_bytes else text

                if _is_slow(run, made):
                    return f"{method}: {before!r} + {part!r} * n + {end!r}"
    return None


def _is_slow(run: Callable[[Any], object], made: Callable[[int], Any]) -> bool:
    for size in _SIZES:
        taken = _seconds(run, made(size))
        if taken > _STOP_S:
            return True
        if taken > _SHORT_S:
            break
    else:
        return False
    # Four times the size: four times the time when it is linear, sixteen times when it is quadratic.
    once = min(_seconds(run, made(size)) for _ in range(3))
    more = min(_seconds(run, made(4 * size)) for _ in range(2))
    return more > _SHORT_S and more > 9 * max(once, _SHORT_S / 4)


def _runner(compiled: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method in ("sub", "subn"):
        return lambda text: getattr(compiled, method)(text[:0], text)
    if method == "finditer":
        return lambda text: list(compiled.finditer(text))
    found: Callable[[Any], object] = getattr(compiled, method)
    return found


class _Stopped(Exception):
    pass


def _seconds(run: Callable[[Any], object], text: Any) -> float:
    """Return the processor seconds of one call; it is stopped after half a second.

    While a timer runs, some kernels count the time of the process in ticks of 4 ms, that of a thread exactly.
    """

    def stop(*_: object) -> None:
        raise _Stopped

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _STOP_S)
    begin = time.thread_time()
    try:
        run(text)
    except _Stopped:
        return 100 * _STOP_S
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    return time.thread_time() - begin


# Texts from patterns


def _attacks(expression: Expression) -> set[tuple[str, str]]:
    """Return texts to begin with and texts to repeat."""
    parts = list(parser.parse(expression.pattern, expression.flags))
    found: set[tuple[str, str]] = set()
    _add_repeats(parts, "", found)
    for count in range(1, len(parts) + 1):
        found |= {("", _sample(parts[:count], {}, choice)) for choice in range(3)}
    single = sorted({part for _, part in found if len(part) == 1})[:5]
    found |= {("", first + second) for first in single for second in single if first < second}
    return {(before, part) for before, part in found if part}


def _add_repeats(parts: Any, before: str, found: set[tuple[str, str]]) -> None:
    """Add each unbounded repeat of a pattern, with a text that leads to it."""
    for kind, value in parts:
        if kind in _REPEATS:
            _, most, body = value
            if most > 50:
                found |= {(before, _sample(body, {}, choice)) for choice in range(4)}
            _add_repeats(body, before, found)
        elif kind in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            _add_repeats(value[3] if kind is codes.SUBPATTERN else value, before, found)
        elif kind is codes.BRANCH:
            for branch in value[1]:
                _add_repeats(branch, before, found)
        before += _sample([(kind, value)], {}, 0)


def _sample(parts: Any, groups: dict[int, str], choice: int) -> str:
    """Return a short text that a pattern matches; `choice` picks characters and branches."""
    return "".join(_piece(kind, value, groups, choice) for kind, value in parts)


def _piece(kind: Any, value: Any, groups: dict[int, str], choice: int) -> str:
    if kind in _ONE_CHARACTER:
        found = list(_characters(kind, value))
        return found[min(choice, len(found) - 1)] if found else ""
    if kind in _REPEATS:
        least, most, body = value
        return _sample(body, groups, choice) * max(least, min(1, most))
    if kind is codes.SUBPATTERN:
        groups[value[0]] = _sample(value[3], groups, choice)
        return groups[value[0]]
    if kind is codes.ATOMIC_GROUP:
        return _sample(value, groups, choice)
    if kind is codes.BRANCH:
        return _sample(value[1][choice % len(value[1])], groups, choice)
    return groups.get(value, "") if kind is codes.GROUPREF else ""


def _characters(kind: Any, value: Any) -> Iterator[str]:
    if kind is codes.LITERAL:
        yield chr(value)
        return
    own = [v for k, v in value if k is codes.LITERAL] if kind is codes.IN else []
    own += [v[0] for k, v in value if k is codes.RANGE] if kind is codes.IN else []
    for char in (*_CHARACTERS, *map(chr, own)):
        if kind is codes.ANY or (
            ord(char) != value if kind is codes.NOT_LITERAL else _is_in(char, value)
        ):
            yield char


def _is_in(char: str, members: Any) -> bool:
    negated = found = False
    for kind, value in members:
        if kind is codes.NEGATE:
            negated = True
        elif kind is codes.LITERAL:
            found |= ord(char) == value
        elif kind is codes.RANGE:
            found |= value[0] <= ord(char) <= value[1]
        else:
            name = str(value)
            letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rpartition("_")[2]]
            found |= bool(re.match(f"\\{letter.upper() if 'NOT' in name else letter}", char))
    return found != negated
