"""Convert traces to canonical N-Quads, and with rdflib to Turtle, TriG and JSON-LD; answer SPARQL on one trace.

The only module that imports rdflib, on first use. A query reads the given triples only: constructs that would
make rdflib open a file or an address are refused before the query runs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.terms import OPAQUE_PREFIX
from whence.schema.errors import BadInput
from whence.schema.terms import Term, Triple

if TYPE_CHECKING:
    from rdflib import Dataset
    from rdflib.query import Result

#: Prefixes of our output; a query may use them without declaring them. Those of chunks and ids are for readers
#: that need a prefix for every name, as the package `prov` does.
PREFIXES = {
    "chunk": "urn:chunk:",
    "dc": ns.DC,
    "id": OPAQUE_PREFIX,
    "prov": ns.PROV,
    "rdf": ns.RDF,
    "rdfs": ns.RDFS,
    "tg": ns.TG,
    "wh": ns.WH,
    "xsd": ns.XSD,
}

#: Longer queries are refused: the parser takes time and stack in proportion.
MAX_SPARQL_CHARS = 20_000

#: Canonical N-Quads escapes these and nothing else (RDF 1.2 N-Quads, section "A canonical form").
_SPECIAL = re.compile(r'[\x00-\x1f"\\\x7f]')
_NAMED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class SparqlAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a query in plain values."""

    kind: Literal["select", "ask", "construct"]
    """Form of the query; DESCRIBE counts as `construct`."""
    columns: tuple[str, ...]
    """Names of the columns: variables, `answer`, or `s`, `p`, `o`."""
    rows: tuple[dict[str, str | bool | None], ...]
    """One dict per row; IRIs and literals as their text, None where nothing is bound. Constructed rows are
    sorted; selected ones are in the order of the query."""
    truncated: bool = False
    """True when there were more rows than allowed."""


def to_nquads(triples: Iterable[Triple]) -> str:
    """Return canonical N-Quads, sorted by code point, each statement once. Cost: n log n.

    A trace has no blank nodes, so sorting canonical lines suffices for RDF dataset canonicalisation (RDFC-1.0);
    a digest over this text identifies the trace.
    """
    return "".join(sorted({_quad(triple) for triple in triples}))


def _quad(triple: Triple) -> str:
    graph = f" <{triple.g}>" if triple.g else ""
    return f"<{triple.s.iri}> <{triple.p.iri}> {_object(triple.o)}{graph} .\n"


def _object(term: Term) -> str:
    if term.type == "i":
        return f"<{term.iri}>"
    text = _SPECIAL.sub(_escaped, term.value)
    if term.datatype in {"", ns.XSD_STRING}:
        return f'"{text}"'
    return f'"{text}"^^<{term.datatype}>'


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    return _NAMED.get(char) or f"\\u{ord(char):04X}"


def to_trig(triples: Iterable[Triple]) -> str:
    """Return TriG with prefixes that parses back to the same triples."""
    from rdflib.plugins.serializers.trig import TrigSerializer

    return _written(TrigSerializer, _dataset(triples))


def to_turtle(triples: Iterable[Triple]) -> str:
    """Return Turtle with prefixes that parses back to the triples of `prov_o`, without their graph."""
    from rdflib.plugins.serializers.turtle import TurtleSerializer

    return _written(TurtleSerializer, _dataset(Triple(t.s, t.p, t.o) for t in prov_o(triples)))


def prov_o(triples: Iterable[Triple]) -> list[Triple]:
    """Return the triples without the time of the question itself, if that of its activity is there.

    Readers of the shared vocabulary look for it on the question; PROV-O has `prov:startedAtTime` of activities
    alone.
    """
    triples = list(triples)
    generated = {t.s.iri for t in triples if t.p.iri == ns.PROV_WAS_GENERATED_BY}
    asked = {t.s.iri for t in triples if t.o.iri == ns.TG_QUESTION} & generated
    return [t for t in triples if t.p.iri != ns.PROV_STARTED_AT_TIME or t.s.iri not in asked]


def _written(serializer: Any, dataset: Dataset) -> str:
    """Return the text of a serializer of the family of Turtle."""
    from io import BytesIO

    from rdflib import Literal as RdfLiteral
    from rdflib import URIRef
    from rdflib.namespace import XSD
    from rdflib.term import Node

    class Exact(serializer):  # type: ignore[misc]
        """Writes doubles with all digits, rdflib's short form keeps seven; and all of our prefixes."""

        def label(self, node: Node, position: int) -> str:
            if isinstance(node, RdfLiteral) and node.datatype == XSD.double:
                return node.n3(self.store.namespace_manager)
            return str(super().label(node, position))

        def startDocument(self) -> None:  # noqa: N802
            for prefix, namespace in PREFIXES.items():
                self.addNamespace(prefix, URIRef(namespace))
            super().startDocument()

    buffer = BytesIO()
    with _own_deprecations_ignored():
        Exact(dataset).serialize(buffer)
    return buffer.getvalue().decode()


def to_json_ld(triples: Iterable[Triple]) -> str:
    """Return JSON-LD with a context of prefixes that parses back to the same triples."""
    triples = tuple(triples)
    context = {**PREFIXES, **_coerced(triples)}
    with _own_deprecations_ignored():
        return _dataset(triples).serialize(format="json-ld", context=context, indent=2)


def _coerced(triples: Iterable[Triple]) -> dict[str, dict[str, str]]:
    """Return the context for predicates with doubles, so that their values are written as text.

    As JSON numbers 1.0 would be read as an integer, and NaN is not JSON.
    """
    predicates = sorted({t.p.iri for t in triples if t.o.datatype == ns.XSD_DOUBLE})
    return {_shrunk(iri): {"@id": iri, "@type": ns.XSD_DOUBLE} for iri in predicates}


def _shrunk(iri: str) -> str:
    for prefix, namespace in PREFIXES.items():
        if iri.startswith(namespace):
            return f"{prefix}:{iri.removeprefix(namespace)}"
    return iri


def serialize(triples: Iterable[Triple], form: str) -> str:
    """Serialize the triples as `nquads` (canonical and sorted), `turtle`, `trig` or `jsonld`."""
    writers = {
        "nquads": to_nquads,
        "turtle": to_turtle,
        "trig": to_trig,
        "jsonld": to_json_ld,
    }
    if form not in writers:
        raise BadInput(f"unknown form {form!r}", hint="one of " + ", ".join(writers))
    return writers[form](triples)


def run_sparql(triples: Iterable[Triple], sparql: str, *, max_rows: int = 10_000) -> SparqlAnswer:
    """Answer a SELECT, ASK, CONSTRUCT or DESCRIBE query over the triples.

    `sparql` is SPARQL 1.1; `max_rows` is 1 or more. A pattern outside `GRAPH` matches in any graph. The
    prefixes of `PREFIXES` are known.

    Raises:
        BadInput: The query is not SPARQL (line and column are named), is an update, or reads from outside
            the triples (`SERVICE`, `FROM`).
    """
    if len(sparql) > MAX_SPARQL_CHARS:
        raise BadInput(f"the query has {len(sparql)} characters, more than {MAX_SPARQL_CHARS}")
    prepared = _prepared(sparql)
    try:
        with _own_deprecations_ignored():
            result = _dataset(triples).query(prepared)
            return _answer(result, sparql, max_rows)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"the query cannot be answered: {_first_line(error)}") from error


@contextmanager
def _own_deprecations_ignored() -> Iterator[None]:
    """Ignore warnings of rdflib 7 about its own use of deprecated methods when it writes a dataset."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _dataset(triples: Iterable[Triple]) -> Dataset:
    from rdflib import Dataset, URIRef

    dataset = Dataset(default_union=True)
    for prefix, namespace in PREFIXES.items():
        dataset.bind(prefix, namespace)
    for triple in triples:
        graph = dataset.graph(URIRef(triple.g)) if triple.g else dataset.default_graph
        graph.add((URIRef(triple.s.iri), URIRef(triple.p.iri), _node(triple.o)))
    return dataset


def _node(term: Term) -> Any:
    from rdflib import Literal as RdfLiteral
    from rdflib import URIRef

    if term.type == "i":
        return URIRef(term.iri)
    # Not normalised: "1e-05" must be returned as it was recorded.
    return RdfLiteral(term.value, datatype=term.datatype or None, normalize=False)


def _prepared(query: str) -> Any:
    from pyparsing import ParseBaseException
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    try:
        parsed = parseQuery(query)
    except ParseBaseException as error:
        raise BadInput(
            f"not a SPARQL query: line {error.lineno}, column {error.column}: "
            f"unexpected {_here(error.line, error.column)}",
            hint="SELECT, ASK, CONSTRUCT and DESCRIBE are answered; updates are not",
        ) from error
    except RecursionError as error:
        raise BadInput("the query is nested too deeply") from error
    except ValueError as error:
        # Of an escape such as `\U0011FFFF`, which is no character.
        raise BadInput(f"not a SPARQL query: {_first_line(error)}") from error
    for name in _names(parsed):
        if name in {"ServiceGraphPattern", "DatasetClause"}:
            word = "SERVICE" if name == "ServiceGraphPattern" else "FROM"
            raise BadInput(
                f"{word} would read from outside the trace{_position(query, word)}",
                hint="ask only for what the trace holds",
            )
    try:
        return translateQuery(parsed, initNs=PREFIXES)
    except Exception as error:
        _, is_prefix, prefix = str(error).partition("Unknown namespace prefix : ")
        place = _position(query, f"{prefix}:") if is_prefix else ""
        raise BadInput(f"not a SPARQL query: {_first_line(error)}{place}") from error


def _names(part: Any) -> Iterator[str]:
    from rdflib.plugins.sparql.parserutils import CompValue

    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, CompValue):
            yield part.name
            waiting.extend(part.values())
        elif isinstance(part, str | bytes):
            continue
        elif hasattr(part, "__iter__"):
            waiting.extend(part)


def _here(line: str, column: int) -> str:
    rest = line[column - 1 :].strip()
    return repr(rest[:24]) if rest else "end of the query"


def _position(query: str, word: str) -> str:
    at = query.upper().find(word.upper())
    if at < 0:
        return ""
    lines = query[: at + 1].split("\n")
    return f" (line {len(lines)}, column {len(lines[-1])})"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _columns(result: Result, query: str) -> tuple[str, ...]:
    """Return the variables of a result in the order of the query; rdflib orders those of `*` at random."""
    names = [str(variable) for variable in result.vars or ()]
    if not re.search(r"\bselect\s+(?:distinct\s+|reduced\s+)?\*", query, re.IGNORECASE):
        return tuple(names)
    found = {name: re.search(rf"[?$]{re.escape(name)}\b", query) for name in names}
    places = {name: match.start() if match else 0 for name, match in found.items()}
    return tuple(sorted(names, key=lambda name: (places[name], name)))


def _answer(result: Result, query: str, max_rows: int) -> SparqlAnswer:
    kind: Literal["select", "ask", "construct"]
    columns: tuple[str, ...]
    rows: list[dict[str, str | bool | None]]
    if result.type == "ASK":
        kind, columns, rows = "ask", ("answer",), [{"answer": bool(result.askAnswer)}]
    elif result.type == "SELECT":
        kind, columns = "select", _columns(result, query)
        rows = list(islice(_selected(result, columns), max_rows + 1))
    else:
        kind, columns = "construct", ("s", "p", "o")
        built = sorted(tuple(map(str, triple)) for triple in result.graph or ())
        rows = [dict(zip(columns, row, strict=True)) for row in built]
    return SparqlAnswer(
        kind=kind, columns=columns, rows=tuple(rows[:max_rows]), truncated=len(rows) > max_rows
    )


def _selected(result: Result, columns: tuple[str, ...]) -> Iterator[dict[str, str | bool | None]]:
    for row in result:
        bound: dict[str, Any] = row.asdict()  # type: ignore[union-attr]
        yield {name: str(bound[name]) if name in bound else None for name in columns}
