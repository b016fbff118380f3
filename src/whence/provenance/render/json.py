"""A trace as plain dicts, the shape that `whence explain --json` prints."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

import msgspec

from whence.provenance.checking import check_trace
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.namespaces import GRAPH_RETRIEVAL
from whence.provenance.terms import STEP
from whence.provenance.trace import Stage, Trace
from whence.schema.codec import to_builtins
from whence.schema.search import CALIBRATION_PREFIX, CALIBRATIONS
from whence.schema.terms import Triple

#: Parts of a passage that no trace has.
_UNRECORDED: Final = frozenset({"text", "metadata", "token_codes"})


def to_json(trace: Trace) -> dict[str, Any]:
    """Return `{answer_id, question, graph, stages, triples, complete, ...}`; JSON types only."""
    return trace_summary(trace) | {"triples": [triple_to_json(triple) for triple in trace.triples]}


def trace_summary(trace: Trace) -> dict[str, Any]:
    """Return the same document without the triples."""
    faults = check_trace(trace)
    return {
        "answer_id": trace.answer_id,
        "question": trace.question,
        "question_used": trace.question_used or trace.question,
        "asked_at": trace.asked_at,
        "access": None if trace.access is None else trace.access.by_option(),
        "graph": GRAPH_RETRIEVAL,
        "calibration": _calibration(trace),
        **_calibrations(trace),
        "stages": [_stage(stage, trace) for stage in trace.stages],
        "complete": not faults,
        "faults": [to_builtins(fault) for fault in faults],
        "integrity": to_builtins(trace.integrity),
        "answer": trace.answer_text,
        "names": to_builtins(trace.names),
        "nearest": to_builtins(trace.nearest),
    }


def triple_to_json(triple: Triple) -> dict[str, str | None]:
    """Return a triple as plain strings, with the kind and datatype of its object."""
    return {
        "s": triple.s.iri,
        "p": triple.p.iri,
        "o": triple.o.iri if triple.o.type == "i" else triple.o.value,
        "g": triple.g,
        "o_kind": "iri" if triple.o.type == "i" else "literal",
        "datatype": triple.o.datatype,
    }


def _stage(stage: Stage, trace: Trace) -> dict[str, Any]:
    run = stage.run
    return {
        "stage": stage.stage,
        "uri": stage.uri,
        "derived_from": stage.derived_from or None,
        "label": stage.label,
        "started_at": run.started_at or None,
        "ended_at": run.ended_at or None,
        "duration_ms": run.duration_ms,
        "models": [to_builtins(model) for model in run.models],
        "settings": run.settings,
        "degraded": [{"stage": d.stage, "code": d.code, "reason": d.reason} for d in run.degraded],
        **_contents(stage, trace),
    }


def _contents(stage: Stage, trace: Trace) -> dict[str, Any]:
    use = {"model": stage.model, "in_token": stage.in_token, "out_token": stage.out_token}
    match stage.stage:
        case "question":
            return {"question": trace.question, "asked_at": trace.asked_at}
        case "grounding":
            corrections = to_builtins(trace.corrections)
            return {"concepts": list(trace.concepts), "corrections": corrections, **use}
        case "exploration":
            rows = [_row(one, without=_UNRECORDED) for one in trace.candidates]
            return {"chunks": list(trace.explored), "candidates": rows, **_walk(trace)}
        case "focus":
            scores = ("chunk_id", "raw_score")
            return {
                "selected": [
                    {name: getattr(one, name) for name in scores} | {"final_score": one.order_score}
                    for one in trace.selections
                ]
            }
        case "synthesis":
            return {
                "citations": [_row(citation) for citation in trace.citations],
                "used": list(trace.used),
                "found": trace.found,
                "refusal": to_builtins(trace.refusal),
                "answer_document": trace.answer_document or None,
                "answer_digest": trace.answer_digest or None,
                "revision_of": trace.revision_of or None,
                **use,
            }
        case step if step.startswith(STEP):
            (found,) = (one for one in trace.steps if one.stage == step)
            queries = to_builtins(found.queries)
            return {"queries": queries, "added": list(found.added), **use}
        case _:
            return {"failure": _row(trace.failure) if trace.failure else None}


def _calibrations(trace: Trace) -> dict[str, Any]:
    """Return `calibrations` by collection, where several were asked."""
    recorded = (stage.run.settings.get(CALIBRATIONS) for stage in trace.stages)
    found = next((one for one in recorded if isinstance(one, str)), None)
    return {} if found is None else {CALIBRATIONS: msgspec.json.decode(found)}


def _calibration(trace: Trace) -> dict[str, Any] | None:
    """Return what the cosines meant; None where it was not recorded."""
    for stage in trace.stages:
        found = {
            key.removeprefix(CALIBRATION_PREFIX): value
            for key, value in stage.run.settings.items()
            if key.startswith(CALIBRATION_PREFIX)
        }
        if found:
            return found
    return None


def _walk(trace: Trace) -> dict[str, Any]:
    walk = read_graph_walk(trace)
    if not walk.nodes:
        return {}
    return {
        "seeds": list(walk.seeds),
        "walked": [_row(node) for node in walk.nodes],
        "edges": [_row(edge) for edge in walk.edges],
    }


def _row(struct: Any, without: Container[str] = ()) -> dict[str, Any]:
    names = [name for name in struct.__struct_fields__ if name not in without]
    return {name: to_builtins(getattr(struct, name)) for name in names}
