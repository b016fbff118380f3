"""Resolve C# expressions to types, as far as the sources define them.

Expressions have their declared types; `var` has the type of its initializer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from whence.code.bundler.csharp_names import (
    ELEMENT_CALLBACKS,
    TRY_METHODS,
    Argument,
    CollectionTypes,
    ElementOf,
    LocalVariable,
    LocalVariables,
    NameResolver,
    ValueSource,
    called_name,
    find_methods,
    find_property,
    is_task,
    plain_name,
)
from whence.code.bundler.csharp_project import (
    LAMBDA_TYPE,
    CSharpProject,
    ExternalInstance,
    Instance,
    TypeValue,
    Value,
)
from whence.code.bundler.csharp_types import (
    STRINGS,
    CSharpMember,
    NameContext,
    TypeRef,
    field_of,
    last_part,
    parse_type,
)
from whence.code.loaders.source_code import node_text

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 100
#: Variables that are resolved for one expression; variables assigned from one another could need any number.
_MAX_STEPS = 300
#: Types that follow from the kind of an expression.
_TYPES_BY_KIND = {
    **dict.fromkeys(STRINGS, "string"),
    **dict.fromkeys(("integer_literal", "sizeof_expression"), "int"),
    **dict.fromkeys(("boolean_literal", "is_expression", "is_pattern_expression"), "bool"),
    **dict.fromkeys(("lambda_expression", "anonymous_method_expression"), LAMBDA_TYPE),
    "real_literal": "double",
    "character_literal": "char",
    "typeof_expression": "Type",
}
#: Expressions that have the value of their operand.
_WRAPPERS = (
    "parenthesized_expression", "postfix_unary_expression", "with_expression", "checked_expression"
)  # fmt: skip
#: Expressions that state their type.
_WITH_TYPE = (
    "object_creation_expression", "cast_expression", "as_expression", "default_expression",
    "array_creation_expression",
)  # fmt: skip
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">=", "&&", "||"})


class ExpressionResolver:
    """Resolves the expressions of a member, or of the initializers of a type."""

    def __init__(
        self,
        project: CSharpProject,
        context: NameContext,
        parameters: Iterable[tuple[str, TypeRef | None]],
        type_parameters: Iterable[str],
        code: Iterable[Node],
    ) -> None:
        self.project = project
        self.context = context
        self._type_parameters = set(type_parameters)
        self.collections = CollectionTypes(project, self._type_parameters)
        self.names = NameResolver(project, context, self.collections)
        for owner in self.context.owners():
            self._type_parameters.update(owner.type_parameters)
        self._locals = LocalVariables(parameters, code)
        self.functions = self._locals.functions
        #: Declarations that are being resolved, by identity.
        self._active: set[int] = set()
        self._steps = 0
        self._by_kind: dict[str, Callable[[Node, int], Value]] = {
            **dict.fromkeys(("identifier", "generic_name"), self._name),
            **dict.fromkeys(
                ("member_access_expression", "qualified_name", "alias_qualified_name"), self._member
            ),
            **dict.fromkeys(_WITH_TYPE, self._stated),
            **dict.fromkeys(_WRAPPERS, self._operand),
            "predefined_type": lambda node, _: self._external(node_text(node)),
            "this": lambda _node, _depth: Instance(context.owner) if context.owner else "unknown",
            "base": lambda _node, _depth: self.names.base(),
            "conditional_access_expression": self._conditional_access,
            "invocation_expression": self._invocation,
            "declaration_expression": partial(_out_variable, self),
            "implicit_parameter": partial(_lambda_parameter, self),
            "parameter": partial(_lambda_parameter, self),
            "await_expression": self._awaited,
            "element_access_expression": self._indexed,
            "binary_expression": self._binary,
            "conditional_expression": self._conditional,
            "switch_expression": self._switch,
        }

    def is_local(self, node: Node) -> bool:
        """Return whether a name is a parameter or variable in its scope."""
        return bool(self._locals.at(node))

    def instance_of(self, ref: TypeRef | None) -> Value:
        """Return an instance of a type as it is written here."""
        if ref is not None and ref.name in self._type_parameters:
            return "unknown"
        return self.project.instance_of(ref, self.context)

    def value(self, node: Node | None, depth: int = 0) -> Value:
        """Return the value of an expression."""
        if node is None or depth > _MAX_DEPTH:
            return "unknown"
        if not depth and not self._active:
            self._steps = 0
        resolve = self._by_kind.get(node.type)
        if resolve is not None:
            return resolve(node, depth)
        name = _TYPES_BY_KIND.get(node.type)
        return self._external(name) if name else "unknown"

    def constant(self, node: Node) -> Node | None:
        """Return the initializer of the constant string that a name refers to; None for other names."""
        if node.type == "identifier" and not self.is_local(node):
            name, owners = node_text(node), list(self.context.owners())
        elif node.type == "member_access_expression":
            name = node_text(field_of(node, "name"))
            value = self.value(field_of(node, "expression"))
            owners = [value.of] if isinstance(value, Instance | TypeValue) else []
        else:
            return None
        types = (one for owner in owners for one in self.project.type_and_bases(owner)[0])
        return next((one.constants[name] for one in types if name in one.constants), None)

    def call(self, node: Node, depth: int = 0) -> tuple[list[CSharpMember], Value]:
        """Return the methods that an invocation may call, and the receiver."""
        function = field_of(node, "function")
        if function is None:
            return [], "unknown"
        arguments = self.arguments(field_of(node, "arguments"), depth)
        if function.type in ("identifier", "generic_name"):
            is_local = self.is_local(function)
            return self.names.unqualified_call(plain_name(function), arguments, is_local=is_local)
        if function.type == "member_access_expression":
            receiver = self.value(field_of(function, "expression"), depth + 1)
            name = field_of(function, "name")
        elif function.type == "conditional_access_expression":
            binding = function.named_children[-1]
            if binding.type != "member_binding_expression":
                return [], "unknown"
            receiver = self.value(field_of(function, "condition"), depth + 1)
            name = field_of(binding, "name")
        else:
            return [], "unknown"
        return find_methods(self.project, receiver, plain_name(name), arguments), receiver

    def arguments(self, node: Node | None, depth: int = 0) -> list[Argument]:
        """Return the arguments of an argument list."""
        if node is None:
            return []
        return [
            Argument(self._argument(child, depth), node_text(field_of(child, "name")))
            for child in node.named_children
            if child.type == "argument"
        ]

    def delegate(self, function: Node) -> CSharpMember | None:
        """Return the property or event whose value is called."""
        if function.type == "member_access_expression":
            receiver = self.value(field_of(function, "expression"))
            found = receiver.of if isinstance(receiver, Instance | TypeValue) else None
            name = node_text(field_of(function, "name"))
            return find_property(self.project, found, name)
        if function.type != "identifier" or self.is_local(function):
            return None
        found_properties = (
            find_property(self.project, owner, node_text(function))
            for owner in self.context.owners()
        )
        return next((one for one in found_properties if one is not None), None)

    def _external(self, name: str) -> ExternalInstance:
        return ExternalInstance(TypeRef(name), self.context)

    def _argument(self, node: Node, depth: int) -> Value:
        if not node.named_children:
            return "unknown"
        last = node.named_children[-1]
        if last.type == "declaration_expression":
            # The type of `out var` depends on the method.
            return self.instance_of(parse_type(field_of(last, "type")))
        return self.value(last, depth + 1)

    def _stated(self, node: Node, _depth: int) -> Value:
        """Return an instance of the type that a creation, cast or default states."""
        stated = field_of(node, "type")
        if stated is None and node.type != "default_expression":
            stated = field_of(node, "right")
        return self.instance_of(parse_type(stated))

    def _operand(self, node: Node, depth: int) -> Value:
        return self.value(node.named_children[0], depth + 1) if node.named_children else "unknown"

    def _invocation(self, node: Node, depth: int) -> Value:
        methods, receiver = self.call(node, depth + 1)
        if not methods and isinstance(receiver, ExternalInstance):
            return self.collections.call_result(receiver, _called_name(node))
        values = {self._return_value(method, receiver, node) for method in methods}
        return values.pop() if len(values) == 1 else "unknown"

    def _return_value(self, method: CSharpMember, receiver: Value, call: Node) -> Value:
        """Return the result of a call; `Get<User>()` of `T Get<T>()` returns a `User`."""
        ref = method.returns
        if ref is not None and ref.name in method.type_parameters:
            given = parse_type(called_name(field_of(call, "function")))
            args = given.args if given is not None else ()
            at = method.type_parameters.index(ref.name)
            return self.instance_of(args[at]) if at < len(args) else "unknown"
        return self.project.return_value(method, receiver)

    def _name(self, node: Node, _depth: int) -> Value:
        variables = self._locals.at(node)
        if variables:
            return self._local(variables)
        return self.names.name(plain_name(node), parse_type(node))

    def _local(self, variables: list[LocalVariable]) -> Value:
        self._steps += 1
        is_active = any(id(each) in self._active for each in variables)
        if is_active or self._steps > _MAX_STEPS:
            return "unknown"
        self._active.update(map(id, variables))
        try:
            values = {self._source_value(each.source) for each in variables}
            return values.pop() if len(values) == 1 else "unknown"
        finally:
            self._active.difference_update(map(id, variables))

    def _source_value(self, source: ValueSource) -> Value:
        if isinstance(source, ElementOf):
            return self.collections.element(self.value(source.collection))
        if isinstance(source, TypeRef | None):
            return self.instance_of(source)
        return self.value(source)

    def _member(self, node: Node, depth: int) -> Value:
        expression = field_of(node, "expression") or node.named_children[0]
        name = plain_name(field_of(node, "name") or node.named_children[-1])
        return self.names.member(self.value(expression, depth + 1), name)

    def _conditional_access(self, node: Node, depth: int) -> Value:
        receiver = self.value(field_of(node, "condition"), depth + 1)
        binding = node.named_children[-1]
        if binding.type == "member_binding_expression":
            return self.names.member(receiver, plain_name(field_of(binding, "name")))
        return "unknown"

    def _binary(self, node: Node, depth: int) -> Value:
        operator = node_text(field_of(node, "operator"))
        if operator in _COMPARISONS:
            return self._external("bool")
        sides = [self.value(field_of(node, name), depth + 1) for name in ("left", "right")]
        if operator == "??":
            return sides[0]
        is_text = any(
            isinstance(each, ExternalInstance) and each.ref.name == "string" for each in sides
        )
        return self._external("string") if operator == "+" and is_text else "unknown"

    def _conditional(self, node: Node, depth: int) -> Value:
        names = ("consequence", "alternative")
        return self._common([field_of(node, name) for name in names], depth)

    def _switch(self, node: Node, depth: int) -> Value:
        arms = [each for each in node.named_children if each.type == "switch_expression_arm"]
        return self._common([arm.named_children[-1] for arm in arms], depth)

    def _common(self, nodes: Iterable[Node | None], depth: int) -> Value:
        """Return the value of alternatives of one type; `null` and `throw` have any type."""
        without_type = ("null_literal", "throw_expression")
        values = {
            self.value(node, depth + 1)
            for node in nodes
            if node is None or node.type not in without_type
        }
        return values.pop() if len(values) == 1 else "unknown"

    def _indexed(self, node: Node, depth: int) -> Value:
        value = self.value(field_of(node, "expression"), depth + 1)
        if isinstance(value, ExternalInstance) and value.ref.args:
            return self.project.instance_of(value.ref.args[-1], value.context)
        if isinstance(value, Instance):
            for one in self.project.type_and_bases(value.of)[0]:
                indexers = one.members.get("this[]", ())
                found = {self.project.return_value(each, value) for each in indexers}
                if found:
                    return found.pop() if len(found) == 1 else "unknown"
        return "unknown"

    def _awaited(self, node: Node, depth: int) -> Value:
        """Return the result of a task; `x.ConfigureAwait(false)` has the result of `x`."""
        awaited = node.named_children[0]
        value = self.value(awaited, depth + 1)
        if is_task(value):
            return self.collections.element(value)
        function = field_of(awaited, "function")
        if node_text(field_of(function, "name")) != "ConfigureAwait":
            return "unknown"
        return self.collections.element(self.value(field_of(function, "expression"), depth + 1))


def _out_variable(resolver: ExpressionResolver, node: Node, depth: int) -> Value:
    """Return the value of `out var`: the type of the method's parameter."""
    call, at = _argument_position(node)
    if call is None:
        return "unknown"
    methods, receiver = resolver.call(call, depth + 1)
    is_try = not methods and _called_name(call) in TRY_METHODS
    if is_try and isinstance(receiver, ExternalInstance):
        return resolver.collections.out_value(receiver)
    if len(methods) != 1 or at >= len(methods[0].parameters):
        return "unknown"
    return _parameter_value(resolver.project, methods[0], methods[0].parameters[at].type)


def _lambda_parameter(resolver: ExpressionResolver, node: Node, depth: int) -> Value:
    """Return the parameter of a lambda: an element of a collection, or the type that a method states."""
    function = node.parent
    index = 0
    if function is not None and function.type == "parameter_list":
        index = function.named_children.index(node)
        function = function.parent
    call, at = _argument_position(function) if function is not None else (None, 0)
    if call is None:
        return "unknown"
    methods, receiver = resolver.call(call, depth + 1)
    name = _called_name(call).removesuffix("Async")
    if not methods and not index and name in ELEMENT_CALLBACKS:
        return resolver.collections.element(receiver)
    at += bool(methods) and methods[0].is_extension and not isinstance(receiver, TypeValue)
    if len(methods) != 1 or at >= len(methods[0].parameters):
        return "unknown"
    wanted = methods[0].parameters[at].type
    while wanted is not None and last_part(wanted.name) == "Expression" and wanted.args:
        wanted = wanted.args[0]
    if wanted is None or wanted.name not in ("Func", "Action", "Predicate"):
        return "unknown"
    if index >= len(wanted.args):
        return "unknown"
    return _parameter_value(resolver.project, methods[0], wanted.args[index])


def _parameter_value(project: CSharpProject, member: CSharpMember, ref: TypeRef | None) -> Value:
    """Return an instance of a type in the signature of a method, unless it depends on the call."""
    if ref is None or ref.name in (*member.type_parameters, *member.owner.type_parameters):
        return "unknown"
    return project.instance_of(ref, member.context)


def _called_name(call: Node) -> str:
    return plain_name(called_name(field_of(call, "function")))


def _argument_position(node: Node) -> tuple[Node | None, int]:
    """Return the call that a node is a positional argument of, and its position."""
    argument = node.parent
    listed = argument.parent if argument is not None else None
    call = listed.parent if listed is not None else None
    if argument is None or listed is None or call is None or call.type != "invocation_expression":
        return None, 0
    if argument.type != "argument" or field_of(argument, "name") is not None:
        return None, 0
    return call, [each for each in listed.named_children if each.type == "argument"].index(argument)
