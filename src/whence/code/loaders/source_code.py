"""Load source code: one section for each function and class, under its qualified name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from whence.ingest.blocks import Block, BlockKind, ParsedDocument, line_places
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput, missing_extra
from whence.text.spans import Span, trimmed

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree


class _Language(msgspec.Struct, frozen=True):
    name: str
    suffixes: tuple[str, ...]
    module: str
    """Module of the grammar."""
    definitions: frozenset[str]
    """Functions, and types with members."""
    function: str = "language"
    separator: str = "."
    comments: frozenset[str] = frozenset({"comment"})
    """Nodes above a definition that belong to it."""


def _language(
    name: str, suffixes: str, module: str, definitions: str, *, above: str = "", **options: str
) -> _Language:
    comments = frozenset({"comment", *above.split()})
    kinds = frozenset(definitions.split())
    return _Language(name, tuple(suffixes.split()), module, kinds, comments=comments, **options)


_ECMA = (
    "function_declaration generator_function_declaration class_declaration abstract_class_declaration"
    " method_definition interface_declaration enum_declaration internal_module variable_declarator"
)
# fmt: off
_LANGUAGES = (
    _language(
        "Python", ".py .pyi .pyw", "tree_sitter_python", "function_definition class_definition"
    ),
    _language(
        "C#", ".cs", "tree_sitter_c_sharp",
        "namespace_declaration class_declaration struct_declaration interface_declaration record_declaration"
        " enum_declaration method_declaration constructor_declaration destructor_declaration"
        " operator_declaration delegate_declaration",
    ),
    _language("JavaScript", ".js .jsx .mjs .cjs", "tree_sitter_javascript", _ECMA),
    _language(
        "TypeScript", ".ts .mts .cts", "tree_sitter_typescript", _ECMA, function="language_typescript"
    ),
    _language("TypeScript", ".tsx", "tree_sitter_typescript", _ECMA, function="language_tsx"),
    _language(
        "Go", ".go", "tree_sitter_go", "function_declaration method_declaration type_spec"
    ),
    _language(
        "Java", ".java", "tree_sitter_java",
        "class_declaration interface_declaration enum_declaration record_declaration"
        " annotation_type_declaration method_declaration constructor_declaration",
        above="line_comment block_comment",
    ),
    _language(
        "Rust", ".rs", "tree_sitter_rust",
        "function_item struct_item enum_item trait_item impl_item mod_item union_item macro_definition",
        above="line_comment block_comment attribute_item", separator="::",
    ),
    _language(
        "C", ".c", "tree_sitter_c",
        "function_definition struct_specifier enum_specifier union_specifier",
    ),
    # The grammar of C++ also reads C headers.
    _language(
        "C++", ".cpp .cc .cxx .h .hh .hpp .hxx", "tree_sitter_cpp",
        "function_definition struct_specifier class_specifier enum_specifier union_specifier"
        " namespace_definition",
        separator="::",
    ),
)
# fmt: on
_BY_SUFFIX = {suffix: language for language in _LANGUAGES for suffix in language.suffixes}
#: Nodes around a definition that have no name: a decorator, `export`, a template.
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "template_declaration", "lexical_declaration"}
    | {"variable_declaration", "type_declaration", "type_definition", "declaration"}
    | {"ambient_declaration", "expression_statement", "linkage_specification", "field_declaration"}
)
#: Declarations whose name is a prefix of all that follow.
_PREFIXES = frozenset({"file_scoped_namespace_declaration", "package_declaration"})
#: Values of a variable that are functions.
_FUNCTIONS = frozenset(
    {"arrow_function", "function", "function_expression", "generator_function", "class"}
)
_WITH_BODY = frozenset({"struct_specifier", "enum_specifier", "union_specifier", "class_specifier"})
_WORD = re.compile(r"\w")
#: The parser calls after each hundred steps: code needs one call for 50 to 1,000 bytes, repeated tokens one for
#: 10. On some input the parsers of grammars do not end.
_LEAST_CALLS, _BYTES_PER_CALL = 1000, 4
_BLOCK = 2**16
#: A definition nested deeper is part of the innermost section.
_MAX_DEPTH = 40


class _Section(msgspec.Struct, frozen=True):
    """A definition: rows from the first comment above it to its last line."""

    first: int
    body: int
    """Row after its name."""
    end: int
    """Row after its last."""
    path: tuple[str, ...]
    children: tuple[_Section, ...] = ()


def load_code(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of source code; its title is its path."""
    decoded = decode_text(data, file.encoding)
    text = decoded.text
    blocks = code_blocks(text, file.suffix)
    return build_document(
        file,
        text,
        blocks,
        title=file.document_id,
        encoding=decoded.encoding,
        places=line_places(text, blocks),
        left_out=decoded.left_out,
        is_preformatted=True,
    )


def code_blocks(text: str, suffix: str) -> tuple[Block, ...]:
    r"""Return the blocks of source code; line ends must be `\n`.

    A definition with the comments above it is a section with its qualified name as heading. Code that does not
    parse stays in the enclosing section. Cost is linear in the text.
    """
    tree = syntax_tree(text, suffix)
    sections = tuple(_Finder(_BY_SUFFIX[suffix]).below(tree.root_node, (), 0))
    # The offsets of each line without its end.
    rows: list[Span] = []
    start = 0
    for line in text.split("\n"):
        rows.append((start, start + len(line)))
        start += len(line) + 1
    return tuple(_attach_closing_brackets(text, _blocks(text, rows, sections, (0, len(rows)), ())))


def syntax_tree(text: str, suffix: str) -> Tree:
    """Parse source code in the language of a file suffix, e.g. `.cs`.

    Raises:
        BadInput: The parser takes more steps than any code needs, or does not end.
    """
    data, parser = text.encode(), _parser(_BY_SUFFIX[suffix])
    left = _LEAST_CALLS + len(data) // _BYTES_PER_CALL

    def is_over(_offset: int, _has_error: bool) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def read(start: int, _point: object) -> bytes:
        return data[start : start + _BLOCK]

    try:
        return parser.parse(read, progress_callback=is_over)
    except ValueError as error:
        parser.reset()
        raise BadInput("takes too many steps to parse as source code") from error


@cache
def _parser(language: _Language) -> Parser:
    try:
        from tree_sitter import Language, Parser

        module = import_module(language.module)
    except ImportError as error:
        raise missing_extra("code", f"reading {language.name}") from error
    function: Callable[[], object] = getattr(module, language.function)
    return Parser(Language(function()))


class _Finder:
    def __init__(self, language: _Language) -> None:
        self._language = language

    def below(self, node: Node, path: tuple[str, ...], depth: int) -> Iterator[_Section]:
        """Yield the definitions below a node, with nested ones as children."""
        if depth > _MAX_DEPTH:
            return
        comment: Node | None = None
        comment_end = -1
        for child in node.children:
            if child.type in self._language.comments:
                # Adjacent comments without an empty line between them form one comment.
                if comment is None or child.start_point.row > comment_end + 1:
                    comment = child
                comment_end = _last_row(child)
                continue
            if child.type in _PREFIXES and not path:
                path = (node_text(child.child_by_field_name("name") or child.named_children[-1]),)
            is_attached = comment is not None and child.start_point.row <= comment_end + 1
            first = (comment if comment is not None and is_attached else child).start_point.row
            yield from self._sections(child, first, path, depth)
            comment, comment_end = None, -1

    def _sections(
        self, node: Node, first: int, path: tuple[str, ...], depth: int
    ) -> Iterator[_Section]:
        definition = self._definition(node)
        if definition is None:
            yield from self.below(node, path, depth + 1)
            return
        name = self._name(definition)
        own = (*path, f"{path[-1]}{self._language.separator}{name}" if path else name)
        children = tuple(self.below(definition, own, depth + 1))
        named = definition.child_by_field_name("name") or definition
        body = min(named.start_point.row, _last_row(definition)) + 1
        end = _last_row(node) + 1
        yield _Section(first, body, max(end, body), own, children)

    def _definition(self, node: Node) -> Node | None:
        """Return the definition that a node is or wraps; None if it is neither."""
        for _ in range(4):
            if node.type in self._language.definitions:
                return node if self._name(node) else None
            if node.type not in _WRAPPERS:
                return None
            inner = [
                child
                for child in node.named_children
                if child.type in self._language.definitions or child.type in _WRAPPERS
            ]
            if len(inner) != 1:
                return None
            node = inner[0]
        return None

    def _name(self, node: Node) -> str:
        if node.type == "variable_declarator":
            value = node.child_by_field_name("value")
            if value is None or value.type not in _FUNCTIONS:
                return ""
        if node.type in _WITH_BODY and node.child_by_field_name("body") is None:
            return ""
        if node.type == "impl_item":
            return node_text(node.child_by_field_name("type"))
        name = node_text(node.child_by_field_name("name")) or _declarator_name(node)
        receiver = node.child_by_field_name("receiver")
        if receiver is not None:
            name = f"{_receiver(receiver)}{self._language.separator}{name}"
        return name


def _last_row(node: Node) -> int:
    """Return the last row with characters of a node; a final line end does not reach the next row."""
    row, column = node.end_point
    return max(row - 1, node.start_point.row) if column == 0 else row


def node_text(node: Node | None) -> str:
    """Return the text of a node on one line; empty for None."""
    return "" if node is None or node.text is None else " ".join(node.text.decode().split())


def _declarator_name(node: Node) -> str:
    """Return the name inside C declarators: `f` for `char *f(int)`."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None:
        below = [each for each in declarator.named_children if each.type.endswith("declarator")]
        inner = declarator.child_by_field_name("declarator") or next(iter(below), None)
        if inner is None:
            return node_text(declarator)
        declarator = inner
    return ""


def _receiver(node: Node) -> str:
    """Return the type of a Go receiver: `Server` for `(s *Server[T])`."""
    words = node_text(node).strip("()").split()
    return words[-1].lstrip("*").partition("[")[0] if words else ""


def _attach_closing_brackets(text: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """Attach closing brackets to the block they close, so that they are not a chunk of their own."""
    last: Block | None = None
    for block in blocks:
        is_closing = not any(_WORD.search(text, *part) for part in block.parts)
        if last is not None:
            yield last
        last = block._replace(kind="atomic", path=last.path) if last and is_closing else block
    if last is not None:
        yield last


def _blocks(
    text: str,
    rows: list[Span],
    sections: tuple[_Section, ...],
    window: tuple[int, int],
    path: tuple[str, ...],
) -> Iterator[Block]:
    """Yield the blocks of some rows; a row shared by definitions belongs to the outer or first one."""
    row, end = window
    for section in sections:
        if section.end > end or section.end <= row:
            continue
        if section.first < row:
            yield from _blocks(text, rows, section.children, (row, section.end), section.path)
            row = section.end
            continue
        yield from _block(text, rows, "atomic", (row, section.first), path)
        kind: BlockKind = "heading" if section.end > section.body else "atomic"
        yield from _block(text, rows, kind, (section.first, section.body), section.path)
        inside = (section.body, section.end)
        yield from _blocks(text, rows, section.children, inside, section.path)
        row = section.end
    yield from _block(text, rows, "atomic", (row, end), path)


def _block(
    text: str, rows: list[Span], kind: BlockKind, window: tuple[int, int], path: tuple[str, ...]
) -> Iterator[Block]:
    parts = [span for row in rows[slice(*window)] if (span := trimmed(text, *row))]
    if parts:
        yield Block(kind, path, tuple(parts))


LOADERS = tuple(
    Loader(
        name=each.name,
        suffixes=each.suffixes,
        parse_file=load_code,
        module=each.module,
        extra="code",
        version="2",
    )
    for each in _LANGUAGES
)
