"""Reading a trace back from its triples.

A trace is a set: the order in which its triples arrive carries no meaning and is never used. Where order
matters it is stated (ranks, the order of concepts, the places in the IRIs of kept chunks); where nothing is
stated, as in a trace that holds the shared vocabulary alone, order is by name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.stage_records import (
    CandidateRecord,
    ModelRole,
    ModelUse,
    Selection,
    StageRun,
)
from whence.provenance.terms import Scalar, read_scalar
from whence.provenance.uris import answer_id_from_uri, answer_uris, id_from_iri
from whence.schema.document_rag import Citation
from whence.schema.errors import BadInput
from whence.schema.search import Degradation
from whence.schema.terms import Term, Triple

__all__ = ("STAGE_TYPES", "Failure", "Properties", "Stage", "Trace", "read_trace")

#: Stages in the order of the chain, with the class that tells each.
STAGE_TYPES: Mapping[str, str] = {
    "question": ns.TG_DOC_RAG_QUESTION,
    "grounding": ns.TG_GROUNDING,
    "exploration": ns.TG_EXPLORATION,
    "focus": ns.TG_FOCUS,
    "synthesis": ns.TG_SYNTHESIS,
    "error": ns.TG_ERROR,
}
_STAGE_OF_TYPE = {kind: stage for stage, kind in STAGE_TYPES.items()}
_ORDER = {stage: place for place, stage in enumerate(STAGE_TYPES)}

Properties = Mapping[str, list[Term]]
"""Objects by predicate, of one subject; every list sorted."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the chain."""

    stage: str
    """`question`, `grounding`, `exploration`, `focus`, `synthesis` or `error`."""
    uri: str
    """Its IRI."""
    label: str = ""
    """Its name for people."""
    derived_from: str = ""
    """IRI of the stage it continues; empty for the question."""
    in_token: int | None = None
    """Tokens that a language model read, when known."""
    out_token: int | None = None
    """Tokens that it wrote, when known."""
    model: str = ""
    """The language model or writer, when recorded."""
    run: StageRun = StageRun()
    """How the stage ran."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a question has no answer."""

    stage: str
    """Stage that failed."""
    code: str
    """Machine word."""
    message: str
    """One line for people."""
    hint: str = ""
    """What to do about it."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one question."""

    answer_id: str
    """Id of the answer."""
    question: str = ""
    """As asked."""
    asked_at: str = ""
    """ISO 8601."""
    stages: tuple[Stage, ...] = ()
    """In the order of the chain."""
    concepts: tuple[str, ...] = ()
    """What was searched for; in order when it was recorded, else by name."""
    chunk_count: int | None = None
    """Number of chunks read, as the trace states it."""
    explored: tuple[str, ...] = ()
    """Chunks whose text was read, by rank, or by id where no rank is known."""
    candidates: tuple[CandidateRecord, ...] = ()
    """Every candidate by rank; of a trace without accounts the explored chunks, with rank 0."""
    selections: tuple[Selection, ...] = ()
    """Chunks that the reranker kept, best first."""
    citations: tuple[Citation, ...] = ()
    """What the answer's markers stand on, in order."""
    found: bool | None = None
    """False when there was no text to answer from; None when not recorded."""
    answer_document: str = ""
    """IRI under which the answer's text is kept."""
    answer_digest: str = ""
    """SHA-256 of the answer's text, hexadecimal."""
    failure: Failure | None = None
    """Why there is no answer."""
    triples: tuple[Triple, ...] = ()
    """All statements, sorted, each once."""

    def stage(self, name: str) -> Stage | None:
        """Give the stage of a name, or None when the trace has none."""
        return next((stage for stage in self.stages if stage.stage == name), None)

    @property
    def reranked_count(self) -> int:
        """How many of the chunks whose text was read a reranker was given, where there was one."""
        unread = sum(c.reason_code == "over_rerank_limit" for c in self.candidates)
        return len(self.explored) - unread

    @property
    def documents(self) -> dict[str, str]:
        """Give the document of each chunk of which the trace tells it."""
        found = {c.chunk_id: c.document_id for c in self.citations}
        found |= {c.chunk_id: c.document_id for c in self.candidates if c.document_id}
        return found

    @property
    def used(self) -> tuple[str, ...]:
        """Chunks whose text the writer got, best first; empty when the question failed."""
        if self.failure is not None:
            return ()
        dropped = {c.chunk_id for c in self.candidates if c.reason_code}
        kept = [s.chunk_id for s in self.selections] if self.stage("focus") else self.explored
        return tuple(chunk_id for chunk_id in kept if chunk_id not in dropped)


def read_trace(triples: Iterable[Triple], answer_id: str = "") -> Trace:
    """Read the trace of one answer from triples in any order.

    What is missing or damaged stays empty; `checking.check` tells of it. Statements about other answers
    are left out. Cost: n log n in the triples.

    Args:
        triples: Statements, those of the answer and perhaps others.
        answer_id: Answer to read; may be empty when the triples speak of one answer only.

    Raises:
        BadInput: No id is given and the triples speak of no answer or of several.
    """
    statements = sorted(set(triples), key=_sort_key)
    answer_id = answer_id or _only_answer(statements)
    own = _own(statements, answer_id)
    nodes = _by_subject(own)
    stages = _stages(nodes)
    first = {stage.stage: nodes[stage.uri] for stage in reversed(stages)}
    exploration = first.get("exploration", {})
    accounts = _candidates(exploration, nodes)
    explored = _explored(exploration, accounts)
    return Trace(
        answer_id=answer_id,
        question=_text(first.get("question", {}), ns.TG_QUERY),
        asked_at=_text(first.get("question", {}), ns.PROV_STARTED_AT_TIME),
        stages=tuple(stages),
        concepts=_concepts(first.get("grounding", {})),
        chunk_count=_int(exploration, ns.TG_CHUNK_COUNT),
        explored=explored,
        candidates=accounts or tuple(CandidateRecord(chunk_id=c, rank=0) for c in explored),
        selections=_selections(first.get("focus", {}), nodes),
        citations=_citations(first.get("synthesis", {}), nodes),
        found=_bool(first.get("synthesis", {}), ns.WH_FOUND),
        answer_document=_iri(first.get("synthesis", {}), ns.TG_DOCUMENT),
        answer_digest=_text(first.get("synthesis", {}), ns.WH_ANSWER_DIGEST),
        failure=_failure(first.get("error")),
        triples=tuple(own),
    )


def _sort_key(triple: Triple) -> tuple[str, ...]:
    s, p, o = triple.s, triple.p, triple.o
    return (s.iri, p.iri, o.type, o.iri, o.value, o.datatype, triple.g or "")


def _only_answer(triples: Iterable[Triple]) -> str:
    """Give the one answer that the triples speak of."""
    ids = sorted({answer_id_from_uri(triple.s.iri) for triple in triples} - {""})
    if len(ids) != 1:
        raise BadInput(
            f"these triples speak of {len(ids)} answers, not of one",
            hint="name the answer to read" if ids else "",
        )
    return ids[0]


def _own(triples: Iterable[Triple], answer_id: str) -> list[Triple]:
    """Keep what is said of this answer's nodes."""
    uris = answer_uris(answer_id)
    return [
        triple
        for triple in triples
        if answer_id_from_uri(triple.s.iri) == answer_id
        or triple.s.iri.startswith(uris.selection_prefix)
    ]


def _by_subject(triples: Iterable[Triple]) -> dict[str, dict[str, list[Term]]]:
    nodes: dict[str, dict[str, list[Term]]] = defaultdict(lambda: defaultdict(list))
    for triple in triples:
        nodes[triple.s.iri][triple.p.iri].append(triple.o)
    return {subject: dict(properties) for subject, properties in nodes.items()}


def _stages(nodes: Mapping[str, Properties]) -> list[Stage]:
    found = []
    for uri, properties in nodes.items():
        for kind in properties.get(ns.RDF_TYPE, ()):
            stage = _STAGE_OF_TYPE.get(kind.iri)
            if stage is not None:
                found.append(_stage(stage, uri, properties, nodes))
    return sorted(found, key=lambda stage: (_ORDER[stage.stage], stage.uri))


def _stage(name: str, uri: str, properties: Properties, nodes: Mapping[str, Properties]) -> Stage:
    return Stage(
        stage=name,
        uri=uri,
        label=_text(properties, ns.RDFS_LABEL),
        derived_from=_iri(properties, ns.PROV_WAS_DERIVED_FROM),
        in_token=_int(properties, ns.TG_IN_TOKEN),
        out_token=_int(properties, ns.TG_OUT_TOKEN),
        model=_text(properties, ns.TG_LLM_MODEL),
        run=StageRun(
            started_at=_text(properties, ns.WH_STARTED_AT),
            ended_at=_text(properties, ns.WH_ENDED_AT),
            duration_ms=_float(properties, ns.WH_DURATION_MS),
            models=_models(properties),
            settings=_settings(properties),
            degraded=_degradations(properties, nodes),
        ),
    )


def _models(properties: Properties) -> tuple[ModelUse, ...]:
    models = []
    for role in get_args(ModelRole):
        name = _text(properties, f"{ns.WH}{role}Model")
        if not name:
            continue
        models.append(
            ModelUse(
                role=role,
                name=name,
                revision=_text(properties, f"{ns.WH}{role}Revision"),
                precision=_text(properties, f"{ns.WH}{role}Precision"),
                dimension=_int(properties, f"{ns.WH}{role}Dimension") or 0,
            )
        )
    return tuple(models)


def _settings(properties: Properties) -> dict[str, Scalar]:
    prefix = ns.WH_SETTING_PREFIX
    return {
        predicate.removeprefix(prefix): read_scalar(objects[0])
        for predicate, objects in properties.items()
        if predicate.startswith(prefix)
    }


def _degradations(
    properties: Properties, nodes: Mapping[str, Properties]
) -> tuple[Degradation, ...]:
    return tuple(
        Degradation(
            stage=_text(node, ns.WH_STAGE),
            reason=_text(node, ns.WH_MESSAGE),
            code=_text(node, ns.WH_CODE),
        )
        for node in _linked(properties, ns.WH_DEGRADATION, nodes)
    )


def _linked(
    properties: Properties, predicate: str, nodes: Mapping[str, Properties]
) -> list[Properties]:
    """Give the nodes that a predicate leads to, in order of the number that ends their IRI."""
    uris = sorted((term.iri for term in properties.get(predicate, ())), key=_place)
    return [nodes[uri] for uri in uris if uri in nodes]


def _place(uri: str) -> tuple[int, str]:
    """Give the number at the end of an IRI, and the IRI."""
    stem = uri.rstrip("0123456789")
    digits = uri[len(stem) :]
    # More digits than any place has is a name, not a number; int() of very long ones is refused.
    return (int(digits) if 0 < len(digits) < 10 else 0, uri)


def _candidates(
    exploration: Properties, nodes: Mapping[str, Properties]
) -> tuple[CandidateRecord, ...]:
    accounts = [_candidate(node) for node in _linked(exploration, ns.WH_CANDIDATE, nodes)]
    return tuple(sorted(accounts, key=lambda account: (account.rank, account.chunk_id)))


def _candidate(node: Properties) -> CandidateRecord:
    return CandidateRecord(
        chunk_id=id_from_iri(_iri(node, ns.WH_CHUNK)),
        rank=_int(node, ns.WH_RANK) or 0,
        document_id=_text(node, ns.WH_DOCUMENT),
        score=_float(node, ns.WH_SCORE),
        dense_score=_float(node, ns.WH_DENSE_SCORE),
        sparse_score=_float(node, ns.WH_SPARSE_SCORE),
        graph_score=_float(node, ns.WH_GRAPH_SCORE),
        name_score=_float(node, ns.WH_NAME_SCORE),
        concepts=tuple(term.value for term in node.get(ns.WH_FOUND_BY, ())),
        digest=_text(node, ns.WH_DIGEST),
        rerank_rank=_int(node, ns.WH_RERANK_RANK) or 0,
        rerank_score=_float(node, ns.WH_RERANK_SCORE),
        reason_code=_iri(node, ns.WH_REASON).removeprefix(ns.WH),
    )


def _explored(exploration: Properties, accounts: Iterable[CandidateRecord]) -> tuple[str, ...]:
    ranks = {account.chunk_id: account.rank for account in accounts}
    chunk_ids = [id_from_iri(term.iri) for term in exploration.get(ns.TG_SELECTED_CHUNK, ())]
    return tuple(sorted(chunk_ids, key=lambda chunk_id: (ranks.get(chunk_id, 0), chunk_id)))


def _concepts(grounding: Properties) -> tuple[str, ...]:
    """Give the concepts, in the recorded order when it names exactly them."""
    named = tuple(term.value for term in grounding.get(ns.TG_CONCEPT, ()))
    try:
        order = json.loads(_text(grounding, ns.WH_CONCEPT_ORDER) or "[]")
    except (ValueError, RecursionError):
        return named
    if isinstance(order, list) and all(isinstance(concept, str) for concept in order):
        return tuple(order) if sorted(order) == sorted(named) else named
    return named


def _selections(focus: Properties, nodes: Mapping[str, Properties]) -> tuple[Selection, ...]:
    return tuple(
        Selection(id_from_iri(_iri(node, ns.TG_DOCUMENT)), _float(node, ns.TG_SCORE) or 0.0)
        for node in _linked(focus, ns.TG_SELECTED_CHUNK, nodes)
    )


def _citations(synthesis: Properties, nodes: Mapping[str, Properties]) -> tuple[Citation, ...]:
    return tuple(
        Citation(
            marker=_int(node, ns.WH_MARKER) or 0,
            chunk_id=id_from_iri(_iri(node, ns.WH_CHUNK)),
            document_id=_text(node, ns.WH_DOCUMENT),
            quote=_text(node, ns.WH_QUOTE),
        )
        for node in _linked(synthesis, ns.WH_CITATION, nodes)
    )


def _failure(node: Properties | None) -> Failure | None:
    if node is None:
        return None
    return Failure(
        stage=_text(node, ns.WH_STAGE),
        code=_text(node, ns.WH_CODE),
        message=_text(node, ns.WH_MESSAGE),
        hint=_text(node, ns.WH_HINT),
    )


def _text(node: Properties, predicate: str) -> str:
    terms = node.get(predicate)
    return terms[0].value if terms else ""


def _iri(node: Properties, predicate: str) -> str:
    terms = node.get(predicate)
    return terms[0].iri if terms else ""


def _int(node: Properties, predicate: str) -> int | None:
    try:
        return int(_text(node, predicate))
    except ValueError:
        return None


def _float(node: Properties, predicate: str) -> float | None:
    try:
        return float(_text(node, predicate))
    except ValueError:
        return None


def _bool(node: Properties, predicate: str) -> bool | None:
    text = _text(node, predicate)
    return text in {"true", "1"} if text else None
