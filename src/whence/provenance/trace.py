"""Read a trace: triples in any order in, everything known of one question out.

A trace is a set: the order in which its triples arrive carries no meaning and is never used. Where order
matters it is stated (ranks, the order of concepts, numbers in the IRIs of kept chunks); where nothing is
stated, as in a trace of the shared vocabulary alone, order is by name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.stage_records import (
    OUTCOME_PREDICATES,
    SCORE_PREDICATES,
    CandidateRecord,
    ModelRole,
    ModelUse,
    Scalar,
    Selection,
    StageRun,
)
from whence.provenance.terms import answer_id_from_uri, answer_uris, id_from_iri, read_scalar
from whence.schema.access import Access
from whence.schema.document_rag import STAGE_LABELS, BestPassage, Citation, Refusal, RefusalCode
from whence.schema.errors import BadInput
from whence.schema.integrity import Integrity
from whence.schema.places import Location
from whence.schema.search import Correction, Degradation
from whence.schema.terms import Term, Triple

#: Class of each stage, in the order of the chain.
STAGE_TYPES: Mapping[str, str] = {
    "question": ns.TG_DOC_RAG_QUESTION,
    "grounding": ns.TG_GROUNDING,
    "exploration": ns.TG_EXPLORATION,
    "focus": ns.TG_FOCUS,
    "synthesis": ns.TG_SYNTHESIS,
    "error": ns.TG_ERROR_TYPE,
}
#: Headings of stages for people.
STAGE_TITLES: Mapping[str, str] = {
    **{stage: label.capitalize() for stage, label in STAGE_LABELS.items()},
    "question": "Question",
}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the chain."""

    stage: str
    """`question`, `grounding`, `exploration`, `focus`, `synthesis` or `error`."""
    uri: str
    derived_from: str = ""
    """IRI of the stage before it; empty for the question."""
    in_token: int | None = None
    out_token: int | None = None
    model: str = ""
    """Language model or writer, when recorded."""
    run: StageRun = StageRun()

    @property
    def label(self) -> str:
        """The field's term for the stage, e.g. `retrieval`."""
        return STAGE_LABELS[self.stage]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a question has no answer."""

    stage: str
    code: str
    message: str
    hint: str = ""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one question."""

    answer_id: str
    question: str = ""
    access: Access | None = None
    """Rights of the reader who asked; not part of the triples, None when unknown or withheld."""
    integrity: Integrity | None = None
    """Whether it is as it was recorded; None when that was not checked."""
    asked_at: str = ""
    """ISO 8601."""
    stages: tuple[Stage, ...] = ()
    """In the order of the chain."""
    question_used: str = ""
    """The question with its corrections; empty when no word was corrected."""
    corrections: tuple[Correction, ...] = ()
    """Misspelt words of the question and what they were taken for."""
    concepts: tuple[str, ...] = ()
    """Search queries; in order when the order was recorded, else by name."""
    chunk_count: int | None = None
    """Number of chunks read, as the trace states it."""
    explored: tuple[str, ...] = ()
    """Chunks whose text was read, by rank, or by id where no rank is known."""
    candidates: tuple[CandidateRecord, ...] = ()
    """All candidates by rank; of a trace without candidates the explored chunks, with rank 0."""
    selections: tuple[Selection, ...] = ()
    """Chunks that the reranker kept, best first."""
    citations: tuple[Citation, ...] = ()
    """Sources of the answer's markers, in order."""
    found: bool | None = None
    """False when no citation supports an answer; None when not recorded."""
    refusal: Refusal | None = None
    """Why there is no answer."""
    answer_document: str = ""
    """IRI under which the answer's text is stored."""
    answer_digest: str = ""
    """SHA-256 of the answer's text, hexadecimal."""
    failure: Failure | None = None
    triples: tuple[Triple, ...] = ()
    """All statements, sorted, each once."""

    def stage(self, name: str) -> Stage | None:
        """Return the stage of a name, or None when the trace has none."""
        return next((stage for stage in self.stages if stage.stage == name), None)

    @property
    def reranked_count(self) -> int:
        """Number of chunks that the reranker read, when there was one."""
        unread = sum(c.reason_code == "over_rerank_limit" for c in self.candidates)
        return len(self.explored) - unread

    @property
    def documents(self) -> dict[str, str]:
        """Document of each chunk, as far as the trace states it."""
        found = {c.chunk_id: c.document_id for c in self.citations}
        found |= {c.chunk_id: c.document_id for c in self.candidates if c.document_id}
        return found

    @property
    def used(self) -> tuple[str, ...]:
        """Chunks whose text the writer received, best first; empty when the question failed."""
        if self.failure is not None:
            return ()
        dropped = {c.chunk_id for c in self.candidates if c.reason_code}
        kept = [s.chunk_id for s in self.selections] if self.stage("focus") else self.explored
        return tuple(chunk_id for chunk_id in kept if chunk_id not in dropped)


def read_trace(triples: Iterable[Triple], answer_id: str = "") -> Trace:
    """Read the trace of one answer from triples in any order.

    Missing or damaged parts stay empty; `checking.check_trace` reports them. Statements about other answers
    are left out. Without an `answer_id` the triples must be about one answer only, else `BadInput` is raised.
    Cost: n log n in the triples.
    """
    statements = sorted(set(triples), key=_sort_key)
    answer_id = answer_id or _only_answer(statements)
    own = _own_triples(statements, answer_id)
    nodes = _by_subject(own)
    stages = _read_stages(nodes)
    first = {stage.stage: nodes[stage.uri] for stage in reversed(stages)}
    absent = _Node()
    question, grounding = first.get("question", absent), first.get("grounding", absent)
    exploration, focus = first.get("exploration", absent), first.get("focus", absent)
    synthesis, error = first.get("synthesis", absent), first.get("error")
    candidates = _read_candidates(exploration, nodes)
    explored = _read_explored(exploration, candidates)
    return Trace(
        answer_id=answer_id,
        question=question.text(ns.TG_QUERY),
        asked_at=question.text(ns.PROV_STARTED_AT_TIME),
        stages=tuple(stages),
        question_used=grounding.text(ns.WH_QUESTION_USED),
        corrections=_read_corrections(grounding),
        concepts=_read_concepts(grounding),
        chunk_count=exploration.integer(ns.TG_CHUNK_COUNT),
        explored=explored,
        candidates=candidates or tuple(CandidateRecord(chunk_id=c, rank=0) for c in explored),
        selections=tuple(
            Selection(
                node.id(ns.TG_DOCUMENT),
                node.number(ns.TG_SCORE) or 0.0,
                node.number(ns.WH_FINAL_SCORE),
            )
            for node in _linked(focus, ns.TG_SELECTED_CHUNK, nodes)
        ),
        citations=_read_citations(synthesis, nodes),
        found=synthesis.boolean(ns.WH_FOUND),
        refusal=_read_refusal(synthesis, nodes),
        answer_document=synthesis.iri(ns.TG_DOCUMENT),
        answer_digest=synthesis.text(ns.WH_ANSWER_DIGEST),
        failure=None if error is None else _read_failure(error),
        triples=tuple(own),
    )


class _Node(defaultdict[str, list[Term]]):
    """Objects of one subject by predicate, each list sorted; reads the first one in the type asked for."""

    def __init__(self) -> None:
        super().__init__(list)

    def text(self, predicate: str) -> str:
        terms = self.get(predicate)
        return terms[0].value if terms else ""

    def iri(self, predicate: str) -> str:
        terms = self.get(predicate)
        return terms[0].iri if terms else ""

    def id(self, predicate: str) -> str:
        return id_from_iri(self.iri(predicate))

    def integer(self, predicate: str) -> int | None:
        try:
            return int(self.text(predicate))
        except ValueError:
            return None

    def number(self, predicate: str) -> float | None:
        try:
            return float(self.text(predicate))
        except ValueError:
            return None

    def boolean(self, predicate: str) -> bool | None:
        text = self.text(predicate)
        return text in {"true", "1"} if text else None


_Nodes = Mapping[str, _Node]


def _sort_key(triple: Triple) -> tuple[str, ...]:
    s, p, o = triple.s, triple.p, triple.o
    return (s.iri, p.iri, o.type, o.iri, o.value, o.datatype, triple.g or "")


def _only_answer(triples: Iterable[Triple]) -> str:
    ids = sorted({answer_id_from_uri(triple.s.iri) for triple in triples} - {""})
    if len(ids) != 1:
        raise BadInput(
            f"the triples are about {len(ids)} answers, not one",
            hint="name the answer to read" if ids else "",
        )
    return ids[0]


def _own_triples(triples: Iterable[Triple], answer_id: str) -> list[Triple]:
    prefix = answer_uris(answer_id).selection_prefix
    return [
        triple
        for triple in triples
        if answer_id_from_uri(triple.s.iri) == answer_id or triple.s.iri.startswith(prefix)
    ]


def _by_subject(triples: Iterable[Triple]) -> dict[str, _Node]:
    nodes: dict[str, _Node] = defaultdict(_Node)
    for triple in triples:
        nodes[triple.s.iri][triple.p.iri].append(triple.o)
    return dict(nodes)


def _linked(node: _Node, predicate: str, nodes: _Nodes) -> list[_Node]:
    """Return the nodes that a predicate links to, in order of the number that ends their IRI."""
    uris = sorted((term.iri for term in node.get(predicate, ())), key=_number_in)
    return [nodes[uri] for uri in uris if uri in nodes]


def _number_in(uri: str) -> tuple[int, str]:
    digits = uri[len(uri.rstrip("0123456789")) :]
    # A longer one is part of a name, not a number; int() refuses very long ones.
    return (int(digits) if 0 < len(digits) < 10 else 0, uri)


def _read_stages(nodes: _Nodes) -> list[Stage]:
    """Return the stages in the order of the chain; a damaged trace may have one kind twice."""
    return [
        _read_stage(stage, uri, nodes)
        for stage, kind in STAGE_TYPES.items()
        for uri in sorted(nodes)
        for term in nodes[uri].get(ns.RDF_TYPE, ())
        if term.iri == kind
    ]


def _read_stage(name: str, uri: str, nodes: _Nodes) -> Stage:
    node = nodes[uri]
    return Stage(
        stage=name,
        uri=uri,
        derived_from=node.iri(ns.PROV_WAS_DERIVED_FROM),
        in_token=node.integer(ns.TG_IN_TOKEN),
        out_token=node.integer(ns.TG_OUT_TOKEN),
        model=node.text(ns.TG_LLM_MODEL),
        run=StageRun(
            started_at=node.text(ns.WH_STARTED_AT),
            ended_at=node.text(ns.WH_ENDED_AT),
            duration_ms=node.number(ns.WH_DURATION_MS),
            models=_read_models(node),
            settings=_read_settings(node),
            degraded=tuple(
                Degradation(
                    stage=degradation.text(ns.WH_STAGE),
                    reason=degradation.text(ns.WH_MESSAGE),
                    code=degradation.text(ns.WH_CODE),
                )
                for degradation in _linked(node, ns.WH_DEGRADATION, nodes)
            ),
        ),
    )


def _read_models(node: _Node) -> tuple[ModelUse, ...]:
    return tuple(
        ModelUse(
            role=role,
            name=name,
            revision=node.text(f"{ns.WH}{role}Revision"),
            precision=node.text(f"{ns.WH}{role}Precision"),
            dimension=node.integer(f"{ns.WH}{role}Dimension") or 0,
        )
        for role in get_args(ModelRole)
        if (name := node.text(f"{ns.WH}{role}Model"))
    )


def _read_settings(node: _Node) -> dict[str, Scalar]:
    prefix = ns.WH_SETTING_PREFIX
    return {
        predicate.removeprefix(prefix): read_scalar(objects[0])
        for predicate, objects in node.items()
        if predicate.startswith(prefix)
    }


def _read_candidates(exploration: _Node, nodes: _Nodes) -> tuple[CandidateRecord, ...]:
    candidates = [
        CandidateRecord(
            chunk_id=node.id(ns.WH_CHUNK),
            rank=node.integer(ns.WH_RANK) or 0,
            document_id=node.text(ns.WH_DOCUMENT),
            concepts=tuple(term.value for term in node.get(ns.WH_FOUND_BY, ())),
            digest=node.text(ns.WH_DIGEST),
            rerank_rank=node.integer(ns.WH_RERANK_RANK) or 0,
            reason_code=node.iri(ns.WH_REASON).removeprefix(ns.WH),
            duplicate_of=node.id(ns.WH_DUPLICATE_OF),
            **{
                field: node.number(predicate)
                for field, predicate in (*SCORE_PREDICATES.items(), *OUTCOME_PREDICATES.items())
            },
        )
        for node in _linked(exploration, ns.WH_CANDIDATE, nodes)
    ]
    return tuple(sorted(candidates, key=lambda one: (one.rank, one.chunk_id)))


def _read_explored(exploration: _Node, candidates: Iterable[CandidateRecord]) -> tuple[str, ...]:
    ranks = {candidate.chunk_id: candidate.rank for candidate in candidates}
    chunk_ids = [id_from_iri(term.iri) for term in exploration.get(ns.TG_SELECTED_CHUNK, ())]
    return tuple(sorted(chunk_ids, key=lambda chunk_id: (ranks.get(chunk_id, 0), chunk_id)))


def _read_concepts(grounding: _Node) -> tuple[str, ...]:
    """Return the concepts, in the recorded order when it names exactly these."""
    names = tuple(term.value for term in grounding.get(ns.TG_CONCEPT, ()))
    try:
        order = json.loads(grounding.text(ns.WH_CONCEPT_ORDER) or "[]")
    except (ValueError, RecursionError):
        return names
    if isinstance(order, list) and all(isinstance(concept, str) for concept in order):
        return tuple(order) if sorted(order) == sorted(names) else names
    return names


def _read_corrections(grounding: _Node) -> tuple[Correction, ...]:
    try:
        return msgspec.json.decode(
            grounding.text(ns.WH_CORRECTIONS) or "[]", type=tuple[Correction, ...]
        )
    except msgspec.MsgspecError:
        return ()


def _read_citations(synthesis: _Node, nodes: _Nodes) -> tuple[Citation, ...]:
    return tuple(
        Citation(
            marker=node.integer(ns.WH_MARKER) or 0,
            chunk_id=node.id(ns.WH_CHUNK),
            document_id=node.text(ns.WH_DOCUMENT),
            quote=node.text(ns.WH_QUOTE),
            highlights=_read_highlights(node),
            location=_read_location(node),
        )
        for node in _linked(synthesis, ns.WH_CITATION, nodes)
    )


def _read_highlights(node: _Node) -> tuple[tuple[int, int], ...]:
    try:
        return msgspec.json.decode(
            node.text(ns.WH_HIGHLIGHTS) or "[]", type=tuple[tuple[int, int], ...]
        )
    except msgspec.MsgspecError:
        return ()


def _read_location(node: _Node) -> Location | None:
    found: dict[str, Any] = {
        field: node.integer(term) for field, term in ns.LOCATION_TERMS.items() if field != "anchor"
    }
    found["anchor"] = node.text(ns.LOCATION_TERMS["anchor"]) or None
    return Location(**found) if any(value is not None for value in found.values()) else None


def _read_refusal(synthesis: _Node, nodes: _Nodes) -> Refusal | None:
    found = _linked(synthesis, ns.WH_REFUSAL, nodes)
    code = found[0].text(ns.WH_CODE) if found else ""
    if code not in get_args(RefusalCode):
        return None
    node = found[0]
    chunk_id, score = node.id(ns.WH_CHUNK), node.number(ns.WH_SCORE)
    return Refusal(
        code=cast("RefusalCode", code),
        reason=node.text(ns.WH_MESSAGE),
        best=BestPassage(chunk_id, score) if chunk_id and score is not None else None,
        floor=node.number(ns.WH_FLOOR),
    )


def _read_failure(error: _Node) -> Failure:
    return Failure(
        stage=error.text(ns.WH_STAGE),
        code=error.text(ns.WH_CODE),
        message=error.text(ns.WH_MESSAGE),
        hint=error.text(ns.WH_HINT),
    )
