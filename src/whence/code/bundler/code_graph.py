"""The definitions found in source code, the edges between them, and counts of what was resolved."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

Language = Literal["csharp", "python", "sql"]
#: `external`: part of a library or of the language. `ambiguous`: several definitions in the folder match.
#: `unresolved`: the target is unknown.
Resolution = Literal["resolved", "external", "ambiguous", "unresolved"]
#: Length of the strings that are kept, in characters: from the shortest names to the longest statements.
_MIN_STRING = 3
_MAX_STRING = 100_000
#: A canonical id has at most 1,024 bytes.
_MAX_ID_BYTES = 600


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A type, a member, an SQL object or statement: one node of the bundle."""

    id: str
    language: Language
    symbol_type: str
    """`Class`, `Method`, `Table`, ..."""
    file: str
    """Path below the folder; of a definition in several parts the file of the first."""
    text: str
    """Source, unchanged; parts of one definition are separated by an empty line."""
    project: str = ""
    class_name: str = ""
    """The enclosing type, or the type itself; the schema of an SQL object."""
    member: str = ""
    """Name of the member or SQL object; empty for a type."""
    signature: str = ""
    """First line of a callable, up to its body."""


class Edge(NamedTuple):
    """A dependency of one definition on another."""

    source: str
    relation: str
    """`calls`, `uses`, `inherits`, `ReadsFrom`, `WritesTo`, `Executes`, `FK`, `On`, `SynonymFor`."""
    target: str
    file: str
    """File of the code that implies the edge."""
    inferred: bool = False
    """True if it was inferred from a string or from equal names, not from the rules of the language."""


class StringLiteral(NamedTuple):
    """A string in code."""

    source: str
    file: str
    text: str
    """Its value, without the parts that are computed at run time."""
    recipient: str
    """Function or attribute that it is an argument of, else the variable it is assigned to."""


class UnresolvedCall(NamedTuple):
    """A call of which only the name is known."""

    source: str
    file: str
    name: str


class CodeGraph:
    """Collects definitions, edges and counts. Memory grows with all texts and edges.

    Args:
        on_file: Called with the path of each file that is worked on next, and with an empty one before work on
            all of them.
    """

    def __init__(self, on_file: Callable[[str], None] = lambda _: None) -> None:
        self._on_file = on_file
        self._begun = ""
        self.definitions: dict[str, Definition] = {}
        self.calls: Counter[Resolution] = Counter()
        #: Names in SQL statements.
        self.references: Counter[Resolution] = Counter()
        #: Paths of files that could not be parsed, or not entirely, and the reasons.
        self.failures: list[tuple[str, str]] = []
        #: Strings that may be SQL statements or names of SQL objects.
        self.strings: list[StringLiteral] = []
        self.unresolved_calls: list[UnresolvedCall] = []
        self._edges: dict[tuple[str, str, str], Edge] = {}
        self._source = self._file = ""

    def add_definition(self, definition: Definition) -> None:
        """Add a definition; a further part of a known one extends its text."""
        known = self.definitions.get(definition.id)
        if known is not None:
            text = f"{known.text}\n\n{definition.text}"
            definition = msgspec.structs.replace(known, text=text)
        self.definitions[definition.id] = definition

    def add_edge(self, edge: Edge) -> None:
        """Add an edge once; a resolved one replaces an inferred one, and self-references are ignored."""
        if edge.source != edge.target:
            key = (edge.source, edge.relation, edge.target)
            known = self._edges.get(key)
            if known is None or (known.inferred and not edge.inferred):
                self._edges[key] = edge

    def enter(self, source: str, file: str) -> None:
        """Set the definition, and its file, that the following edges, calls and strings belong to."""
        self._source, self._file = source, file
        self.begin(file)

    def begin(self, file: str = "") -> None:
        """Report that a file is worked on; all of them if it is empty."""
        if file != self._begun:
            self._begun = file
            self._on_file(file)

    def record_edge(self, relation: str, target: str) -> None:
        """Add an edge from the current definition."""
        self.add_edge(Edge(self._source, relation, target, self._file))

    def record_call(self, resolution: Resolution, name: str = "") -> None:
        """Count a call; one that is not resolved is kept by its name, if it has one."""
        self.calls[resolution] += 1
        if resolution != "resolved" and name:
            self.unresolved_calls.append(UnresolvedCall(self._source, self._file, name))

    def record_string(self, text: str | None, recipient: str) -> None:
        """Add a string of the current definition."""
        self.add_string(StringLiteral(self._source, self._file, text or "", recipient))

    def nested_too_deeply(self) -> None:
        """Report that edges of the current definition are missing."""
        reason = f"is nested too deeply in {self._source}; edges are missing"
        self.failures.append((self._file, reason))

    def add_string(self, string: StringLiteral) -> None:
        """Add a string, unless it is too short or too long to concern SQL."""
        if _MIN_STRING <= len(string.text) <= _MAX_STRING:
            self.strings.append(string)

    def edges(self) -> list[Edge]:
        """Return the edges between definitions, sorted; `calls` and `inherits` replace `uses`."""
        specific = {
            (source, target)
            for source, relation, target in self._edges
            if relation in ("calls", "inherits")
        }
        return sorted(
            edge
            for edge in self._edges.values()
            if edge.source in self.definitions
            and edge.target in self.definitions
            and not (edge.relation == "uses" and (edge.source, edge.target) in specific)
        )


def shorten_id(whole: str) -> str:
    """Return an id of at most 617 bytes; a longer one is cut and ends in a hash of the whole."""
    data = whole.encode()
    if len(data) <= _MAX_ID_BYTES:
        return whole
    digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    return f"{data[:_MAX_ID_BYTES].decode(errors='ignore').rstrip()}~{digest}"
