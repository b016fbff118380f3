"""Parse Python sources: modules, their classes and functions, and the names that each of them binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from whence.code.bundler.code_graph import CodeGraph, Definition, shorten_id
from whence.code.bundler.source_files import SourceText

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
#: Folders that are on the import path in common layouts.
_SOURCE_FOLDERS = frozenset({"src", "lib", "python"})
#: Statements that contain statements of the same scope.
BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While)


class Imported(NamedTuple):
    """A name bound by an import."""

    module: str
    name: str
    """The imported name; empty if the module itself is bound."""


class PythonFunction(msgspec.Struct, eq=False):
    """A function or method, with its overloads or the accessors of its property."""

    id: str
    nodes: list[FunctionNode]
    module: PythonModule
    owner: PythonClass | None

    @property
    def node(self) -> FunctionNode:
        """The last definition, which is in effect at run time."""
        return self.nodes[-1]

    @property
    def getter(self) -> FunctionNode:
        """The definition whose annotation states the result: of a property the first, else the last."""
        return self.nodes[0] if self.is_decorated("setter", "deleter") else self.nodes[-1]

    def is_decorated(self, *names: str) -> bool:
        """Return whether one of its definitions has one of these decorators."""
        return any(
            last_name(decorator) in names
            for node in self.nodes
            for decorator in node.decorator_list
        )


class PythonClass(msgspec.Struct, eq=False):
    """A class, its members by name, and the values of its attributes."""

    id: str
    nodes: list[ast.ClassDef]
    module: PythonModule
    qualified: str
    members: dict[str, PythonClass | PythonFunction] = {}
    annotations: dict[str, ast.expr] = {}
    """Annotations of attributes in the body of the class."""
    values: dict[str, list[ast.expr]] = {}
    """Values of attributes in the body of the class."""


#: A binding of a name in a module; None for a variable.
Binding: TypeAlias = PythonClass | PythonFunction | Imported | None


class PythonModule:
    """A module and its own names."""

    def __init__(self, name: str, source: SourceText, tree: ast.Module) -> None:
        self.name = name
        self.id = shorten_id(source.path)
        self.path = source.path
        self.tree = tree
        self.lines = source.text.split("\n")
        self.is_package = PurePosixPath(source.path).stem == "__init__"
        self.names: dict[str, list[Binding]] = {}
        #: Values and annotations of its variables.
        self.values: dict[str, list[ast.expr]] = {}
        self.annotations: dict[str, ast.expr] = {}
        #: Modules of `from ... import *`.
        self.star_imports: list[str] = []
        #: `__all__`, if it is a list of strings.
        self.exported: tuple[str, ...] | None = None
        self.functions: list[PythonFunction] = []
        self.classes: list[PythonClass] = []
        #: Statements outside definitions.
        self.own: list[ast.stmt] = []

    def namespace_names(self) -> Iterator[str]:
        """Yield its names in namespace packages, which have no `__init__.py`."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        parts = parts[:-1] if self.is_package else parts
        if parts:
            yield ".".join(parts)
        if parts[1:] and parts[0] in _SOURCE_FOLDERS:
            yield ".".join(parts[1:])

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module of a relative import."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        up = node.level - 1 if self.is_package else node.level
        base = parts[: len(parts) - up] if up else parts
        return ".".join((*base, *(node.module or "").split("."))).strip(".")

    def imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
        """Yield the names that an import binds; `*` for all names of a module."""
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                yield alias.asname or alias.name, Imported(self.absolute(node), alias.name)
            else:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, Imported(alias.name if alias.asname else name, "")


def read_module(source: SourceText, name: str, graph: CodeGraph) -> PythonModule | None:
    """Parse a module and add its definitions; return None if it does not parse in this Python version."""
    graph.begin(source.path)
    try:
        tree = ast.parse(source.text, source.path)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        graph.failures.append((source.path, f"is not valid Python: {reason}{line}"))
        return None
    module = PythonModule(name, source, tree)
    _Reader(module, graph).read()
    return module


class _Reader:
    def __init__(self, module: PythonModule, graph: CodeGraph) -> None:
        self._module = module
        self._graph = graph

    def read(self) -> None:
        module = self._module
        inside: set[int] = set()
        for statement in statements(module.tree.body):
            if isinstance(statement, _DEFINITIONS):
                inside.update(_line_numbers(statement))
                found = self._definition(statement, None, module.names.get(statement.name, []))
                if found is not None:
                    module.names.setdefault(statement.name, []).append(found)
            else:
                module.own.append(statement)
                self._bind(statement)
        if module.own:
            self._own_text(inside)

    def _bind(self, statement: ast.stmt) -> None:
        module = self._module
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            self._assign(statement)
            return
        for name, imported in module.imports(statement):
            if name == "*":
                module.star_imports.append(imported.module)
            else:
                module.names.setdefault(name, []).append(imported)

    def _assign(self, statement: ast.stmt) -> None:
        module = self._module
        for name, value, annotation in assignments(statement):
            module.names.setdefault(name, []).append(None)
            if value is not None:
                module.values.setdefault(name, []).append(value)
            if annotation is not None:
                module.annotations[name] = annotation
            if name == "__all__" and isinstance(value, ast.List | ast.Tuple):
                strings = [e.value for e in value.elts if isinstance(e, ast.Constant)]
                module.exported = tuple(each for each in strings if isinstance(each, str))

    def _definition(
        self,
        node: FunctionNode | ast.ClassDef,
        owner: PythonClass | None,
        known: list[Binding],
    ) -> PythonClass | PythonFunction | None:
        """Add a definition; return None if it is a further definition of a known name."""
        module = self._module
        holder = owner.qualified if owner else ""
        qualified = f"{holder}.{node.name}" if holder else node.name
        local_id = shorten_id(f"{module.path}:{qualified}")
        is_class = isinstance(node, ast.ClassDef)
        self._graph.add_definition(
            Definition(
                id=local_id,
                language="python",
                symbol_type="Class" if is_class else "Method" if owner else "Function",
                file=module.path,
                text="\n".join(module.lines[i - 1] for i in _line_numbers(node)),
                project=module.name.partition(".")[0],
                class_name=qualified if is_class else holder,
                member="" if is_class else node.name,
                signature=_signature(node),
            )
        )
        same = next((one for one in known if getattr(one, "id", "") == local_id), None)
        if isinstance(node, ast.ClassDef):
            return self._class(node, local_id, qualified, same)
        if isinstance(same, PythonFunction):
            same.nodes.append(node)
            return None
        function = PythonFunction(local_id, [node], module, owner)
        module.functions.append(function)
        return function

    def _class(
        self, node: ast.ClassDef, local_id: str, qualified: str, same: Binding
    ) -> PythonClass | None:
        if isinstance(same, PythonClass):
            found = same
            found.nodes.append(node)
        else:
            found = PythonClass(local_id, [node], self._module, qualified)
            self._module.classes.append(found)
        for statement in statements(node.body):
            if isinstance(statement, _DEFINITIONS):
                known = found.members.get(statement.name)
                member = self._definition(statement, found, [known])
                if member is not None:
                    found.members[statement.name] = member
                continue
            for name, value, annotation in assignments(statement):
                if value is not None:
                    found.values.setdefault(name, []).append(value)
                if annotation is not None:
                    found.annotations[name] = annotation
        return None if same is found else found

    def _own_text(self, inside: set[int]) -> None:
        """Add a definition for the statements of a module, without the lines `inside` its definitions."""
        module = self._module
        kept = [line for number, line in enumerate(module.lines, 1) if number not in inside]
        self._graph.add_definition(
            Definition(
                id=module.id,
                language="python",
                symbol_type="Module",
                file=module.path,
                text=_without_gaps(kept),
                project=module.name.partition(".")[0],
                class_name=module.name,
            )
        )


def assignments(
    statement: ast.stmt,
) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Yield the names a statement assigns to, each with its value if it is the whole value, and annotation."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value, None
            else:
                yield from ((name, None, None) for name in _names_in(target))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value, statement.annotation
    elif isinstance(statement, ast.AugAssign | ast.For | ast.AsyncFor):
        yield from ((name, None, None) for name in _names_in(statement.target))
    elif isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from ((name, None, None) for name in _names_in(item.optional_vars))


def _names_in(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def statements(body: list[ast.stmt], *, definitions: bool = True) -> Iterator[ast.stmt]:
    """Yield the statements of a scope, also those inside `if`, `try` and other blocks."""
    for statement in body:
        if definitions or not isinstance(statement, _DEFINITIONS):
            yield statement
        if isinstance(statement, BLOCKS):
            handlers = [each.body for each in getattr(statement, "handlers", [])]
            others = [getattr(statement, name, []) for name in ("orelse", "finalbody")]
            for inner in (statement.body, *others, *handlers):
                yield from statements(inner, definitions=definitions)


def _line_numbers(node: FunctionNode | ast.ClassDef) -> range:
    """Return the lines of a definition with its decorators, from 1."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first, (node.end_lineno or first) + 1)


def _signature(node: FunctionNode | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}"


def last_name(node: ast.expr) -> str:
    """Return the last name of a name, attribute or call: `setter` for `@size.setter`."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _without_gaps(lines: list[str]) -> str:
    """Join lines, with at most one empty line in a row and none at the ends."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line if line.strip() else "")
    return "\n".join(kept).rstrip("\n")


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
    reader = _BindingReader(module)
    reader.arguments(function, is_method=is_method)
    reader.body(function)
    return reader.bindings


def first_parameter(function: FunctionNode) -> ast.arg | None:
    """Return the first positional parameter of a function."""
    return next(iter((*function.args.posonlyargs, *function.args.args)), None)


def attributes_assigned(function: FunctionNode) -> Iterator[tuple[str, LocalBinding]]:
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
            match target:
                case ast.Attribute(ast.Name(owner), name) if first and owner == first.arg:
                    yield name, binding


class _BindingReader:
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
            if isinstance(node, _DEFINITIONS):
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
