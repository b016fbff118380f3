"""Parse C# sources: types, their members, and the usings of each file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from whence.code.bundler.code_graph import CodeGraph, Definition, shorten_id
from whence.code.bundler.source_files import SourceText
from whence.code.loaders.source_code import node_text, syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_TYPES = {
    "class_declaration": "Class",
    "struct_declaration": "Struct",
    "interface_declaration": "Interface",
    "record_declaration": "Record",
    "enum_declaration": "Enum",
    "delegate_declaration": "Delegate",
}
_MEMBERS = {
    "method_declaration": "Method",
    "constructor_declaration": "Constructor",
    "destructor_declaration": "Destructor",
    "operator_declaration": "Operator",
    "conversion_operator_declaration": "Operator",
    "property_declaration": "Property",
    "indexer_declaration": "Indexer",
    "event_declaration": "Event",
}
_FIELDS = frozenset({"field_declaration", "event_field_declaration"})
#: Directives whose content belongs to the enclosing scope.
_TRANSPARENT = frozenset({"preproc_if", "preproc_else", "preproc_elif", "preproc_region"})
#: Nodes of string literals.
STRINGS = frozenset(
    {"string_literal", "verbatim_string_literal", "raw_string_literal"}
    | {"interpolated_string_expression"}
)


def field_of(node: Node | None, *names: str) -> Node | None:
    """Return the child of a node in the first of these fields that it has."""
    children = (node.child_by_field_name(name) for name in names) if node is not None else ()
    return next(filter(None, children), None)


def child_of_type(node: Node, kind: str) -> Node | None:
    """Return the first child of a type."""
    return next((child for child in node.named_children if child.type == kind), None)


class TypeRef(NamedTuple):
    """A type reference as it is written."""

    name: str
    """With its qualifiers, without generic arguments; `[]` of an array."""
    args: tuple[TypeRef, ...] = ()
    """Generic arguments; of an array its element."""


class Parameter(NamedTuple):
    """A parameter of a method."""

    name: str
    type: TypeRef | None
    type_text: str
    is_optional: bool = False
    is_params: bool = False


class CSharpFile:
    """One file, its usings and its top-level statements."""

    def __init__(self, source: SourceText) -> None:
        self.path = source.path
        self.project = source.project
        self.data = source.text.encode()
        self.usings: list[str] = []
        self.global_usings: list[str] = []
        self.static_usings: list[TypeRef] = []
        self.aliases: dict[str, TypeRef] = {}
        #: Top-level statements, which form the main method of the program.
        self.statements: list[Node] = []

    def text_of(self, node: Node) -> str:
        """Return the lines of a declaration, with the comments directly above it."""
        first = node
        before = node.prev_sibling
        while (
            before is not None
            and before.type == "comment"
            and first.start_point.row - before.end_point.row <= 1
            and _begins_line(self.data, before.start_byte)
        ):
            first, before = before, before.prev_sibling
        start = first.start_byte
        if _begins_line(self.data, start):
            start = self.data.rfind(b"\n", 0, start) + 1
        return self.data[start : node.end_byte].decode()


class NameContext(NamedTuple):
    """The file, namespace and type that contain a name."""

    file: CSharpFile
    namespace: str
    owner: CSharpType | None

    def owners(self) -> Iterator[CSharpType]:
        """Yield the enclosing types, the innermost first."""
        owner = self.owner
        while owner is not None:
            yield owner
            owner = owner.owner

    def full_names(self, name: str) -> Iterator[str]:
        """Yield a name within each enclosing namespace, the innermost first, then outside of all."""
        parts = self.namespace.split(".") if self.namespace else []
        for count in range(len(parts), -1, -1):
            yield ".".join((*parts[:count], name))


class Part(NamedTuple):
    """A declaration of a type or member, and where it stands."""

    node: Node
    context: NameContext


class CSharpMember:
    """A method, constructor, property or similar."""

    def __init__(self, local_id: str, kind: str, name: str, owner: CSharpType, part: Part) -> None:
        self.id = local_id
        self.kind = kind
        self.name = name
        self.owner = owner
        self.parts = [part]
        #: Where the types in its signature are looked up.
        self.context = part.context
        node = part.node
        self.type_parameters = _type_parameters(node)
        self.parameters = tuple(_parameters(field_of(node, "parameters")))
        self.returns = parse_type(field_of(node, "returns", "type"))
        #: Whether it says that it takes the context of an inherited one.
        self.is_override = b"override" in _modifiers(node)
        #: Explicit interface implementations, `void IShape.Draw()`, are not called by their own name.
        explicit = child_of_type(node, "explicit_interface_specifier")
        self.is_explicit = explicit is not None
        self._explicit = parse_type(explicit.named_children[0]) if explicit is not None else None
        self._is_public = b"public" in _modifiers(node)
        self.is_extension = b"this" in _modifiers_of_first(node)

    def may_implement(self, interface: CSharpType) -> bool:
        """Return whether it can implement an interface member: explicitly, or because it is public."""
        if self._explicit is None:
            return self._is_public or self.owner.is_interface
        return last_part(self._explicit.name) == interface.name


class CSharpType:
    """A class, struct, interface, record, enum or delegate, with all parts of a partial type."""

    def __init__(self, local_id: str, full_name: str, part: Part) -> None:
        self.id = local_id
        self.full_name = full_name
        self.owner = part.context.owner
        self.parts = [part]
        self.type_parameters = _type_parameters(part.node)
        self.members: dict[str, list[CSharpMember]] = defaultdict(list)
        #: Types of fields, properties and record parameters by name; None if not stated.
        self.fields: dict[str, TypeRef | None] = {}
        #: Initializers of constant strings, by field.
        self.constants: dict[str, Node] = {}
        #: Implicit conversion operators.
        self.conversions: list[CSharpMember] = []

    @property
    def project(self) -> str:
        """The C# project that declares it."""
        return self.parts[0].context.file.project

    @property
    def is_interface(self) -> bool:
        """Whether it is an interface."""
        return self.parts[0].node.type == "interface_declaration"

    @property
    def name(self) -> str:
        """Name without namespace, outer types and number of type parameters."""
        return last_part(self.full_name).partition("`")[0]

    @property
    def class_name(self) -> str:
        """Name with outer types."""
        return f"{self.owner.class_name}.{self.name}" if self.owner else self.name

    def bases(self) -> Iterator[tuple[Part, Node, TypeRef]]:
        """Yield its base types with the part and node that name them."""
        for part in self.parts:
            for child in part.node.named_children:
                for base in child.named_children if child.type == "base_list" else ():
                    found = parse_type(field_of(base, "type") or base)
                    if found is not None and base.type != "argument_list":
                        yield part, base, found


def read_file(
    source: SourceText, types: dict[str, list[CSharpType]], graph: CodeGraph
) -> CSharpFile:
    """Parse a file and add its types and members; code that does not parse is skipped."""
    graph.begin(source.path)
    file = CSharpFile(source)
    _Reader(file, types, graph).read(_parse(source, graph).root_node)
    return file


def _parse(source: SourceText, graph: CodeGraph) -> Tree:
    """Parse a file; if it has errors, also without preprocessor directives, and use the better result."""
    tree = syntax_tree(source.text, ".cs")
    if not tree.root_node.has_error:
        return tree
    plain, is_cut = without_directives(source.text)
    again = syntax_tree(plain, ".cs")
    if _error_bytes(again.root_node) < _error_bytes(tree.root_node):
        tree = again
        if is_cut:
            reason = "is read without the code after #else and #elif: it does not parse with it"
            graph.failures.append((source.path, reason))
    if tree.root_node.has_error:
        graph.failures.append((source.path, "contains code that cannot be parsed; it is left out"))
    return tree


def _error_bytes(root: Node) -> int:
    """Return the number of bytes in errors; a missing token counts as one."""
    count = 0
    pending = [root]
    while pending:
        at = pending.pop()
        if at.type == "ERROR" or at.is_missing:
            count += max(1, at.end_byte - at.start_byte)
        elif at.has_error:
            pending.extend(at.children)
    return count


def parse_type(node: Node | None) -> TypeRef | None:
    """Return a type reference; None for `var`, pointers, tuples and the like."""
    if node is None:
        return None
    kind = node.type
    if kind in ("identifier", "predefined_type"):
        return TypeRef(node_text(node))
    if kind in ("nullable_type", "ref_type", "scoped_type"):
        return parse_type(field_of(node, "type") or next(iter(node.named_children), None))
    if kind == "array_type":
        inner = parse_type(field_of(node, "type"))
        return TypeRef("[]", (inner,)) if inner else None
    if kind == "generic_name":
        listed = child_of_type(node, "type_argument_list")
        args = listed.named_children if listed is not None else ()
        found = tuple(parse_type(each) or TypeRef("?") for each in args)
        if listed is not None and not found:
            # `typeof(Dictionary<,>)` has commas only.
            found = (TypeRef("?"),) * (listed.text or b"").count(b",")
        return TypeRef(node_text(child_of_type(node, "identifier")), found)
    if kind in ("qualified_name", "alias_qualified_name"):
        last = parse_type(node.named_children[-1])
        first = node_text(node.named_children[0])
        return last and TypeRef(f"{first}.{last.name}", last.args)
    return None


class _Reader:
    def __init__(
        self, file: CSharpFile, types: dict[str, list[CSharpType]], graph: CodeGraph
    ) -> None:
        self._file = file
        self._types = types
        self._graph = graph

    def _scope(self, node: Node | None, namespace: str, owner: CSharpType | None) -> None:
        for child in node.named_children if node is not None else ():
            if child.type == "file_scoped_namespace_declaration":
                # The declarations that follow are its siblings in the tree.
                namespace = node_text(field_of(child, "name"))
            namespace = self._declaration(child, namespace, owner)

    def read(self, root: Node) -> None:
        self._scope(root, "", None)
        if self._file.statements:
            text = "\n".join(self._file.text_of(node) for node in self._file.statements)
            self._define(id=self._file.path, symbol_type="Program", text=text, class_name="Program")

    def _declaration(self, node: Node, namespace: str, owner: CSharpType | None) -> str:
        kind = node.type
        if kind == "using_directive":
            self._using(node)
        elif kind == "namespace_declaration":
            name = node_text(field_of(node, "name"))
            inner = f"{namespace}.{name}" if namespace else name
            self._scope(field_of(node, "body"), inner, owner)
        elif kind == "file_scoped_namespace_declaration" or kind in _TRANSPARENT:
            self._scope(node, namespace, owner)
        elif kind in _TYPES:
            self._type(node, namespace, owner)
        elif kind in _MEMBERS and owner is not None:
            self._member(node, namespace, owner)
        elif kind in _FIELDS and owner is not None:
            self._fields(node, owner)
        elif kind == "global_statement":
            self._file.statements.append(node)
        return namespace

    def _using(self, node: Node) -> None:
        unnamed = {child.type for child in node.children if not child.is_named}
        target = node.named_children[-1]
        alias = field_of(node, "name")
        ref = parse_type(target)
        if alias is not None and ref is not None and alias != target:
            self._file.aliases[node_text(alias)] = ref
        elif "static" in unnamed and ref is not None:
            self._file.static_usings.append(ref)
        elif "global" in unnamed:
            self._file.global_usings.append(node_text(target))
        else:
            self._file.usings.append(node_text(target))

    def _type(self, node: Node, namespace: str, owner: CSharpType | None) -> None:
        name = node_text(field_of(node, "name"))
        if not name:
            return
        arity = len(_type_parameters(node))
        above = owner.full_name if owner else namespace
        full = ".".join(filter(None, (above, f"{name}`{arity}" if arity else name)))
        part = Part(node, NameContext(self._file, namespace, owner))
        found = self._known(full, node)
        if found is not None:
            found.parts.append(part)
        else:
            several = self._types.setdefault(full, [])
            local_id = f"{full}@{self._file.path}" if several else full
            found = CSharpType(shorten_id(local_id), full, part)
            several.append(found)
        self._define(
            id=found.id,
            symbol_type=_TYPES[node.type],
            text=self._file.text_of(node),
            class_name=found.class_name,
        )
        for parameter in _parameters(child_of_type(node, "parameter_list")):
            found.fields[parameter.name] = parameter.type
        self._scope(field_of(node, "body"), namespace, found)

    def _known(self, full: str, node: Node) -> CSharpType | None:
        """Return the type that this declaration is another part of."""
        if b"partial" not in _modifiers(node):
            return None
        for one in self._types.get(full, []):
            if one.project == self._file.project:
                return one
        return None

    def _member(self, node: Node, namespace: str, owner: CSharpType) -> None:
        kind = _MEMBERS[node.type]
        name = node_text(field_of(node, "name")) or _special_name(node)
        if kind == "Destructor":
            name = f"~{name}"
        explicit = child_of_type(node, "explicit_interface_specifier")
        display_name = f"{node_text(explicit).rstrip('.')}.{name}" if explicit is not None else name
        if kind == "Constructor" and b"static" in _modifiers(node):
            # It is never called, and its parameter list may equal that of an instance constructor.
            name = display_name = f"static {name}"
        parameters = field_of(node, "parameters")
        types = ",".join(each.type_text for each in _parameters(parameters))
        arity = len(_type_parameters(node))
        local = display_name + (f"`{arity}" if arity else "")
        local += f"({types})" if parameters is not None else ""
        local_id = shorten_id(f"{owner.id}.{local}")
        part = Part(node, NameContext(self._file, namespace, owner))
        same = next((one for one in owner.members[name] if one.id == local_id), None)
        if same is not None:
            same.parts.append(part)
        else:
            member = CSharpMember(local_id, kind, name, owner, part)
            owner.members[name].append(member)
            if any(child.type == "implicit" for child in node.children):
                owner.conversions.append(member)
        if kind == "Property":
            owner.fields[name] = parse_type(field_of(node, "type"))
        self._define(
            id=local_id,
            symbol_type=kind,
            text=self._file.text_of(node),
            class_name=owner.class_name,
            member=display_name,
            signature=_signature(self._file, node),
        )

    def _define(self, **fields: str) -> None:
        file, project = self._file.path, self._file.project
        self._graph.add_definition(
            Definition(language="csharp", file=file, project=project, **fields)
        )

    def _fields(self, node: Node, owner: CSharpType) -> None:
        declaration = child_of_type(node, "variable_declaration")
        if declaration is None:
            return
        declared = parse_type(field_of(declaration, "type"))
        for child in declaration.named_children:
            if child.type == "variable_declarator":
                name = node_text(field_of(child, "name"))
                owner.fields[name] = declared
                if declared == TypeRef("string") and _modifiers(node) & {b"const", b"readonly"}:
                    owner.constants[name] = child.named_children[-1]


def _parameters(node: Node | None) -> Iterator[Parameter]:
    """Yield the parameters; a `params` parameter is part of the list node itself."""
    for child in node.named_children if node is not None else ():
        if child.type == "parameter":
            declared = field_of(child, "type")
            yield Parameter(
                name=node_text(field_of(child, "name")),
                type=parse_type(declared),
                type_text=node_text(declared) or node_text(child),
                is_optional=any(each.type == "=" for each in child.children),
                is_params=any(node_text(each) == "params" for each in child.children),
            )
    if node is not None and any(child.type == "params" for child in node.children):
        declared = field_of(node, "type")
        name = node_text(field_of(node, "name"))
        yield Parameter(name, parse_type(declared), node_text(declared), True, True)


def _type_parameters(node: Node) -> tuple[str, ...]:
    listed = child_of_type(node, "type_parameter_list")
    if listed is None:
        return ()
    return tuple(
        node_text(field_of(child, "name") or child)
        for child in listed.named_children
        if child.type == "type_parameter"
    )


def _modifiers_of_first(node: Node) -> frozenset[bytes]:
    parameters = field_of(node, "parameters")
    first = parameters.named_children[:1] if parameters is not None else ()
    return frozenset(child.text or b"" for each in first for child in each.children)


def _modifiers(node: Node) -> frozenset[bytes]:
    return frozenset(child.text or b"" for child in node.children if child.type == "modifier")


def _special_name(node: Node) -> str:
    """Name what has a sign in the context of a name."""
    if node.type == "indexer_declaration":
        return "this[]"
    operator = field_of(node, "operator")
    return f"operator {node_text(operator) or node_text(node.child_by_field_name('type'))}"


def _signature(file: CSharpFile, node: Node) -> str:
    body = field_of(node, "body") or child_of_type(node, "accessor_list")
    end = body.start_byte if body is not None else node.end_byte
    attributes = [child.end_byte for child in node.children if child.type == "attribute_list"]
    start = attributes[-1] if attributes else node.start_byte
    return " ".join(file.data[start:end].decode().split()).rstrip(";").strip()


def _begins_line(data: bytes, at: int) -> bool:
    return not data[data.rfind(b"\n", 0, at) + 1 : at].strip()


_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)")


def without_directives(text: str) -> tuple[str, bool]:
    r"""Replace directives, and all branches of an `#if` except the first, by spaces.

    Byte offsets do not change: a character becomes as many spaces as it has bytes in UTF-8. Cost is linear.

    >>> without_directives("a(1\n#if X\n, 2\n#else\n, 3\n#endif\n)")
    ('a(1\n     \n, 2\n     \n   \n      \n)', True)
    """
    # For each open `#if`, whether its first branch has ended.
    ended: list[bool] = []
    lines: list[str] = []
    has_removed_code = False
    for line in text.split("\n"):
        found = _DIRECTIVE.match(line)
        word = found[1] if found else ""
        if word == "if":
            ended.append(False)
        elif word in ("else", "elif") and ended:
            ended[-1] = True
        elif word == "endif" and ended:
            ended.pop()
        is_removed = any(ended)
        has_removed_code = has_removed_code or (is_removed and not found and bool(line.strip()))
        lines.append(" " * len(line.encode()) if found or is_removed else line)
    return "\n".join(lines), has_removed_code


def last_part(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]
