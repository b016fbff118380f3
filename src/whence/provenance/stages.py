"""Build the triples of each stage from what happened: pure functions, triples in a fixed order.

A stage is an entity. When it is known how it ran, an activity generated it and all that belongs to it. Nodes
point to their activity, and a list that is too long for one node continues on others, so that no node has more
than 100 triples.

With the required arguments only, a stage states exactly what the shared vocabulary of document RAG traces
states, in its order. Optional arguments add statements and change none of these. All triples lie in
`urn:graph:retrieval`.

In every function `answer_id` determines all IRIs of the trace, `run` is how the stage ran, `model` names the
language model that was used, `in_token` and `out_token` count what it read and wrote, when known. A malformed
answer id, name of a setting or reason code, an empty chunk id, and candidates with equal ranks or ranks below
1 raise `BadInput`.

Cost: a stage is linear in its candidates, at most 15 triples each; sorting them by rank is n log n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from urllib.parse import quote

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.stage_records import (
    OUTCOME_PREDICATES,
    SCORE_PREDICATES,
    GraphWalk,
    StageRun,
    StepQuery,
)
from whence.provenance.terms import (
    STEP,
    answer_uris,
    date_time,
    double,
    integer,
    iri_from_id,
    scalar,
)
from whence.schema.document_rag import Citation, Refusal
from whence.schema.errors import BadInput
from whence.schema.passages import Passage
from whence.schema.places import Location
from whence.schema.search import Correction
from whence.schema.terms import Term, Triple, iri, literal

#: A statement: subject, predicate and object; without an object nothing is stated.
_Row = tuple[Term, str, Term | None]

#: Longest list of one node; what else a stage states of itself is less than 20 triples.
MAX_LISTED = 80

_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
#: Longest concept that is named in full, in characters; those of a language model are a few words.
_MAX_CONCEPT_CHARS = 1_000

_ENTITY = iri(ns.PROV_ENTITY)
_AGENT_TYPES = (iri(ns.PROV_AGENT), iri(ns.PROV_SOFTWARE_AGENT))
#: Terms of IRIs and of texts that many triples share.
_shared_iri = lru_cache(maxsize=1024)(iri)
_shared_literal = lru_cache(maxsize=1024)(literal)


@lru_cache(maxsize=1024)
def _concept_term(concept: str) -> Term:
    """Return the name of a concept: its words, or of a very long one the beginning and a digest.

    The question is a concept and may be long; each of its candidates names it.
    """
    if len(concept) > _MAX_CONCEPT_CHARS:
        digest = sha256(concept.encode()).hexdigest()[:16]
        beginning = concept[:_MAX_CONCEPT_CHARS]
        return literal(f"{beginning}… ({len(concept)} characters, sha256 {digest})")
    return literal(concept)


@lru_cache(maxsize=4096)
def _id_term(identifier: str) -> Term:
    """Return the IRI term of a chunk's id; each chunk is named at several stages."""
    return iri(iri_from_id(identifier))


def question_triples(
    answer_id: str, query: str, timestamp: str, *, version: str = "", run: StageRun | None = None
) -> tuple[Triple, ...]:
    """State that a question was asked; 6 triples.

    `timestamp` is ISO 8601 in UTC ending in Z; settings of the whole question belong to `run`; `version` is
    that of the software.
    """
    stage = _Stage(answer_id, "question", "")
    stage.rows += (
        (stage.node, ns.PROV_STARTED_AT_TIME, date_time(timestamp)),
        (stage.node, ns.TG_QUERY, literal(query)),
    )
    if run is not None:
        stage.add_agent(stage.software, "Whence", version=version)
    types = (ns.TG_QUESTION, ns.TG_DOC_RAG_QUESTION)
    return stage.triples("DocumentRAG Question", types, run)


def grounding_triples(
    answer_id: str,
    concepts: Sequence[str],
    *,
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    question_used: str = "",
    corrections: Sequence[Correction] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which concepts were searched for; 4 triples, one per concept, up to 3 for the model's use.

    The order of the concepts is recorded when `run` is given; so are the question that is used, if it is
    not the one asked, and its `corrections`.
    """
    stage = _Stage(answer_id, "grounding", "question")
    node, terms = stage.node, list(map(_concept_term, concepts))
    stage.rows += list_rows(node, ns.TG_CONCEPT, terms)
    stage.add_model_call(in_token, out_token, model)
    if run is not None:
        order = json.dumps([term.value for term in terms], ensure_ascii=False)
        stage.rows.append((node, ns.WH_CONCEPT_ORDER, literal(order, ns.RDF_JSON)))
        if question_used:
            stage.rows.append((node, ns.WH_QUESTION_USED, literal(question_used)))
        if corrections:
            wire = msgspec.json.encode(corrections).decode()
            stage.rows.append((node, ns.WH_CORRECTIONS, literal(wire, ns.RDF_JSON)))
    return stage.triples("Grounding", (ns.TG_GROUNDING,), run)


def exploration_triples(
    answer_id: str,
    chunk_ids: Sequence[str],
    *,
    candidates: Iterable[Passage] = (),
    walk: GraphWalk | None = None,
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks were retrieved and read; 5 triples and one per chunk.

    `chunk_ids` are those whose text was read, in order of rank; `candidates` are all in any order, those
    dropped so far with their reason; `walk` is how a graph walk reached them, up to two triples a node and six
    an edge.
    """
    stage = _Stage(answer_id, "exploration", "grounding")
    stage.rows.append((stage.node, ns.TG_CHUNK_COUNT, literal(str(len(chunk_ids)))))
    stage.rows += list_rows(stage.node, ns.TG_SELECTED_CHUNK, list(map(_id_term, chunk_ids)))
    stage.add_candidates(candidates)
    if walk is not None:
        stage.add_walk(walk)
    return stage.triples("Exploration", (ns.TG_EXPLORATION,), run)


def focus_triples(
    answer_id: str,
    selections: Sequence[Passage],
    *,
    candidates: Iterable[Passage] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks the reranker kept; 4 triples, four per kept chunk and one for its final score.

    `selections` are in order, best first. `candidates` are those that the reranker read, with its rank and
    score, and those that it dropped, with their reason; in any order. Each was recorded at exploration.
    """
    stage = _Stage(answer_id, "focus", "exploration")
    nodes = [iri(f"{stage.uris.selection_prefix}{index}") for index in range(len(selections))]
    stage.rows += list_rows(stage.node, ns.TG_SELECTED_CHUNK, nodes)
    for node, selection in zip(nodes, selections, strict=True):
        if run is not None:
            stage.add_entity(node)
        stage.rows += (
            (node, ns.RDF_TYPE, _shared_iri(ns.TG_CHUNK_SELECTION)),
            (node, ns.TG_DOCUMENT, _id_term(selection.chunk_id)),
            (node, ns.TG_SCORE, literal(str(float(selection.raw_score or 0.0)))),
            (node, ns.WH_FINAL_SCORE, _double_or_none(selection.final_score)),
        )
    stage.add_outcomes(candidates)
    return stage.triples("Chunk Selection", (ns.TG_FOCUS,), run)


def step_triples(
    answer_id: str,
    name: str,
    *,
    derived_from: str,
    queries: Sequence[StepQuery] = (),
    added: Sequence[str] = (),
    candidates: Iterable[Passage] = (),
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State what a language model searched for after it had read what was found, and what that added.

    `name` is that of the stage, `step/1` and so on, and `derived_from` that of the one before it. `added` are
    the chunks that join those for the writer, by rank; `candidates` those that are new, or were dropped before,
    with ranks after all others.
    """
    stage = _Stage(answer_id, name, derived_from)
    stage.rows += list_rows(
        stage.node, ns.TG_CONCEPT, [_concept_term(one.query) for one in queries]
    )
    stage.add_model_call(in_token, out_token, model)
    if queries:
        wire = msgspec.json.encode(queries).decode()
        stage.rows.append((stage.node, ns.WH_STEP_QUERIES, literal(wire, ns.RDF_JSON)))
    stage.rows += list_rows(stage.node, ns.TG_SELECTED_CHUNK, list(map(_id_term, added)))
    stage.add_candidates(candidates)
    return stage.triples(f"Step {name.removeprefix(STEP)}", (ns.WH_STEP_TYPE,), run)


def synthesis_triples(
    answer_id: str,
    *,
    reranked: bool,
    step: str = "",
    saved: bool = False,
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    dropped: Iterable[Passage] = (),
    text: str = "",
    citations: Sequence[Citation] = (),
    found: bool | None = None,
    refusal: Refusal | None = None,
    answer_digest: str = "",
    revision_of: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State how the answer was written; 5 triples, one when it has an IRI, up to 3 for the model's use.

    The answer derives from the last `step`, if any, else from the focus stage when `reranked`, and from the
    cited passages, these from their documents. Its text has an IRI of its own when it is `saved` elsewhere, or
    given as `text`.
    `dropped` are the candidates dropped at this stage, with their reason; `citations` are in order of their
    markers; `found` is False when no citation supports an answer, and `refusal` says why; `answer_digest` is
    the SHA-256 of the answer's text, hexadecimal. `revision_of` is the id of an answer that this one replaces.
    """
    stage = _Stage(answer_id, "synthesis", step or ("focus" if reranked else "exploration"))
    node, answer = stage.node, iri(stage.uris.answer)
    stage.rows.append((node, ns.TG_DOCUMENT, answer if saved or text else None))
    stage.add_model_call(in_token, out_token, model)
    former = iri(answer_uris(revision_of).synthesis) if revision_of else None
    stage.rows += (
        (node, ns.PROV_WAS_REVISION_OF, former),
        (node, ns.WH_FOUND, None if found is None else scalar(found)),
        (node, ns.WH_ANSWER_DIGEST, literal(answer_digest) if answer_digest else None),
    )
    if text:
        stage.add_entity(answer)
        stage.rows.append((answer, ns.PROV_VALUE, literal(text)))
    stage.add_outcomes(dropped)
    for index, citation in enumerate(citations):
        stage.add_citation(iri(f"{node.iri}/citation/{index}"), citation)
    stage.add_sources(citations)
    if refusal is not None:
        stage.add_refusal(refusal)
    return stage.triples("Synthesis", (ns.TG_SYNTHESIS, ns.TG_ANSWER_TYPE), run)


def failure_triples(
    answer_id: str,
    *,
    derived_from: str,
    stage: str,
    code: str,
    message: str,
    hint: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State that the question failed, so that its chain has an end.

    `derived_from` is the last stage recorded: `question`, `grounding`, `exploration`, `focus` or a step; any
    other name raises `BadInput`. `stage` is the one that failed; the other arguments are those of the error.
    """
    known = {"question", "grounding", "exploration", "focus"}
    if derived_from not in known and not derived_from.startswith(STEP):
        raise BadInput(f"a failure cannot derive from {derived_from!r}")
    error = _Stage(answer_id, "error", derived_from)
    error.rows += (
        (error.node, ns.WH_STAGE, literal(stage)),
        (error.node, ns.WH_CODE, literal(code)),
        (error.node, ns.WH_MESSAGE, literal(message)),
        (error.node, ns.WH_HINT, literal(hint) if hint else None),
    )
    return error.triples("Error", (ns.TG_ERROR_TYPE,), run)


def list_rows(
    node: Term, predicate: str, targets: Sequence[Term]
) -> Iterator[tuple[Term, str, Term]]:
    """State a list of a node: on itself, or on parts of it when there are more than `MAX_LISTED`.

    The node derives from its parts when the list is of what it derives from.
    """
    if len(targets) <= MAX_LISTED:
        for target in targets:
            yield (node, predicate, target)
        return
    for number, start in enumerate(range(0, len(targets), MAX_LISTED)):
        part = iri(f"{node.iri}/part/{number}")
        yield (part, ns.RDF_TYPE, _ENTITY)
        yield (part, ns.RDF_TYPE, _shared_iri(ns.WH_PART_TYPE))
        yield (part, ns.WH_PART_OF, node)
        if predicate == ns.PROV_WAS_DERIVED_FROM:
            yield (node, predicate, part)
        for target in targets[start : start + MAX_LISTED]:
            yield (part, predicate, target)


class _Stage:
    """Collects the statements of one stage; `parent` names the stage that it derives from, if any."""

    def __init__(self, answer_id: str, name: str, parent: str) -> None:
        self.uris = answer_uris(answer_id)
        self.node = iri(self.uris.stage(name))
        self.rows: list[_Row] = []
        self.software = iri(f"{self.uris.agent_prefix}whence")
        self._activity = iri(f"{self.uris.activity_prefix}{name}")
        self._parent = iri(self.uris.stage(parent)) if parent else None
        self._generated = 0

    def triples(self, label: str, types: Sequence[str], run: StageRun | None) -> tuple[Triple, ...]:
        """Return all triples of the stage: what it is, its own rows, and how it ran."""
        node = self.node
        if run is not None or self._generated:
            self._add_run(run or StageRun())
        rows: list[_Row] = [
            (node, ns.RDF_TYPE, _ENTITY),
            *[(node, ns.RDF_TYPE, _shared_iri(kind)) for kind in types],
            (node, ns.RDFS_LABEL, _shared_literal(label)),
            (node, ns.PROV_WAS_DERIVED_FROM, self._parent),
            *self.rows,
        ]
        return tuple(
            [
                Triple(subject, _shared_iri(predicate), target, ns.GRAPH_RETRIEVAL)
                for subject, predicate, target in rows
                if target is not None
            ]
        )

    def add_entity(self, node: Term, kind: str = "") -> None:
        """State that the activity of the stage generated a node, of a class besides `prov:Entity`."""
        self._generated += 1
        self.rows += (
            (node, ns.RDF_TYPE, _ENTITY),
            (node, ns.RDF_TYPE, _shared_iri(kind) if kind else None),
            (node, ns.PROV_WAS_GENERATED_BY, self._activity),
        )

    def add_agent(
        self,
        agent: Term,
        name: str,
        *,
        version: str = "",
        role: str = "",
        revision: str = "",
        precision: str = "",
        dimension: int = 0,
    ) -> None:
        """State what a piece of software is."""
        self.rows += (
            *[(agent, ns.RDF_TYPE, kind) for kind in _AGENT_TYPES],
            (agent, ns.RDFS_LABEL, literal(name)),
            (agent, ns.WH_VERSION, literal(version) if version else None),
            (agent, ns.WH_ROLE, literal(role) if role else None),
            (agent, ns.WH_REVISION, literal(revision) if revision else None),
            (agent, ns.WH_PRECISION, literal(precision) if precision else None),
            (agent, ns.WH_DIMENSION, integer(dimension) if dimension else None),
        )

    def add_model_call(
        self, in_token: int | None, out_token: int | None, model: str | None
    ) -> None:
        """State the use of a language model."""
        self.rows += (
            (self.node, ns.TG_IN_TOKEN, None if in_token is None else literal(str(in_token))),
            (self.node, ns.TG_OUT_TOKEN, None if out_token is None else literal(str(out_token))),
            (self.node, ns.TG_LLM_MODEL, None if model is None else literal(model)),
        )

    def add_candidates(self, candidates: Iterable[Passage]) -> None:
        """State which passages were found, by what and with which scores."""
        rows = self.rows
        for candidate in _by_rank(candidates):
            node = iri(f"{self.uris.candidate_prefix}{candidate.rank}")
            document, digest = candidate.document_id, candidate.digest
            self.add_entity(node, ns.WH_CANDIDATE_TYPE)
            rows += (
                (node, ns.WH_CHUNK, _id_term(candidate.chunk_id)),
                (node, ns.WH_RANK, integer(candidate.rank)),
                (node, ns.WH_DOCUMENT, _shared_literal(document) if document else None),
            )
            for field, predicate in SCORE_PREDICATES.items():
                if (score := getattr(candidate, field)) is not None:
                    rows.append((node, predicate, double(score)))
            for concept in candidate.concepts:
                rows.append((node, ns.WH_FOUND_BY, _concept_term(concept)))
            rows.append((node, ns.WH_DIGEST, literal(digest) if digest else None))
            if candidate.reason_code:
                rows.append((node, ns.WH_REASON, _reason_term(candidate)))
            if candidate.duplicate_of:
                rows.append((node, ns.WH_DUPLICATE_OF, _id_term(candidate.duplicate_of)))
            if candidate.newer_edition:
                rows.append((node, ns.WH_NEWER_EDITION, _id_term(candidate.newer_edition)))

    def add_walk(self, walk: GraphWalk) -> None:
        """State how candidates were reached, and the edges that were followed."""
        for one in walk.nodes:
            node, parent = iri(f"{self.uris.candidate_prefix}{one.rank}"), one.parent_id
            self.rows.append((node, ns.WH_DEPTH, integer(one.depth)))
            self.rows.append((node, ns.WH_PARENT, _id_term(parent) if parent else None))
        for index, edge in enumerate(walk.edges):
            node = iri(f"{self.node.iri}/edge/{index}")
            self.add_entity(node, ns.WH_EDGE_TYPE)
            self.rows += (
                (node, ns.WH_FROM, _id_term(edge.from_id)),
                (node, ns.WH_TO, _id_term(edge.to_id)),
                (node, ns.WH_RELATION, _shared_literal(edge.relation)),
            )

    def add_outcomes(self, candidates: Iterable[Passage]) -> None:
        """State what the stage found out about candidates."""
        for candidate in _by_rank(candidates):
            node = iri(f"{self.uris.candidate_prefix}{candidate.rank}")
            rank = candidate.rerank_rank
            self.rows += (
                (node, ns.WH_RERANK_RANK, integer(rank) if rank else None),
                *[
                    (node, predicate, _double_or_none(getattr(candidate, field)))
                    for field, predicate in OUTCOME_PREDICATES.items()
                ],
                (node, ns.WH_REASON, _reason_term(candidate) if candidate.reason_code else None),
            )

    def add_citation(self, node: Term, citation: Citation) -> None:
        """State what is quoted, and where it stands."""
        document, quoted, spans = citation.document_id, citation.quote, citation.highlights
        self.add_entity(node, ns.WH_CITATION_TYPE)
        self.rows += (
            (node, ns.WH_MARKER, integer(citation.marker)),
            (node, ns.WH_CHUNK, _id_term(citation.chunk_id)),
            (node, ns.WH_DOCUMENT, literal(document) if document else None),
            (node, ns.WH_QUOTE, literal(quoted) if quoted else None),
            (node, ns.WH_HIGHLIGHTS, literal(json.dumps(spans), ns.RDF_JSON) if spans else None),
            *_location_rows(node, citation.location),
        )

    def add_sources(self, citations: Sequence[Citation]) -> None:
        """State that the answer derives from the cited passages, and these from their documents."""
        passages: dict[str, Term] = {}
        documents: dict[str, Term] = {}
        for one in citations:
            passage, document = _id_term(one.chunk_id), documents.get(one.document_id)
            if document is None and one.document_id:
                document = iri(f"{self.uris.document_prefix}{len(documents)}")
                documents[one.document_id] = document
                source = one.source_url or one.source_file or one.document_id
                self.rows += (
                    (document, ns.RDF_TYPE, _ENTITY),
                    (document, ns.RDF_TYPE, _shared_iri(ns.TG_DOCUMENT_TYPE)),
                    (document, ns.WH_DOCUMENT, literal(one.document_id)),
                    (document, ns.DC_TITLE, literal(one.title or one.document_id)),
                    (document, ns.DC_SOURCE, literal(source)),
                    (document, ns.PROV_AT_LOCATION, _id_term(source)),
                )
            if one.chunk_id not in passages:
                passages[one.chunk_id] = passage
                self.rows += (
                    (passage, ns.RDF_TYPE, _ENTITY),
                    (passage, ns.RDF_TYPE, _shared_iri(ns.TG_CHUNK_TYPE)),
                    (passage, ns.PROV_WAS_DERIVED_FROM, document),
                )
        self.rows += list_rows(self.node, ns.PROV_WAS_DERIVED_FROM, list(passages.values()))

    def add_refusal(self, refusal: Refusal) -> None:
        """State why there is no answer."""
        node, best, floor = iri(f"{self.node.iri}/refusal"), refusal.best, refusal.floor
        self.add_entity(node, ns.WH_REFUSAL_TYPE)
        self.rows += (
            (node, ns.WH_CODE, literal(refusal.code)),
            (node, ns.WH_MESSAGE, literal(refusal.reason)),
            (node, ns.WH_CHUNK, _id_term(best.chunk_id) if best else None),
            (node, ns.WH_SCORE, double(best.score) if best else None),
            (node, ns.WH_FLOOR, None if floor is None else double(floor)),
        )

    def _add_run(self, run: StageRun) -> None:
        """State the activity that generated the stage: its times, agents and settings."""
        node, activity = self.node, self._activity
        for index, degradation in enumerate(run.degraded):
            lack = iri(f"{node.iri}/degradation/{index}")
            self.add_entity(lack, ns.WH_DEGRADATION_TYPE)
            self.rows += (
                (lack, ns.WH_STAGE, literal(degradation.stage)),
                (lack, ns.WH_CODE, literal(degradation.code)),
                (lack, ns.WH_MESSAGE, literal(degradation.reason)),
            )
        started, ended, duration_ms = run.started_at, run.ended_at, run.duration_ms
        self.rows += (
            (node, ns.PROV_WAS_GENERATED_BY, activity),
            (activity, ns.RDF_TYPE, _shared_iri(ns.PROV_ACTIVITY)),
            (activity, ns.PROV_STARTED_AT_TIME, date_time(started) if started else None),
            (activity, ns.PROV_ENDED_AT_TIME, date_time(ended) if ended else None),
            (activity, ns.WH_DURATION_MS, _double_or_none(duration_ms)),
            (activity, ns.PROV_USED, self._parent),
            (activity, ns.PROV_WAS_ASSOCIATED_WITH, self.software),
            (activity, ns.WH_GENERATED_COUNT, integer(self._generated + 1)),
        )
        for model in run.models:
            name = quote(model.name, safe="", errors="surrogatepass")
            agent = iri(f"{self.uris.agent_prefix}{model.role}/{name}")
            self.rows.append((activity, ns.PROV_WAS_ASSOCIATED_WITH, agent))
            self.add_agent(agent, **msgspec.structs.asdict(model))
        for key in sorted(run.settings):
            if not _SETTING_KEY.match(key):
                raise BadInput(f"{key!r} is not the name of a setting")
            self.rows.append((activity, ns.WH_SETTING_PREFIX + key, scalar(run.settings[key])))


def _location_rows(node: Term, location: Location | None) -> Iterator[_Row]:
    for field, term in ns.LOCATION_TERMS.items() if location else ():
        value = getattr(location, field)
        yield (node, term, None if value is None else scalar(value))


def _double_or_none(value: float | None) -> Term | None:
    return None if value is None else double(value)


def _by_rank(candidates: Iterable[Passage]) -> list[Passage]:
    """Sort by rank, which names the node of a candidate and is therefore unique."""
    ordered = sorted(candidates, key=attrgetter("rank"))
    before = 0
    for candidate in ordered:
        if candidate.rank <= before:
            raise BadInput(
                f"candidate {candidate.chunk_id!r} has rank {candidate.rank}, which is "
                + ("taken" if candidate.rank > 0 else "not 1 or more")
            )
        before = candidate.rank
    return ordered


def _reason_term(candidate: Passage) -> Term:
    if candidate.reason_code not in DROP_REASONS:
        raise BadInput(
            f"{candidate.reason_code!r} is not a reason to drop candidate {candidate.chunk_id!r}",
            hint="one of " + ", ".join(DROP_REASONS),
        )
    return _shared_iri(ns.WH + candidate.reason_code)
