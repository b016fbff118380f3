"""What a Python expression stands for, as far as the sources tell without running them.

Imports are followed, also through packages that pass names on; attributes through the classes that are
inherited from; variables through their annotations and through what is assigned to them, wherever in the
function that is. A value that two places give differently is not known.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from whence.bundler.python_modules import (
    Binding,
    FunctionNode,
    Imported,
    PythonClass,
    PythonFunction,
    PythonModule,
    assigned,
)

__all__ = ("Instance", "ModuleValue", "PythonProject", "Scope", "Value")

#: `external`: of a library or the language. `local`: defined inside the same function. `nothing`: None.
#: `ambiguous`: one of several definitions. `unknown`: anything.
Plain: TypeAlias = Literal["external", "local", "nothing", "ambiguous", "unknown"]
#: Expressions, names and attributes that lead on to others are followed this far.
_DEEPEST = 24
#: Names and attributes that are looked at to tell one of them. Variables that are assigned from one another in
#: all orders would take as many as there are orders.
_MOST_STEPS = 300
_BUILTIN_TYPES = frozenset(
    {"str", "bytes", "int", "float", "bool", "complex", "list", "dict", "set", "tuple", "frozenset"}
    | {
        "bytearray",
        "range",
        "enumerate",
        "zip",
        "map",
        "filter",
        "reversed",
        "sorted",
        "open",
        "len",
    }
    | {"repr", "hash", "id", "sum", "format", "isinstance", "issubclass", "hasattr", "callable"}
)
_DISPLAYS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.Compare,
)  # fmt: skip
#: Annotations of one element, by the last part of their names.
_CONTAINERS = frozenset(
    {"list", "set", "frozenset", "tuple", "deque", "List", "Set", "FrozenSet", "Tuple", "Deque"}
    | {
        "Iterable",
        "Iterator",
        "Sequence",
        "MutableSequence",
        "Collection",
        "Container",
        "AbstractSet",
    }
    | {"Generator", "AsyncIterable", "AsyncIterator", "AsyncGenerator", "KeysView", "Reversible"}
)
_WRAPPERS = frozenset({"Optional", "Final", "ClassVar", "Annotated", "Required", "NotRequired"})


class Instance(NamedTuple):
    """An object of a class."""

    of: PythonClass


class Elements(NamedTuple):
    """A container of objects of a class."""

    of: PythonClass


class Parent(NamedTuple):
    """What `super()` gives inside a class."""

    of: PythonClass


class ModuleValue(NamedTuple):
    """A module of the folder, or a folder of modules."""

    name: str


Value: TypeAlias = PythonClass | PythonFunction | Instance | Elements | Parent | ModuleValue | Plain


def joined(values: Iterable[Value]) -> Value:
    """Return what all values agree on; None beside something else says nothing."""
    found = list(dict.fromkeys(value for value in values if value != "nothing"))
    if not found:
        return "nothing"
    if len(found) == 1:
        return found[0]
    return "unknown"


class PythonProject:
    """All modules of a folder.

    Args:
        modules: In a fixed order: of several modules of one name the first is taken.
        names: For each module, further names it can be imported by.
    """

    def __init__(
        self, modules: Iterable[PythonModule], names: Callable[[PythonModule], Iterable[str]]
    ) -> None:
        self.modules: dict[str, PythonModule] = {}
        every = list(modules)
        for module in every:
            self.modules.setdefault(module.name, module)
        for module in every:
            for name in names(module):
                self.modules.setdefault(name, module)
        self._folders = {
            ".".join(parts[:count])
            for parts in (name.split(".") for name in self.modules)
            for count in range(1, len(parts))
        }
        self._attributes: dict[PythonClass, dict[str, list[_Source]]] = {}
        self._lines: dict[PythonClass, tuple[list[PythonClass], bool]] = {}
        self._scopes: dict[PythonFunction, Scope] = {}
        self._open: set[tuple[int, str]] = set()
        self._steps = 0

    def begin(self) -> None:
        """Begin to tell what another expression stands for."""
        self._steps = 0

    def step(self) -> bool:
        """Take a step; False when there were too many for this expression."""
        self._steps += 1
        return self._steps <= _MOST_STEPS

    def scope_of(self, function: PythonFunction) -> Scope:
        """Return the names inside a function; of several definitions those of the last."""
        scope = self._scopes.get(function)
        if scope is None:
            scope = Scope(self, function.module, function.owner, None, function.node)
            self._scopes[function] = scope
        return scope

    def module_value(self, name: str) -> Value:
        """Return a module by its absolute name."""
        known = name in self.modules or name in self._folders
        return ModuleValue(name) if known else "external"

    def named(self, module: PythonModule, name: str) -> Value | None:
        """Return what a name of a module stands for; None when the module has no such name."""
        key = (id(module), name)
        if key in self._open or len(self._open) > _DEEPEST or not self.step():
            return "unknown"
        self._open.add(key)
        try:
            return self._named(module, name)
        finally:
            self._open.discard(key)

    def home(self, module: PythonModule, name: str, depth: int = 0) -> PythonModule | None:
        """Return the module whose variable a name is; None when it is none, or not of this folder."""
        bindings = module.names.get(name)
        if not bindings:
            if bindings is None and depth < _DEEPEST:
                for star in self._stars(module):
                    found = self.home(star, name, depth + 1)
                    if found is not None:
                        return found
            return None
        last = bindings[-1]
        if all(binding is None for binding in bindings):
            return module
        if isinstance(last, Imported) and last.name and depth < _DEEPEST:
            origin = self.modules.get(last.module)
            return self.home(origin, last.name, depth + 1) if origin else None
        return None

    def _stars(self, module: PythonModule) -> Iterator[PythonModule]:
        for name in module.stars:
            star = self.modules.get(name)
            if star is not None and star is not module:
                yield star

    def _named(self, module: PythonModule, name: str) -> Value | None:
        bindings = module.names.get(name)
        if bindings is not None:
            return self._bound(module, name, bindings)
        for star in self._stars(module):
            public = not name.startswith("_") if star.exported is None else name in star.exported
            found = self.named(star, name) if public else None
            if found is not None:
                return found
        if module.is_package and f"{module.name}.{name}" in self.modules:
            return ModuleValue(f"{module.name}.{name}")
        known = all(each in self.modules for each in module.stars)
        return None if known else "unknown"

    def _bound(self, module: PythonModule, name: str, bindings: list[Binding]) -> Value:
        values = dict.fromkeys(self._value(binding) for binding in bindings if binding is not None)
        values.pop("unknown", None)
        if len(values) > 1:
            return "ambiguous"
        if values:
            return next(iter(values))
        if any(binding is not None for binding in bindings):
            return "unknown"
        scope = Scope(self, module, None, None, None)
        if name in module.annotations:
            return scope.annotated(module.annotations[name])
        return (
            joined(map(scope.value, module.values.get(name, [])))
            if self._is_plain(module, name, bindings)
            else "unknown"
        )

    def _is_plain(self, module: PythonModule, name: str, bindings: list[Binding]) -> bool:
        """Return whether all that is bound to a variable is known as an expression."""
        return len(module.values.get(name, [])) == len(bindings)

    def _value(self, binding: PythonClass | PythonFunction | Imported) -> Value:
        if not isinstance(binding, Imported):
            return binding
        if not binding.name:
            return self.module_value(binding.module)
        return self.imported(binding)

    def imported(self, what: Imported) -> Value:
        """Return what an import binds."""
        if not what.name:
            return self.module_value(what.module)
        origin = self.modules.get(what.module)
        found = self.named(origin, what.name) if origin else None
        inner = f"{what.module}.{what.name}".strip(".")
        if found in (None, "unknown") and (inner in self.modules or inner in self._folders):
            # A package may import its own module by the name it thereby gives it.
            return ModuleValue(inner)
        return found or ("unknown" if origin else "external")

    def line_of(self, owner: PythonClass) -> tuple[list[PythonClass], bool]:
        """Return a class and what it inherits from, nearest first; True when all of that is known.

        Of a class inherited from twice the last place counts, as it nearly always does in the order that
        Python works out (C3).
        """
        known = self._lines.get(owner)
        if known is not None:
            return known
        self._lines[owner] = ([owner], True)
        line, whole = [owner], True
        scope = Scope(self, owner.module, None, None, None)
        for base in owner.nodes[-1].bases:
            value = scope.value(_without_subscript(base))
            if isinstance(value, PythonClass):
                above, is_whole = self.line_of(value)
                line += above
                whole = whole and is_whole
            elif not (isinstance(base, ast.Name) and base.id == "object"):
                whole = False
        last = {cls: place for place, cls in enumerate(line)}
        ordered = sorted(last, key=lambda cls: last[cls])
        ordered.remove(owner)
        self._lines[owner] = ([owner, *ordered], whole)
        return self._lines[owner]

    def member(self, owner: PythonClass, name: str, *, above: bool = False) -> Value:
        """Return an attribute of a class and its objects.

        Args:
            owner: The class.
            name: The attribute.
            above: Look only in what it inherits from.
        """
        line, whole = self.line_of(owner)
        for cls in line[1:] if above else line:
            if name in cls.members:
                return cls.members[name]
            found = self._attribute(cls, name)
            if found is not None:
                return found
        return "unknown" if whole else "external"

    def _attribute(self, cls: PythonClass, name: str) -> Value | None:
        key = (id(cls), name)
        if key in self._open or len(self._open) > _DEEPEST or not self.step():
            return "unknown"
        self._open.add(key)
        try:
            scope = Scope(self, cls.module, cls, None, None, in_class=True)
            if name in cls.annotations:
                return scope.annotated(cls.annotations[name])
            sources = [_Source(scope, "value", value) for value in cls.values.get(name, [])]
            sources += self._assigned_to_self(cls).get(name, [])
            typed = next((source for source in sources if source.kind == "annotation"), None)
            if typed is not None:
                return typed.value()
            return joined(source.value() for source in sources) if sources else None
        finally:
            self._open.discard(key)

    def _assigned_to_self(self, cls: PythonClass) -> dict[str, list[_Source]]:
        known = self._attributes.get(cls)
        if known is not None:
            return known
        found: dict[str, list[_Source]] = {}
        for member in cls.members.values():
            if not isinstance(member, PythonFunction):
                continue
            for node in member.nodes:
                first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
                if first is not None:
                    scope = self.scope_of(member)
                    for name, source in _attributes_set(node, first.arg, scope):
                        found.setdefault(name, []).append(source)
        self._attributes[cls] = found
        return found


def _attributes_set(
    function: FunctionNode, self_name: str, scope: Scope
) -> Iterator[tuple[str, _Source]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if _is_of(target, self_name):
                    assert isinstance(target, ast.Attribute)
                    yield target.attr, _Source(scope, "value", node.value)
        elif isinstance(node, ast.AnnAssign) and _is_of(node.target, self_name):
            assert isinstance(node.target, ast.Attribute)
            yield node.target.attr, _Source(scope, "annotation", node.annotation)


def _is_of(target: ast.expr, self_name: str) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == self_name
    )


class _Source(NamedTuple):
    """Where a local name gets its value from."""

    scope: Scope
    kind: Literal["value", "annotation", "element", "entered", "caught", "known", "imported"]
    what: ast.expr | Imported | Value

    def value(self) -> Value:
        what, scope = self.what, self.scope
        if isinstance(what, Imported):
            return scope.project.imported(what)
        if not isinstance(what, ast.expr):
            return what
        if self.kind == "annotation":
            return scope.annotated(what)
        value = scope.value(what)
        if self.kind == "element":
            return Instance(value.of) if isinstance(value, Elements) else "unknown"
        if self.kind == "caught":
            return Instance(value) if isinstance(value, PythonClass) else "unknown"
        return scope.entered(value) if self.kind == "entered" else value


class Scope:
    """The names that code of a module, class or function sees.

    Args:
        project: All modules.
        module: The module it is in.
        owner: Class whose body or method it is; None outside classes.
        parent: Scope of the function around it.
        function: The function; None for code of a module or class.
        in_class: True for code in the body of the class itself, which sees its names.
    """

    def __init__(
        self,
        project: PythonProject,
        module: PythonModule,
        owner: PythonClass | None,
        parent: Scope | None,
        function: FunctionNode | None,
        *,
        in_class: bool = False,
    ) -> None:
        self.project = project
        self.module = module
        self.owner = owner
        self._parent = parent
        self._in_class = in_class
        self._sources: dict[str, list[_Source]] = {}
        self._open: set[str] = set()
        if function is not None:
            self._read(function)

    def name(self, name: str) -> Value:
        """Return what a name stands for here."""
        sources = self._sources.get(name)
        if sources is not None:
            return self._local(name, sources)
        if self._parent is not None:
            return self._parent.name(name)
        if self._in_class and self.owner is not None and name in self.owner.members:
            return self.owner.members[name]
        found = self.project.named(self.module, name)
        if found is not None:
            return found
        return "external" if hasattr(builtins, name) else "unknown"

    def is_local(self, name: str) -> bool:
        """Return whether a name is bound in the function or one around it."""
        return name in self._sources or (self._parent is not None and self._parent.is_local(name))

    def value(self, node: ast.expr) -> Value:
        """Return what an expression stands for."""
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, _DISPLAYS):
            nothing = isinstance(node, ast.Constant) and node.value is None
            return "nothing" if nothing else "external"
        if isinstance(node, ast.Await | ast.NamedExpr | ast.Starred):
            return self.value(node.value)
        if isinstance(node, ast.IfExp):
            return joined((self.value(node.body), self.value(node.orelse)))
        if isinstance(node, ast.BoolOp):
            return joined(map(self.value, node.values))
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return "unknown"

    def attribute(self, value: Value, name: str) -> Value:
        """Return an attribute of what a value stands for; of a property, what it returns."""
        if isinstance(value, ModuleValue):
            module = self.project.modules.get(value.name)
            found = self.project.named(module, name) if module else None
            return found or self.project.imported(Imported(value.name, name))
        if isinstance(value, Parent):
            return self.project.member(value.of, name, above=True)
        if isinstance(value, Instance):
            found = self.project.member(value.of, name)
            is_property = isinstance(found, PythonFunction) and found.is_decorated(
                "property", "cached_property", "setter", "getter"
            )
            return self._returned(found, value.of) if is_property else found
        if isinstance(value, PythonClass):
            return self.project.member(value, name)
        if value == "nothing":
            # Nor does this say anything: perhaps a variable that is told by itself.
            return value
        is_library = value == "external" or isinstance(value, Elements)
        return "external" if is_library else "unknown"

    def annotated(self, node: ast.expr, depth: int = 0) -> Value:
        """Return what is known of a value by its annotation."""
        if depth > _DEEPEST:
            return "unknown"
        if isinstance(node, ast.Constant):
            return self._annotated_constant(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            return joined(self.annotated(side, depth + 1) for side in sides)
        if isinstance(node, ast.Subscript):
            return self._annotated_subscript(node, depth)
        if isinstance(node, ast.Name | ast.Attribute):
            if _last(node) == "Self" and self.owner is not None:
                return Instance(self.owner)
            value = self.value(node)
            return Instance(value) if isinstance(value, PythonClass) else _of_library(value)
        return "unknown"

    def entered(self, value: Value) -> Value:
        """Return what `with` binds for a context manager."""
        if not isinstance(value, Instance):
            return "unknown"
        for name in ("__enter__", "__aenter__"):
            method = self.project.member(value.of, name)
            if not isinstance(method, PythonFunction):
                continue
            if method.node.returns is None and _returns_self(method.node):
                return value
            return self._returned(method, value.of)
        return "unknown"

    def _local(self, name: str, sources: list[_Source]) -> Value:
        if name in self._open:
            return "nothing"
        if not self.project.step():
            return "unknown"
        self._open.add(name)
        try:
            typed = next((source for source in sources if source.kind == "annotation"), None)
            if typed is not None:
                return typed.value()
            return joined(source.value() for source in sources)
        finally:
            self._open.discard(name)

    def _called(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name):
            special = self._special(node, node.func.id)
            if special is not None:
                return special
        if _last(node.func) == "cast" and len(node.args) == 2:
            return self.annotated(node.args[0])
        holder: Value = "unknown"
        if isinstance(node.func, ast.Attribute):
            holder = self.value(node.func.value)
            value = self.attribute(holder, node.func.attr)
        else:
            value = self.value(node.func)
        if isinstance(value, PythonClass):
            return Instance(value)
        if isinstance(value, Instance):
            return self._returned(self.project.member(value.of, "__call__"), value.of)
        receiver = holder.of if isinstance(holder, Instance | Parent) else None
        return self._returned(value, holder if isinstance(holder, PythonClass) else receiver)

    def _special(self, node: ast.Call, name: str) -> Value | None:
        if name == "super" and not node.args and self.owner is not None:
            return Parent(self.owner)
        if name in _BUILTIN_TYPES and not self.is_local(name) and self.name(name) == "external":
            return "external"
        if name == "type" and len(node.args) == 1:
            value = self.value(node.args[0])
            return value.of if isinstance(value, Instance) else "unknown"
        return None

    def _returned(self, value: Value, receiver: PythonClass | None) -> Value:
        """Return what a call of a function gives, by its annotation."""
        if not isinstance(value, PythonFunction):
            return "nothing" if value == "nothing" else "unknown"
        node = value.getter
        if node.returns is None or value.is_decorated("contextmanager", "asynccontextmanager"):
            return "unknown"
        if receiver is not None and _gives_its_own(node):
            return Instance(receiver)
        scope = Scope(self.project, value.module, receiver or value.owner, None, None)
        return scope.annotated(node.returns)

    def _item(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        if isinstance(value, Elements) and not isinstance(node.slice, ast.Slice):
            return Instance(value.of)
        if isinstance(value, PythonClass):
            return value
        if isinstance(value, Instance):
            return self._returned(self.project.member(value.of, "__getitem__"), value.of)
        return value if isinstance(value, Elements) else "unknown"

    def _annotated_constant(self, node: ast.Constant, depth: int) -> Value:
        if node.value is None:
            return "nothing"
        if not isinstance(node.value, str):
            return "unknown"
        try:
            inner = ast.parse(node.value.strip(), mode="eval").body
        except SyntaxError:
            return "unknown"
        return self.annotated(inner, depth + 1)

    def _annotated_subscript(self, node: ast.Subscript, depth: int) -> Value:
        name = _last(node.value)
        inside = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Union":
            return joined(self.annotated(each, depth + 1) for each in inside)
        if name in _WRAPPERS and inside:
            return self.annotated(inside[0], depth + 1)
        if name in ("type", "Type"):
            value = self.annotated(inside[0], depth + 1)
            return value.of if isinstance(value, Instance) else "unknown"
        outer = self.value(node.value)
        if isinstance(outer, PythonClass):
            return Instance(outer)
        if name in _CONTAINERS and inside:
            kinds = inside if name in ("tuple", "Tuple") else inside[:1]
            kinds = [each for each in kinds if not _is_ellipsis(each)]
            value = joined(self.annotated(each, depth + 1) for each in kinds)
            return Elements(value.of) if isinstance(value, Instance) else "external"
        return _of_library(outer)

    def _read(self, function: FunctionNode) -> None:
        """Take the names that a function binds; those of comprehensions and lambdas count as its own."""
        self._read_arguments(function)
        pending: list[ast.AST] = list(function.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._add(node.name, _Source(self, "known", "local"))
                continue
            self._read_node(node)
            pending.extend(ast.iter_child_nodes(node))

    def _read_arguments(self, function: FunctionNode) -> None:
        arguments = function.args
        plain = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        names = {_last(decorator) for decorator in function.decorator_list}
        for place, argument in enumerate(plain):
            first = place == 0 and self.owner is not None and self._parent is None
            if first and "staticmethod" not in names:
                source = _Source(self, "known", self._first(function, argument, names))
            elif argument.annotation is not None:
                source = _Source(self, "annotation", argument.annotation)
            else:
                source = _Source(self, "known", "unknown")
            self._add(argument.arg, source)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                self._add(rest.arg, _Source(self, "known", "external"))

    def _first(self, function: FunctionNode, argument: ast.arg, names: set[str]) -> Value:
        """Return what a method gets as its first argument; an annotation there only narrows it."""
        assert self.owner is not None
        is_class = "classmethod" in names or function.name in ("__new__", "__init_subclass__")
        if argument.annotation is not None:
            noted = self.annotated(argument.annotation)
            if isinstance(noted, Instance | PythonClass):
                return noted
        return self.owner if is_class else Instance(self.owner)

    def _read_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._read_import(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(node.target, "element", node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, "entered", node.context_expr)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._add(node.name, _Source(self, "caught", node.type or "unknown"))
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, "value", node.value)
        elif isinstance(node, ast.Lambda):
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    self._add(argument.arg, _Source(self, "known", "unknown"))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._read_assignment(node)

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                name, what = alias.name, Imported(self.module.absolute(node), alias.name)
            else:
                name = alias.name.partition(".")[0]
                what = Imported(alias.name if alias.asname else name, "")
            self._add(alias.asname or name, _Source(self, "imported", what))

    def _read_assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        for name, value, annotation in assigned(node):
            if annotation is not None:
                self._add(name, _Source(self, "annotation", annotation))
            elif value is not None:
                self._add(name, _Source(self, "value", value))
            elif not isinstance(node, ast.AugAssign):
                self._add(name, _Source(self, "known", "unknown"))

    def _bind(
        self, target: ast.expr, kind: Literal["element", "entered", "value"], value: ast.expr
    ) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, _Source(self, kind, value))
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._add(node.id, _Source(self, "known", "unknown"))

    def _add(self, name: str, source: _Source) -> None:
        self._sources.setdefault(name, []).append(source)


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _of_library(value: Value) -> Value:
    """Return what an annotation with something that is no class of the folder says."""
    return "external" if value == "external" else "unknown"


def _without_subscript(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _gives_its_own(node: FunctionNode) -> bool:
    """Return whether a method gives what it is called on, by `def method(self: T) -> T`."""
    first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
    noted = first.annotation if first is not None else None
    return (
        isinstance(noted, ast.Name)
        and isinstance(node.returns, ast.Name)
        and noted.id == node.returns.id
    )


def _returns_self(node: FunctionNode) -> bool:
    first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
    returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(returned) and all(
        isinstance(each, ast.Name) and first is not None and each.id == first.arg
        for each in returned
    )
