"""What may be shown of a trace, triple by triple, is what its redacted form has."""

from __future__ import annotations

from collections import defaultdict

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.support.traces import code_triples, full_triples, plain_triples, refused_triples
from tests.unit.test_provenance_reports import walked_triples
from tests.unit.test_provenance_traces import Story, stories

from whence.provenance import namespaces as ns
from whence.provenance.redaction import chunk_ids, redact_trace, shown_triples
from whence.provenance.terms import iri_from_id
from whence.provenance.trace import Trace, read_trace
from whence.schema.terms import Triple

#: Predicates that lead from a numbered node to the chunks that it is about.
_CHUNKS = {ns.WH_CHUNK, ns.TG_DOCUMENT, ns.WH_FROM, ns.WH_TO}
_NUMBERS = {ns.WH_RANK, ns.WH_RERANK_RANK}


def _without_numbers(trace: Trace, visible: frozenset[str]) -> dict[Triple, tuple[str, ...]]:
    """Return triples as words that do not depend on the numbers of nodes, nor on ranks."""
    shown = {iri_from_id(one) for one in visible}
    passages = {one.s.iri for one in trace.triples if one.o.iri == ns.TG_CHUNK_TYPE}
    about: defaultdict[str, set[str]] = defaultdict(set)
    for one in trace.triples:
        if one.p.iri in _CHUNKS:
            about[one.s.iri].add(one.o.iri)
        elif one.p.iri == ns.PROV_WAS_DERIVED_FROM and one.s.iri in passages & shown:
            about[one.o.iri].add(one.s.iri)

    def name(uri: str) -> str:
        return f"{uri.rstrip('0123456789')} of {sorted(about[uri])}" if uri in about else uri

    return {
        one: (
            *(name(one.s.iri), one.p.iri),
            "" if one.p.iri in _NUMBERS else name(one.o.iri) or one.o.value,
        )
        for one in trace.triples
    }


def _assert_shown(trace: Trace, visible: frozenset[str]) -> None:
    shows = shown_triples(trace, visible)
    seen = redact_trace(trace, visible)
    left = set(_without_numbers(seen, chunk_ids(seen)).values())
    for triple, words in _without_numbers(trace, chunk_ids(seen)).items():
        counts = triple.p.iri == ns.WH_GENERATED_COUNT
        assert shows(triple) == (words in left and not counts), triple


@given(stories(), st.data())
def test_a_triple_is_shown_when_the_redacted_trace_has_it(
    story: Story, data: st.DataObject
) -> None:
    """With other numbers at most; counts of what a stage generated are never shown."""
    trace = read_trace(story.triples())
    visible = frozenset(c for c in sorted(chunk_ids(trace)) if data.draw(st.booleans()))

    if not chunk_ids(trace) <= visible:
        _assert_shown(trace, visible)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize(
    "triples",
    [
        *(plain_triples(), plain_triples(reranked=False), full_triples(), refused_triples()),
        *(code_triples(nodes=6), walked_triples(), walked_triples(refused=True)),
    ],
    ids=["plain", "unranked", "full", "refused", "code", "walked", "walked and refused"],
)
def test_a_chunk_that_is_hidden_is_shown_nowhere(triples: list[Triple], place: int) -> None:
    """No triple that names it is shown, and all that remains is."""
    trace = read_trace(triples)
    every = sorted(chunk_ids(trace))
    hidden = every[place % len(every)]
    visible = frozenset(every) - {hidden}
    shows = shown_triples(trace, visible)

    _assert_shown(trace, visible)
    for triple in trace.triples:
        if iri_from_id(hidden) in {triple.s.iri, triple.o.iri}:
            assert not shows(triple)
