"""A SPARQL query over a trace ends within its limits, whatever it asks."""

from __future__ import annotations

import time

import pytest
from tests.support.traces import full_triples

from whence.provenance.render.rdf import run_sparql
from whence.provenance.render.sparql import answer_sparql
from whence.schema.errors import BadInput

#: Queries that take minutes or gigabytes.
PRODUCT = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
REGEX = f'ASK {{ BIND("{"a" * 40}b" AS ?text) FILTER(REGEX(?text, "^(a+)+$")) }}'
REPLACE = f'SELECT ?x {{ BIND(REPLACE("{"a" * 40}b", "(a*)*$", "c") AS ?x) }}'


def doubling(times: int) -> str:
    """Return a query that makes a text of 2^times characters."""
    binds = "".join(f"BIND(CONCAT(?x{n}, ?x{n}) AS ?x{n + 1}) " for n in range(times))
    return f'SELECT (STRLEN(?x{times}) AS ?n) {{ BIND("a" AS ?x0) {binds} }}'


@pytest.mark.parametrize("query", [PRODUCT, REGEX, REPLACE])
def test_a_query_that_takes_too_long_is_stopped(query: str) -> None:
    """The error names the limit; the process is gone then."""
    begin = time.monotonic()
    with pytest.raises(BadInput, match=r"longer than 2 s \(WHENCE_SPARQL_TIMEOUT\)"):
        answer_sparql(full_triples(), query, seconds=2, memory=2**28)

    assert time.monotonic() - begin < 30


def test_a_query_that_takes_too_much_memory_is_stopped() -> None:
    """The error names the limit."""
    with pytest.raises(BadInput, match=r"more than 256 MB of memory \(WHENCE_SPARQL_MEMORY\)"):
        answer_sparql(full_triples(), doubling(40), seconds=60, memory=2**28)


def test_an_answer_that_is_too_large_is_refused() -> None:
    """The size of an answer is limited as well."""
    query = doubling(26).replace("(STRLEN(?x26) AS ?n)", "?x26")
    with pytest.raises(BadInput, match="larger than 32 MB"):
        answer_sparql(full_triples(), query, seconds=60, memory=2**30)


def test_other_queries_are_answered_as_without_limits() -> None:
    """Answers and errors are those of the query alone."""
    query = "SELECT ?s ?text { ?s tg:query ?text } ORDER BY ?s"
    limits = {"seconds": 60, "memory": 2**29}

    assert answer_sparql(full_triples(), query, **limits) == run_sparql(full_triples(), query)
    for wrong in ("SELECT", "INSERT DATA { <urn:a> <urn:b> 1 }", "x" * 30_000):
        with pytest.raises(BadInput) as limited:
            answer_sparql(full_triples(), wrong, **limits)
        with pytest.raises(BadInput) as alone:
            run_sparql(full_triples(), wrong)
        assert (limited.value.message, limited.value.hint) == (
            alone.value.message,
            alone.value.hint,
        )
    with pytest.raises(BadInput, match="surrogate"):
        answer_sparql(full_triples(), "ASK { ?s ?p '\ud800' }", **limits)
