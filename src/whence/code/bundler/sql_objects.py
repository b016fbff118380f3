"""Find the objects and statements in SQL sources, and which objects each reads, writes and executes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from whence.code.bundler.code_graph import (
    CodeGraph,
    Definition,
    Edge,
    Resolution,
    StringLiteral,
    shorten_id,
)
from whence.code.bundler.source_files import SourceText
from whence.code.bundler.sql_references import SqlReference, is_sql, sql_references
from whence.code.loaders.sql import BATCH_END, SqlStatement, skip_comments, sql_statements
from whence.schema.code_ids import SQL_PREFIX, validate_local_id
from whence.schema.errors import BadInput

_KINDS = {
    "table": "Table",
    "view": "View",
    "procedure": "Procedure",
    "proc": "Procedure",
    "function": "Function",
    "aggregate": "Function",
    "trigger": "Trigger",
    "synonym": "Synonym",
    "type": "Type",
    "domain": "Type",
    "sequence": "Sequence",
    "package": "Package",
    "package body": "Package",
}
_CALLABLE = ("Procedure", "Function")
_ROUTINES = frozenset({*_CALLABLE, "Trigger", "View"})
#: Indications of SQL Server: batch separators, the schema `dbo`, keywords.
_TSQL = re.compile(
    r"(?im)^[ \t]*+GO[ \t]*+(?:;[ \t]*+)?$|\[?\bdbo\]?\s*\.|\bNVARCHAR\b|\bEXEC\s|\bDECLARE\s+@|\bNOCOUNT\b"
)
_FIRST_WORD = re.compile(r"\w+")
_IGNORED_STATEMENTS = frozenset(
    {"set", "use", "go", "print", "begin", "commit", "rollback", "end", "start", "drop", "if"}
    | {"comment", "grant", "revoke", "deny", "declare", "checkpoint", "raiserror", "pragma"}
)
#: The beginning of a statement on a line of its own.
_STATEMENT_START = re.compile(
    r"(?im)^(?:create|alter)\s+(?:or\s+alter\s+)?(?:unique\s+)?(?:(?:non)?clustered\s+)?"
    r"(?:table|view|index|function|procedure|proc|trigger|type|synonym|sequence|schema)\s"
)
_INDEX_ON = re.compile(
    r"""(?is)\A(?>.*?\bindex\b).*?\bon\s+(?:only\s+)?
    (?P<name>(?:\[[^\]]{1,256}\]|"[^"]{1,256}"|`[^`]{1,256}`|[\w$]+)
    (?:\s*\.\s*(?:\[[^\]]+\]|"[^"]+"|`[^`]+`|[\w$]+))*)""",
    re.VERBOSE,
)
_PART = re.compile(r'\[[^\]]+\]|"[^"]+"|`[^`]+`|[\w$]+')
# No match extends over the beginning of another, so that cost is linear.
_TEMPLATES = re.compile(
    r"\{#(?:(?!\{#).)*?#\}|\{%(?:(?!\{%).)*?%\}|\{\{(?:(?!\{\{).)*?\}\}", re.DOTALL
)
_NO_LINE_END = re.compile(r"[^\n]")
#: Longest name in an id, in bytes; ids of nodes have at most 1,024 bytes.
_MAX_NAME_BYTES = 300


def _without_last_batch_ends(text: str) -> str:
    """Return SQL without the lines at its end that end batches."""
    text = text.rstrip()
    while BATCH_END.match(text, text.rfind("\n") + 1):
        text = text[: text.rfind("\n") + 1].rstrip()
    return text


class _NodeStatement(NamedTuple):
    id: str
    schema: str
    file: str
    text: str


class SqlObjects:
    """The objects of a folder by their names, which are case-insensitive."""

    def __init__(self, default_schema: str) -> None:
        self.default_schema = default_schema
        self._by_full_name: dict[tuple[str, str], Definition] = {}
        self._by_name: dict[str, list[Definition]] = defaultdict(list)

    def add(self, definition: Definition) -> None:
        """Add an object."""
        schema, name = definition.class_name.casefold(), definition.member.casefold()
        if (schema, name) not in self._by_full_name:
            self._by_full_name[schema, name] = definition
            self._by_name[name].append(definition)

    def id_of(self, schema: str, name: str) -> str:
        """Return the id of an object, with the name as it was first written."""
        known = self._by_full_name.get((schema.casefold(), name.casefold()))
        return known.id if known else f"{SQL_PREFIX}{schema}.{name}"

    def find(self, name: tuple[str, ...], schema: str = "") -> Definition | Resolution:
        """Return the object of a name, or why it is not resolved."""
        last = name[-1].casefold()
        if len(name) > 1:
            return self._by_full_name.get((name[-2].casefold(), last), "unresolved")
        for each in (schema, self.default_schema):
            found = self._by_full_name.get((each.casefold(), last))
            if found is not None:
                return found
        several = self._by_name.get(last, [])
        if len(several) == 1:
            return several[0]
        return "ambiguous" if several else "unresolved"

    def __bool__(self) -> bool:
        return bool(self._by_full_name)


def read_sql(sources: Iterable[SourceText], graph: CodeGraph) -> SqlObjects:
    """Add the objects and statements of SQL sources and their edges, and return the objects.

    Statements on one object, such as `CREATE TABLE`, `ALTER TABLE` and `CREATE INDEX`, form one node. Cost is
    linear in the sources.
    """
    files = [source for source in sources if source.language == "sql"]
    tsql = {source.path for source in files if _TSQL.search(source.text)}
    objects = SqlObjects("dbo" if tsql or not files else "public")
    statements: list[_NodeStatement] = []
    for source in files:
        graph.begin(source.path)
        statements += _Reader(source, objects, graph, is_tsql=source.path in tsql).statements()
    for statement in statements:
        graph.begin(statement.file)
        try:
            references = sql_references(statement.text)
        except BadInput as error:
            graph.failures.append((statement.file, f"{statement.id} {error.message}"))
            continue
        for reference in references:
            edge = object_edge(
                objects, statement.id, reference, statement.file, statement.schema, graph
            )
            if edge is not None:
                graph.add_edge(edge)
    return objects


def object_edge(
    objects: SqlObjects,
    source: str,
    reference: SqlReference,
    file: str,
    schema: str,
    graph: CodeGraph | None,
) -> Edge | None:
    """Return the edge to the object of a reference, if it is defined; count the resolution in `graph`."""
    found = objects.find(reference.name, schema)
    kind = found.symbol_type if isinstance(found, Definition) else ""
    if reference.relation == "calls" and kind != "Function":
        # A built-in function, a type with a length, or a list of columns.
        return None
    if graph is not None:
        graph.references["resolved" if isinstance(found, Definition) else found] += 1
    if not isinstance(found, Definition):
        return None
    relation = "Executes" if kind in _CALLABLE else reference.relation
    return Edge(source, relation, found.id, file, reference.inferred)


class _Reader:
    def __init__(
        self, source: SourceText, objects: SqlObjects, graph: CodeGraph, *, is_tsql: bool
    ) -> None:
        self._source = source
        #: The SQL without template syntax; offsets are those of the source.
        self._text = _without_templates(source.text)
        self._objects = objects
        self._graph = graph
        self._is_tsql = is_tsql

    def statements(self) -> Iterator[_NodeStatement]:
        """Add the definitions of the file, and yield the statements with the ids of their nodes."""
        number = 0
        # Id and table of the previous INSERT: consecutive ones into a table form one node.
        last = ("", "")
        for statement, (start, end) in self._with_routines():
            text = _without_last_batch_ends(self._text[start:end])
            source_text = _without_last_batch_ends(self._source.text[start:end])
            number += 1
            named = self._named(statement, text)
            if named is not None:
                last = ("", "")
                kind, schema, name = named
                local_id = self._objects.id_of(schema, name)
                self._objects.add(self._add(local_id, kind, source_text, name, schema))
                yield _NodeStatement(local_id, schema, self._source.path, text)
                continue
            verb, target = _verb_and_target(text)
            if not verb or verb in _IGNORED_STATEMENTS:
                continue
            same = verb == "insert" and target == last[1] != ""
            own = shorten_id(f"{SQL_PREFIX}{self._source.path}#{number}")
            local_id = last[0] if same else own
            last = (local_id, target if verb == "insert" else "")
            title = f"{verb.upper()} {self._source.path}#{number}"
            self._add(local_id, "Statement", source_text, title)
            schema = self._objects.default_schema
            yield _NodeStatement(local_id, schema, self._source.path, text)

    def _with_routines(self) -> Iterator[tuple[SqlStatement, tuple[int, int]]]:
        """Yield the statements; a routine of SQL Server extends to the end of its batch."""
        text = self._text
        routine: SqlStatement | None = None
        end = 0
        for statement in self._split():
            is_routine = self._is_tsql and _KINDS.get(statement.kind) in _ROUTINES
            if routine is not None:
                is_same_batch = not BATCH_END.search(text, routine.span[0], statement.span[0])
                if is_same_batch and not is_routine:
                    end = statement.span[1]
                    continue
                yield routine, (routine.span[0], end)
                routine = None
            if is_routine:
                routine, end = statement, statement.span[1]
                continue
            yield statement, statement.span
        if routine is not None:
            yield routine, (routine.span[0], end)

    def _split(self) -> Iterator[SqlStatement]:
        """Yield the statements, also those that SQL Server separates without semicolons."""
        text = self._text
        for statement in sql_statements(text):
            start, end = statement.span
            begins = [start]
            if self._is_tsql and _KINDS.get(statement.kind) not in _ROUTINES:
                after = skip_comments(text, start, end) + 1
                begins += [found.start() for found in _STATEMENT_START.finditer(text, after, end)]
            if len(begins) == 1:
                yield statement
                continue
            for begin, stop in pairwise([*begins, end]):
                for part in sql_statements(text[begin:stop]):
                    yield part._replace(span=(begin + part.span[0], begin + part.span[1]))

    def _named(self, statement: SqlStatement, text: str) -> tuple[str, str, str] | None:
        """Return kind, schema and name of the object of a statement; None for other statements."""
        name = statement.name
        kind = _KINDS.get(statement.kind, "")
        if statement.kind == "index":
            on = _INDEX_ON.search(text)
            if on is None:
                return None
            name, kind = tuple(part.strip('[]"`') for part in _PART.findall(on["name"])), "Table"
        if not kind or not name:
            return None
        schema = name[-2] if len(name) > 1 else self._objects.default_schema
        local = f"{SQL_PREFIX}{schema}.{name[-1]}"
        try:
            validate_local_id(local, "sql")
        except BadInput:
            return None
        if len(local.encode()) > _MAX_NAME_BYTES or name[-1].startswith(("#", "@")):
            return None
        return kind, schema, name[-1]

    def _add(
        self, local_id: str, kind: str, text: str, member: str, schema: str = ""
    ) -> Definition:
        definition = Definition(
            id=local_id,
            language="sql",
            symbol_type=kind,
            file=self._source.path,
            text=text,
            class_name=schema,
            member=member,
        )
        self._graph.add_definition(definition)
        return definition


def _without_templates(text: str) -> str:
    """Replace Jinja comments and statements by spaces, and expressions by a variable."""

    def blank(found: re.Match[str]) -> str:
        mark = _NO_LINE_END.sub(" ", found[0])
        return f"@_{mark[2:]}" if found[0].startswith("{{") else mark

    return _TEMPLATES.sub(blank, text)


def _verb_and_target(text: str) -> tuple[str, str]:
    """Return the first word of a statement in lower case, and the table of an `INSERT`."""
    start = skip_comments(text, 0, len(text))
    first = _FIRST_WORD.match(text, start)
    if first is None:
        return "", ""
    words = text[start : start + 400].split(maxsplit=3)
    target = words[2].partition("(")[0] if len(words) > 2 else ""
    return first[0].lower(), target.casefold()


_NAME_PART = r'(?:\[[^\]]+\]|"[^"]+"|[\w$]+)'
_NAME = re.compile(rf"\s*+{_NAME_PART}(?:\s*+\.\s*+{_NAME_PART}){{0,3}}\s*+(?:;\s*+)?")
_PARTS = re.compile(_NAME_PART)
#: Functions and attributes that take the name of a table in Entity Framework, SQLAlchemy and Django.
_TABLE_RECIPIENTS = frozenset(
    {"table", "totable", "toview", "tablename", "__tablename__", "db_table", "destinationtablename"}
)


def connect_sql(graph: CodeGraph, objects: SqlObjects) -> None:
    """Add the edges from code to the SQL objects that its strings and calls name.

    A single word is matched against routines, and against tables only where a table name is expected: words
    such as `Users` occur in many strings. Cost is linear in the strings.
    """
    if not objects:
        return
    for string in graph.strings:
        graph.begin(string.file)
        for edge in _edges(string, objects):
            graph.add_edge(edge)
    graph.begin()
    for call in graph.unresolved_calls:
        found = objects.find((call.name,))
        if isinstance(found, Definition) and found.symbol_type in _CALLABLE:
            graph.add_edge(Edge(call.source, "Executes", found.id, call.file, inferred=True))


def _edges(string: StringLiteral, objects: SqlObjects) -> Iterator[Edge]:
    if is_sql(string.text):
        try:
            references = sql_references(string.text)
        except BadInput:
            return
        for reference in references:
            edge = object_edge(objects, string.source, reference, string.file, "", None)
            if edge is not None:
                yield edge._replace(inferred=True)
        return
    if not _NAME.fullmatch(string.text):
        return
    parts = tuple(part.strip('[]"') for part in _PARTS.findall(string.text))
    found = objects.find(parts)
    if not isinstance(found, Definition):
        return
    is_routine = found.symbol_type in _CALLABLE
    if is_routine or len(parts) > 1 or string.recipient.lower() in _TABLE_RECIPIENTS:
        relation = "Executes" if is_routine else "uses"
        yield Edge(string.source, relation, found.id, string.file, inferred=True)
