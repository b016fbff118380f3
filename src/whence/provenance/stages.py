"""Build the triples of each stage from what happened: pure functions, triples in a fixed order.

The IRIs of a trace are derived from the id of the answer: the same id always has the same IRIs.

With the required arguments only, a stage states exactly what the shared vocabulary of document RAG traces
states, in its order, with its untyped literals. Optional arguments add statements in our own namespace and
change none of the others. All triples lie in `urn:graph:retrieval`.

In every function `answer_id` determines all IRIs of the trace, `run` is how the stage ran, `model` names the
language model that was used, `in_token` and `out_token` count what it read and wrote, when known. A malformed
answer id, name of a setting or reason code, an empty chunk id, and candidates with equal ranks or ranks below
1 raise `BadInput`.

Cost: a stage is linear in its candidates, at most 12 triples each; sorting them by rank is n log n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter

import msgspec

from whence.provenance import namespaces as ns
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.stage_records import (
    OUTCOME_PREDICATES,
    SCORE_PREDICATES,
    CandidateRecord,
    Selection,
    StageRun,
)
from whence.provenance.terms import answer_uris, date_time, double, integer, iri_from_id, scalar
from whence.schema.document_rag import Citation, Refusal
from whence.schema.errors import BadInput
from whence.schema.places import Location
from whence.schema.search import Correction
from whence.schema.terms import Term, Triple, iri, literal

#: A statement: subject, predicate and object; without an object nothing is stated.
_Row = tuple[Term, str, Term | None]

_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
#: Longest concept that is named in full, in characters; those of a language model are a few words.
_MAX_CONCEPT_CHARS = 1_000

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
    answer_id: str, query: str, timestamp: str, *, run: StageRun | None = None
) -> tuple[Triple, ...]:
    """State that a question was asked; 6 triples.

    `timestamp` is ISO 8601 in UTC ending in Z; settings of the whole question belong to `run`.
    """
    node = iri(answer_uris(answer_id).question)
    rows: list[_Row] = [
        (node, ns.PROV_STARTED_AT_TIME, literal(timestamp)),
        (node, ns.TG_QUERY, literal(query)),
    ]
    types = (ns.TG_QUESTION, ns.TG_DOC_RAG_QUESTION)
    return _triples(node, "DocumentRAG Question", types, "", rows, run)


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

    The order of the concepts is recorded when `run` is given; so is the question with `corrections`, if any.
    """
    uris = answer_uris(answer_id)
    node, terms = iri(uris.grounding), list(map(_concept_term, concepts))
    rows: list[_Row] = [(node, ns.TG_CONCEPT, term) for term in terms]
    rows += _model_call(node, in_token, out_token, model)
    if run is not None:
        order = json.dumps([term.value for term in terms], ensure_ascii=False)
        rows.append((node, ns.WH_CONCEPT_ORDER, literal(order, ns.RDF_JSON)))
        if corrections:
            wire = msgspec.json.encode(corrections).decode()
            rows.append((node, ns.WH_QUESTION_USED, literal(question_used)))
            rows.append((node, ns.WH_CORRECTIONS, literal(wire, ns.RDF_JSON)))
    return _triples(node, "Grounding", (ns.TG_GROUNDING,), uris.question, rows, run)


def exploration_triples(
    answer_id: str,
    chunk_ids: Sequence[str],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks were retrieved and read; 5 triples and one per chunk.

    `chunk_ids` are those whose text was read, in order of rank; `candidates` are all in any order, those
    dropped so far with their reason.
    """
    uris = answer_uris(answer_id)
    stage = iri(uris.exploration)
    rows: list[_Row] = [(stage, ns.TG_CHUNK_COUNT, literal(str(len(chunk_ids))))]
    rows += [(stage, ns.TG_SELECTED_CHUNK, _id_term(chunk_id)) for chunk_id in chunk_ids]
    for candidate in _by_rank(candidates):
        node = iri(f"{uris.candidate_prefix}{candidate.rank}")
        document, digest = candidate.document_id, candidate.digest
        rows += (
            (stage, ns.WH_CANDIDATE, node),
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
    return _triples(stage, "Exploration", (ns.TG_EXPLORATION,), uris.grounding, rows, run)


def focus_triples(
    answer_id: str,
    selections: Sequence[Selection],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State which chunks the reranker kept; 4 triples, four per kept chunk and one for its final score.

    `selections` are in order, best first. `candidates` are those that the reranker read, with its rank and
    score, and those that it dropped, with their reason; in any order. Each was recorded at exploration.
    """
    uris = answer_uris(answer_id)
    stage = iri(uris.focus)
    rows: list[_Row] = []
    for index, selection in enumerate(selections):
        node = iri(f"{uris.selection_prefix}{index}")
        rows += (
            (stage, ns.TG_SELECTED_CHUNK, node),
            (node, ns.RDF_TYPE, _shared_iri(ns.TG_CHUNK_SELECTION)),
            (node, ns.TG_DOCUMENT, _id_term(selection.chunk_id)),
            (node, ns.TG_SCORE, literal(str(float(selection.raw_score)))),
            (node, ns.WH_FINAL_SCORE, _double_or_none(selection.final_score)),
        )
    _add_outcomes(rows, uris.candidate_prefix, candidates)
    return _triples(stage, "Chunk Selection", (ns.TG_FOCUS,), uris.exploration, rows, run)


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
    refusal: Refusal | None = None,
    answer_digest: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """State how the answer was written; 5 triples, one when it is stored, up to 3 for the model's use.

    The answer derives from the focus stage when `reranked`, and has an IRI of its own when its text is `saved`.
    `dropped` are the candidates dropped at this stage, with their reason; `citations` are in order of their
    markers; `found` is False when no citation supports an answer, and `refusal` says why; `answer_digest` is
    the SHA-256 of the answer's text, hexadecimal.
    """
    uris = answer_uris(answer_id)
    stage = iri(uris.synthesis)
    rows: list[_Row] = [
        (stage, ns.TG_DOCUMENT, iri(uris.answer) if saved else None),
        *_model_call(stage, in_token, out_token, model),
        (stage, ns.WH_FOUND, None if found is None else scalar(found)),
        (stage, ns.WH_ANSWER_DIGEST, literal(answer_digest) if answer_digest else None),
    ]
    _add_outcomes(rows, uris.candidate_prefix, dropped)
    for index, citation in enumerate(citations):
        document, quoted = citation.document_id, citation.quote
        node = iri(f"{uris.synthesis}/citation/{index}")
        rows += (
            (stage, ns.WH_CITATION, node),
            (node, ns.RDF_TYPE, _shared_iri(ns.WH_CITATION_TYPE)),
            (node, ns.WH_MARKER, integer(citation.marker)),
            (node, ns.WH_CHUNK, _id_term(citation.chunk_id)),
            (node, ns.WH_DOCUMENT, literal(document) if document else None),
            (node, ns.WH_QUOTE, literal(quoted) if quoted else None),
            (node, ns.WH_HIGHLIGHTS, _json_term(citation.highlights)),
            *_location_rows(node, citation.location),
        )
    if refusal is not None:
        rows += _refusal_rows(stage, refusal)
    types, parent = (
        (ns.TG_SYNTHESIS, ns.TG_ANSWER_TYPE),
        uris.focus if reranked else uris.exploration,
    )
    return _triples(stage, "Synthesis", types, parent, rows, run)


def _location_rows(node: Term, location: Location | None) -> Iterator[_Row]:
    for field, term in ns.LOCATION_TERMS.items() if location else ():
        value = getattr(location, field)
        yield (node, term, None if value is None else scalar(value))


def _refusal_rows(stage: Term, refusal: Refusal) -> tuple[_Row, ...]:
    node, best, floor = iri(f"{stage.iri}/refusal"), refusal.best, refusal.floor
    return (
        (stage, ns.WH_REFUSAL, node),
        (node, ns.RDF_TYPE, _shared_iri(ns.WH_REFUSAL_TYPE)),
        (node, ns.WH_CODE, literal(refusal.code)),
        (node, ns.WH_MESSAGE, literal(refusal.reason)),
        (node, ns.WH_CHUNK, _id_term(best.chunk_id) if best else None),
        (node, ns.WH_SCORE, double(best.score) if best else None),
        (node, ns.WH_FLOOR, None if floor is None else double(floor)),
    )


def _json_term(pairs: Sequence[tuple[int, int]]) -> Term | None:
    return literal(json.dumps(pairs), ns.RDF_JSON) if pairs else None


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

    `derived_from` is the last stage recorded: `question`, `grounding`, `exploration` or `focus`; any other name
    raises `BadInput`. `stage` is the one that failed; the other arguments are those of the error.
    """
    uris = answer_uris(answer_id)
    if derived_from not in {"question", "grounding", "exploration", "focus"}:
        raise BadInput(f"a failure cannot derive from {derived_from!r}")
    node = iri(uris.error)
    rows = [
        (node, ns.WH_STAGE, literal(stage)),
        (node, ns.WH_CODE, literal(code)),
        (node, ns.WH_MESSAGE, literal(message)),
        (node, ns.WH_HINT, literal(hint) if hint else None),
    ]
    return _triples(node, "Error", (ns.TG_ERROR_TYPE,), getattr(uris, derived_from), rows, run)


def _triples(
    stage: Term,
    label: str,
    types: Sequence[str],
    derived_from: str,
    rows: list[_Row],
    run: StageRun | None,
) -> tuple[Triple, ...]:
    """Return all triples of a stage: what it is, its own rows, and how it ran."""
    rows[:0] = [
        *[(stage, ns.RDF_TYPE, _shared_iri(kind)) for kind in (ns.PROV_ENTITY, *types)],
        (stage, ns.RDFS_LABEL, _shared_literal(label)),
        (stage, ns.PROV_WAS_DERIVED_FROM, iri(derived_from) if derived_from else None),
    ]
    if run is not None:
        _add_run(stage, rows, run)
    return tuple(
        [
            Triple(subject, _shared_iri(predicate), target, ns.GRAPH_RETRIEVAL)
            for subject, predicate, target in rows
            if target is not None
        ]
    )


def _model_call(
    stage: Term, in_token: int | None, out_token: int | None, model: str | None
) -> tuple[_Row, ...]:
    return (
        (stage, ns.TG_IN_TOKEN, None if in_token is None else literal(str(in_token))),
        (stage, ns.TG_OUT_TOKEN, None if out_token is None else literal(str(out_token))),
        (stage, ns.TG_LLM_MODEL, None if model is None else literal(model)),
    )


def _double_or_none(value: float | None) -> Term | None:
    return None if value is None else double(value)


def _by_rank(candidates: Iterable[CandidateRecord]) -> list[CandidateRecord]:
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


def _add_outcomes(rows: list[_Row], prefix: str, candidates: Iterable[CandidateRecord]) -> None:
    for candidate in _by_rank(candidates):
        node = iri(f"{prefix}{candidate.rank}")
        rank = candidate.rerank_rank
        rows += (
            (node, ns.WH_RERANK_RANK, integer(rank) if rank else None),
            *[
                (node, predicate, _double_or_none(getattr(candidate, field)))
                for field, predicate in OUTCOME_PREDICATES.items()
            ],
            (node, ns.WH_REASON, _reason_term(candidate) if candidate.reason_code else None),
        )


def _reason_term(candidate: CandidateRecord) -> Term:
    if candidate.reason_code not in DROP_REASONS:
        raise BadInput(
            f"{candidate.reason_code!r} is not a reason to drop candidate {candidate.chunk_id!r}",
            hint="one of " + ", ".join(DROP_REASONS),
        )
    return _shared_iri(ns.WH + candidate.reason_code)


def _add_run(stage: Term, rows: list[_Row], run: StageRun) -> None:
    rows += (
        (stage, ns.WH_STARTED_AT, date_time(run.started_at) if run.started_at else None),
        (stage, ns.WH_ENDED_AT, date_time(run.ended_at) if run.ended_at else None),
        (stage, ns.WH_DURATION_MS, None if run.duration_ms is None else double(run.duration_ms)),
    )
    for model in run.models:
        prefix, length = ns.WH + model.role, model.dimension
        rows += (
            (stage, prefix + "Model", literal(model.name)),
            (stage, prefix + "Revision", literal(model.revision) if model.revision else None),
            (stage, prefix + "Precision", literal(model.precision) if model.precision else None),
            (stage, prefix + "Dimension", integer(length) if length else None),
        )
    for key in sorted(run.settings):
        if not _SETTING_KEY.match(key):
            raise BadInput(f"{key!r} is not the name of a setting")
        rows.append((stage, ns.WH_SETTING_PREFIX + key, scalar(run.settings[key])))
    for index, degradation in enumerate(run.degraded):
        node = iri(f"{stage.iri}/degradation/{index}")
        rows += (
            (stage, ns.WH_DEGRADATION, node),
            (node, ns.RDF_TYPE, _shared_iri(ns.WH_DEGRADATION_TYPE)),
            (node, ns.WH_STAGE, literal(degradation.stage)),
            (node, ns.WH_CODE, literal(degradation.code)),
            (node, ns.WH_MESSAGE, literal(degradation.reason)),
        )
