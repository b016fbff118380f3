"""From code to SQL: statements and names of objects that stand in strings, and calls by a procedure's name.

None of these edges follows from the rules of a language, so all are marked as inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence.bundler.code_graph import Definition, Edge, Findings, Quoted
from whence.bundler.sql_objects import SqlObjects, object_edge
from whence.bundler.sql_references import is_sql, sql_references
from whence.schema.errors import BadInput

__all__ = ("connect_sql",)

_PART = r'(?:\[[^\]]+\]|"[^"]+"|[\w$]+)'
_NAME = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,3}}\s*;?\s*")
_PARTS = re.compile(_PART)
_ROUTINES = ("Procedure", "Function")
#: What takes the bare name of a table: Entity Framework, SQLAlchemy, Django.
_TABLE_TAKERS = frozenset(
    {"table", "totable", "toview", "tablename", "__tablename__", "db_table", "destinationtablename"}
)


def connect_sql(findings: Findings, objects: SqlObjects) -> None:
    """Add the edges from code to the SQL objects that its strings and calls name.

    A bare word is taken for a routine of that name, for a table only where a table's name is asked for: words
    like `Users` stand in many strings. Cost is linear in the strings.
    """
    if not objects:
        return
    for quoted in findings.quoted:
        findings.connect_all(_edges(quoted, objects))
    for call in findings.named_calls:
        found = objects.find((call.name,))
        if isinstance(found, Definition) and found.symbol_type in _ROUTINES:
            findings.connect(Edge(call.source, "Executes", found.id, call.file, inferred=True))


def _edges(quoted: Quoted, objects: SqlObjects) -> Iterator[Edge]:
    if is_sql(quoted.text):
        try:
            references = sql_references(quoted.text)
        except BadInput:
            # What looks like a statement and is none.
            return
        for reference in references:
            edge = object_edge(objects, quoted.source, reference, quoted.file, "", None)
            if edge is not None:
                yield edge._replace(inferred=True)
        return
    if not _NAME.fullmatch(quoted.text):
        return
    parts = tuple(part.strip('[]"') for part in _PARTS.findall(quoted.text))
    found = objects.find(parts)
    if not isinstance(found, Definition):
        return
    is_routine = found.symbol_type in _ROUTINES
    if is_routine or len(parts) > 1 or quoted.taker.lower() in _TABLE_TAKERS:
        relation = "Executes" if is_routine else "uses"
        yield Edge(quoted.source, relation, found.id, quoted.file, inferred=True)
