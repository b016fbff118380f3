"""What triples take at most is never less than what they take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.provenance.reasons import DROP_REASONS
from whence.provenance.stage_records import CandidateAccount, ModelFacts, Selection, StageFacts
from whence.provenance.stages import (
    exploration_triples,
    failure_triples,
    focus_triples,
    grounding_triples,
    question_triples,
    synthesis_triples,
)
from whence.schema.codec import encode_all, sealed
from whence.schema.document_rag import Citation, ExplainEvent
from whence.schema.errors import BadInput
from whence.schema.search import Degradation
from whence.schema.terms import Statements, Triple
from whence.schema.wire import Wire, most_bytes

ANSWER = "A" * 128
#: What grows most on its way: control characters in JSON, signs of four bytes in IRIs.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=40),
    st.text('\x01\x1f"\\\U0010ffff\u00e9a', max_size=200),
    st.integers(900, 1_100).map(lambda size: "\x01" * size),
)
IDS = TEXTS.filter(bool)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
COUNTS = st.one_of(st.none(), st.integers(0, 2**63))
CODES = st.sampled_from(["", *DROP_REASONS])
CANDIDATES = st.lists(
    st.builds(
        CandidateAccount,
        chunk_id=IDS,
        rank=st.just(1),
        document_id=TEXTS,
        score=st.one_of(st.none(), NUMBERS),
        dense_score=st.one_of(st.none(), NUMBERS),
        concepts=st.lists(TEXTS, max_size=2).map(tuple),
        digest=TEXTS,
        rerank_rank=st.integers(0, 10**9),
        rerank_score=st.one_of(st.none(), NUMBERS),
        reason_code=CODES,
    ),
    max_size=3,
    unique_by=lambda one: one.chunk_id,
).map(
    lambda found: [
        CandidateAccount(**{**_fields(one), "rank": 10**9 + place})
        for place, one in enumerate(found)
    ]
)
FACTS = st.one_of(
    st.none(),
    st.builds(
        StageFacts,
        started_at=TEXTS,
        ended_at=TEXTS,
        duration_ms=st.one_of(st.none(), NUMBERS),
        models=st.lists(
            st.builds(
                ModelFacts,
                role=st.sampled_from(["embedding", "reranker", "writer"]),
                name=IDS,
                revision=TEXTS,
                precision=TEXTS,
                dimension=st.integers(0, 2**31),
            ),
            max_size=2,
        ).map(tuple),
        settings=st.dictionaries(
            st.sampled_from(["a", "k" * 64]),
            st.one_of(TEXTS, st.integers(-(2**63), 2**63), NUMBERS, st.booleans()),
        ),
        degraded=st.lists(
            st.builds(Degradation, stage=TEXTS, code=TEXTS, reason=TEXTS), max_size=2
        ).map(tuple),
    ),
)
CITATIONS = st.lists(
    st.builds(
        Citation,
        marker=st.integers(1, 10**6),
        chunk_id=IDS,
        document_id=TEXTS,
        quote=TEXTS,
    ),
    max_size=2,
)


def _fields(account: CandidateAccount) -> dict[str, object]:
    return {name: getattr(account, name) for name in account.__struct_fields__}


def holds(triples: tuple[Triple, ...]) -> None:
    """The bound holds, and an event of the triples is handed over without being encoded."""
    assert type(triples) is Statements
    event = ExplainEvent(
        answer_id=ANSWER, stage="s", sequence=0, explain_id="urn:e", triples=triples
    )
    assert len(encode_all(event)) <= event.most_bytes()
    form = sealed(event)
    assert isinstance(form, Wire)
    assert form.message is event
    assert most_bytes(form) == event.most_bytes()


@given(query=TEXTS, at=TEXTS, parent=TEXTS, facts=FACTS)
def test_a_question(query: str, at: str, parent: str, facts: StageFacts | None) -> None:
    """The question itself may be long."""
    holds(question_triples(ANSWER, query, at, parent_uri=parent, facts=facts))


@given(concepts=st.lists(TEXTS, max_size=3), count=COUNTS, model=TEXTS, facts=FACTS)
def test_grounding(
    concepts: list[str], count: int | None, model: str, facts: StageFacts | None
) -> None:
    """All concepts are in one text as well."""
    holds(
        grounding_triples(
            ANSWER, concepts, in_token=count, out_token=count, model=model, facts=facts
        )
    )


@given(ids=st.lists(IDS, max_size=3), candidates=CANDIDATES, facts=FACTS)
def test_exploration(
    ids: list[str], candidates: list[CandidateAccount], facts: StageFacts | None
) -> None:
    """Ids are escaped in IRIs; a very long concept is cut and named with its digest."""
    holds(exploration_triples(ANSWER, ids, candidates=iter(candidates), facts=facts))


@given(ids=st.lists(IDS, max_size=3), candidates=CANDIDATES, facts=FACTS)
def test_focus(
    ids: list[str], candidates: list[CandidateAccount], facts: StageFacts | None
) -> None:
    """Only ids of chunks are texts here."""
    selections = [Selection(one, 0.1 + 0.2) for one in ids]
    holds(focus_triples(ANSWER, selections, candidates=candidates, facts=facts))


@given(
    count=COUNTS,
    model=TEXTS,
    dropped=CANDIDATES,
    citations=CITATIONS,
    digest=TEXTS,
    facts=FACTS,
)
def test_synthesis(
    count: int | None,
    model: str,
    dropped: list[CandidateAccount],
    citations: list[Citation],
    digest: str,
    facts: StageFacts | None,
) -> None:
    """Quotes are the longest texts here."""
    holds(
        synthesis_triples(
            ANSWER,
            reranked=True,
            saved=True,
            in_token=count,
            out_token=count,
            model=model,
            dropped=dropped,
            citations=citations,
            found=True,
            answer_digest=digest,
            facts=facts,
        )
    )


@given(stage=TEXTS, code=TEXTS, message=TEXTS, hint=TEXTS, facts=FACTS)
def test_failure(stage: str, code: str, message: str, hint: str, facts: StageFacts | None) -> None:
    """An error's words may be anything."""
    holds(
        failure_triples(
            ANSWER,
            derived_from="focus",
            stage=stage,
            code=code,
            message=message,
            hint=hint,
            facts=facts,
        )
    )


@pytest.mark.parametrize(
    "triples",
    [
        question_triples(ANSWER, "\ud800", "now"),
        grounding_triples(ANSWER, ["\ud83d"], model="\ude00"),
        focus_triples(ANSWER, [], facts=StageFacts(settings={"a": "\ud800"})),
        failure_triples(ANSWER, derived_from="focus", stage="", code="", message="", hint="\udfff"),
    ],
)
def test_what_cannot_travel_is_refused_where_it_is_published(triples: tuple[Triple, ...]) -> None:
    """Nobody vouches for half of a surrogate pair."""
    event = ExplainEvent(
        answer_id=ANSWER, stage="s", sequence=0, explain_id="urn:e", triples=triples
    )
    with pytest.raises(BadInput):
        sealed(event)
