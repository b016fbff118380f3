"""Read a trace: triples in any order in, everything known of one question out.

A trace is a set: the order in which its triples arrive carries no meaning and is never used. Where order
matters it is stated (ranks, the order of concepts, numbers in the IRIs of kept chunks); where nothing is
stated, as in a trace of the shared vocabulary alone, order is by name.

Traces of version 0.1, in which a stage leads to its nodes and tells of its run itself, are read as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.outcome import WhyNot
from whence.provenance.stage_records import (
    OUTCOME_PREDICATES,
    SCORE_PREDICATES,
    ModelRole,
    ModelUse,
    Scalar,
    StageRun,
    StepQuery,
)
from whence.provenance.terms import (
    STEP,
    answer_id_from_uri,
    answer_uris,
    id_from_iri,
    read_scalar,
    stage_from_uri,
)
from whence.schema.access import Access
from whence.schema.document_rag import (
    STAGE_LABELS,
    BestPassage,
    Citation,
    Refusal,
    RefusalCode,
    stage_label,
)
from whence.schema.errors import BadInput
from whence.schema.integrity import Integrity
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.search import Correction, Degradation
from whence.schema.terms import Term, Triple

#: Class of each stage, in the order of the chain.
STAGE_TYPES: Mapping[str, str] = {
    "question": ns.TG_DOC_RAG_QUESTION,
    "grounding": ns.TG_GROUNDING,
    "exploration": ns.TG_EXPLORATION,
    "focus": ns.TG_FOCUS,
    "step": ns.WH_STEP_TYPE,
    "synthesis": ns.TG_SYNTHESIS,
    "error": ns.TG_ERROR_TYPE,
}
#: Classes of nodes that a stage derives from beside the stage before it.
SOURCE_TYPES = frozenset({ns.TG_CHUNK_TYPE, ns.WH_PART_TYPE})
#: Headings of stages for people.
STAGE_TITLES: Mapping[str, str] = {
    **{stage: label.capitalize() for stage, label in STAGE_LABELS.items()},
    "question": "Question",
}


def stage_title(stage: str) -> str:
    """Return the heading of a stage, e.g. `Further search 2` of `step/2`."""
    kind, _, number = stage.partition("/")
    return f"{STAGE_TITLES[kind]} {number}".rstrip()


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the chain."""

    stage: str
    """`question`, `grounding`, `exploration`, `focus`, `step/1` and so on, `synthesis` or `error`."""
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
        return stage_label(self.stage)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One further search of a question."""

    stage: str
    """`step/1` and so on."""
    queries: tuple[StepQuery, ...] = ()
    """In the order of the model."""
    added: tuple[str, ...] = ()
    """Chunks that join those for the writer, by rank."""


class PassageName(msgspec.Struct, frozen=True):
    """What people call a passage."""

    title: str = ""
    """Title of its document."""
    heading: str = ""
    """Nearest heading above it."""
    part: int = 0
    """Place among the passages of its document, 1 for the first; 0 when unknown."""

    @property
    def text(self) -> str:
        """Title and heading on one line; empty when neither is known."""
        return " > ".join(dict.fromkeys(filter(None, (self.title, self.heading))))


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
    names: dict[str, PassageName] = {}
    """Names of passages, by chunk id, as far as they are known today; not part of the triples."""
    nearest: WhyNot | None = None
    """Of a question without an answer: the passage that came nearest, and what it lacks; not in the triples."""
    integrity: Integrity | None = None
    """Whether it is as it was recorded; None when that was not checked."""
    asked_at: str = ""
    """ISO 8601."""
    version: str = ""
    """Version of Whence that answered; empty when it was not recorded."""
    stages: tuple[Stage, ...] = ()
    """In the order of the chain."""
    question_used: str = ""
    """The question that was answered, completed and corrected; empty when it is the one asked."""
    corrections: tuple[Correction, ...] = ()
    """Misspelt words of the question and what they were taken for."""
    concepts: tuple[str, ...] = ()
    """Search queries; in order when the order was recorded, else by name."""
    chunk_count: int | None = None
    """Number of chunks read, as the trace states it."""
    explored: tuple[str, ...] = ()
    """Chunks whose text was read, by rank, or by id where no rank is known."""
    candidates: tuple[Passage, ...] = ()
    """All candidates by rank; of a trace without candidates the explored chunks, with rank 0."""
    selections: tuple[Passage, ...] = ()
    """Chunks that the reranker kept, best first."""
    steps: tuple[Step, ...] = ()
    """What a language model searched for after that."""
    citations: tuple[Citation, ...] = ()
    """Sources of the answer's markers, in order."""
    found: bool | None = None
    """False when no citation supports an answer; None when not recorded."""
    refusal: Refusal | None = None
    """Why there is no answer."""
    answer_document: str = ""
    """IRI of the answer's text."""
    answer_text: str = ""
    """The answer's text; empty when the trace does not state it."""
    answer_digest: str = ""
    """SHA-256 of the answer's text, hexadecimal."""
    revision_of: str = ""
    """Id of the answer that this one replaces."""
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
        added = [chunk_id for step in self.steps for chunk_id in step.added]
        read = dict.fromkeys((*kept, *added))
        return tuple(chunk_id for chunk_id in read if chunk_id not in dropped)


def read_trace(triples: Iterable[Triple], answer_id: str = "") -> Trace:
    """Read the trace of one answer from triples in any order.

    Missing or damaged parts stay empty; `checking.check_trace` reports them. Statements about other answers
    are left out. Without an `answer_id` the triples must be about one answer only, else `BadInput` is raised.
    Cost: n log n in the triples.
    """
    statements = sorted(set(triples), key=_sort_key)
    answer_id = answer_id or _only_answer(statements)
    own = _own_triples(statements, answer_id)
    nodes = _Nodes(own)
    stages = _read_stages(nodes)
    first = {stage.stage: nodes[stage.uri] for stage in reversed(stages)}
    absent = _Node()
    question, grounding = first.get("question", absent), first.get("grounding", absent)
    exploration, focus = first.get("exploration", absent), first.get("focus", absent)
    synthesis, error = first.get("synthesis", absent), first.get("error")
    asking = nodes.get(question.iri(ns.PROV_WAS_GENERATED_BY), absent)
    steps = {one.stage: nodes[one.uri] for one in stages if one.stage.startswith(STEP)}
    candidates = _read_candidates([exploration, *steps.values()], nodes)
    explored = _read_explored(exploration, candidates)
    return Trace(
        answer_id=answer_id,
        question=question.text(ns.TG_QUERY),
        asked_at=(question.text(ns.PROV_STARTED_AT_TIME) or asking.text(ns.PROV_STARTED_AT_TIME)),
        version=nodes.get(f"{answer_uris(answer_id).agent_prefix}whence", absent).text(
            ns.WH_VERSION
        ),
        stages=tuple(stages),
        question_used=grounding.text(ns.WH_QUESTION_USED),
        corrections=_read_corrections(grounding),
        concepts=_read_concepts(grounding),
        chunk_count=exploration.integer(ns.TG_CHUNK_COUNT),
        explored=explored,
        candidates=candidates or tuple(Passage(chunk_id=c, rank=0) for c in explored),
        selections=tuple(
            Passage(
                chunk_id=node.id(ns.TG_DOCUMENT),
                raw_score=node.number(ns.TG_SCORE) or 0.0,
                final_score=node.number(ns.WH_FINAL_SCORE),
            )
            for node in nodes.made(focus, ns.TG_CHUNK_SELECTION, ns.TG_SELECTED_CHUNK)
        ),
        steps=tuple(_read_step(name, node, candidates) for name, node in steps.items()),
        citations=_read_citations(synthesis, nodes),
        found=synthesis.boolean(ns.WH_FOUND),
        refusal=_read_refusal(synthesis, nodes),
        answer_document=synthesis.iri(ns.TG_DOCUMENT),
        answer_text=nodes.get(synthesis.iri(ns.TG_DOCUMENT), absent).text(ns.PROV_VALUE),
        answer_digest=synthesis.text(ns.WH_ANSWER_DIGEST),
        revision_of=answer_id_from_uri(synthesis.iri(ns.PROV_WAS_REVISION_OF)),
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


class _Nodes(dict[str, _Node]):
    """The nodes of a trace by IRI; the lists that continue on a part are joined."""

    def __init__(self, triples: Sequence[Triple]) -> None:
        whole = {t.s.iri: t.o.iri for t in triples if t.p.iri == ns.WH_PART_OF}
        for triple in triples:
            of_part = triple.s.iri in whole and triple.p.iri != ns.RDF_TYPE
            node = self.setdefault(whole[triple.s.iri] if of_part else triple.s.iri, _Node())
            node[triple.p.iri].append(triple.o)
        self._made: dict[tuple[str, str], list[str]] = defaultdict(list)
        for uri, node in self.items():
            if made_by := node.iri(ns.PROV_WAS_GENERATED_BY):
                for kind in node[ns.RDF_TYPE]:
                    self._made[made_by, kind.iri].append(uri)

    def made(self, stage: _Node, kind: str, link: str) -> list[_Node]:
        """Return the nodes of a class that a stage generated, in order of the number that ends their IRI.

        In traces of version 0.1 and of the shared vocabulary alone the stage has a link to each.
        """
        uris = {term.iri for term in stage.get(link, ())}
        uris.update(self._made.get((stage.iri(ns.PROV_WAS_GENERATED_BY), kind), ()))
        return [self[uri] for uri in sorted(uris, key=_number_in) if uri in self]


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


def _own_triples(triples: Sequence[Triple], answer_id: str) -> list[Triple]:
    """Return the statements about nodes of the answer, and about the passages that it derives from.

    A passage is a node of several answers; that it derives from the document of another one is left out.
    """
    uris = answer_uris(answer_id)

    def is_own(uri: str) -> bool:
        return answer_id_from_uri(uri) == answer_id or uri.startswith(uris.selection_prefix)

    subjects = {uri for uri in {triple.s.iri for triple in triples} if is_own(uri)}
    passages = {
        t.o.iri
        for t in triples
        if t.p.iri == ns.PROV_WAS_DERIVED_FROM and t.s.iri.startswith(uris.synthesis)
    } - subjects
    return [
        triple
        for triple in triples
        if triple.s.iri in subjects
        or (
            triple.s.iri in passages
            and (triple.p.iri != ns.PROV_WAS_DERIVED_FROM or is_own(triple.o.iri))
        )
    ]


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
    parents = [term.iri for term in node.get(ns.PROV_WAS_DERIVED_FROM, ())]
    return Stage(
        stage=stage_from_uri(uri) if name == "step" else name,
        uri=uri,
        derived_from=next((one for one in parents if not _is_source(nodes.get(one))), ""),
        in_token=node.integer(ns.TG_IN_TOKEN),
        out_token=node.integer(ns.TG_OUT_TOKEN),
        model=node.text(ns.TG_LLM_MODEL),
        run=_read_run(node, nodes),
    )


def _is_source(node: _Node | None) -> bool:
    return node is not None and not SOURCE_TYPES.isdisjoint(one.iri for one in node[ns.RDF_TYPE])


def _read_run(stage: _Node, nodes: _Nodes) -> StageRun:
    activity = nodes.get(stage.iri(ns.PROV_WAS_GENERATED_BY))
    times = (ns.PROV_STARTED_AT_TIME, ns.PROV_ENDED_AT_TIME)
    if activity is None:
        activity, times = stage, (ns.WH_STARTED_AT, ns.WH_ENDED_AT)
    agents = [nodes.get(one.iri, _Node()) for one in activity[ns.PROV_WAS_ASSOCIATED_WITH]]
    return StageRun(
        started_at=activity.text(times[0]),
        ended_at=activity.text(times[1]),
        duration_ms=activity.number(ns.WH_DURATION_MS),
        models=tuple(
            model
            for role in get_args(ModelRole)
            if (model := _read_model(role, stage, agents)) is not None
        ),
        settings=_read_settings(activity),
        degraded=tuple(
            Degradation(
                stage=degradation.text(ns.WH_STAGE),
                reason=degradation.text(ns.WH_MESSAGE),
                code=degradation.text(ns.WH_CODE),
            )
            for degradation in nodes.made(stage, ns.WH_DEGRADATION_TYPE, ns.WH_DEGRADATION)
        ),
    )


def _read_model(role: ModelRole, stage: _Node, agents: Iterable[_Node]) -> ModelUse | None:
    node, name, prefix = stage, f"{ns.WH}{role}Model", f"{ns.WH}{role}"
    revision, precision, dimension = (
        f"{prefix}{kind}" for kind in ("Revision", "Precision", "Dimension")
    )
    for agent in agents:
        if agent.text(ns.WH_ROLE) == role:
            node, name = agent, ns.RDFS_LABEL
            revision, precision, dimension = ns.WH_REVISION, ns.WH_PRECISION, ns.WH_DIMENSION
    if not node.text(name):
        return None
    return ModelUse(
        role=role,
        name=node.text(name),
        revision=node.text(revision),
        precision=node.text(precision),
        dimension=node.integer(dimension) or 0,
    )


def _read_settings(node: _Node) -> dict[str, Scalar]:
    prefix = ns.WH_SETTING_PREFIX
    return {
        predicate.removeprefix(prefix): read_scalar(objects[0])
        for predicate, objects in node.items()
        if predicate.startswith(prefix)
    }


def _read_candidates(stages: Sequence[_Node], nodes: _Nodes) -> tuple[Passage, ...]:
    """Return the candidates by rank; of one that a step found again, what that step states."""
    numbers = (*SCORE_PREDICATES.items(), *OUTCOME_PREDICATES.items())
    candidates = [
        Passage(
            chunk_id=node.id(ns.WH_CHUNK),
            rank=node.integer(ns.WH_RANK) or 0,
            document_id=node.text(ns.WH_DOCUMENT),
            concepts=tuple(term.value for term in node.get(ns.WH_FOUND_BY, ())),
            digest=node.text(ns.WH_DIGEST),
            rerank_rank=node.integer(ns.WH_RERANK_RANK) or 0,
            reason_code=node.iri(ns.WH_REASON).removeprefix(ns.WH),
            duplicate_of=node.id(ns.WH_DUPLICATE_OF),
            newer_edition=node.id(ns.WH_NEWER_EDITION),
            **cast("Any", {field: node.number(predicate) for field, predicate in numbers}),
        )
        for stage in stages
        for node in nodes.made(stage, ns.WH_CANDIDATE_TYPE, ns.WH_CANDIDATE)
    ]
    if len(stages) > 1:
        again = {one.chunk_id: one for one in sorted(candidates, key=lambda one: one.rank)}
        candidates = [*again.values()]
    return tuple(sorted(candidates, key=lambda one: (one.rank, one.chunk_id)))


def _read_step(name: str, node: _Node, candidates: Iterable[Passage]) -> Step:
    try:
        queries = msgspec.json.decode(
            node.text(ns.WH_STEP_QUERIES) or "[]", type=tuple[StepQuery, ...]
        )
    except msgspec.MsgspecError:
        queries = ()
    return Step(stage=name, queries=queries, added=_read_explored(node, candidates))


def _read_explored(exploration: _Node, candidates: Iterable[Passage]) -> tuple[str, ...]:
    ranks = {candidate.chunk_id: candidate.rank for candidate in candidates}
    chunk_ids = [id_from_iri(term.iri) for term in exploration.get(ns.TG_SELECTED_CHUNK, ())]
    return tuple(sorted(chunk_ids, key=lambda chunk_id: (ranks.get(chunk_id, 0), chunk_id)))


def _read_concepts(grounding: _Node) -> tuple[str, ...]:
    """Return the concepts, in the recorded order when it names exactly these."""
    names = tuple(sorted(term.value for term in grounding.get(ns.TG_CONCEPT, ())))
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
        for node in nodes.made(synthesis, ns.WH_CITATION_TYPE, ns.WH_CITATION)
    )


def _read_highlights(node: _Node) -> tuple[tuple[int, int], ...]:
    try:
        return msgspec.json.decode(
            node.text(ns.WH_HIGHLIGHTS) or "[]", type=tuple[tuple[int, int], ...]
        )
    except msgspec.MsgspecError:
        return ()


def _read_location(node: _Node) -> Location | None:
    texts = ("anchor", "sheet", "message")
    found: dict[str, Any] = {
        field: (node.text(term) or None) if field in texts else node.integer(term)
        for field, term in ns.LOCATION_TERMS.items()
    }
    return Location(**found) if any(value is not None for value in found.values()) else None


def _read_refusal(synthesis: _Node, nodes: _Nodes) -> Refusal | None:
    found = nodes.made(synthesis, ns.WH_REFUSAL_TYPE, ns.WH_REFUSAL)
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
