"""Edges of Python sources: what each definition calls, uses and inherits from."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from whence.bundler.code_graph import CallOutcome, Edge, Findings, NamedCall, Quoted
from whence.bundler.python_expressions import (
    Instance,
    ModuleValue,
    PythonProject,
    Scope,
    Value,
)
from whence.bundler.python_modules import (
    Imported,
    PythonClass,
    PythonFunction,
    PythonModule,
    read_module,
)
from whence.bundler.source_files import SourceText

__all__ = ("read_python",)

_SOURCE_FOLDERS = frozenset({"src", "lib", "python"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Statements whose inner statements are looked at by themselves.
_BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While)


def read_python(sources: Iterable[SourceText], folder: str, findings: Findings) -> None:
    """Add the definitions of Python sources and the edges between them.

    Cost grows with the sources; each name is looked up where it stands, which takes a few steps.

    Args:
        sources: The files.
        folder: Name of the folder that holds them, which is the package when there is an `__init__.py`.
        findings: Takes what is found.
    """
    texts = [source for source in sources if source.language == "python"]
    packages = {str(PurePosixPath(each.path).parent) for each in texts if _is_init(each.path)}
    modules = [
        module
        for source in texts
        if (module := read_module(source, _module_name(source.path, packages, folder), findings))
    ]
    project = PythonProject(modules, _further_names)
    finder = _EdgeFinder(project, findings, modules)
    finder.read_all(modules)


def _is_init(path: str) -> bool:
    return PurePosixPath(path).stem == "__init__"


def _module_name(path: str, packages: set[str], folder: str) -> str:
    """Return the name a module is imported by: from the outermost folder that is a package."""
    place = PurePosixPath(path)
    parts = [] if place.stem == "__init__" else [place.stem]
    at = place.parent
    while str(at) in packages:
        parts.insert(0, at.name or folder)
        if not at.name:
            break
        at = at.parent
    return ".".join(parts)


def _further_names(module: PythonModule) -> Iterator[str]:
    """Yield the names of a module in folders that are packages without saying so."""
    parts = list(PurePosixPath(module.path).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts:
        return
    yield ".".join(parts)
    if parts[0] in _SOURCE_FOLDERS and len(parts) > 1:
        yield ".".join(parts[1:])


class _EdgeFinder:
    """Walks the code of each definition."""

    def __init__(
        self, project: PythonProject, findings: Findings, modules: Iterable[PythonModule]
    ) -> None:
        self._project = project
        self._findings = findings
        self._source = ""
        self._file = ""
        #: How many members have a name, to tell what could be meant from what can not.
        self._members = Counter(
            name for module in modules for cls in module.classes for name in cls.members
        )

    def read(self, module: PythonModule) -> None:
        """Add the edges of a module and its definitions."""
        self._file = module.path
        self._source = module.id
        scope = Scope(self._project, module, None, None, None)
        self._imports(module)
        for statement in module.own:
            self._statement(statement, scope)
        for cls in module.classes:
            self._source = cls.id
            for node in cls.nodes:
                self._class(cls, node)
        for function in module.functions:
            self._source = function.id
            for definition in function.nodes:
                self._function(definition, function.owner, module, None)

    def read_all(self, modules: Iterable[PythonModule]) -> None:
        """Add the edges of all modules; one whose code is nested too deeply keeps those found so far."""
        for module in modules:
            try:
                self.read(module)
            except RecursionError:
                reason = f"is nested too deeply in {self._source}; edges are missing"
                self._findings.failures.append((module.path, reason))

    def _imports(self, module: PythonModule) -> None:
        for bindings in module.names.values():
            for binding in bindings:
                if isinstance(binding, Imported):
                    self._use(self._project.imported(binding))
        for star in module.stars:
            self._use(self._project.module_value(star))

    def _class(self, cls: PythonClass, node: ast.ClassDef) -> None:
        outside = Scope(self._project, cls.module, None, None, None)
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            value = outside.value(plain)
            if isinstance(value, PythonClass):
                self._connect("inherits", value.id)
            self._visit(base, outside)
        for part in (*node.keywords, *node.decorator_list):
            self._visit(part, outside)
        inside = Scope(self._project, cls.module, cls, None, None, in_class=True)
        for statement in _own_statements(node.body):
            self._statement(statement, inside)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        """Look at a statement of a module or class; the ones inside it come by themselves."""
        if not isinstance(node, _BLOCKS):
            self._visit(node, scope)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ExceptHandler):
                if child.type is not None:
                    self._visit(child.type, scope)
            elif not isinstance(child, ast.stmt):
                self._visit(child, scope)

    def _function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        owner: PythonClass | None,
        module: PythonModule,
        parent: Scope | None,
    ) -> None:
        around = parent or Scope(self._project, module, owner, None, None, in_class=True)
        for part in (*node.decorator_list, node.args, *([node.returns] if node.returns else [])):
            self._visit(part, around)
        inside = Scope(self._project, module, owner, parent, node)
        for statement in node.body:
            self._visit(statement, inside)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        """Look at a node and all that is inside; a sum of a thousand parts is as deep as it is long."""
        pending = [node]
        while pending:
            at = pending.pop()
            if not self._take(at, scope):
                pending.extend(reversed(list(ast.iter_child_nodes(at))))

    def _take(self, node: ast.AST, scope: Scope) -> bool:
        """Look at a node; False when the ones inside it are to be looked at, too."""
        if isinstance(node, _FUNCTIONS):
            self._function(node, scope.owner, scope.module, scope)
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        elif isinstance(node, ast.Name | ast.Attribute):
            self._reference(node, scope)
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            self._quote(node, "")
            return isinstance(node, ast.Constant)
        elif isinstance(node, ast.BinOp):
            self._quote(node, "")
            for each in _operands(node):
                self._visit(each, scope)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self._quote(node.value, node.targets[0].id)
            return False
        else:
            # A docstring speaks of things and is no part of the program.
            return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return True

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self._project.begin()
        value = scope.value(node.func)
        if isinstance(value, Instance):
            value = self._project.member(value.of, "__call__")
        outcome = self._outcome(value, node.func)
        self._findings.calls[outcome] += 1
        name = _called_name(node.func)
        if outcome != "resolved":
            self._findings.named_calls.append(NamedCall(self._source, self._file, name))
        if isinstance(value, PythonClass | PythonFunction):
            self._connect("calls", value.id)
        if isinstance(node.func, ast.Attribute):
            self._visit(node.func.value, scope)
        elif not isinstance(node.func, ast.Name):
            self._visit(node.func, scope)
        for argument in (*node.args, *node.keywords):
            self._quote(argument, name)
            self._visit(argument, scope)

    def _quote(self, node: ast.AST, taker: str) -> None:
        text = _text(node)
        if text:
            self._findings.quote(Quoted(self._source, self._file, text, taker))

    def _outcome(self, value: Value, called: ast.expr) -> CallOutcome:
        if isinstance(value, PythonClass | PythonFunction) or value == "local":
            return "resolved"
        if value == "external":
            return "external"
        if value == "ambiguous":
            return "ambiguous"
        name = _called_name(called) if isinstance(called, ast.Attribute) else ""
        return "ambiguous" if self._members[name] > 1 else "unresolved"

    def _reference(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        self._project.begin()
        if isinstance(node.ctx, ast.Load):
            self._use(scope.value(node) if self._is_definite(node, scope) else "unknown")
            self._use_variable(node, scope)
        if isinstance(node, ast.Attribute):
            self._visit(node.value, scope)

    def _is_definite(self, node: ast.Name | ast.Attribute, scope: Scope) -> bool:
        """A variable that holds a class is no use of the class by name."""
        return isinstance(node, ast.Attribute) or not scope.is_local(node.id)

    def _use_variable(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        home: PythonModule | None = None
        if isinstance(node, ast.Name):
            if not scope.is_local(node.id):
                home = self._project.home(scope.module, node.id)
        else:
            value = scope.value(node.value)
            module = (
                self._project.modules.get(value.name) if isinstance(value, ModuleValue) else None
            )
            home = self._project.home(module, node.attr) if module else None
        if home is not None:
            self._connect("uses", home.id)

    def _use(self, value: Value) -> None:
        if isinstance(value, PythonClass | PythonFunction):
            self._connect("uses", value.id)
        elif isinstance(value, ModuleValue):
            module = self._project.modules.get(value.name)
            if module is not None:
                self._connect("uses", module.id)

    def _connect(self, relation: str, target: str) -> None:
        self._findings.connect(Edge(self._source, relation, target, self._file))


def _called_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text(node: ast.AST) -> str:
    """Return the value of a string; of one that is put together, what is written."""
    if isinstance(node, ast.JoinedStr):
        return " ".join(filter(None, map(_text, node.values)))
    if isinstance(node, ast.BinOp):
        is_sum = isinstance(node.op, ast.Add)
        parts = [_text(each) for each in _operands(node)] if is_sum else []
        return "".join(part or " " for part in parts) if any(parts) else ""
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _operands(node: ast.BinOp) -> list[ast.expr]:
    """Return what a chain of operators joins, from left to right; a long one is as deep as it is long."""
    found: list[ast.expr] = []
    pending: list[ast.expr] = [node]
    while pending:
        at = pending.pop()
        if isinstance(at, ast.BinOp):
            pending += (at.right, at.left)
        else:
            found.append(at)
    return found


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a class that define no member, those inside `if` and the like after it."""
    for statement in body:
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        yield statement
        if isinstance(statement, _BLOCKS):
            yield from _own_statements(statement.body)
            yield from _own_statements(getattr(statement, "orelse", []))
            yield from _own_statements(getattr(statement, "finalbody", []))
            for handler in getattr(statement, "handlers", []):
                yield from _own_statements(handler.body)
