"""`whence explain` and `why-not`: the trace of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.operations.explain import Explain, ExplainAbsence, ExportEvidence
from whence.provenance.render import render_trace
from whence.schema.document_rag import stage_label
from whence.schema.errors import BadInput
from whence.surfaces.cli.output import console, escape_controls, facts_table, fail, print_json, say
from whence.surfaces.cli.session import as_json, run_operation, settings_of

if TYPE_CHECKING:
    from whence.provenance.outcome import WhyNot

_FORMATS = ("tree", "json", "nquads", "turtle", "trig", "jsonld", "svg", "evidence")


def explain(
    context: typer.Context,
    asked: Explain,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=f"Output format: {', '.join(_FORMATS)}."),
    ] = None,
    sparql: Annotated[
        str | None, typer.Option("--sparql", metavar="QUERY", help="SPARQL query over the trace.")
    ] = None,
) -> int:
    """Show which passages were considered, kept and dropped for an answer, and why.

    Exit 1 when the trace is not the one that was recorded.
    """
    chosen = form or ("json" if as_json(context) else "tree")
    if chosen not in _FORMATS:
        raise BadInput(f"unknown format {chosen!r}", hint=f"use one of {', '.join(_FORMATS)}")
    # `--json` always prints one JSON document; JSON-LD and evidence are one each.
    if as_json(context) and chosen not in {"jsonld", "evidence"}:
        chosen = "json"
    if chosen == "evidence":
        evidence = ExportEvidence(asked.answer_id, asked.access)
        print_json(run_operation(context, evidence, reads=f"answer {asked.answer_id!r}"))
        return 0
    trace = run_operation(context, asked, reads=f"answer {asked.answer_id!r}")
    if sparql is not None:
        from whence.flow.setting_values import parse_size
        from whence.provenance.render.sparql import answer_sparql

        settings = settings_of(context)
        seconds, given = settings.sparql_timeout, settings.get("sparql_memory") or ""
        memory = parse_size("sparql_memory", given, least=2**27)
        print_json(answer_sparql(trace.triples, sparql, seconds=seconds, memory=memory))
    elif chosen == "json":
        from whence.provenance.render.json import to_json

        print_json(to_json(trace))
    elif chosen == "tree":
        from whence.provenance.render.tree import to_tree

        console().print(to_tree(trace))
    else:
        say(escape_controls(render_trace(trace, chosen)))
    return 1 if trace.integrity is not None and not trace.integrity.ok else 0


def why_not(context: typer.Context, asked: ExplainAbsence) -> int:
    """Show why a passage is not in an answer: rank, scores, the cut, and what would have let it in."""
    from whence.operations.json_documents import unknown_item, why_not_document

    told = run_operation(context, asked, reads=f"answer {asked.answer_id!r}")
    if as_json(context):
        print_json(why_not_document(told))
    if told.code == "unknown":
        error = unknown_item(told)
        return fail(error.code, error.message, error.hint, error.exit_code, as_json=False)
    if not as_json(context):
        _print_outcome(told)
    return 0


def _print_outcome(told: WhyNot) -> None:
    out = console()
    out.print(told.reason, style="bold", markup=False, soft_wrap=True)
    names = " > ".join(dict.fromkeys(filter(None, (told.title, told.heading))))
    for line in (names, told.chunk_id, f"{stage_label(told.stage)}: {told.code}"):
        if line:
            out.print(line, markup=False, soft_wrap=True)
    known = ((name, value) for name, value in told.numbers.items() if value is not None)
    numbers = {name.replace("_", " "): value for name, value in known}
    out.print(facts_table(numbers))
    if told.refusal is not None:
        out.print(f"no answer: {told.refusal.reason}", markup=False, soft_wrap=True)
