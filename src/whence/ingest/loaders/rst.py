"""Load reStructuredText: text without roles, directives and other markup, with the lines it stands on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import build_document, lone_heading
from whence.ingest.document_dates import stated_date
from whence.ingest.front_matter import read_front_matter
from whence.ingest.html_elements import PICTURES, picture_text
from whence.ingest.html_hidden import STRUCK
from whence.ingest.loaders.base import Loader
from whence.ingest.roles import without_left_over_roles
from whence.ingest.source_lines import SourceLines
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import LINE_END, TextBuilder, code_span, lowered, raised
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from docutils import nodes

#: Nodes without text of the document.
_NOTHING = frozenset(
    [
        "comment",
        "target",
        "pending",
        "substitution_definition",
        "transition",
        "meta",
        "raw",
        "title",
        "decoration",
    ]
)
#: Characters of what stands for a substitution; of a longer one its name is shown.
_MAX_SUBSTITUTED = 10_000
_FIELDS = {
    "param": "", "parameter": "", "arg": "", "argument": "", "key": "", "keyword": "", "kwarg": "", "type": "Type of",
    "raises": "Raises", "raise": "Raises", "except": "Raises", "exception": "Raises", "var": "", "ivar": "",
    "cvar": "", "vartype": "Type of", "returns": "Returns", "return": "Returns", "rtype": "Return type",
}  # fmt: skip
#: Roles of raised, lowered and struck text.
_RAISED = frozenset(["sup", "superscript"])
_LOWERED = frozenset(["sub", "subscript"])
_STRUCK = frozenset(["del", "s", "strike", "strikethrough", "line-through", "struck"])
#: Signs of footnotes in their order.
_SYMBOLS = "*\u2020\u2021\u00a7\u00b6#"
_PAGE_FIELD_NAMES = """orphan tocdepth nocomments nosearch no-search hide-toc hidetoc html_theme og description
    keywords"""
#: Fields that say how a page is built.
_PAGE_FIELDS = frozenset(_PAGE_FIELD_NAMES.split())


def load_rst(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file; its title is that of the front matter, else of the only section of the top level."""
    return load_written(file, data, write_rst)


def load_written(
    file: SourceFile, data: bytes, write: Callable[[str, int], TextBuilder]
) -> ParsedDocument:
    """Load a file of text; its title is that of the front matter, else the only heading of the top level.

    Args:
        file: The file.
        data: Its bytes.
        write: Returns the clean text of a source that begins at an offset, below the front matter.
    """
    decoded = decode_text(data, file.encoding)
    front = read_front_matter(decoded.text)
    builder = write(decoded.text, front.end)
    return build_document(
        file,
        builder.text,
        builder.blocks,
        front=front,
        title=lone_heading(builder.blocks),
        encoding=decoded.encoding,
        places=builder.places,
        date=stated_date(front.values) or builder.date,
        left_out=decoded.left_out | builder.left_out,
    )


def write_rst(text: str, start: int = 0) -> TextBuilder:
    r"""Return the text of reStructuredText that begins at an offset; line ends must be `\n`.

    Raises:
        BadInput: It is nested too deeply.
    """
    builder = TextBuilder()
    write_rst_into(builder, text[start:], text.count("\n", 0, start) + 1)
    return builder


def write_rst_into(builder: TextBuilder, text: str, line: int) -> None:
    """Write reStructuredText that begins on a line of the file, from 1.

    Raises:
        BadInput: It is nested too deeply.
    """
    from whence.ingest.rst_syntax import parse

    # Empty lines stand for what is above, so that lines are those of the file.
    whole = "\n" * (line - 1) + text
    try:
        tree = parse(whole)
        builder.date = builder.date or _stated_date(tree)
        _Writer(builder, tree, SourceLines(whole)).write_all(tree, line)
    except RecursionError as error:
        raise BadInput("is nested too deeply") from error


class _Writer:
    """Writes the nodes of a tree in order."""

    def __init__(self, text: TextBuilder, tree: nodes.document, lines: SourceLines) -> None:
        from whence.ingest.rst_syntax import titles_by_label

        self._text = text
        self._lines = lines
        self._substitutions: dict[str, Any] = {
            name.casefold(): node for name, node in tree.substitution_defs.items()
        }
        #: Text by name and whether it has code; empty while it is made, for one that names itself.
        self._substituted_texts: dict[tuple[str, bool], str] = {}
        self._footnotes = _footnote_numbers(tree)
        self._notes = {self._note_key(node): node for node in reversed(_all_notes(tree))}
        self._referred = {
            self._note_key(node)
            for node in tree.findall()
            if type(node).__name__ in ("footnote_reference", "citation_reference")
        }
        self._shown: set[tuple[str, str]] = set()
        self._pending: list[Any] = []
        self._titles = titles_by_label(tree)
        self._level = 0
        self._blocks: dict[str, Callable[[Any, int], None]] = {
            "paragraph": self._paragraph,
            "rubric": self._paragraph,
            "attribution": self._attribution,
            "literal_block": self._code,
            "doctest_block": self._code,
            "math_block": self._code,
            "bullet_list": self._list,
            "enumerated_list": self._list,
            "definition_list": self._definitions,
            "option_list": self._options,
            "field_list": self._fields,
            "docinfo": self._fields,
            "table": self._table,
            "line_block": self._line_block,
            "footnote": self._note,
            "citation": self._note,
            "section": self._section,
            "system_message": self._message,
            "Lead": self._lead,
            "image": self._picture,
        }

    def write_all(self, tree: nodes.document, line: int) -> None:
        """Write a text that begins on a line, and each note in the section that refers to it first."""
        self.write(tree, line)
        self._write_notes()

    def write(self, node: nodes.Element, line: int) -> None:
        """Write the blocks below a node; `line` is that of the nearest ancestor with a known line."""
        for child in node.children:
            name = type(child).__name__
            if name in _NOTHING:
                continue
            own = getattr(child, "line", None) or line
            self._blocks.get(name, self.write)(child, own)

    # --- blocks ------------------------------------------------------------------------------------

    def _section(self, node: nodes.Element, line: int) -> None:
        self._write_notes()
        self._level += 1
        title = next((child for child in node.children if type(child).__name__ == "title"), None)
        if title is not None:
            self._heading(self._inline(title, has_code=False), line)
        self.write(node, line)
        self._level -= 1

    def _heading(self, words: str, line: int) -> None:
        self._text.add_heading(self._level, words, line=self._lines.nearest(words, line))

    def _paragraph(self, node: nodes.Element, line: int) -> None:
        words = self._inline(node)
        if words.endswith("::"):
            words = words[:-1]
        # A reference may show words that the file has elsewhere, so the source is what is searched.
        own = self._lines.nearest(node.rawsource or words, line)
        self._text.add_paragraph(words, line=own)

    def _attribution(self, node: nodes.Element, line: int) -> None:
        words = f"\u2014 {self._inline(node)}"
        self._text.add_paragraph(words, line=self._lines.nearest(words, line))

    def _lead(self, node: nodes.Element, line: int) -> None:
        self._text.lead_in(node["words"], line=line)

    def _code(self, node: nodes.Element, line: int) -> None:
        from whence.ingest.rst_syntax import lines_of

        language = node.get("language", "")
        if not language and "code" in node.get("classes", ()):
            language = next((one for one in node["classes"] if one != "code"), "")
        lines = lines_of(node)
        first = next((each for each in lines if each.strip()), "")
        blank = next((at for at, each in enumerate(lines) if each.strip()), 0)
        begin = self._lines.nearest(first, line + blank)
        self._text.add_code(lines, language=language, line=max(0, begin - blank))

    def _list(self, node: nodes.Element, line: int) -> None:
        is_numbered = type(node).__name__ == "enumerated_list"
        number = int(node.get("start", 1))
        with self._text.block():
            for item in node.children:
                with self._text.item(f"{number}. " if is_numbered else "- "):
                    self.write(item, getattr(item, "line", None) or line)
                number += 1

    def _definitions(self, node: nodes.Element, line: int) -> None:
        with self._text.block():
            for item in node.children:
                terms: list[str] = []
                bodies: list[Any] = []
                own = getattr(item, "line", None) or line
                for child in item.children:
                    kind = type(child).__name__
                    if kind == "term":
                        terms.append(self._inline(child))
                        own = getattr(child, "line", None) or own
                    elif kind == "classifier" and terms:
                        terms[-1] += f" : {self._inline(child)}"
                    elif kind == "definition":
                        bodies.append(child)
                first = self._lines.nearest(terms[0], own) if terms else own
                with self._text.definition(terms, line=first):
                    for body in bodies:
                        self.write(body, own)

    def _options(self, node: nodes.Element, line: int) -> None:
        with self._text.block():
            for item in node.children:
                group, body = item.children[0], item.children[-1]
                term = ", ".join(code_span(option.astext()) for option in group.children)
                own = self._lines.nearest(term, getattr(item, "line", None) or line)
                with self._text.definition([term], line=own):
                    self.write(body, own)

    def _fields(self, node: nodes.Element, line: int) -> None:
        """Write fields as items: `- `x` (int): text` for `:param int x: text`."""
        kept = [item for item in node.children if _is_text_field(item)]
        if not kept:
            return
        with self._text.block():
            for item in kept:
                own = getattr(item, "line", None) or line
                lead = self._field_name(item.children[0])
                with self._text.item():
                    first = self._lines.nearest(lead, own)
                    self._text.lead_in(lead, line=first)
                    self.write(item.children[-1], first)
                    self._text.end_lead_in()

    def _field_name(self, node: Any) -> str:
        words = self._inline(node, has_code=False)
        name, _, rest = words.partition(" ")
        if name not in _FIELDS:
            return words[:1].upper() + words[1:]
        # `:param int x:` has the type before the name.
        *kind, last = rest.split() or [""]
        shown = " ".join(filter(None, (_FIELDS[name], code_span(last))))
        return f"{shown} ({' '.join(kind)})" if kind else shown

    def _table(self, node: nodes.Element, line: int) -> None:
        for title in node.findall():
            if type(title).__name__ == "title":
                self._paragraph(title, line)
                break
        rows: list[list[str]] = []
        lines: list[tuple[int, int]] = []
        heads = 0
        # Cells that go on in the rows below: text and rows that are left, by column.
        spanning: dict[int, tuple[str, int]] = {}
        for row in node.findall():
            if type(row).__name__ != "row":
                continue
            entries = [one for one in row.children if type(one).__name__ == "entry"]
            cells = [self._cell(one) for one in entries]
            lines.append(self._row_lines(row, cells, lines[-1][0] if lines else line))
            rows.append(_spread(entries, cells, spanning))
            heads += type(row.parent).__name__ == "thead"
        self._text.add_table(rows, header_rows=heads, lines=lines)

    def _row_lines(self, row: Any, cells: Sequence[str], above: int) -> tuple[int, int]:
        """Return the first and last line of a row; those that docutils counts in a cell are too small."""
        words = next((cell for cell in cells if cell.strip()), "")
        known = [
            (at, at + below.rawsource.count("\n"))
            for below in row.findall()
            if (at := getattr(below, "line", None) or 0) >= above
        ]
        first = self._lines.nearest(words, min((at for at, _ in known), default=above))
        return first, max((at for _, at in known), default=first)

    def _cell(self, entry: Any) -> str:
        """Return the blocks of a cell as one line."""
        parts = [
            self._inline(child)
            for child in entry.findall()
            if type(child).__name__ in ("paragraph", "literal_block", "term")
        ]
        is_list = any(type(child).__name__.endswith("_list") for child in entry.children)
        return ("; " if is_list else " ").join(filter(None, map(str.strip, parts)))

    def _line_block(self, node: nodes.Element, line: int) -> None:
        lines = [self._inline(child) for child in node.findall() if type(child).__name__ == "line"]
        self._text.add_lines(lines, line=self._lines.nearest("\n".join(lines).lstrip(), line))

    def _picture(self, node: nodes.Element, line: int) -> None:
        words = self._picture_text(node)
        self._text.add_paragraph(words, line=self._lines.nearest(words, line) if words else line)

    def _picture_text(self, node: nodes.Element) -> str:
        words = picture_text(node.get("alt", ""))
        self._text.left_out[PICTURES] += not words
        return words

    def _note_key(self, node: Any) -> tuple[str, str]:
        """Return what a note and its marks have in common: the kind and the label."""
        kind = type(node).__name__.removesuffix("_reference")
        label = self._footnotes.get(id(node), "") if kind == "footnote" else ""
        if not label and node.children:
            first = node.children[0]
            label = first.astext() if type(first).__name__ in ("label", "Text") else ""
        return kind, label

    def _note(self, node: nodes.Element, line: int) -> None:
        """Write a note that nothing refers to, or that has the label of another one, where it stands."""
        key = self._note_key(node)
        if key not in self._referred or self._notes[key] is not node:
            self._write_note(node, line)

    def _write_notes(self) -> None:
        while self._pending:
            node = self._pending.pop(0)
            self._write_note(node, getattr(node, "line", None) or 1)

    def _write_note(self, node: nodes.Element, line: int) -> None:
        kind, label = self._note_key(node)
        self._text.lead_in(f"Note {label}" if kind == "footnote" else f"[{label}]", line=line)
        self._write_after_label(node, line)

    def _note_mark(self, node: nodes.Element) -> str:
        """Return the mark of a note, and let the note be written with the section."""
        key = self._note_key(node)
        note = self._notes.get(key)
        if note is not None and key not in self._shown:
            self._shown.add(key)
            self._pending.append(note)
        label = key[1] or node.get("refname", "")
        return f"[{label}]" if label else ""

    def _write_after_label(self, node: nodes.Element, line: int) -> None:
        for child in node.children:
            name = type(child).__name__
            if name != "label" and name not in _NOTHING:
                own = getattr(child, "line", None) or line
                self._blocks.get(name, self.write)(child, own)

    def _message(self, node: nodes.Element, line: int) -> None:
        """Write a title that docutils did not expect; other text of messages is not the document's."""
        message = node.children[0].astext() if node.children else ""
        if "title" not in message:
            return
        for child in node.children[1:2]:
            rows = [row.strip() for row in child.astext().split("\n") if row.strip()]
            words = [row for row in rows if any(map(str.isalnum, row))]
            if words:
                self._level += 1
                self._heading(" ".join(words), line)
                self._level -= 1

    # --- inline ------------------------------------------------------------------------------------

    def _inline(self, node: Any, *, has_code: bool = True) -> str:
        """Return the text of a node; line ends are those of the file."""
        pieces = [""]
        for child in node.children:
            words = self._inline_node(child, has_code=has_code)
            role = child.get("role", "") if type(child).__name__ == "inline" else ""
            if type(child).__name__ == "superscript" or role in _RAISED:
                words = raised(words, pieces[-1])
            elif type(child).__name__ == "subscript" or role in _LOWERED:
                words = lowered(words, pieces[-1])
            elif role in _STRUCK:
                self._text.left_out[STRUCK] += 1
                words = LINE_END * words.count("\n")
            if words:
                pieces.append(words)
        return "".join(pieces)

    def _inline_node(self, node: Any, *, has_code: bool) -> str:
        name = type(node).__name__
        if name == "Text":
            return without_left_over_roles(str(node.astext()))
        if name in ("footnote_reference", "citation_reference"):
            return self._note_mark(node)
        if name == "image":
            return self._picture_text(node)
        if name == "substitution_reference":
            return self._substituted(node, has_code=has_code)
        if name in ("raw", "system_message", "label"):
            return ""
        if name == "inline" and node.get("label", "").lower() in self._titles:
            words = self._titles[node["label"].lower()]
        elif name == "literal":
            words = code_span(node.astext()) if has_code else node.astext()
        else:
            words = self._inline(node, has_code=has_code)
        # The address of a link has lines of the file and none of the text.
        missing: int = node.rawsource.count("\n") - words.count("\n")
        return f"{words}{LINE_END * missing}"

    def _substituted(self, node: Any, *, has_code: bool) -> str:
        """Return what stands for a substitution; made once, since each may name others several times."""
        key = (node.get("refname", "").casefold(), has_code)
        if key not in self._substituted_texts:
            found = self._substitutions.get(key[0])
            self._substituted_texts[key] = ""
            words = str(node.astext()) if found is None else self._inline(found, has_code=has_code)
            is_long = len(words) > _MAX_SUBSTITUTED
            self._substituted_texts[key] = key[0] if is_long else words.replace("\n", " ")
        return self._substituted_texts[key]


def _spread(
    entries: Sequence[Any], cells: Sequence[str], spanning: dict[int, tuple[str, int]]
) -> list[str]:
    """Return the texts of a row, those of spanned cells in each of their columns."""
    texts: list[str] = []
    pending = list(zip(entries, cells, strict=True))[::-1]
    while pending or len(texts) in spanning:
        if len(texts) in spanning:
            words, left = spanning.pop(len(texts))
            if left > 1:
                spanning[len(texts)] = (words, left - 1)
            texts.append(words)
            continue
        entry, words = pending.pop()
        down = int(entry.get("morerows", 0))
        for _ in range(int(entry.get("morecols", 0)) + 1):
            if down:
                spanning[len(texts)] = (words, down)
            texts.append(words)
    return texts


def _all_notes(tree: Any) -> list[Any]:
    return [node for node in tree.findall() if type(node).__name__ in ("footnote", "citation")]


def _stated_date(tree: Any) -> str:
    """Return the date in the fields at the top of a text; empty if they have none."""
    for node in tree.children[:3]:
        fields = node if type(node).__name__ == "field_list" else None
        if fields is None and type(node).__name__ == "section":
            lists = [child for child in node.children[:3] if type(child).__name__ == "field_list"]
            fields = lists[0] if lists else None
        if fields is not None:
            values = {
                each.children[0].astext(): each.children[-1].astext() for each in fields.children
            }
            return stated_date(values)
    return ""


def _is_text_field(item: Any) -> bool:
    name = item.children[0].astext().partition(":")[0].lower()
    return name not in _PAGE_FIELDS and bool(item.children[-1].astext().strip())


def _footnote_numbers(tree: Any) -> dict[int, str]:
    """Return the numbers of automatic footnotes and of references to them, by identity of their nodes."""
    numbers: dict[int, str] = {}
    taken = {name for node in tree.footnotes for name in node["names"]}
    by_name: dict[str, str] = {}
    anonymous: list[str] = []
    number = 1
    for node in tree.autofootnotes:
        while str(number) in taken:
            number += 1
        numbers[id(node)] = str(number)
        names: Sequence[str] = node["names"]
        by_name.update(dict.fromkeys(names, str(number)))
        if not names:
            anonymous.append(str(number))
        number += 1
    for at, node in enumerate(tree.symbol_footnotes):
        numbers[id(node)] = _symbol(at)
    for at, node in enumerate(tree.symbol_footnote_refs):
        numbers[id(node)] = _symbol(at)
    pending = iter(anonymous)
    for node in tree.autofootnote_refs:
        name = node.get("refname", "")
        numbers[id(node)] = by_name.get(name, "") if name else next(pending, "")
    return numbers


def _symbol(at: int) -> str:
    """Return the sign of a footnote without a number, by its order."""
    return _SYMBOLS[at % len(_SYMBOLS)] * (at // len(_SYMBOLS) + 1)


LOADERS = (
    Loader(
        name="reStructuredText",
        suffixes=(".rst", ".rest"),
        parse_file=load_rst,
        is_plain=True,
        version="8",
    ),
)
