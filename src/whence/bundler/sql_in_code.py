"""Find edges from code to SQL objects: SQL and object names in strings, and calls named like a procedure.

These edges do not follow from the rules of a language, so all of them are marked as inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence.bundler.code_graph import CodeGraph, Definition, Edge, StringLiteral
from whence.bundler.sql_objects import SqlObjects, object_edge
from whence.bundler.sql_references import is_sql, sql_references
from whence.schema.errors import BadInput

_PART = r'(?:\[[^\]]+\]|"[^"]+"|[\w$]+)'
_NAME = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,3}}\s*;?\s*")
_PARTS = re.compile(_PART)
_ROUTINES = ("Procedure", "Function")
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
        for edge in _edges(string, objects):
            graph.add_edge(edge)
    for call in graph.unresolved_calls:
        found = objects.find((call.name,))
        if isinstance(found, Definition) and found.symbol_type in _ROUTINES:
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
    is_routine = found.symbol_type in _ROUTINES
    if is_routine or len(parts) > 1 or string.recipient.lower() in _TABLE_RECIPIENTS:
        relation = "Executes" if is_routine else "uses"
        yield Edge(string.source, relation, found.id, string.file, inferred=True)
