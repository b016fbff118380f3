"""Calls found in real packages, held against what the running interpreter binds the same names to.

The check shares nothing with the reader of checkouts: it imports the packages, so that imports, re-exports and
inheritance are Python's own, tells locals from globals by `symtable`, and types of parameters by
`typing.get_type_hints`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import symtable
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from whence.code.bundler.builder import analyze_folder

Function = ast.FunctionDef | ast.AsyncFunctionDef
Edges = set[tuple[str, str]]


class Interpreter:
    """The calls of a package as its imported modules answer them."""

    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package)
        self.root = Path(str(self.package.__file__)).parent
        self.confirmed: Edges = set()
        #: Per definition, the last names of the calls whose targets are known.
        self.judged: set[tuple[str, str]] = set()
        self.modules = dict(self._modules())
        self.places = dict(self._places())
        for path, module in self.modules.items():
            self._read(path, module)

    def _modules(self) -> Iterator[tuple[str, ModuleType]]:
        yield "__init__.py", self.package
        for found in pkgutil.walk_packages(self.package.__path__, f"{self.package.__name__}."):
            try:
                module = importlib.import_module(found.name)
            except (ImportError, SystemExit):
                # It needs a library that is not installed.
                continue
            path = Path(str(module.__file__))
            yield path.relative_to(self.root).as_posix(), module

    def _places(self) -> Iterator[tuple[int, str]]:
        """Yield the classes by identity: packages change `__module__` of what they export."""
        for path, module in self.modules.items():
            for name in ast_classes(ast.parse((self.root / path).read_text())):
                found: Any = module
                for part in name.split("."):
                    found = getattr(found, part, None)
                if inspect.isclass(found):
                    yield id(found), f"{path}:{name}"

    def _read(self, path: str, module: ModuleType) -> None:
        text = (self.root / path).read_text()
        table = symtable.symtable(text, path, "exec")
        self._scope(ast.parse(text).body, table, path, module, None, "")

    def _scope(
        self,
        body: list[ast.stmt],
        table: symtable.SymbolTable,
        path: str,
        module: ModuleType,
        owner: type | None,
        prefix: str,
    ) -> None:
        tables: dict[tuple[str, int], symtable.SymbolTable] = {
            (child.get_name(), child.get_lineno()): child for child in table.get_children()
        }
        for node in flat(body):
            if not isinstance(node, Function | ast.ClassDef):
                continue
            inner = tables.get((node.name, first_line(node)))
            if inner is None:
                continue
            name = f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                holder = getattr(owner or module, node.name, None)
                if inspect.isclass(holder):
                    self._scope(node.body, inner, path, module, holder, f"{name}.")
            elif isinstance(inner, symtable.Function):
                self._function(node, inner, f"{path}:{name}", module, owner)

    def _function(
        self,
        node: Function,
        table: symtable.Function,
        source: str,
        module: ModuleType,
        owner: type | None,
    ) -> None:
        hints = self._hints(node, module, owner)
        for call in calls_of(node.body):
            target = self._target(call.func, table, module, owner, node, hints)
            if target is None:
                continue
            self.judged.add((source, last_name(call.func)))
            if target not in (source, "elsewhere"):
                self.confirmed.add((source, target))

    def _hints(self, node: Function, module: ModuleType, owner: type | None) -> dict[str, Any]:
        function = inspect.getattr_static(owner or module, node.name, None)
        function = inspect.unwrap(getattr(function, "__func__", function))
        try:
            return typing.get_type_hints(function)
        except Exception:
            # Names for the type checker alone do not exist when it runs.
            return {}

    def _target(
        self,
        called: ast.expr,
        table: symtable.Function,
        module: ModuleType,
        owner: type | None,
        node: Function,
        hints: dict[str, Any],
    ) -> str | None:
        """Return the id of what is called, `elsewhere` for a library's, None when it cannot be told."""
        if isinstance(called, ast.Name):
            if not is_global(table, called.id) or not hasattr(module, called.id):
                return None
            return self._id(getattr(module, called.id))
        if not isinstance(called, ast.Attribute):
            return None
        base = called.value
        if owner is not None and is_super(base):
            for above in owner.__mro__[1:]:
                if called.attr in vars(above):
                    return self._id(vars(above)[called.attr])
            return None
        held = self._held(base, table, module, owner, node, hints)
        if not isinstance(held, ModuleType) and not inspect.isclass(held):
            return None
        return self._id(inspect.getattr_static(held, called.attr, None))

    def _held(
        self,
        base: ast.expr,
        table: symtable.Function,
        module: ModuleType,
        owner: type | None,
        node: Function,
        hints: dict[str, Any],
    ) -> Any:
        """Return the module, the class, or the class of the object that an attribute is taken of."""
        if isinstance(base, ast.Attribute):
            outer = self._held(base.value, table, module, owner, node, hints)
            if isinstance(outer, ModuleType):
                return getattr(outer, base.attr, None)
            return None
        if not isinstance(base, ast.Name):
            return None
        if is_global(table, base.id):
            return getattr(module, base.id, None)
        try:
            symbol = table.lookup(base.id)
        except KeyError:
            return None
        if not symbol.is_parameter() or symbol.is_assigned():
            return None
        first = node.args.args[0].arg if node.args.args else ""
        static = any(getattr(each, "id", "") == "staticmethod" for each in node.decorator_list)
        if owner is not None and base.id == first and not static:
            return owner
        hint = hints.get(base.id)
        return hint if inspect.isclass(hint) else None

    def _id(self, found: Any) -> str | None:
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        if inspect.isclass(found):
            return self.places.get(id(found), "elsewhere")
        if not isinstance(found, FunctionType):
            return None if found is None or not callable(found) else "elsewhere"
        code = inspect.unwrap(found).__code__
        try:
            path = Path(code.co_filename).relative_to(self.root).as_posix()
        except ValueError:
            return "elsewhere"
        # What a decorator made has no name in the source.
        return None if "<locals>" in code.co_qualname else f"{path}:{code.co_qualname}"


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            yield from flat(
                [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
            )


def ast_classes(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    for node in flat(tree.body):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}"
            yield from ast_classes(node, f"{prefix}{node.name}.")


def calls_of(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls in a function but for those in functions inside it, whose names are their own."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        pending.extend(ast.iter_child_nodes(node))


def first_line(node: Function | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def last_name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super" and not node.args


def is_global(table: symtable.Function, name: str) -> bool:
    try:
        return table.lookup(name).is_global()
    except KeyError:
        return False


@pytest.mark.parametrize("package", ["tenacity", "httpx", "rdflib"])
def test_calls_are_what_the_interpreter_binds(
    package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least 80 % of the calls that Python itself confirms are found, and of those found 80 % are right."""
    interpreter = Interpreter(package)
    graph = analyze_folder(interpreter.root).graph
    ours = {
        (edge.source, edge.target)
        for edge in graph.edges()
        if edge.relation == "calls" and edge.file in interpreter.modules
    }
    both = ours & interpreter.confirmed
    decided = {
        (source, target)
        for source, target in ours
        if (source, target.rpartition(":")[2].rpartition(".")[2]) in interpreter.judged
    }
    recall = len(both) / len(interpreter.confirmed)
    precision = len(both) / len(both | decided)
    with capsys.disabled():
        print(
            f"\n{package}: {len(ours)} call edges, {len(interpreter.confirmed)} confirmed by the"
            f" interpreter; recall {recall:.3f}, precision of the {len(decided | both)} that it"
            f" can judge {precision:.3f}; {dict(graph.calls)}"
        )

    assert len(interpreter.confirmed) > 30
    assert recall >= 0.8
    assert precision >= 0.8
