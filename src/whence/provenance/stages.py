"""Build the triples of each stage from what happened: pure functions, triples in a fixed order.

With the required arguments only, a stage states exactly what the shared vocabulary of document RAG traces
states, in its order, with its untyped literals. Optional arguments add statements in our own namespace and
change none of the others. All triples lie in `urn:graph:retrieval`.

Cost: a stage is linear in its candidates, at most 12 triples each; sorting them by rank is n log n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from whence.provenance import namespaces as ns
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.stage_records import (
    SCORE_PREDICATES,
    CandidateRecord,
    ModelUse,
    Selection,
    StageRun,
)
from whence.provenance.terms import boolean, date_time, double, integer, scalar
from whence.provenance.uris import answer_uris, iri_from_id
from whence.schema.document_rag import Citation
from whence.schema.errors import BadInput
from whence.schema.search import Degradation
from whence.schema.terms import Term, Triple, iri, literal

__all__ = (
    "exploration_triples",
    "failure_triples",
    "focus_triples",
    "grounding_triples",
    "question_triples",
    "synthesis_triples",
)

_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
#: Longest concept that is named in full, in characters; those of a language model are a few words.
_MAX_CONCEPT_CHARS = 1_000

#: Terms of IRIs and of texts that many triples share.
_shared_iri = lru_cache(maxsize=1024)(iri)
_shared_literal = lru_cache(maxsize=1024)(literal)


@lru_cache(maxsize=4096)
def _id_term(identifier: str) -> Term:
    """Return the IRI term of a chunk's id; each chunk is named at several stages."""
    return iri(iri_from_id(identifier))


class _StageTriples:
    """The triples of one stage, in the order in which they were added."""

    def __init__(self, uri: str, label: str, *types: str, derived_from: str = "") -> None:
        self.node = iri(uri)
        self.triples: list[Triple] = []
        for kind in (ns.PROV_ENTITY, *types):
            self.add(ns.RDF_TYPE, _shared_iri(kind))
        self.add(ns.RDFS_LABEL, _shared_literal(label))
        if derived_from:
            self.add(ns.PROV_WAS_DERIVED_FROM, iri(derived_from))

    def add(self, predicate: str, target: Term, node: Term | None = None) -> None:
        """Add a statement on a node, on the stage itself by default."""
        subject = node or self.node
        self.triples.append(Triple(subject, _shared_iri(predicate), target, ns.GRAPH_RETRIEVAL))

    def add_text(self, predicate: str, text: str | None, node: Term | None = None) -> None:
        """Add a statement with a plain literal, unless the text is empty."""
        if text:
            self.add(predicate, literal(text), node)

    def add_node(self, predicate: str, index: int, kind: str) -> Term:
        """Link a numbered node of a type to the stage, and return it."""
        node = iri(f"{self.node.iri}/{predicate.removeprefix(ns.WH)}/{index}")
        self.add(predicate, node)
        self.add(ns.RDF_TYPE, _shared_iri(kind), node)
        return node

    def finish(self, run: StageRun | None) -> tuple[Triple, ...]:
        """Add how the stage ran, and return all triples."""
        if run is not None:
            _add_run(self, run)
        return tuple(self.triples)


def question_triples(
    answer_id: str,
    query: str,
    timestamp: str,
    *,
    parent_uri: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State that a question was asked; 6 triples.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        query: The question as asked.
        timestamp: Time of the question, ISO 8601 in UTC ending in Z.
        parent_uri: What the question came from, when it is part of something larger.
        run: How the stage ran; settings of the whole question belong here.

    Raises:
        BadInput: The answer id or the name of a setting is malformed.
    """
    types = (ns.TG_QUESTION, ns.TG_DOC_RAG_QUESTION)
    stage = _StageTriples(answer_uris(answer_id).question, "DocumentRAG Question", *types)
    stage.add(ns.PROV_STARTED_AT_TIME, literal(timestamp))
    stage.add(ns.TG_QUERY, literal(query))
    if parent_uri:
        stage.add(ns.PROV_WAS_DERIVED_FROM, iri(iri_from_id(parent_uri)))
    return stage.finish(run)


def grounding_triples(
    answer_id: str,
    concepts: Sequence[str],
    *,
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which concepts were searched for; 4 triples, one per concept, up to 3 for the model's use.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        concepts: Search queries in order, each once.
        in_token: Tokens that the model read, when known.
        out_token: Tokens that the model wrote, when known.
        model: Name of the model, when one was used.
        run: How the stage ran; when given, the order of the concepts is recorded as well.

    Raises:
        BadInput: As for `question_triples`.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(uris.grounding, "Grounding", ns.TG_GROUNDING, derived_from=uris.question)
    names = [_concept_name(concept) for concept in concepts]
    for name in names:
        stage.add(ns.TG_CONCEPT, literal(name))
    _add_token_use(stage, in_token, out_token, model)
    if run is not None:
        order = json.dumps(names, ensure_ascii=False)
        stage.add(ns.WH_CONCEPT_ORDER, literal(order, ns.RDF_JSON))
    return stage.finish(run)


def exploration_triples(
    answer_id: str,
    chunk_ids: Sequence[str],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks were retrieved and read; 5 triples and one per chunk.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        chunk_ids: Chunks whose text was read, in order of rank.
        candidates: All candidates in any order, those dropped so far with their reason.
        run: How the stage ran.

    Raises:
        BadInput: As for `question_triples`; or two candidates share a rank, a rank is below 1, a reason
            code is unknown, or a chunk id is empty.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(
        uris.exploration, "Exploration", ns.TG_EXPLORATION, derived_from=uris.grounding
    )
    stage.add(ns.TG_CHUNK_COUNT, literal(str(len(chunk_ids))))
    for chunk_id in chunk_ids:
        stage.add(ns.TG_SELECTED_CHUNK, _id_term(chunk_id))
    for candidate in _by_rank(candidates):
        _add_candidate(stage, iri(f"{uris.candidate_prefix}{candidate.rank}"), candidate)
    return stage.finish(run)


def focus_triples(
    answer_id: str,
    selections: Sequence[Selection],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks the reranker kept; 4 triples and four per kept chunk.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        selections: Kept chunks, best first.
        candidates: Those that the reranker read, with its rank and score, and those that it dropped, with
            their reason; in any order. Each was recorded at exploration.
        run: How the stage ran.

    Raises:
        BadInput: As for `exploration_triples`.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(uris.focus, "Chunk Selection", ns.TG_FOCUS, derived_from=uris.exploration)
    for index, selection in enumerate(selections):
        node = iri(f"{uris.selection_prefix}{index}")
        stage.add(ns.TG_SELECTED_CHUNK, node)
        stage.add(ns.RDF_TYPE, _shared_iri(ns.TG_CHUNK_SELECTION), node)
        stage.add(ns.TG_DOCUMENT, _id_term(selection.chunk_id), node)
        stage.add(ns.TG_SCORE, literal(str(float(selection.score))), node)
    _add_outcomes(stage, uris.candidate_prefix, candidates)
    return stage.finish(run)


def synthesis_triples(
    answer_id: str,
    *,
    reranked: bool,
    saved: bool = False,
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    dropped: Iterable[CandidateRecord] = (),
    citations: Sequence[Citation] = (),
    found: bool | None = None,
    answer_digest: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State how the answer was written; 5 triples, one when it is stored, up to 3 for the model's use.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        reranked: True when the trace has a focus stage, from which the answer derives then.
        saved: True when the text is stored under the answer's own IRI.
        in_token: Tokens that the model read, when known.
        out_token: Tokens that the model wrote, when known.
        model: Name of the model, when one was used.
        dropped: Candidates dropped at this stage, with their reason.
        citations: Sources of the markers, in order of the markers.
        found: False when there was no text to answer from.
        answer_digest: SHA-256 of the answer's text, hexadecimal.
        run: How the stage ran.

    Raises:
        BadInput: As for `exploration_triples`.
    """
    uris = answer_uris(answer_id)
    parent = uris.focus if reranked else uris.exploration
    types = (ns.TG_SYNTHESIS, ns.TG_ANSWER)
    stage = _StageTriples(uris.synthesis, "Synthesis", *types, derived_from=parent)
    if saved:
        stage.add(ns.TG_DOCUMENT, iri(uris.answer))
    _add_token_use(stage, in_token, out_token, model)
    if found is not None:
        stage.add(ns.WH_FOUND, boolean(found))
    stage.add_text(ns.WH_ANSWER_DIGEST, answer_digest)
    _add_outcomes(stage, uris.candidate_prefix, dropped)
    for index, citation in enumerate(citations):
        node = stage.add_node(ns.WH_CITATION, index, ns.WH_CITATION_TYPE)
        stage.add(ns.WH_MARKER, integer(citation.marker), node)
        stage.add(ns.WH_CHUNK, _id_term(citation.chunk_id), node)
        stage.add_text(ns.WH_DOCUMENT, citation.document_id, node)
        stage.add_text(ns.WH_QUOTE, citation.quote, node)
    return stage.finish(run)


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

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        derived_from: Name of the last stage recorded: `question`, `grounding`, `exploration` or `focus`.
        stage: Name of the stage that failed.
        code: Code of the error.
        message: Message of the error, one line.
        hint: What the user can do.
        run: How the failed stage ran.

    Raises:
        BadInput: As for `question_triples`; or `derived_from` is not such a stage.
    """
    uris = answer_uris(answer_id)
    if derived_from not in {"question", "grounding", "exploration", "focus"}:
        raise BadInput(f"a failure cannot derive from {derived_from!r}")
    parent = getattr(uris, derived_from)
    failure = _StageTriples(uris.error, "Error", ns.TG_ERROR, derived_from=parent)
    failure.add(ns.WH_STAGE, literal(stage))
    failure.add(ns.WH_CODE, literal(code))
    failure.add(ns.WH_MESSAGE, literal(message))
    failure.add_text(ns.WH_HINT, hint)
    return failure.finish(run)


def _concept_name(concept: str) -> str:
    """Return the name of a concept in the trace: its words, or of a very long one the beginning and a digest.

    The question is a concept and may be long; each of its candidates names it.
    """
    if len(concept) <= _MAX_CONCEPT_CHARS:
        return concept
    digest = sha256(concept.encode()).hexdigest()[:16]
    return f"{concept[:_MAX_CONCEPT_CHARS]}… ({len(concept)} characters, sha256 {digest})"


def _add_token_use(
    stage: _StageTriples, in_token: int | None, out_token: int | None, model: str | None
) -> None:
    for predicate, value in (
        (ns.TG_IN_TOKEN, in_token),
        (ns.TG_OUT_TOKEN, out_token),
        (ns.TG_LLM_MODEL, model),
    ):
        if value is not None:
            stage.add(predicate, literal(str(value)))


def _by_rank(candidates: Iterable[CandidateRecord]) -> list[CandidateRecord]:
    """Sort by rank, which names the node of a candidate.

    Raises:
        BadInput: Two candidates share a rank, or a rank is below 1.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.rank)
    before = 0
    for candidate in ordered:
        if candidate.rank <= before:
            raise BadInput(
                f"candidate {candidate.chunk_id!r} has rank {candidate.rank}, which is "
                + ("taken" if candidate.rank > 0 else "not 1 or more")
            )
        before = candidate.rank
    return ordered


def _add_candidate(stage: _StageTriples, node: Term, candidate: CandidateRecord) -> None:
    """Add all that retrieval knows of a candidate."""
    stage.add(ns.WH_CANDIDATE, node)
    stage.add(ns.WH_CHUNK, _id_term(candidate.chunk_id), node)
    stage.add(ns.WH_RANK, integer(candidate.rank), node)
    if candidate.document_id:
        stage.add(ns.WH_DOCUMENT, _shared_literal(candidate.document_id), node)
    for field, predicate in SCORE_PREDICATES.items():
        score = getattr(candidate, field)
        if score is not None:
            stage.add(predicate, double(score), node)
    for concept in candidate.concepts:
        stage.add(ns.WH_FOUND_BY, _shared_literal(_concept_name(concept)), node)
    stage.add_text(ns.WH_DIGEST, candidate.digest, node)
    _add_reason(stage, node, candidate)


def _add_outcomes(stage: _StageTriples, prefix: str, candidates: Iterable[CandidateRecord]) -> None:
    """Add what became known of candidates after exploration."""
    for candidate in _by_rank(candidates):
        node = iri(f"{prefix}{candidate.rank}")
        if candidate.rerank_rank:
            stage.add(ns.WH_RERANK_RANK, integer(candidate.rerank_rank), node)
        if candidate.rerank_score is not None:
            stage.add(ns.WH_RERANK_SCORE, double(candidate.rerank_score), node)
        _add_reason(stage, node, candidate)


def _add_reason(stage: _StageTriples, node: Term, candidate: CandidateRecord) -> None:
    code = candidate.reason_code
    if not code:
        return
    if code not in DROP_REASONS:
        raise BadInput(
            f"{code!r} is not a reason to drop candidate {candidate.chunk_id!r}",
            hint="one of " + ", ".join(DROP_REASONS),
        )
    stage.add(ns.WH_REASON, _shared_iri(ns.WH + code), node)


def _add_run(stage: _StageTriples, run: StageRun) -> None:
    if run.started_at:
        stage.add(ns.WH_STARTED_AT, date_time(run.started_at))
    if run.ended_at:
        stage.add(ns.WH_ENDED_AT, date_time(run.ended_at))
    if run.duration_ms is not None:
        stage.add(ns.WH_DURATION_MS, double(run.duration_ms))
    for model in run.models:
        _add_model(stage, model)
    for key in sorted(run.settings):
        if not _SETTING_KEY.match(key):
            raise BadInput(f"{key!r} is not the name of a setting")
        stage.add(ns.WH_SETTING_PREFIX + key, scalar(run.settings[key]))
    for index, degradation in enumerate(run.degraded):
        _add_degradation(stage, index, degradation)


def _add_model(stage: _StageTriples, model: ModelUse) -> None:
    prefix = ns.WH + model.role
    stage.add(prefix + "Model", literal(model.name))
    stage.add_text(prefix + "Revision", model.revision)
    stage.add_text(prefix + "Precision", model.precision)
    if model.dimension:
        stage.add(prefix + "Dimension", integer(model.dimension))


def _add_degradation(stage: _StageTriples, index: int, degradation: Degradation) -> None:
    node = stage.add_node(ns.WH_DEGRADATION, index, ns.WH_DEGRADATION_TYPE)
    stage.add(ns.WH_STAGE, literal(degradation.stage), node)
    stage.add(ns.WH_CODE, literal(degradation.code), node)
    stage.add(ns.WH_MESSAGE, literal(degradation.reason), node)
