"""Triples as canonical N-Quads: one sorted line each, the same bytes for the same set of triples.

A trace has no blank nodes, so sorting canonical lines suffices for RDF dataset canonicalisation (RDFC-1.0); a
digest over this text identifies the trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from whence.provenance.namespaces import XSD_STRING
from whence.schema.terms import Term, Triple

#: Canonical N-Quads escapes these and nothing else (RDF 1.2 N-Quads, section "A canonical form").
_SPECIAL = re.compile(r'[\x00-\x1f"\\\x7f]')
_NAMED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_nquads(triples: Iterable[Triple]) -> str:
    """Return canonical N-Quads, sorted by code point, each statement once. Cost: n log n."""
    return "".join(sorted({_line(triple) for triple in triples}))


def _line(triple: Triple) -> str:
    graph = f" <{triple.g}>" if triple.g else ""
    return f"<{triple.s.iri}> <{triple.p.iri}> {_object(triple.o)}{graph} .\n"


def _object(term: Term) -> str:
    if term.type == "i":
        return f"<{term.iri}>"
    text = _SPECIAL.sub(_escaped, term.value)
    if term.datatype in {"", XSD_STRING}:
        return f'"{text}"'
    return f'"{text}"^^<{term.datatype}>'


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    return _NAMED.get(char) or f"\\u{ord(char):04X}"
