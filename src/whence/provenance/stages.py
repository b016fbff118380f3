"""The triples of each stage: pure functions from what happened to what is said of it.

With the required arguments only, a stage says exactly what the shared vocabulary of document RAG traces
says, in its order, with its untyped literals. Everything optional adds statements in our own namespace and
changes none of the others. All triples lie in `urn:graph:retrieval`.

Cost: a stage is linear in its candidates, at most 12 triples each; sorting them by rank is n log n.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter

from whence.provenance import namespaces as ns
from whence.provenance.reasons import DROP_REASONS
from whence.provenance.stage_records import CandidateRecord, ModelUse, Selection, StageRun
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

GRAPH = ns.GRAPH_RETRIEVAL

_TYPE = iri(ns.RDF_TYPE)
_LABEL = iri(ns.RDFS_LABEL)
_ENTITY = iri(ns.PROV_ENTITY)
_STARTED_AT_TIME = iri(ns.PROV_STARTED_AT_TIME)
_DERIVED_FROM = iri(ns.PROV_WAS_DERIVED_FROM)

_QUESTION_TYPES = (_ENTITY, iri(ns.TG_QUESTION), iri(ns.TG_DOC_RAG_QUESTION))
_GROUNDING_TYPES = (_ENTITY, iri(ns.TG_GROUNDING))
_EXPLORATION_TYPES = (_ENTITY, iri(ns.TG_EXPLORATION))
_FOCUS_TYPES = (_ENTITY, iri(ns.TG_FOCUS))
_SYNTHESIS_TYPES = (_ENTITY, iri(ns.TG_SYNTHESIS), iri(ns.TG_ANSWER))
_ERROR_TYPES = (_ENTITY, iri(ns.TG_ERROR))
_CHUNK_SELECTION = iri(ns.TG_CHUNK_SELECTION)

_QUERY = iri(ns.TG_QUERY)
_CONCEPT = iri(ns.TG_CONCEPT)
_CHUNK_COUNT = iri(ns.TG_CHUNK_COUNT)
_SELECTED_CHUNK = iri(ns.TG_SELECTED_CHUNK)
_DOCUMENT = iri(ns.TG_DOCUMENT)
_SCORE = iri(ns.TG_SCORE)
_IN_TOKEN = iri(ns.TG_IN_TOKEN)
_OUT_TOKEN = iri(ns.TG_OUT_TOKEN)
_LLM_MODEL = iri(ns.TG_LLM_MODEL)

_WH_CANDIDATE = iri(ns.WH_CANDIDATE)
_WH_CHUNK = iri(ns.WH_CHUNK)
_WH_DOCUMENT = iri(ns.WH_DOCUMENT)
_WH_RANK = iri(ns.WH_RANK)
_WH_SCORE = iri(ns.WH_SCORE)
_WH_DENSE_SCORE = iri(ns.WH_DENSE_SCORE)
_WH_SPARSE_SCORE = iri(ns.WH_SPARSE_SCORE)
_WH_GRAPH_SCORE = iri(ns.WH_GRAPH_SCORE)
_WH_NAME_SCORE = iri(ns.WH_NAME_SCORE)
_WH_FOUND_BY = iri(ns.WH_FOUND_BY)
_WH_DIGEST = iri(ns.WH_DIGEST)
_WH_RERANK_RANK = iri(ns.WH_RERANK_RANK)
_WH_RERANK_SCORE = iri(ns.WH_RERANK_SCORE)
_WH_REASON = iri(ns.WH_REASON)
_WH_STARTED_AT = iri(ns.WH_STARTED_AT)
_WH_ENDED_AT = iri(ns.WH_ENDED_AT)
_WH_DURATION_MS = iri(ns.WH_DURATION_MS)
_WH_CONCEPT_ORDER = iri(ns.WH_CONCEPT_ORDER)
_WH_DEGRADATION = iri(ns.WH_DEGRADATION)
_WH_DEGRADATION_TYPE = iri(ns.WH_DEGRADATION_TYPE)
_WH_STAGE = iri(ns.WH_STAGE)
_WH_CODE = iri(ns.WH_CODE)
_WH_MESSAGE = iri(ns.WH_MESSAGE)
_WH_HINT = iri(ns.WH_HINT)
_WH_CITATION = iri(ns.WH_CITATION)
_WH_CITATION_TYPE = iri(ns.WH_CITATION_TYPE)
_WH_MARKER = iri(ns.WH_MARKER)
_WH_QUOTE = iri(ns.WH_QUOTE)
_WH_FOUND = iri(ns.WH_FOUND)
_WH_ANSWER_DIGEST = iri(ns.WH_ANSWER_DIGEST)

_REASONS = {code: iri(ns.WH + code) for code in DROP_REASONS}
_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_by_rank = attrgetter("rank")


#: Longest concept that is named in full, in characters; a language model's are a few words.
_LONGEST_NAME = 1_000


@lru_cache(maxsize=4096)
def _id_term(identifier: str) -> Term:
    """Give the IRI term of a chunk's id; every chunk is named at several stages."""
    return iri(iri_from_id(identifier))


@lru_cache(maxsize=1024)
def _text_term(text: str) -> Term:
    """Give a plain literal that many candidates share: a document's id, a concept."""
    return literal(text)


def _concept_name(concept: str) -> str:
    """Give what a trace calls a concept: the words themselves, of a very long one the beginning and a digest.

    The question is a concept and may be long; each of its candidates names it.
    """
    if len(concept) <= _LONGEST_NAME:
        return concept
    digest = sha256(concept.encode()).hexdigest()[:16]
    return f"{concept[:_LONGEST_NAME]}… ({len(concept)} characters, sha256 {digest})"


def question_triples(
    answer_id: str,
    query: str,
    timestamp: str,
    *,
    parent_uri: str = "",
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """Say that a question was asked; 6 triples.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        query: The question as asked.
        timestamp: When, ISO 8601 in UTC ending in Z.
        parent_uri: What the question came from, when it is part of something larger.
        run: How the stage ran; settings of the whole question belong here.

    Raises:
        BadInput: The id is no answer id, or a setting's key is no key.
    """
    node = iri(answer_uris(answer_id).question)
    out = _header(node, _QUESTION_TYPES, "DocumentRAG Question")
    out.append(Triple(node, _STARTED_AT_TIME, literal(timestamp), GRAPH))
    out.append(Triple(node, _QUERY, literal(query), GRAPH))
    if parent_uri:
        out.append(Triple(node, _DERIVED_FROM, iri(iri_from_id(parent_uri)), GRAPH))
    _add_run(out, node, run)
    return tuple(out)


def grounding_triples(
    answer_id: str,
    concepts: Sequence[str],
    *,
    in_token: int | None = None,
    out_token: int | None = None,
    model: str | None = None,
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """Say which concepts were searched for; 4 triples, one per concept, up to 3 for the model's use.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        concepts: In order of search, each once.
        in_token: Tokens that the model read, when known.
        out_token: Tokens that it wrote, when known.
        model: Its name, when one took part.
        run: How the stage ran; when given, the order of the concepts is recorded as well.

    Raises:
        BadInput: As for `question_triples`.
    """
    uris = answer_uris(answer_id)
    node = iri(uris.grounding)
    out = _header(node, _GROUNDING_TYPES, "Grounding", uris.question)
    names = [_concept_name(concept) for concept in concepts]
    out += [Triple(node, _CONCEPT, literal(name), GRAPH) for name in names]
    _add_model_use(out, node, in_token, out_token, model)
    order = ""
    if run is not None:
        order = json.dumps(names, ensure_ascii=False)
        out.append(Triple(node, _WH_CONCEPT_ORDER, literal(order, ns.RDF_JSON), GRAPH))
    _add_run(out, node, run)
    return tuple(out)


def exploration_triples(
    answer_id: str,
    chunk_ids: Sequence[str],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """Say which chunks were retrieved and read; 5 triples and one per chunk.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        chunk_ids: Chunks whose text was read, in order of rank.
        candidates: Every candidate, those dropped so far with their reason; in any order.
        run: How the stage ran.

    Raises:
        BadInput: As for `question_triples`; or two candidates share a rank, a rank is below 1, a reason
            code is unknown, or a chunk id is empty.
    """
    uris = answer_uris(answer_id)
    node = iri(uris.exploration)
    out = _header(node, _EXPLORATION_TYPES, "Exploration", uris.grounding)
    out.append(Triple(node, _CHUNK_COUNT, literal(str(len(chunk_ids))), GRAPH))
    out += [Triple(node, _SELECTED_CHUNK, _id_term(c), GRAPH) for c in chunk_ids]
    accounts = _in_order(candidates)
    _add_candidates(out, node, uris.candidate_prefix, accounts)
    _add_run(out, node, run)
    return tuple(out)


def focus_triples(
    answer_id: str,
    selections: Sequence[Selection],
    *,
    candidates: Iterable[CandidateRecord] = (),
    run: StageRun | None = None,
) -> tuple[Triple, ...]:
    """Say which chunks the reranker kept; 4 triples and four per kept chunk.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        selections: Kept chunks, best first.
        candidates: Those that the reranker saw, with its rank and score, those that it dropped with
            their reason; told of at exploration already; in any order.
        run: How the stage ran.

    Raises:
        BadInput: As for `exploration_triples`.
    """
    uris = answer_uris(answer_id)
    node = iri(uris.focus)
    out = _header(node, _FOCUS_TYPES, "Chunk Selection", uris.exploration)
    for index, selection in enumerate(selections):
        chosen = iri(uris.selection_prefix + str(index))
        out.append(Triple(node, _SELECTED_CHUNK, chosen, GRAPH))
        out.append(Triple(chosen, _TYPE, _CHUNK_SELECTION, GRAPH))
        out.append(Triple(chosen, _DOCUMENT, _id_term(selection.chunk_id), GRAPH))
        out.append(Triple(chosen, _SCORE, literal(str(float(selection.score))), GRAPH))
    _add_reranking(out, uris.candidate_prefix, candidates)
    _add_run(out, node, run)
    return tuple(out)


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
    """Say how the answer came about; 5 triples, one when it is kept, up to 3 for the model's use.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        reranked: Whether there is a focus stage, which then is what the answer derives from.
        saved: Whether the text is kept under the answer's own IRI.
        in_token: Tokens that the model read, when known.
        out_token: Tokens that it wrote, when known.
        model: Its name, when one took part.
        dropped: Candidates that were dropped after the last stage spoke, with their reason.
        citations: What the markers stand on, in order of their markers.
        found: False when there was no text to answer from.
        answer_digest: SHA-256 of the answer's text, hexadecimal.
        run: How the stage ran.

    Raises:
        BadInput: As for `exploration_triples`.
    """
    uris = answer_uris(answer_id)
    node = iri(uris.synthesis)
    parent = uris.focus if reranked else uris.exploration
    out = _header(node, _SYNTHESIS_TYPES, "Synthesis", parent)
    if saved:
        out.append(Triple(node, _DOCUMENT, iri(uris.answer), GRAPH))
    _add_model_use(out, node, in_token, out_token, model)
    if found is not None:
        out.append(Triple(node, _WH_FOUND, boolean(found), GRAPH))
    if answer_digest:
        out.append(Triple(node, _WH_ANSWER_DIGEST, literal(answer_digest), GRAPH))
    _add_reranking(out, uris.candidate_prefix, dropped)
    for index, citation in enumerate(citations):
        _add_citation(out, node, index, citation)
    _add_run(out, node, run)
    return tuple(out)


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
    """Say that the question failed, so that its chain has an end.

    Args:
        answer_id: Id from which all IRIs of the trace are made.
        derived_from: Name of the last stage that was told of: `question`, `grounding`, `exploration` or
            `focus`.
        stage: Name of the stage that failed.
        code: Machine word of the error.
        message: One line for people.
        hint: What to do about it.
        run: How the failed stage ran.

    Raises:
        BadInput: As for `question_triples`; or `derived_from` is no such stage.
    """
    uris = answer_uris(answer_id)
    if derived_from not in {"question", "grounding", "exploration", "focus"}:
        raise BadInput(f"a failure cannot derive from {derived_from!r}")
    node = iri(uris.error)
    out = _header(node, _ERROR_TYPES, "Error", getattr(uris, derived_from))
    out.append(Triple(node, _WH_STAGE, literal(stage), GRAPH))
    out.append(Triple(node, _WH_CODE, literal(code), GRAPH))
    out.append(Triple(node, _WH_MESSAGE, literal(message), GRAPH))
    if hint:
        out.append(Triple(node, _WH_HINT, literal(hint), GRAPH))
    _add_run(out, node, run)
    return tuple(out)


def _header(node: Term, types: tuple[Term, ...], label: str, parent: str = "") -> list[Triple]:
    """Give the statements that every stage begins with."""
    out = [Triple(node, _TYPE, kind, GRAPH) for kind in types]
    out.append(Triple(node, _LABEL, literal(label), GRAPH))
    if parent:
        out.append(Triple(node, _DERIVED_FROM, iri(parent), GRAPH))
    return out


def _add_model_use(
    out: list[Triple], node: Term, in_token: int | None, out_token: int | None, model: str | None
) -> None:
    if in_token is not None:
        out.append(Triple(node, _IN_TOKEN, literal(str(in_token)), GRAPH))
    if out_token is not None:
        out.append(Triple(node, _OUT_TOKEN, literal(str(out_token)), GRAPH))
    if model is not None:
        out.append(Triple(node, _LLM_MODEL, literal(model), GRAPH))


def _in_order(candidates: Iterable[CandidateRecord]) -> list[CandidateRecord]:
    """Sort by rank, which names the node, and refuse what would give two candidates one node."""
    ordered = sorted(candidates, key=_by_rank)
    before = 0
    for candidate in ordered:
        if candidate.rank <= before:
            raise BadInput(
                f"candidate {candidate.chunk_id!r} has rank {candidate.rank}, which is "
                + ("taken" if candidate.rank > 0 else "not 1 or more")
            )
        before = candidate.rank
    return ordered


def _reason(candidate: CandidateRecord) -> Term:
    term = _REASONS.get(candidate.reason_code)
    if term is None:
        raise BadInput(
            f"{candidate.reason_code!r} is not a reason to drop candidate {candidate.chunk_id!r}",
            hint="one of " + ", ".join(_REASONS),
        )
    return term


def _add_candidates(
    out: list[Triple], stage: Term, prefix: str, candidates: Sequence[CandidateRecord]
) -> None:
    """Tell all that retrieval knows of each candidate, in order of rank."""
    add = out.append
    for candidate in candidates:
        node = Term("i", prefix + str(candidate.rank))
        out += (
            Triple(stage, _WH_CANDIDATE, node, GRAPH),
            Triple(node, _WH_CHUNK, _id_term(candidate.chunk_id), GRAPH),
            Triple(node, _WH_RANK, integer(candidate.rank), GRAPH),
        )
        if candidate.document_id:
            add(Triple(node, _WH_DOCUMENT, _text_term(candidate.document_id), GRAPH))
        for term, score in (
            (_WH_SCORE, candidate.score),
            (_WH_DENSE_SCORE, candidate.dense_score),
            (_WH_SPARSE_SCORE, candidate.sparse_score),
            (_WH_GRAPH_SCORE, candidate.graph_score),
            (_WH_NAME_SCORE, candidate.name_score),
        ):
            if score is not None:
                add(Triple(node, term, double(score), GRAPH))
        for concept in candidate.concepts:
            add(Triple(node, _WH_FOUND_BY, _text_term(_concept_name(concept)), GRAPH))
        if candidate.digest:
            add(Triple(node, _WH_DIGEST, literal(candidate.digest), GRAPH))
        if candidate.reason_code:
            add(Triple(node, _WH_REASON, _reason(candidate), GRAPH))


def _add_reranking(out: list[Triple], prefix: str, candidates: Iterable[CandidateRecord]) -> None:
    """Tell what was learned of candidates after exploration."""
    add = out.append
    for candidate in _in_order(candidates):
        node = Term("i", prefix + str(candidate.rank))
        if candidate.rerank_rank:
            add(Triple(node, _WH_RERANK_RANK, integer(candidate.rerank_rank), GRAPH))
        if candidate.rerank_score is not None:
            add(Triple(node, _WH_RERANK_SCORE, double(candidate.rerank_score), GRAPH))
        if candidate.reason_code:
            add(Triple(node, _WH_REASON, _reason(candidate), GRAPH))


def _add_citation(out: list[Triple], stage: Term, index: int, citation: Citation) -> None:
    node = iri(f"{stage.iri}/citation/{index}")
    out.append(Triple(stage, _WH_CITATION, node, GRAPH))
    out.append(Triple(node, _TYPE, _WH_CITATION_TYPE, GRAPH))
    out.append(Triple(node, _WH_MARKER, integer(citation.marker), GRAPH))
    out.append(Triple(node, _WH_CHUNK, _id_term(citation.chunk_id), GRAPH))
    if citation.document_id:
        out.append(Triple(node, _WH_DOCUMENT, literal(citation.document_id), GRAPH))
    if citation.quote:
        out.append(Triple(node, _WH_QUOTE, literal(citation.quote), GRAPH))


def _add_run(out: list[Triple], node: Term, run: StageRun | None) -> None:
    if run is None:
        return
    if run.started_at:
        out.append(Triple(node, _WH_STARTED_AT, date_time(run.started_at), GRAPH))
    if run.ended_at:
        out.append(Triple(node, _WH_ENDED_AT, date_time(run.ended_at), GRAPH))
    if run.duration_ms is not None:
        out.append(Triple(node, _WH_DURATION_MS, double(run.duration_ms), GRAPH))
    for model in run.models:
        _add_model(out, node, model)
    for key in sorted(run.settings):
        if not _SETTING_KEY.match(key):
            raise BadInput(f"{key!r} is not the name of a setting")
        predicate = iri(ns.WH_SETTING_PREFIX + key)
        out.append(Triple(node, predicate, scalar(run.settings[key]), GRAPH))
    for index, degradation in enumerate(run.degraded):
        _add_degradation(out, node, index, degradation)


def _add_model(out: list[Triple], node: Term, model: ModelUse) -> None:
    prefix = ns.WH + model.role
    out.append(Triple(node, iri(prefix + "Model"), literal(model.name), GRAPH))
    if model.revision:
        out.append(Triple(node, iri(prefix + "Revision"), literal(model.revision), GRAPH))
    if model.precision:
        out.append(Triple(node, iri(prefix + "Precision"), literal(model.precision), GRAPH))
    if model.dimension:
        out.append(Triple(node, iri(prefix + "Dimension"), integer(model.dimension), GRAPH))


def _add_degradation(out: list[Triple], stage: Term, index: int, degradation: Degradation) -> None:
    node = iri(f"{stage.iri}/degradation/{index}")
    out.append(Triple(stage, _WH_DEGRADATION, node, GRAPH))
    out.append(Triple(node, _TYPE, _WH_DEGRADATION_TYPE, GRAPH))
    out.append(Triple(node, _WH_STAGE, literal(degradation.stage), GRAPH))
    out.append(Triple(node, _WH_CODE, literal(degradation.code), GRAPH))
    out.append(Triple(node, _WH_MESSAGE, literal(degradation.reason), GRAPH))
