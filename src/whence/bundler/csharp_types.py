"""C# sources: the types of a folder, their members, and the names each file sees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from whence.bundler.code_graph import Definition, Findings, shortened_id
from whence.bundler.csharp_preprocessor import without_directives
from whence.bundler.source_files import SourceText
from whence.ingest.loaders.source_code import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

__all__ = (
    "CSharpFile",
    "CSharpMember",
    "CSharpType",
    "Parameter",
    "Part",
    "TypeRef",
    "read_file",
    "type_ref",
    "words",
)

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
#: Directives around declarations, whose declarations are of the scope around them.
_AROUND = frozenset({"preproc_if", "preproc_else", "preproc_elif", "preproc_region"})
_COMMENT = "comment"


class TypeRef(NamedTuple):
    """A type as it is written."""

    name: str
    """With its qualifiers, without generic arguments; `[]` of an array."""
    args: tuple[TypeRef, ...] = ()
    """Generic arguments; of an array its element."""


class Parameter(NamedTuple):
    """A parameter of a method."""

    name: str
    type: TypeRef | None
    is_optional: bool
    is_rest: bool


class CSharpFile:
    """One file and the names that its code sees."""

    def __init__(self, source: SourceText) -> None:
        self.path = source.path
        self.project = source.project
        self.data = source.text.encode()
        self.usings: list[str] = []
        self.global_usings: list[str] = []
        self.static_usings: list[TypeRef] = []
        self.aliases: dict[str, TypeRef] = {}
        #: Statements outside of all types, which are the program's main method.
        self.statements: list[Node] = []

    def text_of(self, node: Node) -> str:
        """Return the lines of a declaration with the comments right above it."""
        first = node
        before = node.prev_sibling
        while (
            before is not None
            and before.type == _COMMENT
            and first.start_point.row - before.end_point.row <= 1
            and _begins_line(self.data, before.start_byte)
        ):
            first, before = before, before.prev_sibling
        start = first.start_byte
        if _begins_line(self.data, start):
            start = self.data.rfind(b"\n", 0, start) + 1
        return self.data[start : node.end_byte].decode()


class Part(NamedTuple):
    """A declaration of a type or member in one file."""

    file: CSharpFile
    node: Node
    namespace: str


class CSharpMember:
    """A method, constructor, property or the like."""

    def __init__(self, local_id: str, kind: str, name: str, owner: CSharpType, part: Part) -> None:
        self.id = local_id
        self.kind = kind
        self.name = name
        self.owner = owner
        self.parts = [part]
        node = part.node
        self.type_parameters = _type_parameters(node)
        self.parameters = tuple(_parameters(node.child_by_field_name("parameters")))
        returned = node.child_by_field_name("returns") or node.child_by_field_name("type")
        self.returns = type_ref(returned) if returned is not None else None
        #: Whether it says that it takes the place of an inherited one.
        self.is_override = b"override" in _modifiers(node)
        #: Members written for an interface only, `void IShape.Draw()`, which are not called by their name.
        explicit = _child(node, "explicit_interface_specifier")
        self.is_explicit = explicit is not None
        self._explicit = type_ref(explicit.named_children[0]) if explicit is not None else None
        self._is_public = b"public" in _modifiers(node)
        self.is_extension = b"this" in _modifiers_of_first(node)

    def may_implement(self, interface: CSharpType) -> bool:
        """Return whether it can be what an interface asks for: written for that one, or public."""
        if self._explicit is None:
            return self._is_public or self.owner.parts[0].node.type == "interface_declaration"
        return self._explicit.name.rpartition(".")[2] == interface.name


class CSharpType:
    """A class, struct, interface, record, enum or delegate; the parts of a partial one are one."""

    def __init__(self, local_id: str, full_name: str, owner: CSharpType | None, part: Part) -> None:
        self.id = local_id
        self.full_name = full_name
        self.owner = owner
        self.parts = [part]
        self.type_parameters = _type_parameters(part.node)
        self.members: dict[str, list[CSharpMember]] = defaultdict(list)
        #: Types of fields, properties and record parameters by name; None where it is not written.
        self.fields: dict[str, TypeRef | None] = {}
        #: Strings that never change, by the name of the field.
        self.constants: dict[str, Node] = {}
        #: Operators that make one type of another without being named.
        self.conversions: list[CSharpMember] = []

    @property
    def name(self) -> str:
        """Name without namespace, outer types and number of type parameters."""
        return self.full_name.rpartition(".")[2].partition("`")[0]

    @property
    def class_name(self) -> str:
        """Name with outer types."""
        return f"{self.owner.class_name}.{self.name}" if self.owner else self.name

    def bases(self) -> Iterator[tuple[Part, Node, TypeRef]]:
        """Yield what it inherits from, where that stands."""
        for part in self.parts:
            for child in part.node.named_children:
                if child.type != "base_list":
                    continue
                for base in child.named_children:
                    named = base.child_by_field_name("type") or base
                    found = type_ref(named)
                    if found is not None and base.type != "argument_list":
                        yield part, base, found


def read_file(
    source: SourceText, types: dict[str, list[CSharpType]], findings: Findings
) -> CSharpFile:
    """Parse a file and add its types and members; what does not parse is passed over.

    Args:
        source: The file.
        types: Takes the types, by full name; several of one name are of different projects.
        findings: Takes the definitions.
    """
    file = CSharpFile(source)
    tree = _tree(source, findings)
    reader = _Reader(file, types, findings)
    reader.scope(tree.root_node, "", None)
    reader.main()
    return file


def _tree(source: SourceText, findings: Findings) -> Tree:
    """Parse a file; one that is not understood is tried without the directives inside its statements."""
    tree = syntax_tree(source.text, ".cs")
    if not tree.root_node.has_error:
        return tree
    plain, is_cut = without_directives(source.text)
    again = syntax_tree(plain, ".cs")
    if _unread(again.root_node) < _unread(tree.root_node):
        tree = again
        if is_cut:
            reason = (
                "is read without the code after #else and #elif, with which it cannot be parsed"
            )
            findings.failures.append((source.path, reason))
    if tree.root_node.has_error:
        findings.failures.append((source.path, "has code that cannot be parsed, which is left out"))
    return tree


def _unread(root: Node) -> int:
    """Return how many bytes are not understood; what is missing counts as one."""
    count = 0
    pending = [root]
    while pending:
        at = pending.pop()
        if at.type == "ERROR" or at.is_missing:
            count += max(1, at.end_byte - at.start_byte)
        elif at.has_error:
            pending.extend(at.children)
    return count


def type_ref(node: Node | None) -> TypeRef | None:
    """Return a type as it is written; None for what names none, as `var`, pointers and tuples."""
    if node is None:
        return None
    kind = node.type
    if kind in ("identifier", "predefined_type"):
        return TypeRef(words(node))
    if kind in ("nullable_type", "ref_type", "scoped_type"):
        return type_ref(node.child_by_field_name("type") or next(iter(node.named_children), None))
    if kind == "array_type":
        inner = type_ref(node.child_by_field_name("type"))
        return TypeRef("[]", (inner,)) if inner else None
    if kind == "generic_name":
        return _generic(node)
    if kind in ("qualified_name", "alias_qualified_name"):
        last = type_ref(node.named_children[-1])
        first = words(node.named_children[0])
        return last and TypeRef(f"{first}.{last.name}", last.args)
    return None


def _generic(node: Node) -> TypeRef:
    name = words(next(child for child in node.named_children if child.type == "identifier"))
    arguments: tuple[TypeRef, ...] = ()
    for child in node.named_children:
        if child.type == "type_argument_list":
            found = [type_ref(each) or TypeRef("?") for each in child.named_children]
            # In `typeof(List<>)` there are commas only.
            arguments = tuple(found) or (TypeRef("?"),) * (child.text or b"").count(b",")
    return TypeRef(name, arguments)


def words(node: Node | None) -> str:
    """Return the text of a node on one line; empty for no node."""
    return "" if node is None or node.text is None else " ".join(node.text.decode().split())


class _Reader:
    """Finds the declarations of one file."""

    def __init__(
        self, file: CSharpFile, types: dict[str, list[CSharpType]], findings: Findings
    ) -> None:
        self._file = file
        self._types = types
        self._findings = findings

    def scope(self, node: Node, namespace: str, owner: CSharpType | None) -> None:
        """Read what is declared in a file, namespace or type."""
        for child in node.named_children:
            if child.type == "file_scoped_namespace_declaration":
                # What follows it is beside it in the tree.
                namespace = words(child.child_by_field_name("name"))
            namespace = self._declaration(child, namespace, owner)

    def main(self) -> None:
        """Make a definition of the statements outside of all types."""
        if self._file.statements:
            texts = [self._file.text_of(node) for node in self._file.statements]
            self._findings.define(
                Definition(
                    id=self._file.path,
                    language="csharp",
                    symbol_type="Program",
                    file=self._file.path,
                    text="\n".join(texts),
                    project=self._file.project,
                    class_name="Program",
                )
            )

    def _declaration(self, node: Node, namespace: str, owner: CSharpType | None) -> str:
        kind = node.type
        if kind == "using_directive":
            self._using(node)
        elif kind == "namespace_declaration":
            name = words(node.child_by_field_name("name"))
            body = node.child_by_field_name("body")
            if body is not None:
                self.scope(body, f"{namespace}.{name}" if namespace else name, owner)
        elif kind == "file_scoped_namespace_declaration" or kind in _AROUND:
            self.scope(node, namespace, owner)
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
        alias = node.child_by_field_name("name")
        ref = type_ref(target)
        if alias is not None and ref is not None and alias != target:
            self._file.aliases[words(alias)] = ref
        elif "static" in unnamed and ref is not None:
            self._file.static_usings.append(ref)
        elif "global" in unnamed:
            self._file.global_usings.append(words(target))
        else:
            self._file.usings.append(words(target))

    def _type(self, node: Node, namespace: str, owner: CSharpType | None) -> None:
        name = words(node.child_by_field_name("name"))
        if not name:
            return
        arity = len(_type_parameters(node))
        above = owner.full_name if owner else namespace
        full = ".".join(filter(None, (above, f"{name}`{arity}" if arity else name)))
        part = Part(self._file, node, namespace)
        found = self._known(full, node)
        if found is not None:
            found.parts.append(part)
        else:
            several = self._types.setdefault(full, [])
            local_id = f"{full}@{self._file.path}" if several else full
            found = CSharpType(shortened_id(local_id), full, owner, part)
            several.append(found)
        self._findings.define(
            Definition(
                id=found.id,
                language="csharp",
                symbol_type=_TYPES[node.type],
                file=self._file.path,
                text=self._file.text_of(node),
                project=self._file.project,
                class_name=found.class_name,
            )
        )
        for parameter in _parameters(_child(node, "parameter_list")):
            found.fields[parameter.name] = parameter.type
        body = node.child_by_field_name("body")
        if body is not None:
            self.scope(body, namespace, found)

    def _known(self, full: str, node: Node) -> CSharpType | None:
        """Return the type of which this is another part."""
        if b"partial" not in _modifiers(node):
            return None
        for one in self._types.get(full, []):
            if one.parts[0].file.project == self._file.project:
                return one
        return None

    def _member(self, node: Node, namespace: str, owner: CSharpType) -> None:
        kind = _MEMBERS[node.type]
        name = words(node.child_by_field_name("name")) or _unnamed(node)
        if kind == "Destructor":
            name = f"~{name}"
        explicit = _child(node, "explicit_interface_specifier")
        shown = f"{words(explicit).rstrip('.')}.{name}" if explicit is not None else name
        if kind == "Constructor" and b"static" in _modifiers(node):
            # It has no parameters, as the plain one may have none; and nobody calls it.
            name = shown = f"static {name}"
        parameters = node.child_by_field_name("parameters")
        types = ",".join(_written_types(parameters))
        arity = len(_type_parameters(node))
        local = shown + (f"`{arity}" if arity else "")
        local += f"({types})" if parameters is not None else ""
        local_id = shortened_id(f"{owner.id}.{local}")
        part = Part(self._file, node, namespace)
        same = next((one for one in owner.members[name] if one.id == local_id), None)
        if same is not None:
            same.parts.append(part)
        else:
            member = CSharpMember(local_id, kind, name, owner, part)
            owner.members[name].append(member)
            if any(child.type == "implicit" for child in node.children):
                owner.conversions.append(member)
        if kind == "Property":
            owner.fields[name] = type_ref(node.child_by_field_name("type"))
        self._findings.define(
            Definition(
                id=local_id,
                language="csharp",
                symbol_type=kind,
                file=self._file.path,
                text=self._file.text_of(node),
                project=self._file.project,
                class_name=owner.class_name,
                member=shown,
                signature=_signature(self._file, node),
            )
        )

    def _fields(self, node: Node, owner: CSharpType) -> None:
        declaration = _child(node, "variable_declaration")
        if declaration is None:
            return
        declared = type_ref(declaration.child_by_field_name("type"))
        for child in declaration.named_children:
            if child.type == "variable_declarator":
                name = words(child.child_by_field_name("name"))
                owner.fields[name] = declared
                if declared == TypeRef("string") and _modifiers(node) & {b"const", b"readonly"}:
                    owner.constants[name] = child.named_children[-1]


def _written_types(parameters: Node | None) -> Iterator[str]:
    """Yield the types of parameters as they are written; that after `params` stands in the list itself."""
    if parameters is None:
        return
    for each in parameters.named_children:
        if each.type == "parameter":
            yield words(each.child_by_field_name("type")) or words(each)
    rest = parameters.child_by_field_name("type")
    if rest is not None:
        yield words(rest)


def _parameters(node: Node | None) -> Iterator[Parameter]:
    """Yield the parameters; the last with `params` stands in the list itself."""
    if node is None:
        return
    for child in node.named_children:
        if child.type == "parameter":
            name = child.child_by_field_name("name")
            plain = [each for each in child.children if each.type == "="]
            rest = any(words(each) == "params" for each in child.children)
            declared = type_ref(child.child_by_field_name("type"))
            yield Parameter(words(name), declared, bool(plain), rest)
    if any(child.type == "params" for child in node.children):
        name = node.child_by_field_name("name")
        yield Parameter(words(name), type_ref(node.child_by_field_name("type")), True, True)


def _type_parameters(node: Node) -> tuple[str, ...]:
    listed = _child(node, "type_parameter_list")
    if listed is None:
        return ()
    return tuple(
        words(child.child_by_field_name("name") or child)
        for child in listed.named_children
        if child.type == "type_parameter"
    )


def _modifiers_of_first(node: Node) -> frozenset[bytes]:
    parameters = node.child_by_field_name("parameters")
    first = next(iter(parameters.named_children), None) if parameters is not None else None
    if first is None:
        return frozenset()
    return frozenset(child.text or b"" for child in first.children)


def _modifiers(node: Node) -> frozenset[bytes]:
    return frozenset(child.text or b"" for child in node.children if child.type == "modifier")


def _child(node: Node, kind: str) -> Node | None:
    return next((child for child in node.named_children if child.type == kind), None)


def _unnamed(node: Node) -> str:
    """Name what has a sign in the place of a name."""
    if node.type == "indexer_declaration":
        return "this[]"
    operator = node.child_by_field_name("operator")
    return f"operator {words(operator) or words(node.child_by_field_name('type'))}"


def _signature(file: CSharpFile, node: Node) -> str:
    body = node.child_by_field_name("body") or _child(node, "accessor_list")
    end = body.start_byte if body is not None else node.end_byte
    attributes = [child.end_byte for child in node.children if child.type == "attribute_list"]
    start = attributes[-1] if attributes else node.start_byte
    return " ".join(file.data[start:end].decode().split()).rstrip(";").strip()


def _begins_line(data: bytes, at: int) -> bool:
    return not data[data.rfind(b"\n", 0, at) + 1 : at].strip()
