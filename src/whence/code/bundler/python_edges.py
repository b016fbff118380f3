"""Find the edges of Python sources: what each definition calls, uses and inherits from."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from whence.code.bundler.code_graph import CodeGraph, Resolution
from whence.code.bundler.python_expressions import (
    Instance,
    ModuleValue,
    PythonProject,
    Scope,
    Value,
)
from whence.code.bundler.python_modules import (
    BLOCKS,
    FUNCTIONS,
    FunctionNode,
    Imported,
    PythonClass,
    PythonFunction,
    PythonModule,
    last_name,
    read_module,
    statements,
)
from whence.code.bundler.source_files import SourceText


def read_python(sources: Iterable[SourceText], folder: str, graph: CodeGraph) -> None:
    """Add the definitions of Python sources and the edges between them. Cost is linear in the sources."""
    texts = [source for source in sources if source.language == "python"]
    paths = [PurePosixPath(each.path) for each in texts]
    packages = {path.parent for path in paths if path.stem == "__init__"}
    modules = [
        module
        for source, path in zip(texts, paths, strict=True)
        if (module := read_module(source, _module_name(path, packages, folder), graph))
    ]
    graph.begin()
    project = PythonProject(modules)
    _EdgeFinder(project, graph, modules).read(modules)


def _module_name(path: PurePosixPath, packages: set[PurePosixPath], folder: str) -> str:
    """Return the absolute name of a module, from the outermost folder that is a package."""
    parts = [] if path.stem == "__init__" else [path.stem]
    for parent in path.parents:
        if parent not in packages:
            break
        parts.insert(0, parent.name or folder)
    return ".".join(parts)


class _EdgeFinder:
    def __init__(
        self, project: PythonProject, graph: CodeGraph, modules: Iterable[PythonModule]
    ) -> None:
        self._project = project
        self._graph = graph
        #: Number of members of each name: a call by a name of several is ambiguous.
        self._member_counts = Counter(
            name for module in modules for cls in module.classes for name in cls.members
        )

    def read(self, modules: Iterable[PythonModule]) -> None:
        for module in modules:
            try:
                self._module(module)
            except RecursionError:
                self._graph.nested_too_deeply()

    def _module(self, module: PythonModule) -> None:
        self._graph.enter(module.id, module.path)
        scope = Scope(self._project, module)
        self._imports(module)
        for statement in module.own:
            self._statement(statement, scope)
        for cls in module.classes:
            self._graph.enter(cls.id, module.path)
            for node in cls.nodes:
                self._class(cls, node)
        for function in module.functions:
            self._graph.enter(function.id, module.path)
            for definition in function.nodes:
                self._function(definition, function.owner, module, None)

    def _imports(self, module: PythonModule) -> None:
        for bindings in module.names.values():
            for binding in bindings:
                if isinstance(binding, Imported):
                    self._use(self._project.imported(binding))
        for name in module.star_imports:
            self._use(self._project.module_value(name))

    def _class(self, cls: PythonClass, node: ast.ClassDef) -> None:
        outside = Scope(self._project, cls.module)
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            value = outside.value(plain)
            if isinstance(value, PythonClass):
                self._graph.record_edge("inherits", value.id)
            self._visit(base, outside)
        for part in (*node.keywords, *node.decorator_list):
            self._visit(part, outside)
        inside = Scope(self._project, cls.module, cls, in_class=True)
        for statement in statements(node.body, definitions=False):
            self._statement(statement, inside)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        """Visit a statement of a module or class; the statements inside it are visited separately."""
        if not isinstance(node, BLOCKS):
            self._visit(node, scope)
            return
        for child in ast.iter_child_nodes(node):
            part = child.type if isinstance(child, ast.ExceptHandler) else child
            if part is not None and not isinstance(part, ast.stmt):
                self._visit(part, scope)

    def _function(
        self,
        node: FunctionNode,
        owner: PythonClass | None,
        module: PythonModule,
        parent: Scope | None,
    ) -> None:
        outside = parent or Scope(self._project, module, owner, in_class=True)
        for part in (*node.decorator_list, node.args, *([node.returns] if node.returns else [])):
            self._visit(part, outside)
        inside = Scope(self._project, module, owner, parent, node)
        for statement in node.body:
            self._visit(statement, inside)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        """Visit a node and everything inside, without recursion where nothing is recorded."""
        pending = [node]
        while pending:
            current = pending.pop()
            if not self._record_node(current, scope):
                pending.extend(reversed(list(ast.iter_child_nodes(current))))

    def _record_node(self, node: ast.AST, scope: Scope) -> bool:
        """Record a node; return whether the nodes inside it were visited as well."""
        if isinstance(node, FUNCTIONS):
            self._function(node, scope.owner, scope.module, scope)
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        elif isinstance(node, ast.Name | ast.Attribute):
            self._reference(node, scope)
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            self._graph.record_string(_text(node), "")
            return isinstance(node, ast.Constant)
        elif isinstance(node, ast.BinOp):
            self._graph.record_string(_text(node), "")
            for each in _operands(node):
                self._visit(each, scope)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self._graph.record_string(_text(node.value), node.targets[0].id)
            return False
        else:
            # Docstrings are not code.
            return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return True

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self._project.steps = 0
        value = scope.value(node.func)
        if isinstance(value, Instance):
            value = self._project.member(value.of, "__call__")
        name = last_name(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        self._graph.record_call(self._resolution(value, node.func), name)
        if isinstance(value, PythonClass | PythonFunction):
            self._graph.record_edge("calls", value.id)
        if isinstance(node.func, ast.Attribute):
            self._visit(node.func.value, scope)
        elif not isinstance(node.func, ast.Name):
            self._visit(node.func, scope)
        for argument in (*node.args, *node.keywords):
            self._graph.record_string(_text(argument), name)
            self._visit(argument, scope)

    def _resolution(self, value: Value, called: ast.expr) -> Resolution:
        if isinstance(value, PythonClass | PythonFunction) or value == "local":
            return "resolved"
        if value == "external":
            return "external"
        is_shared = isinstance(called, ast.Attribute) and self._member_counts[called.attr] > 1
        return "ambiguous" if value == "ambiguous" or is_shared else "unresolved"

    def _reference(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        self._project.steps = 0
        if isinstance(node.ctx, ast.Load):
            # A local variable that holds a class is not a use of the class by name.
            if isinstance(node, ast.Attribute) or not scope.is_local(node.id):
                self._use(scope.value(node))
            self._use_variable(node, scope)
        if isinstance(node, ast.Attribute):
            self._visit(node.value, scope)

    def _use_variable(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        """Record the use of a module's variable as a use of the module."""
        module: PythonModule | None = None
        if isinstance(node, ast.Attribute):
            value = scope.value(node.value)
            if isinstance(value, ModuleValue):
                module = self._project.modules.get(value.name)
        elif not scope.is_local(node.id):
            module = scope.module
        if module is not None:
            defining = self._project.defining_module(module, last_name(node))
            if defining is not None:
                self._graph.record_edge("uses", defining.id)

    def _use(self, value: Value) -> None:
        if isinstance(value, PythonClass | PythonFunction):
            self._graph.record_edge("uses", value.id)
        elif isinstance(value, ModuleValue):
            module = self._project.modules.get(value.name)
            if module is not None:
                self._graph.record_edge("uses", module.id)


def _text(node: ast.AST) -> str:
    """Return the value of a string expression without its run-time parts; empty for other expressions."""
    if isinstance(node, ast.JoinedStr):
        return " ".join(filter(None, map(_text, node.values)))
    if isinstance(node, ast.BinOp):
        is_concatenation = isinstance(node.op, ast.Add)
        parts = [_text(each) for each in _operands(node)] if is_concatenation else []
        return "".join(part or " " for part in parts) if any(parts) else ""
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _operands(node: ast.BinOp) -> list[ast.expr]:
    """Return the operands of a chain of binary operators from left to right, without recursion."""
    found: list[ast.expr] = []
    pending: list[ast.expr] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, ast.BinOp):
            pending += (current.right, current.left)
        else:
            found.append(current)
    return found
