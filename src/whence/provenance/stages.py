"""Build the triples of each stage from what happened: pure functions, triples in a fixed order.

With the required arguments only, a stage states exactly what the shared vocabulary of document RAG traces
states, in its order, with its untyped literals. Optional arguments add statements in our own namespace and
change none of the others. All triples lie in `urn:graph:retrieval`.

A malformed answer id or name of a setting raises `BadInput`.

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
    Selection,
    StageRun,
)
from whence.provenance.terms import boolean, date_time, double, integer, scalar
from whence.provenance.uris import answer_uris, iri_from_id
from whence.schema.document_rag import Citation
from whence.schema.errors import BadInput
from whence.schema.terms import Term, Triple, iri, literal

_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
#: Longest concept that is named in full, in characters; those of a language model are a few words.
_MAX_CONCEPT_CHARS = 1_000

#: Terms of IRIs and of texts that many triples share.
_shared_iri = lru_cache(maxsize=1024)(iri)
_shared_literal = lru_cache(maxsize=1024)(literal)


@lru_cache(maxsize=1024)
def _concept_term(concept: str) -> Term:
    """Return the term of a concept; each candidate names those that found it."""
    return literal(_concept_name(concept))


@lru_cache(maxsize=4096)
def _id_term(identifier: str) -> Term:
    """Return the IRI term of a chunk's id; each chunk is named at several stages."""
    return iri(iri_from_id(identifier))


def _optional(text: str | None) -> Term | None:
    """Return a plain literal, or None for an empty text."""
    return literal(text) if text else None


class _StageTriples:
    """The triples of one stage, in the order in which they were added."""

    def __init__(self, uri: str, label: str, *types: str, derived_from: str = "") -> None:
        self.node = iri(uri)
        self.triples: list[Triple] = []
        self.add(
            *[(ns.RDF_TYPE, _shared_iri(kind)) for kind in (ns.PROV_ENTITY, *types)],
            (ns.RDFS_LABEL, _shared_literal(label)),
            (ns.PROV_WAS_DERIVED_FROM, iri(derived_from) if derived_from else None),
        )

    def add(self, *statements: tuple[str, Term | None], node: Term | None = None) -> None:
        """Add predicates with their objects, on the stage itself by default; an object of None adds nothing."""
        subject = node or self.node
        for predicate, target in statements:
            if target is not None:
                triple = Triple(subject, _shared_iri(predicate), target, ns.GRAPH_RETRIEVAL)
                self.triples.append(triple)

    def add_node(self, predicate: str, index: int, kind: str) -> Term:
        """Link a numbered node of a type to the stage, and return it."""
        node = iri(f"{self.node.iri}/{predicate.removeprefix(ns.WH)}/{index}")
        self.add((predicate, node))
        self.add((ns.RDF_TYPE, _shared_iri(kind)), node=node)
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
        answer_id: Id that determines all IRIs of the trace.
        query: The question as asked.
        timestamp: Time of the question, ISO 8601 in UTC ending in Z.
        parent_uri: What the question came from, when it is part of something larger.
        run: How the stage ran; settings of the whole question belong here.
    """
    types = (ns.TG_QUESTION, ns.TG_DOC_RAG_QUESTION)
    stage = _StageTriples(answer_uris(answer_id).question, "DocumentRAG Question", *types)
    stage.add(
        (ns.PROV_STARTED_AT_TIME, literal(timestamp)),
        (ns.TG_QUERY, literal(query)),
        (ns.PROV_WAS_DERIVED_FROM, iri(iri_from_id(parent_uri)) if parent_uri else None),
    )
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
        answer_id: Id that determines all IRIs of the trace.
        concepts: Search queries in order, each once.
        in_token: Tokens that the model read, when known.
        out_token: Tokens that the model wrote, when known.
        model: Name of the model, when one was used.
        run: How the stage ran; when given, the order of the concepts is recorded as well.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(uris.grounding, "Grounding", ns.TG_GROUNDING, derived_from=uris.question)
    names = [_concept_name(concept) for concept in concepts]
    order = literal(json.dumps(names, ensure_ascii=False), ns.RDF_JSON)
    stage.add(
        *[(ns.TG_CONCEPT, literal(name)) for name in names],
        *_model_call(in_token, out_token, model),
        (ns.WH_CONCEPT_ORDER, None if run is None else order),
    )
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
        answer_id: Id that determines all IRIs of the trace.
        chunk_ids: Chunks whose text was read, in order of rank.
        candidates: All candidates in any order, those dropped so far with their reason.
        run: How the stage ran.

    Raises:
        BadInput: Two candidates share a rank, a rank is below 1, a reason code is unknown, or a chunk id is
            empty; the same holds for `focus_triples` and `synthesis_triples`.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(
        uris.exploration, "Exploration", ns.TG_EXPLORATION, derived_from=uris.grounding
    )
    stage.add(
        (ns.TG_CHUNK_COUNT, literal(str(len(chunk_ids)))),
        *[(ns.TG_SELECTED_CHUNK, _id_term(chunk_id)) for chunk_id in chunk_ids],
    )
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
        answer_id: Id that determines all IRIs of the trace.
        selections: Kept chunks, best first.
        candidates: Those that the reranker read, with its rank and score, and those that it dropped, with
            their reason; in any order. Each was recorded at exploration.
        run: How the stage ran.
    """
    uris = answer_uris(answer_id)
    stage = _StageTriples(uris.focus, "Chunk Selection", ns.TG_FOCUS, derived_from=uris.exploration)
    for index, selection in enumerate(selections):
        node = iri(f"{uris.selection_prefix}{index}")
        stage.add((ns.TG_SELECTED_CHUNK, node))
        stage.add(
            (ns.RDF_TYPE, _shared_iri(ns.TG_CHUNK_SELECTION)),
            (ns.TG_DOCUMENT, _id_term(selection.chunk_id)),
            (ns.TG_SCORE, literal(str(float(selection.score)))),
            node=node,
        )
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
        answer_id: Id that determines all IRIs of the trace.
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
    """
    uris = answer_uris(answer_id)
    parent = uris.focus if reranked else uris.exploration
    types = (ns.TG_SYNTHESIS, ns.TG_ANSWER)
    stage = _StageTriples(uris.synthesis, "Synthesis", *types, derived_from=parent)
    stage.add(
        (ns.TG_DOCUMENT, iri(uris.answer) if saved else None),
        *_model_call(in_token, out_token, model),
        (ns.WH_FOUND, None if found is None else boolean(found)),
        (ns.WH_ANSWER_DIGEST, _optional(answer_digest)),
    )
    _add_outcomes(stage, uris.candidate_prefix, dropped)
    for index, citation in enumerate(citations):
        node = stage.add_node(ns.WH_CITATION, index, ns.WH_CITATION_TYPE)
        stage.add(
            (ns.WH_MARKER, integer(citation.marker)),
            (ns.WH_CHUNK, _id_term(citation.chunk_id)),
            (ns.WH_DOCUMENT, _optional(citation.document_id)),
            (ns.WH_QUOTE, _optional(citation.quote)),
            node=node,
        )
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
        answer_id: Id that determines all IRIs of the trace.
        derived_from: Name of the last stage recorded: `question`, `grounding`, `exploration` or `focus`.
        stage: Name of the stage that failed.
        code: Code of the error.
        message: Message of the error, one line.
        hint: What the user can do.
        run: How the stage ran.

    Raises:
        BadInput: `derived_from` is not such a stage.
    """
    uris = answer_uris(answer_id)
    if derived_from not in {"question", "grounding", "exploration", "focus"}:
        raise BadInput(f"a failure cannot derive from {derived_from!r}")
    parent = getattr(uris, derived_from)
    failure = _StageTriples(uris.error, "Error", ns.TG_ERROR, derived_from=parent)
    failure.add(
        (ns.WH_STAGE, literal(stage)),
        (ns.WH_CODE, literal(code)),
        (ns.WH_MESSAGE, literal(message)),
        (ns.WH_HINT, _optional(hint)),
    )
    return failure.finish(run)


def _concept_name(concept: str) -> str:
    """Return the name of a concept in the trace: its words, or of a very long one the beginning and a digest.

    The question is a concept and may be long; each of its candidates names it.
    """
    if len(concept) <= _MAX_CONCEPT_CHARS:
        return concept
    digest = sha256(concept.encode()).hexdigest()[:16]
    return f"{concept[:_MAX_CONCEPT_CHARS]}… ({len(concept)} characters, sha256 {digest})"


def _model_call(
    in_token: int | None, out_token: int | None, model: str | None
) -> list[tuple[str, Term]]:
    """Return the statements on a call of a language model, as far as they are known."""
    values = ((ns.TG_IN_TOKEN, in_token), (ns.TG_OUT_TOKEN, out_token), (ns.TG_LLM_MODEL, model))
    return [(predicate, literal(str(value))) for predicate, value in values if value is not None]


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
    scores = [
        (predicate, double(score))
        for field, predicate in SCORE_PREDICATES.items()
        if (score := getattr(candidate, field)) is not None
    ]
    document = candidate.document_id
    stage.add((ns.WH_CANDIDATE, node))
    stage.add(
        (ns.WH_CHUNK, _id_term(candidate.chunk_id)),
        (ns.WH_RANK, integer(candidate.rank)),
        (ns.WH_DOCUMENT, _shared_literal(document) if document else None),
        *scores,
        *[(ns.WH_FOUND_BY, _concept_term(concept)) for concept in candidate.concepts],
        (ns.WH_DIGEST, _optional(candidate.digest)),
        (ns.WH_REASON, _reason_term(candidate)),
        node=node,
    )


def _add_outcomes(stage: _StageTriples, prefix: str, candidates: Iterable[CandidateRecord]) -> None:
    """Add what became known of candidates after exploration."""
    for candidate in _by_rank(candidates):
        rank, score = candidate.rerank_rank, candidate.rerank_score
        stage.add(
            (ns.WH_RERANK_RANK, integer(rank) if rank else None),
            (ns.WH_RERANK_SCORE, None if score is None else double(score)),
            (ns.WH_REASON, _reason_term(candidate)),
            node=iri(f"{prefix}{candidate.rank}"),
        )


def _reason_term(candidate: CandidateRecord) -> Term | None:
    code = candidate.reason_code
    if code and code not in DROP_REASONS:
        raise BadInput(
            f"{code!r} is not a reason to drop candidate {candidate.chunk_id!r}",
            hint="one of " + ", ".join(DROP_REASONS),
        )
    return _shared_iri(ns.WH + code) if code else None


def _add_run(stage: _StageTriples, run: StageRun) -> None:
    stage.add(
        (ns.WH_STARTED_AT, date_time(run.started_at) if run.started_at else None),
        (ns.WH_ENDED_AT, date_time(run.ended_at) if run.ended_at else None),
        (ns.WH_DURATION_MS, None if run.duration_ms is None else double(run.duration_ms)),
    )
    for model in run.models:
        prefix = ns.WH + model.role
        stage.add(
            (prefix + "Model", literal(model.name)),
            (prefix + "Revision", _optional(model.revision)),
            (prefix + "Precision", _optional(model.precision)),
            (prefix + "Dimension", integer(model.dimension) if model.dimension else None),
        )
    for key in sorted(run.settings):
        if not _SETTING_KEY.match(key):
            raise BadInput(f"{key!r} is not the name of a setting")
        stage.add((ns.WH_SETTING_PREFIX + key, scalar(run.settings[key])))
    for index, degradation in enumerate(run.degraded):
        stage.add(
            (ns.WH_STAGE, literal(degradation.stage)),
            (ns.WH_CODE, literal(degradation.code)),
            (ns.WH_MESSAGE, literal(degradation.reason)),
            node=stage.add_node(ns.WH_DEGRADATION, index, ns.WH_DEGRADATION_TYPE),
        )
