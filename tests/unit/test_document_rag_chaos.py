"""Under any failure of its services a question ends with an answer or an error, and a valid trace."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.prov_o import prov_faults

from whence.processors.document_rag import DocumentRag, RagOptions
from whence.provenance.checking import check_trace
from whence.provenance.terms import stage_from_uri
from whence.provenance.trace import read_trace
from whence.schema import Answer, RerankerResult, Triple
from whence.schema.errors import NotFound, Unavailable, WhenceError
from whence.testing.stub_clients import (
    ChunkMatch,
    StubEmbeddings,
    StubPrompt,
    StubReranker,
    StubSearch,
    StubTexts,
    candidate,
)

errors = st.sampled_from(
    [RuntimeError("boom"), Unavailable("down"), NotFound("none"), TimeoutError()]
)
sometimes_errors = st.one_of(st.none(), st.none(), st.none(), errors)

chunk_ids = st.sampled_from(["urn:a", "urn:b", "urn:c", "urn:d", "odd id", "\u00e9<>"])
matches = st.lists(
    st.one_of(
        st.builds(ChunkMatch, st.one_of(chunk_ids, st.just(""))),
        st.builds(candidate, chunk_ids, st.one_of(st.floats(0, 1), st.just(float("nan")))),
    ),
    max_size=8,
)
texts = st.dictionaries(
    chunk_ids, st.one_of(st.sampled_from(["one", "two", "two", " ", "long " * 9]), errors)
)
scores = st.one_of(st.floats(0, 1), st.sampled_from([float("nan"), None, "x"]))
results = st.builds(
    RerankerResult, st.sampled_from(["0", "1", "2", "9", "-1", "x"]), st.just("0"), scores
)
rerankers = st.one_of(
    st.none(),
    st.builds(StubReranker),
    st.builds(StubReranker, st.one_of(st.just(7), st.lists(results, max_size=6))),
    st.builds(StubReranker, error=errors),
)
prompts = st.builds(
    StubPrompt,
    st.sampled_from(["Yes [1].", "Both [1][2], not [9].", "", "No marker."]),
    concepts=st.lists(st.sampled_from(["x", "y", "Why?", " "]), max_size=3),
    error=sometimes_errors,
    concepts_error=sometimes_errors,
)
embeddings = st.builds(
    StubEmbeddings, surplus=st.sampled_from([0, 0, 0, -1, 1]), error=sometimes_errors
)
searches = st.builds(StubSearch, matches, error=sometimes_errors)
options = st.builds(
    RagOptions,
    threshold=st.sampled_from([0.0, 0.5]),
    drop_duplicates=st.booleans(),
    max_context_chars=st.sampled_from([0, 5]),
)


@settings(max_examples=200, deadline=None)
@given(
    prompt=prompts,
    embedder=embeddings,
    search=searches,
    stored=texts,
    reranker=rerankers,
    choices=options,
    doc_limit=st.integers(1, 4),
    fetch_limit=st.integers(0, 6),
    batched=st.booleans(),
)
async def test_a_question_always_ends_in_a_valid_state(
    prompt: StubPrompt,
    embedder: StubEmbeddings,
    search: StubSearch,
    stored: dict[str, Any],
    reranker: StubReranker | None,
    choices: RagOptions,
    doc_limit: int,
    fetch_limit: int,
    batched: bool,
) -> None:
    """The answer or the error has a text, limits are kept, and the trace is valid and complete."""
    holder = StubTexts(stored)
    rag = DocumentRag(
        prompt,
        embedder,
        search,
        holder.fetch_chunk,
        reranker,
        fetch_chunks=holder.fetch_chunks if batched else None,
        options=choices,
    )
    stages: list[str] = []
    triples: list[Triple] = []

    async def keep(of_stage: tuple[Triple, ...], explain_id: str) -> None:
        wire = msgspec.json.encode(of_stage)
        assert msgspec.json.decode(wire, type=tuple[Triple, ...]) == of_stage
        stages.append(stage_from_uri(explain_id))
        triples.extend(of_stage)

    outcome: Answer | WhenceError
    try:
        outcome = await rag.query(
            "Why?", doc_limit=doc_limit, fetch_limit=fetch_limit, explain_callback=keep
        )
    except WhenceError as error:
        outcome = error

    trace = read_trace(triples)
    assert check_trace(trace) == []
    assert prov_faults(trace.triples) == []
    given_documents = prompt.documents[-1] if prompt.documents else []
    assert len(given_documents) <= doc_limit
    if isinstance(outcome, WhenceError):
        assert outcome.message.strip()
        assert trace.failure is not None
        assert trace.failure.code == outcome.code
        return
    assert trace.failure is None
    assert [stored[chunk_id] for chunk_id in trace.used] == given_documents
    assert outcome.found == bool(outcome.citations) == (outcome.refusal is None)
    assert trace.refusal == outcome.refusal
    assert {c.chunk_id for c in outcome.citations} <= set(trace.used)
    assert [s.stage for s in outcome.stages] == stages
    told = [d for stage in trace.stages for d in stage.run.degraded]
    assert told == list(outcome.degraded)
