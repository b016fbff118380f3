"""What is found in source code: definitions, the edges between them, and an account of the calls."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

__all__ = (
    "CallOutcome",
    "Definition",
    "Edge",
    "Findings",
    "Language",
    "NamedCall",
    "Quoted",
    "shortened_id",
)

Language = Literal["csharp", "python", "sql"]
#: `external`: known to be of a library or of the language. `ambiguous`: several definitions in the folder
#: fit. `unresolved`: what is called is not known.
CallOutcome = Literal["resolved", "external", "ambiguous", "unresolved"]
#: Characters of a string that is looked at: the shortest names, and the longest statements.
MIN_QUOTED = 3
MAX_QUOTED = 100_000
#: Canonical ids have 1,024 bytes in all.
_MAX_ID_BYTES = 600


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A type, a member, an SQL object or statement: one node of the bundle."""

    id: str
    """Local id in the bundle."""
    language: Language
    symbol_type: str
    """`Class`, `Method`, `Table`, ..."""
    file: str
    """Path below the folder; of several pieces the first one's."""
    text: str
    """Source, verbatim; the pieces of one definition with an empty line between them."""
    project: str = ""
    """Package or project it belongs to."""
    class_name: str = ""
    """Type that holds it, or that it is; the schema of an SQL object."""
    member: str = ""
    """Name of the member; empty for a type. Name of the SQL object."""
    signature: str = ""
    """First line of a callable, up to its body."""


class Edge(NamedTuple):
    """One definition depends on another."""

    source: str
    relation: str
    """`calls`, `uses`, `inherits`, `ReadsFrom`, `WritesTo`, `Executes`, `FK`, `On`, `SynonymFor`."""
    target: str
    file: str
    """Where it was seen."""
    inferred: bool = False
    """True when it was concluded from a string or from equal names, not from the rules of the language."""


class Quoted(NamedTuple):
    """A string in code."""

    source: str
    """Definition it stands in."""
    file: str
    text: str
    """Its value; what is only known at run time is left out."""
    taker: str
    """Name of the function or attribute that it is given to directly, else of what it is assigned to."""


class NamedCall(NamedTuple):
    """A call of what is not known but for its name."""

    source: str
    file: str
    name: str


class Findings:
    """Collects definitions, edges and counts; what is added twice is kept once.

    Memory grows with all texts and edges.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.calls: Counter[CallOutcome] = Counter()
        #: Names in SQL statements, by what became of them.
        self.references: Counter[CallOutcome] = Counter()
        #: Files that could be read and not understood, and why.
        self.failures: list[tuple[str, str]] = []
        #: Strings that may be SQL or name something in it.
        self.quoted: list[Quoted] = []
        self.named_calls: list[NamedCall] = []
        self._edges: dict[tuple[str, str, str], Edge] = {}

    def define(self, definition: Definition) -> None:
        """Add a definition; a further piece of a known one is added to its text."""
        known = self.definitions.get(definition.id)
        if known is not None:
            text = f"{known.text}\n\n{definition.text}"
            definition = msgspec.structs.replace(known, text=text)
        self.definitions[definition.id] = definition

    def connect(self, edge: Edge) -> None:
        """Add an edge; one from a definition to itself says nothing and is left out."""
        if edge.source != edge.target:
            key = (edge.source, edge.relation, edge.target)
            known = self._edges.get(key)
            if known is None or (known.inferred and not edge.inferred):
                self._edges[key] = edge

    def connect_all(self, edges: Iterable[Edge]) -> None:
        """Add several edges."""
        for edge in edges:
            self.connect(edge)

    def quote(self, quoted: Quoted) -> None:
        """Add a string, unless it is too short or too long to say anything of SQL."""
        if MIN_QUOTED <= len(quoted.text) <= MAX_QUOTED:
            self.quoted.append(quoted)

    def edges(self) -> list[Edge]:
        """Return the edges between definitions, sorted; a plain use beside a closer relation is left out."""
        closer = {
            (source, target)
            for source, relation, target in self._edges
            if relation in ("calls", "inherits")
        }
        return sorted(
            edge
            for edge in self._edges.values()
            if edge.source in self.definitions
            and edge.target in self.definitions
            and not (edge.relation == "uses" and (edge.source, edge.target) in closer)
        )


def shortened_id(whole: str) -> str:
    """Return an id that leaves room for the parts before it; a long one ends in a digest of the whole."""
    data = whole.encode()
    if len(data) <= _MAX_ID_BYTES:
        return whole
    digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    return f"{data[:_MAX_ID_BYTES].decode(errors='ignore').rstrip()}~{digest}"
