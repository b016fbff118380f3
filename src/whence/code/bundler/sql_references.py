"""Find the objects that SQL statements read, write, execute or refer to.

The tokenizer is that of sqlglot. Its parser fails on the bodies of T-SQL procedures, so references are found by
keywords: the name after `FROM` is read, the name after `INTO` is written, and so on. Aliases and columns that
are mistaken for objects do not matter, because only names of known objects become edges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from whence.schema.errors import BadInput, missing_extra

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token
    from sqlglot.tokens import Tokenizer

#: Beginnings of SQL statements; a keyword alone could also begin a sentence.
_BEGINS = re.compile(
    r"(?is)\s*(?:select\b.*?\bfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|merge\s+(?:into\s+)?\S+"
    r"\s+(?:as\s+)?(?:\S+\s+)?using\s|exec(?:ute)?\s+(?:@\w+\s*=\s*)?[\w\[\].\"]+(?:\s+@|\s*+(?:;\s*+)?\Z)|call\s+[\w.]+\s*\("
    r"|truncate\s+table\s|with\s+\w+\s*(?:\([^)]*\)\s*)?as\s*\()"
)
#: Keywords that are never names.
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "as on set where group order having values select from into with output using when then inner left"
        " right full cross outer join natural union except intersect limit offset for option begin end go if"
        " else while return declare exec execute insert update delete merge truncate table top and or not null"
        " default lateral apply of only statistics cascade",
    )
)


_STRINGS = ("STRING", "NATIONAL_STRING", "HEREDOC_STRING")


class SqlReference(NamedTuple):
    """A name in a statement and the relation to the named object."""

    relation: str
    """`ReadsFrom`, `WritesTo`, `Executes`, `FK`, `On`, `SynonymFor`; `calls` for a name before a parenthesis,
    which may be a function."""
    name: tuple[str, ...]
    inferred: bool = False
    """True if it is inside a string that may be executed."""


def is_sql(text: str) -> bool:
    """Return whether a text begins like a SQL statement.

    >>> is_sql("SELECT id FROM Users"), is_sql("select a colour")
    (True, False)
    """
    return _BEGINS.match(text) is not None


def sql_references(text: str) -> list[SqlReference]:
    """Return the references in SQL statements, in order.

    Temporary tables, variables and common table expressions are omitted; aliases are replaced by their tables.
    Cost is linear in the text.
    """
    tokenizer = _tokenizer()
    from sqlglot.errors import TokenError

    try:
        tokens = list(tokenizer().tokenize(text))
    except TokenError as error:
        raise BadInput(f"is not readable SQL: {str(error).splitlines()[0]}") from error
    return _Scanner(tokens).references()


@cache
def _tokenizer() -> type[Tokenizer]:
    """Return the tokenizer of T-SQL with the quotes of other dialects and without command tokens."""
    try:
        from sqlglot.dialects.tsql import TSQL
    except ImportError as error:
        raise missing_extra("code", "reading SQL") from error

    class WithoutCommands(TSQL.Tokenizer):
        COMMANDS = set()
        IDENTIFIERS = [("[", "]"), '"', "`"]

    return WithoutCommands


class _Alias(NamedTuple):
    at: int
    name: tuple[str, ...]


class _Scanner:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        kinds = [token.token_type.name for token in tokens]
        self._is_string = [kind in _STRINGS for kind in kinds]
        self._is_quoted = [kind == "IDENTIFIER" for kind in kinds]
        #: Words and signs as they are written, empty for strings and quoted names.
        self._texts = [
            "" if kind in _STRINGS or kind == "IDENTIFIER" else token.text
            for kind, token in zip(kinds, tokens, strict=True)
        ]
        #: Unquoted words in lower case, empty for other tokens.
        self._words = [
            text.lower() if text[:1].isalpha() or text[:1] == "_" else "" for text in self._texts
        ]
        self._common = frozenset(self._common_tables())
        self._aliases: dict[str, list[_Alias]] = {}
        #: Written names that may be aliases: index in the result and position of the token.
        self._written_names: list[tuple[int, int]] = []
        self._found: list[SqlReference] = []

    def references(self) -> list[SqlReference]:
        at = 0
        while at < len(self._tokens):
            at = max(at + 1, self._scan(at))
        for index, position in self._written_names:
            self._found[index] = self._resolve_alias(self._found[index], position)
        return [
            one
            for one in self._found
            if not (len(one.name) == 1 and one.name[0].casefold() in self._common)
        ]

    def _scan(self, at: int) -> int:
        """Read the clause that begins at a token; return the position after it."""
        word = self._words[at]
        if word in ("from", "join", "apply", "using"):
            return self._read(at)
        if word in ("into", "update", "delete", "merge", "truncate", "insert"):
            return self._write(at, word)
        if word in ("exec", "execute", "call"):
            return self._execute(at)
        if word == "references":
            return self._single(at + 1, "FK")
        if word in ("create", "alter"):
            return self._create(at)
        if self._is_string[at]:
            self._string(self._tokens[at].text)
        elif word not in _KEYWORDS:
            return self._function(at)
        return at + 1

    def _read(self, at: int) -> int:
        if self._words[at] == "from" and self._before(at) == "distinct":
            return at + 1
        begin = at + 1
        while True:
            at += 1
            while self._word_at(at) in ("lateral", "only", "table"):
                at += 1
            name, at = self._name(at)
            if not name:
                return max(at, begin)
            if self._text(at) == "(":
                # A table-valued function; its arguments are scanned as well.
                self._add("calls", name)
                return at
            self._add("ReadsFrom", name)
            at = self._alias(at, name)
            if self._text(at) != ",":
                return at

    def _alias(self, at: int, name: tuple[str, ...]) -> int:
        if self._word_at(at) == "as":
            at += 1
        alias, after = self._name(at)
        if len(alias) != 1:
            return at
        self._aliases.setdefault(alias[0].casefold(), []).append(_Alias(at, name))
        return after

    def _write(self, at: int, word: str) -> int:
        if word == "update" and self._before(at) in ("for", "on", "after", ",", "of"):
            return at + 1
        if word == "delete" and self._before(at) in ("on", "after", ","):
            return at + 1
        at += 1
        if self._word_at(at) == "top":
            at += 1
            at = self._after_parenthesis(at) if self._text(at) == "(" else at + 1
        while self._word_at(at) in ("into", "from", "table", "only"):
            at += 1
        name, after = self._name(at)
        if not name:
            return at
        if word in ("update", "delete") and len(name) == 1:
            self._written_names.append((len(self._found), at))
        self._add("WritesTo", name)
        return self._alias(after, name) if word in ("merge", "update", "delete") else after

    def _resolve_alias(self, reference: SqlReference, position: int) -> SqlReference:
        """Replace an alias by its table, which is the next one with this alias."""
        for alias in self._aliases.get(reference.name[0].casefold(), []):
            if alias.at > position:
                return reference._replace(name=alias.name)
        return reference

    def _execute(self, at: int) -> int:
        at += 1
        if self._word_at(at) in ("procedure", "function"):
            at += 1
        if self._text(at) == "@":
            # `EXEC @result = name`; `EXEC @variable` has no name.
            at += 2
            if self._text(at) != "=":
                return at
            at += 1
        return self._single(at, "Executes")

    def _single(self, at: int, relation: str) -> int:
        name, after = self._name(at)
        if name:
            self._add(relation, name)
        return after

    def _create(self, at: int) -> int:
        """Read `ON table` of a trigger or index, and `FOR object` of a synonym."""
        kinds = ("trigger", "index", "synonym", "procedure", "proc", "function", "view", "table")
        for step in range(at + 1, min(at + 8, len(self._words))):
            if self._words[step] not in kinds:
                continue
            kind = self._words[step]
            name, after = self._name(step + 1)
            while self._word_at(after) in ("if", "not", "exists"):
                name, after = self._name(after + 1)
            wanted = {"trigger": "on", "index": "on", "synonym": "for"}.get(kind)
            while wanted == "on" and name and self._word_at(after) not in ("on", "", "as", "begin"):
                after += 1
            if wanted is None or self._word_at(after) != wanted:
                return after
            return self._single(after + 1, "SynonymFor" if kind == "synonym" else "On")
        return at + 1

    def _function(self, at: int) -> int:
        name, after = self._name(at)
        if name and self._text(after) == "(":
            self._add("calls", name)
        return after

    def _string(self, text: str) -> None:
        if not is_sql(text):
            return
        try:
            inside = sql_references(text)
        except BadInput:
            return
        self._found += [one._replace(inferred=True) for one in inside]

    def _add(self, relation: str, name: tuple[str, ...]) -> None:
        self._found.append(SqlReference(relation, name))

    def _name(self, at: int) -> tuple[tuple[str, ...], int]:
        """Read a qualified name; return its parts, none if there is no name, and the position after it."""
        parts: list[str] = []
        while self._is_name(at):
            parts.append(self._tokens[at].text)
            at += 1
            dots = 0
            while self._text(at) == ".":
                at += 1
                dots += 1
            if not dots:
                return tuple(parts), at
        return (), at

    def _is_name(self, at: int) -> bool:
        if at >= len(self._tokens):
            return False
        word = self._words[at]
        return self._is_quoted[at] or (word != "" and word not in _KEYWORDS)

    def _common_tables(self) -> Iterator[str]:
        """Yield the names before `AS (SELECT`, with or without a list of columns."""
        for at, word in enumerate(self._words):
            opens = word == "as" and self._text(at + 1) == "("
            if not opens or self._word_at(at + 2) not in ("select", "with", "values", "("):
                continue
            before = at - 1
            if self._text(before) == ")":
                while before > 0 and self._text(before) != "(":
                    before -= 1
                before -= 1
            if before >= 0 and self._is_name(before):
                yield self._tokens[before].text.casefold()

    def _after_parenthesis(self, at: int) -> int:
        while at < len(self._tokens) and self._text(at) != ")":
            at += 1
        return at + 1

    def _before(self, at: int) -> str:
        return (self._words[at - 1] or self._text(at - 1)) if at else ""

    def _word_at(self, at: int) -> str:
        return self._words[at] if at < len(self._words) else ""

    def _text(self, at: int) -> str:
        return self._texts[at] if 0 <= at < len(self._texts) else ""
