"""SQL sources: which objects and statements are nodes, and what each reads, writes and runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.code.bundler.code_graph import (
    CodeGraph,
    Definition,
    Edge,
    StringLiteral,
    UnresolvedCall,
)
from whence.code.bundler.source_files import SourceText
from whence.code.bundler.sql_objects import SqlObjects, connect_sql, read_sql
from whence.code.bundler.sql_references import SqlReference, is_sql, sql_references

SHOP = """
USE Shop;
GO
-- Who buys
CREATE TABLE dbo.Users (Id int PRIMARY KEY, Name nvarchar(20));
GO
CREATE TABLE [dbo].[Orders] (Id int, UserId int REFERENCES dbo.Users(Id), Note varchar(9) DEFAULT ('x; y'));
CREATE INDEX IX_Orders ON dbo.Orders (UserId);
GO
ALTER TABLE Orders ADD CONSTRAINT FK_2 FOREIGN KEY (B) REFERENCES Users (Id) ON DELETE CASCADE;
GO
CREATE TABLE Audit (a int)
CREATE TABLE Old (a int)
GO
CREATE VIEW dbo.OpenOrders AS SELECT o.Id, u.Name FROM dbo.Orders o JOIN Users AS u ON u.Id = o.UserId
GO
CREATE OR ALTER PROCEDURE dbo.Pay @id int, @n nvarchar(10) = N'from dbo.Old'
AS
SET NOCOUNT ON;
WITH c AS (SELECT * FROM dbo.OpenOrders)
SELECT * INTO #t FROM c;
CREATE TABLE #more (a int);
UPDATE o SET Note = 'a' FROM dbo.Orders o JOIN #t ON 1=1;
EXEC @r = dbo.WriteLog @id; -- EXEC dbo.Old
INSERT Audit (a) VALUES (dbo.Normal(@n));
DECLARE @s nvarchar(max) = N'DELETE FROM dbo.Users WHERE Id=1';
EXEC sp_executesql @s
GO
create procedure WriteLog @id int as begin insert into Audit values (1); end;
GO
CREATE FUNCTION dbo.Normal(@x nvarchar(10)) RETURNS nvarchar(10) AS BEGIN RETURN LOWER(@x) END
GO
CREATE TRIGGER OnUsers ON dbo.Users AFTER INSERT, UPDATE AS INSERT INTO dbo.Audit SELECT 1 FROM inserted
GO
CREATE SYNONYM dbo.Buyers FOR dbo.Users;
GO
INSERT INTO dbo.Users VALUES (1);
INSERT INTO dbo.Users VALUES (2);
MERGE INTO dbo.Users AS t USING dbo.Orders AS s ON t.Id = s.Id WHEN MATCHED THEN UPDATE SET Name = 'b';
"""


def read(*texts: str) -> tuple[CodeGraph, SqlObjects]:
    graph = CodeGraph()
    files = [
        SourceText(path=f"{number}.sql", language="sql", text=text)
        for number, text in enumerate(texts)
    ]
    return graph, read_sql(files, graph)


def edges(graph: CodeGraph) -> set[tuple[str, str, str]]:
    return {
        (
            edge.source.removeprefix("SQL:"),
            edge.relation + ("?" if edge.inferred else ""),
            edge.target.removeprefix("SQL:"),
        )
        for edge in graph.edges()
    }


def test_objects_and_statements_are_nodes() -> None:
    """All statements on one object form one node; a procedure extends to the end of its batch."""
    found = read(SHOP)[0].definitions

    assert {key.removeprefix("SQL:"): one.symbol_type for key, one in found.items()} == {
        "dbo.Users": "Table",
        "dbo.Orders": "Table",
        "dbo.Audit": "Table",
        "dbo.Old": "Table",
        "dbo.OpenOrders": "View",
        "dbo.Pay": "Procedure",
        "dbo.WriteLog": "Procedure",
        "dbo.Normal": "Function",
        "dbo.OnUsers": "Trigger",
        "dbo.Buyers": "Synonym",
        "0.sql#14": "Statement",
        "0.sql#16": "Statement",
    }
    assert found["SQL:dbo.Users"].text.startswith("-- Who buys\nCREATE TABLE dbo.Users")
    assert "CREATE INDEX IX_Orders" in found["SQL:dbo.Orders"].text
    assert "ALTER TABLE Orders" in found["SQL:dbo.Orders"].text
    assert found["SQL:dbo.Pay"].text.endswith("EXEC sp_executesql @s")
    assert found["SQL:0.sql#14"].text.count("INSERT INTO") == 2
    assert (found["SQL:dbo.Pay"].class_name, found["SQL:dbo.Pay"].member) == ("dbo", "Pay")


def test_edges_are_reads_writes_calls_and_references() -> None:
    """Behind aliases, not in strings and comments, not of temporary tables; dynamic SQL is inferred."""
    assert edges(read(SHOP)[0]) == {
        ("dbo.Orders", "FK", "dbo.Users"),
        ("dbo.OpenOrders", "ReadsFrom", "dbo.Orders"),
        ("dbo.OpenOrders", "ReadsFrom", "dbo.Users"),
        ("dbo.Pay", "ReadsFrom", "dbo.OpenOrders"),
        ("dbo.Pay", "ReadsFrom", "dbo.Orders"),
        ("dbo.Pay", "WritesTo", "dbo.Orders"),
        ("dbo.Pay", "WritesTo", "dbo.Audit"),
        ("dbo.Pay", "Executes", "dbo.WriteLog"),
        ("dbo.Pay", "Executes", "dbo.Normal"),
        ("dbo.Pay", "WritesTo?", "dbo.Users"),
        ("dbo.WriteLog", "WritesTo", "dbo.Audit"),
        ("dbo.OnUsers", "On", "dbo.Users"),
        ("dbo.OnUsers", "WritesTo", "dbo.Audit"),
        ("dbo.Buyers", "SynonymFor", "dbo.Users"),
        ("0.sql#14", "WritesTo", "dbo.Users"),
        ("0.sql#16", "WritesTo", "dbo.Users"),
        ("0.sql#16", "ReadsFrom", "dbo.Orders"),
    }


def test_postgresql_is_read() -> None:
    """PostgreSQL's quoting and bodies; a name without a schema is in the first schema that has it."""
    graph, _ = read(
        """
        CREATE TABLE users (id int); CREATE TABLE sales.orders (id int REFERENCES users (id));
        CREATE OR REPLACE FUNCTION "sales".total(a int) RETURNS int AS $$
          BEGIN SELECT sum(x) FROM sales.orders; PERFORM 1; END;
        $$ LANGUAGE plpgsql;
        CREATE VIEW v AS SELECT sales.total(id) FROM ONLY users, orders;
        """
    )

    assert edges(graph) == {
        ("sales.orders", "FK", "public.users"),
        ("public.v", "ReadsFrom", "public.users"),
        ("public.v", "ReadsFrom", "sales.orders"),
        ("public.v", "Executes", "sales.total"),
        ("sales.total", "ReadsFrom", "sales.orders"),
    }


def test_templates_are_read_without_their_markup() -> None:
    """Template syntax is not SQL; names that a template computes are unknown."""
    template = (
        "{#- Old rows; what it stops is a lock -#}\n{% macro close(t) %}\n"
        "delete from dbo.Orders where Id in (select Id from {{ ref('late') }} as l);\n"
        "{% if t %}exec dbo.Pay {{ t }};{% endif %}\n{% endmacro %}\nCREATE VIEW {{ t }} AS SELECT * FROM dbo.Orders;"
    )
    graph, _ = read(
        "CREATE TABLE dbo.Orders (Id int)\nGO\nCREATE PROC dbo.Pay AS RETURN\n", template
    )
    statements = [one for one in graph.definitions.values() if one.symbol_type == "Statement"]

    assert edges(graph) == {
        ("1.sql#1", "WritesTo", "dbo.Orders"),
        ("1.sql#2", "Executes", "dbo.Pay"),
        ("1.sql#3", "ReadsFrom", "dbo.Orders"),
    }
    assert [one.member for one in statements] == [
        "DELETE 1.sql#1",
        "EXEC 1.sql#2",
        "CREATE 1.sql#3",
    ]
    assert "{{ ref('late') }}" in statements[0].text


def test_ambiguous_names_make_no_edge() -> None:
    """An ambiguous name is counted and makes no edge, like a table outside the folder."""
    graph, _ = read(
        "CREATE TABLE a.T (x int); CREATE TABLE b.T (x int); CREATE VIEW c.V AS SELECT 1 FROM T, Gone, a.T;"
    )

    assert edges(graph) == {("c.V", "ReadsFrom", "a.T")}
    assert graph.references == {"resolved": 1, "ambiguous": 1, "unresolved": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE t FROM dbo.T t", [("WritesTo", "dbo.T"), ("ReadsFrom", "dbo.T")]),
        ('delete from [a b]."c" where 1=1', [("WritesTo", "a b.c")]),
        ("UPDATE TOP (5) T SET a = 1", [("WritesTo", "T")]),
        ("SELECT * FROM f(1) CROSS APPLY g(2)", [("calls", "f"), ("calls", "g")]),
        ("SELECT * FROM (SELECT * FROM inner_t) x", [("ReadsFrom", "inner_t")]),
        ("SELECT * FROM srv.db.dbo.T", [("ReadsFrom", "srv.db.dbo.T")]),
        ("SELECT 1 WHERE a IS DISTINCT FROM b", []),
        ("SELECT 1 FOR UPDATE", []),
        ("EXEC @x", []),
        ("EXECUTE AS OWNER", []),
        ("WITH a(x) AS (SELECT 1 FROM T), b AS (SELECT 1 FROM a) SELECT 1 FROM a, b", [("ReadsFrom", "T")]),
        ("TRUNCATE TABLE T", [("WritesTo", "T")]),
        ("SELECT 'FROM T' -- FROM U\n/* FROM V */", []),
        ("call p(1)", [("Executes", "p")]),
    ],
)  # fmt: skip
def test_a_clause_determines_the_relation_of_a_name(
    text: str, expected: list[tuple[str, str]]
) -> None:
    """Each form of each clause."""
    assert [(one.relation, ".".join(one.name)) for one in sql_references(text)] == expected


NAMES = st.sampled_from(["alpha", "beta", "s.gamma", "s.delta"])


@given(NAMES, st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=2), st.booleans())
def test_tables_equal_those_of_sqlglot(
    first: str, joined: list[str], inside: list[str], upper: bool
) -> None:
    """For queries that sqlglot can parse, its tree has the same tables."""
    import sqlglot
    from sqlglot import exp

    joins = "".join(f" join {name} j{n} on j{n}.x = a.x" for n, name in enumerate(joined))
    conditions = " and ".join(f"exists (select 1 from {name})" for name in inside) or "1 = 1"
    text = f"with w as (select 1 as x from {first}) select a.x from w a{joins} where {conditions}"
    text = text.upper() if upper else text
    tree = sqlglot.parse_one(text, dialect="tsql")
    expected = sorted(
        (table.db, table.name) for table in tree.find_all(exp.Table) if table.name.lower() != "w"
    )

    found = [one for one in sql_references(text) if one.relation != "calls"]

    assert {one.relation for one in found} == {"ReadsFrom"}
    assert sorted(one.name if len(one.name) == 2 else ("", *one.name) for one in found) == expected


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text is read or refused with one kind of error, in bounded time."""
    graph, _ = read(text, f"CREATE PROCEDURE p AS {text}")

    assert all(isinstance(edge, Edge) for edge in graph.edges())


@pytest.mark.parametrize(
    ("text", "recipient", "expected"),
    [
        ("SELECT * FROM Users WHERE id = @id", "", {("ReadsFrom", "Users")}),
        ("insert into dbo.Audit values (1)", "", {("WritesTo", "Audit")}),
        ("EXEC dbo.Pay @id", "", {("Executes", "Pay")}),
        ("dbo.Pay", "", {("Executes", "Pay")}),
        ("[dbo].[Pay]", "ExecuteAsync", {("Executes", "Pay")}),
        ("WriteLog", "", {("Executes", "WriteLog")}),
        ("dbo.Users", "", {("uses", "Users")}),
        ("Users", "ToTable", {("uses", "Users")}),
        ("Users", "Write", set()),
        ("select Users from the list", "", set()),
        ("update Users", "", set()),
        ("dbo.Gone", "", set()),
        ("SELECT 'it FROM Users", "", set()),
    ],
)
def test_strings_in_code_make_inferred_edges(
    text: str, recipient: str, expected: set[tuple[str, str]]
) -> None:
    """Statements and names of procedures do; a single word is a table only where one is expected."""
    graph, objects = read(SHOP)
    before = set(graph.edges())
    graph.add_definition(
        Definition(id="C1", language="csharp", symbol_type="Method", file="a.cs", text="")
    )
    graph.add_string(StringLiteral("C1", "a.cs", text, recipient))
    connect_sql(graph, objects)
    added = set(graph.edges()) - before

    assert all(edge.inferred and edge.source == "C1" for edge in added)
    assert {(edge.relation, edge.target.rpartition(".")[2]) for edge in added} == expected


def test_calls_of_procedures_by_name_are_inferred() -> None:
    """Only a routine can be called, and only an unresolved call is matched."""
    graph, objects = read(SHOP)
    source = "SQL:dbo.Users"
    graph.unresolved_calls += [
        UnresolvedCall(source, "a.cs", "WriteLog"),
        UnresolvedCall(source, "a.cs", "Audit"),
    ]
    connect_sql(graph, objects)

    assert [edge for edge in graph.edges() if edge.file == "a.cs"] == [
        Edge(source, "Executes", "SQL:dbo.WriteLog", "a.cs", inferred=True)
    ]


def test_sentences_are_not_sql() -> None:
    """Words that also begin statements do not make a statement."""
    assert not any(map(is_sql, ("Update the table", "With love", "Execute", "delete it", "")))
    assert sql_references("") == []
    assert SqlReference("ReadsFrom", ("T",)).inferred is False
