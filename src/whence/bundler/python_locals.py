"""Find the names that a Python function binds, and the expressions that determine their values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from whence.bundler.python_modules import (
    FunctionNode,
    Imported,
    PythonModule,
    assignments,
    last_name,
)

#: How an expression determines a value. `element`: of the iterable; `context`: entered with `with`;
#: `exception`: instance of the class; `self`: first parameter of a method. `external`, `local` and `unknown`
#: have no expression.
BindingKind: TypeAlias = Literal[
    "value", "annotation", "element", "context", "exception", "import", "self", "external", "local",
    "unknown",
]  # fmt: skip
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


class LocalBinding(NamedTuple):
    """One place where a name gets its value."""

    kind: BindingKind
    expression: ast.expr | None = None
    imported: Imported | None = None


_UNKNOWN = LocalBinding("unknown")


def local_bindings(
    function: FunctionNode, module: PythonModule, *, is_method: bool
) -> dict[str, list[LocalBinding]]:
    """Return the bindings of a function by name; those of comprehensions and lambdas count as its own."""
    reader = _Reader(module)
    reader.arguments(function, is_method=is_method)
    reader.body(function)
    return reader.bindings


def first_parameter(function: FunctionNode) -> ast.arg | None:
    """Return the first positional parameter of a function."""
    return next(iter((*function.args.posonlyargs, *function.args.args)), None)


def attributes_assigned(
    function: FunctionNode,
) -> Iterable[tuple[str, LocalBinding]]:
    """Yield the attributes that a method assigns to its first parameter."""
    first = first_parameter(function)
    for node in ast.walk(function) if first is not None else ():
        if isinstance(node, ast.Assign):
            targets, binding = node.targets, LocalBinding("value", node.value)
        elif isinstance(node, ast.AnnAssign):
            targets, binding = [node.target], LocalBinding("annotation", node.annotation)
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                is_self = first is not None and target.value.id == first.arg
                if is_self:
                    yield target.attr, binding


class _Reader:
    def __init__(self, module: PythonModule) -> None:
        self._module = module
        self.bindings: dict[str, list[LocalBinding]] = {}

    def arguments(self, function: FunctionNode, *, is_method: bool) -> None:
        arguments = function.args
        decorators = {last_name(decorator) for decorator in function.decorator_list}
        has_self = is_method and "staticmethod" not in decorators
        plain = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        for index, argument in enumerate(plain):
            if index == 0 and has_self:
                binding = LocalBinding("self", argument.annotation)
            elif argument.annotation is not None:
                binding = LocalBinding("annotation", argument.annotation)
            else:
                binding = _UNKNOWN
            self._add(argument.arg, binding)
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                self._add(variadic.arg, LocalBinding("external"))

    def body(self, function: FunctionNode) -> None:
        pending: list[ast.AST] = list(function.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._add(node.name, LocalBinding("local"))
                continue
            self._node(node)
            pending.extend(ast.iter_child_nodes(node))

    def _node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(node.target, "element", node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, "context", node.context_expr)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._add(node.name, LocalBinding("exception", node.type) if node.type else _UNKNOWN)
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, "value", node.value)
        elif isinstance(node, ast.Lambda):
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    self._add(argument.arg, _UNKNOWN)
        elif isinstance(node, _ASSIGNMENTS):
            self._assignment(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, imported in self._module.imports(node):
            self._add(name, LocalBinding("import", imported=imported))

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        for name, value, annotation in assignments(node):
            if annotation is not None:
                self._add(name, LocalBinding("annotation", annotation))
            elif value is not None:
                self._add(name, LocalBinding("value", value))
            elif not isinstance(node, ast.AugAssign):
                self._add(name, _UNKNOWN)

    def _bind(self, target: ast.expr, kind: BindingKind, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, LocalBinding(kind, value))
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._add(node.id, _UNKNOWN)

    def _add(self, name: str, binding: LocalBinding) -> None:
        self.bindings.setdefault(name, []).append(binding)
