"""RDF terms and triples of messages, without an RDF library.

A trace has hundreds of them. They contain only strings and each other, so no cycle can form: `gc=False` saves a
quarter of the time to build and decode a trace.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec


class Term(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An IRI or a literal; `.value` of an IRI and `.iri` of a literal are empty."""

    type: Literal["i", "l"]
    """`i` for an IRI, `l` for a literal."""
    iri: str = ""
    """The IRI; empty for a literal."""
    value: str = ""
    """The literal's text; empty for an IRI."""
    datatype: str = ""
    """IRI of the literal's datatype; empty means a plain string."""


class Triple(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One statement and the named graph it belongs to."""

    s: Term
    """Subject, an IRI."""
    p: Term
    """Predicate, an IRI."""
    o: Term
    """Object, an IRI or a literal."""
    g: str | None = None
    """IRI of the named graph; None is the default graph."""


#: Returns the term of an IRI.
iri = partial(Term, "i")
#: Returns a literal of a text and, unless it is a plain string, the IRI of its datatype.
literal = partial(Term, "l", "")
