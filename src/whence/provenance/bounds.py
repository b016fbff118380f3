"""How many bytes the triples of a stage take at most, from the texts in them.

Whoever builds a trace has its texts at hand, a hundred where there are a thousand triples. To look at these is
cheap. To encode the triples only to know that they are not too many took an eighth of bus and provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence.schema.terms import Statements, Triple

__all__ = ("told",)

#: Most bytes of a triple but for the text of its object: JSON's own, a subject of ours with an answer's id of
#: 128 characters, a predicate of ours with a setting's key of 64, a datatype, and the graph.
_TRIPLE = 640
#: Most bytes of a character: four in UTF-8, each percent-escaped in an IRI. JSON takes six at most.
_WIDEST = 12
#: Any other object is a number with fewer characters, or an IRI of ours with fewer bytes than so many can take.
_SHORTEST = 24


def told(triples: Sequence[Triple], texts: Iterable[str]) -> tuple[Triple, ...]:
    """Give triples with the most bytes that they take; without, when a text cannot travel.

    Args:
        triples: Of one stage, whose nodes and predicates are ours.
        texts: Every text in them that is none of ours: ids, names, words.

    Cost: linear in the texts.
    """
    known = set(texts)
    try:
        "".join(known).encode()
    except (TypeError, UnicodeEncodeError):
        # Where it is published its encoding tells what is wrong.
        return tuple(triples)
    longest = max(map(len, known), default=0)
    return Statements.of(triples, len(triples) * (_TRIPLE + _WIDEST * max(longest, _SHORTEST)))
