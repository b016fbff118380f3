"""Resolve Python expressions to the definitions they refer to, without running the code.

Imports are followed through packages that re-export names, attributes through base classes, and variables
through their annotations and all assignments to them. If two assignments disagree, the value is unknown.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Literal, NamedTuple, TypeAlias

from whence.code.bundler.python_modules import (
    Binding,
    FunctionNode,
    Imported,
    LocalBinding,
    PythonClass,
    PythonFunction,
    PythonModule,
    attributes_assigned,
    first_parameter,
    last_name,
    local_bindings,
)

#: `external`: of a library or the language. `local`: defined inside the same function. `nothing`: None.
#: `ambiguous`: one of several definitions.
Plain: TypeAlias = Literal["external", "local", "nothing", "ambiguous", "unknown"]
_MAX_DEPTH = 24
#: Names and attributes that are resolved for one expression; variables assigned from one another could need any
#: number.
_MAX_STEPS = 300


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Built-in functions whose result is not of a class of the folder.
_BUILTINS = _names(
    "str bytes int float bool complex list dict set tuple frozenset bytearray range enumerate zip map filter reversed"
    " sorted open len repr hash id sum format isinstance issubclass hasattr callable"
)
_DISPLAYS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.Compare,
)  # fmt: skip
#: Generic types whose first argument is the type of the elements.
_CONTAINERS = _names(
    "list set frozenset tuple deque List Set FrozenSet Tuple Deque Iterable Iterator Sequence MutableSequence"
    " Collection Container AbstractSet Generator AsyncIterable AsyncIterator AsyncGenerator KeysView Reversible"
)
#: Special forms whose first argument is the type.
_WRAPPERS = _names("Optional Final ClassVar Annotated Required NotRequired")
_PROPERTY_DECORATORS = ("property", "cached_property", "setter", "getter")


class Instance(NamedTuple):
    """An instance of a class."""

    of: PythonClass


class ContainerOf(NamedTuple):
    """A container of instances of a class."""

    of: PythonClass


class SuperOf(NamedTuple):
    """The result of `super()` in a class."""

    of: PythonClass


class ModuleValue(NamedTuple):
    """A module or a namespace package of the folder."""

    name: str


Value: TypeAlias = (
    PythonClass | PythonFunction | Instance | ContainerOf | SuperOf | ModuleValue | Plain
)


def _common(values: Iterable[Value]) -> Value:
    """Return the value that all agree on; None is ignored beside other values."""
    found = list(dict.fromkeys(value for value in values if value != "nothing"))
    if not found:
        return "nothing"
    return found[0] if len(found) == 1 else "unknown"


class PythonProject:
    """All modules of a folder."""

    def __init__(self, modules: Sequence[PythonModule]) -> None:
        self.modules: dict[str, PythonModule] = {}
        for module in modules:
            self.modules.setdefault(module.name, module)
        for module in modules:
            for name in module.namespace_names():
                self.modules.setdefault(name, module)
        self._folders = {
            ".".join(parts[:count])
            for parts in (name.split(".") for name in self.modules)
            for count in range(1, len(parts))
        }
        self._instance_attributes = cache(self._read_instance_attributes)
        self._mros: dict[PythonClass, tuple[list[PythonClass], bool]] = {}
        #: Names and attributes that are being resolved.
        self._active: set[tuple[int, str]] = set()
        #: Steps that were taken for the current expression.
        self.steps = 0

    def step(self) -> bool:
        """Count a step; return whether the expression may take it."""
        self.steps += 1
        return self.steps <= _MAX_STEPS

    def module_value(self, name: str) -> Value:
        """Return a module by its absolute name."""
        return ModuleValue(name) if self._has_module(name) else "external"

    def name(self, module: PythonModule, name: str) -> Value | None:
        """Return the value of a name of a module; None if the module does not have it."""
        return self._guarded((id(module), name), partial(self._name, module, name))

    def defining_module(
        self, module: PythonModule, name: str, depth: int = 0
    ) -> PythonModule | None:
        """Return the module of the folder that defines a variable; None if a name is not a variable."""
        bindings = module.names.get(name)
        if not bindings:
            if bindings is None and depth < _MAX_DEPTH:
                for star in self._star_modules(module):
                    found = self.defining_module(star, name, depth + 1)
                    if found is not None:
                        return found
            return None
        last = bindings[-1]
        if all(binding is None for binding in bindings):
            return module
        if isinstance(last, Imported) and last.name and depth < _MAX_DEPTH:
            origin = self.modules.get(last.module)
            return self.defining_module(origin, last.name, depth + 1) if origin else None
        return None

    def imported(self, what: Imported) -> Value:
        """Return the value that an import binds."""
        if not what.name:
            return self.module_value(what.module)
        origin = self.modules.get(what.module)
        found = self.name(origin, what.name) if origin else None
        submodule = f"{what.module}.{what.name}".strip(".")
        if found in (None, "unknown") and self._has_module(submodule):
            # A package may import its own submodule under the name of the submodule.
            return ModuleValue(submodule)
        return found or ("unknown" if origin else "external")

    def mro(self, owner: PythonClass) -> tuple[list[PythonClass], bool]:
        """Return a class and its bases, nearest first, and whether all of them are defined in the folder.

        A base that is inherited twice takes its last position, which nearly always equals the C3 linearization.
        """
        if owner in self._mros:
            return self._mros[owner]
        self._mros[owner] = ([owner], True)
        classes, is_complete = [owner], True
        scope = Scope(self, owner.module)
        for base in owner.nodes[-1].bases:
            value = scope.value(base.value if isinstance(base, ast.Subscript) else base)
            if isinstance(value, PythonClass):
                inherited, is_base_complete = self.mro(value)
                classes += inherited
                is_complete = is_complete and is_base_complete
            elif not (isinstance(base, ast.Name) and base.id == "object"):
                is_complete = False
        position = {cls: index for index, cls in enumerate(classes)}
        bases = sorted(position.keys() - {owner}, key=position.__getitem__)
        self._mros[owner] = ([owner, *bases], is_complete)
        return self._mros[owner]

    def member(self, owner: PythonClass, name: str, *, inherited: bool = False) -> Value:
        """Return an attribute of a class and its instances; with `inherited` only of its bases."""
        classes, is_complete = self.mro(owner)
        for cls in classes[1:] if inherited else classes:
            if name in cls.members:
                return cls.members[name]
            found = self._guarded((id(cls), name), partial(self._attribute, cls, name))
            if found is not None:
                return found
        return "unknown" if is_complete else "external"

    def _has_module(self, name: str) -> bool:
        return name in self.modules or name in self._folders

    def _guarded(self, key: tuple[int, str], resolve: Callable[[], Value | None]) -> Value | None:
        """Resolve a name or attribute; unknown if it depends on itself or takes too many steps."""
        if key in self._active or len(self._active) > _MAX_DEPTH or not self.step():
            return "unknown"
        self._active.add(key)
        try:
            return resolve()
        finally:
            self._active.discard(key)

    def _star_modules(self, module: PythonModule) -> Iterator[PythonModule]:
        for name in module.star_imports:
            star = self.modules.get(name)
            if star is not None and star is not module:
                yield star

    def _name(self, module: PythonModule, name: str) -> Value | None:
        bindings = module.names.get(name)
        if bindings is not None:
            return self._bound(module, name, bindings)
        for star in self._star_modules(module):
            public = not name.startswith("_") if star.exported is None else name in star.exported
            found = self.name(star, name) if public else None
            if found is not None:
                return found
        if module.is_package and f"{module.name}.{name}" in self.modules:
            return ModuleValue(f"{module.name}.{name}")
        is_complete = all(each in self.modules for each in module.star_imports)
        return None if is_complete else "unknown"

    def _bound(self, module: PythonModule, name: str, bindings: list[Binding]) -> Value:
        definitions = [binding for binding in bindings if binding is not None]
        values = dict.fromkeys(
            self.imported(each) if isinstance(each, Imported) else each for each in definitions
        )
        values.pop("unknown", None)
        if len(values) > 1:
            return "ambiguous"
        if values:
            return next(iter(values))
        if definitions:
            return "unknown"
        scope = Scope(self, module)
        if name in module.annotations:
            return scope.annotated(module.annotations[name])
        expressions = module.values.get(name, [])
        # With fewer expressions than bindings some assigned values are not known.
        is_complete = len(expressions) == len(bindings)
        return _common(map(scope.value, expressions)) if is_complete else "unknown"

    def _attribute(self, cls: PythonClass, name: str) -> Value | None:
        scope = Scope(self, cls.module, cls, in_class=True)
        if name in cls.annotations:
            return scope.annotated(cls.annotations[name])
        bindings = [(scope, LocalBinding("value", value)) for value in cls.values.get(name, [])]
        bindings += self._instance_attributes(cls).get(name, [])
        for where, binding in bindings:
            if binding.kind == "annotation":
                return where.bound(binding)
        if not bindings:
            return None
        return _common(where.bound(binding) for where, binding in bindings)

    def _read_instance_attributes(
        self, cls: PythonClass
    ) -> dict[str, list[tuple[Scope, LocalBinding]]]:
        """Return the attributes that the methods of a class assign to `self`."""
        found: dict[str, list[tuple[Scope, LocalBinding]]] = {}
        for member in cls.members.values():
            if isinstance(member, PythonFunction):
                assigned = [each for node in member.nodes for each in attributes_assigned(node)]
                if not assigned:
                    continue
                scope = Scope(self, member.module, member.owner, None, member.node)
                for name, binding in assigned:
                    found.setdefault(name, []).append((scope, binding))
        return found


class Scope:
    """The names that the code of a module, class or function can use.

    `parent` is the scope of the enclosing function; code with `in_class` can use the names of class `owner`.
    """

    def __init__(
        self,
        project: PythonProject,
        module: PythonModule,
        owner: PythonClass | None = None,
        parent: Scope | None = None,
        function: FunctionNode | None = None,
        *,
        in_class: bool = False,
    ) -> None:
        self.project = project
        self.module = module
        self.owner = owner
        self._parent = parent
        self._function = function
        self._in_class = in_class
        self._active: set[str] = set()
        self._bindings: dict[str, list[LocalBinding]] = {}
        if function is not None:
            is_method = owner is not None and parent is None
            self._bindings = local_bindings(function, module, is_method=is_method)

    def name(self, name: str) -> Value:
        """Return the value of a name."""
        bindings = self._bindings.get(name)
        if bindings is not None:
            return self._local(name, bindings)
        if self._parent is not None:
            return self._parent.name(name)
        if self._in_class and self.owner is not None and name in self.owner.members:
            return self.owner.members[name]
        found = self.project.name(self.module, name)
        if found is not None:
            return found
        return "external" if hasattr(builtins, name) else "unknown"

    def is_local(self, name: str) -> bool:
        """Return whether a name is bound in the function or in one that encloses it."""
        return name in self._bindings or (self._parent is not None and self._parent.is_local(name))

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(self.value(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, _DISPLAYS):
            is_none = isinstance(node, ast.Constant) and node.value is None
            return "nothing" if is_none else "external"
        if isinstance(node, ast.Await | ast.NamedExpr | ast.Starred):
            return self.value(node.value)
        if isinstance(node, ast.IfExp):
            return _common((self.value(node.body), self.value(node.orelse)))
        if isinstance(node, ast.BoolOp):
            return _common(map(self.value, node.values))
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return "unknown"

    def bound(self, binding: LocalBinding) -> Value:
        """Return the value of a binding in this scope."""
        if binding.imported is not None:
            return self.project.imported(binding.imported)
        kind, expression = binding.kind, binding.expression
        if kind == "self":
            return self._self(expression)
        if kind in ("external", "local"):
            return kind
        if expression is None:
            return "unknown"
        if kind == "annotation":
            return self.annotated(expression)
        value = self.value(expression)
        if kind == "element":
            return Instance(value.of) if isinstance(value, ContainerOf) else "unknown"
        if kind == "exception":
            return Instance(value) if isinstance(value, PythonClass) else "unknown"
        return self._entered(value) if kind == "context" else value

    def annotated(self, node: ast.expr, depth: int = 0) -> Value:
        """Return a value that has an annotation."""
        if depth > _MAX_DEPTH:
            return "unknown"
        if isinstance(node, ast.Constant):
            return self._annotated_constant(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return _common(self.annotated(side, depth + 1) for side in (node.left, node.right))
        if isinstance(node, ast.Subscript):
            return self._annotated_subscript(node, depth)
        if isinstance(node, ast.Name | ast.Attribute):
            if last_name(node) == "Self" and self.owner is not None:
                return Instance(self.owner)
            value = self.value(node)
            return Instance(value) if isinstance(value, PythonClass) else _if_external(value)
        return "unknown"

    def _attribute(self, value: Value, name: str) -> Value:
        """Return an attribute; of a property, its result."""
        if isinstance(value, ModuleValue):
            module = self.project.modules.get(value.name)
            found = self.project.name(module, name) if module else None
            return found or self.project.imported(Imported(value.name, name))
        if isinstance(value, SuperOf):
            return self.project.member(value.of, name, inherited=True)
        if isinstance(value, Instance):
            found = self.project.member(value.of, name)
            if isinstance(found, PythonFunction) and found.is_decorated(*_PROPERTY_DECORATORS):
                return self._result(found, value.of)
            return found
        if isinstance(value, PythonClass):
            return self.project.member(value, name)
        if value == "nothing":
            # A variable that is initialized with None and assigned elsewhere.
            return value
        return "external" if value == "external" or isinstance(value, ContainerOf) else "unknown"

    def _entered(self, value: Value) -> Value:
        """Return what `with` binds for a context manager."""
        if not isinstance(value, Instance):
            return "unknown"
        for name in ("__enter__", "__aenter__"):
            method = self.project.member(value.of, name)
            if isinstance(method, PythonFunction):
                is_self = method.node.returns is None and _returns_self(method.node)
                return value if is_self else self._result(method, value.of)
        return "unknown"

    def _self(self, annotation: ast.expr | None) -> Value:
        """Return the first argument of a method; an annotation can only narrow it."""
        assert self.owner is not None
        assert self._function is not None
        if annotation is not None:
            annotated = Scope(self.project, self.module, self.owner).annotated(annotation)
            if isinstance(annotated, Instance | PythonClass):
                return annotated
        decorators = map(last_name, self._function.decorator_list)
        implicit = ("__new__", "__init_subclass__")
        is_class_method = "classmethod" in decorators or self._function.name in implicit
        return self.owner if is_class_method else Instance(self.owner)

    def _local(self, name: str, bindings: list[LocalBinding]) -> Value:
        if name in self._active:
            return "nothing"
        if not self.project.step():
            return "unknown"
        self._active.add(name)
        try:
            stated = next((each for each in bindings if each.kind == "annotation"), None)
            return self.bound(stated) if stated else _common(map(self.bound, bindings))
        finally:
            self._active.discard(name)

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name):
            special = self._builtin_call(node, node.func.id)
            if special is not None:
                return special
        if last_name(node.func) == "cast" and len(node.args) == 2:
            return self.annotated(node.args[0])
        receiver: Value = "unknown"
        if isinstance(node.func, ast.Attribute):
            receiver = self.value(node.func.value)
            value = self._attribute(receiver, node.func.attr)
        else:
            value = self.value(node.func)
        if isinstance(value, PythonClass):
            return Instance(value)
        if isinstance(value, Instance):
            return self._result(self.project.member(value.of, "__call__"), value.of)
        if isinstance(receiver, Instance | SuperOf):
            return self._result(value, receiver.of)
        return self._result(value, receiver if isinstance(receiver, PythonClass) else None)

    def _builtin_call(self, node: ast.Call, name: str) -> Value | None:
        if name == "super" and not node.args and self.owner is not None:
            return SuperOf(self.owner)
        if name in _BUILTINS and not self.is_local(name) and self.name(name) == "external":
            return "external"
        if name == "type" and len(node.args) == 1:
            value = self.value(node.args[0])
            return value.of if isinstance(value, Instance) else "unknown"
        return None

    def _result(self, value: Value, receiver: PythonClass | None) -> Value:
        """Return the result of a call of a function, by its annotation."""
        if not isinstance(value, PythonFunction):
            return "nothing" if value == "nothing" else "unknown"
        node = value.getter
        if node.returns is None or value.is_decorated("contextmanager", "asynccontextmanager"):
            return "unknown"
        if receiver is not None and _returns_type_of_self(node):
            return Instance(receiver)
        return Scope(self.project, value.module, receiver or value.owner).annotated(node.returns)

    def _item(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        if isinstance(value, ContainerOf) and not isinstance(node.slice, ast.Slice):
            return Instance(value.of)
        if isinstance(value, PythonClass):
            return value
        if isinstance(value, Instance):
            return self._result(self.project.member(value.of, "__getitem__"), value.of)
        return value if isinstance(value, ContainerOf) else "unknown"

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
        name = last_name(node.value)
        arguments = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Union":
            return _common(self.annotated(each, depth + 1) for each in arguments)
        if name in _WRAPPERS and arguments:
            return self.annotated(arguments[0], depth + 1)
        if name in ("type", "Type"):
            value = self.annotated(arguments[0], depth + 1)
            return value.of if isinstance(value, Instance) else "unknown"
        outer = self.value(node.value)
        if isinstance(outer, PythonClass):
            return Instance(outer)
        if name in _CONTAINERS and arguments:
            elements = arguments if name in ("tuple", "Tuple") else arguments[:1]
            value = _common(
                self.annotated(each, depth + 1) for each in elements if not _is_ellipsis(each)
            )
            return ContainerOf(value.of) if isinstance(value, Instance) else "external"
        return _if_external(outer)


def _if_external(value: Value) -> Value:
    """Return the value of an annotation that is not a class of the folder."""
    return "external" if value == "external" else "unknown"


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _returns_type_of_self(node: FunctionNode) -> bool:
    """Return whether a method returns the type of its receiver: `def method(self: T) -> T`."""
    first = first_parameter(node)
    annotation = first.annotation if first is not None else None
    return (
        isinstance(annotation, ast.Name)
        and isinstance(node.returns, ast.Name)
        and annotation.id == node.returns.id
    )


def _returns_self(node: FunctionNode) -> bool:
    first = first_parameter(node)
    returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(returned) and all(
        isinstance(each, ast.Name) and first is not None and each.id == first.arg
        for each in returned
    )
