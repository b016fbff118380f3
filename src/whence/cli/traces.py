"""`whence explain` and `why-not`: the trace of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import ReaderAccess
from whence.cli.output import console, escape_controls, facts_table, fail, print_json, say
from whence.cli.session import as_json, run_with_engine, settings_of
from whence.provenance.render import render_trace
from whence.schema.document_rag import STAGE_LABELS
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.provenance.outcome import WhyNot
    from whence.schema.access import Access

_FORMATS = ("tree", "json", "nquads", "turtle", "trig", "jsonld", "svg", "evidence")
_AnswerId = Annotated[str, typer.Argument(help="Id printed by `whence ask`.")]


def explain(
    context: typer.Context,
    answer_id: _AnswerId,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=f"Output format: {', '.join(_FORMATS)}."),
    ] = None,
    sparql: Annotated[
        str | None, typer.Option("--sparql", metavar="QUERY", help="SPARQL query over the trace.")
    ] = None,
    access: ReaderAccess,
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
        return _export(context, answer_id, access)
    trace = run_with_engine(
        context,
        lambda engine, _: engine.explain(answer_id, access),
        reads=f"answer {answer_id!r}",
    )
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


def _export(context: typer.Context, answer_id: str, access: Access) -> int:
    found = run_with_engine(
        context, lambda engine, _: engine.evidence(answer_id, access), reads=f"answer {answer_id!r}"
    )
    print_json(found)
    return 0


def why_not(
    context: typer.Context,
    item: Annotated[
        str, typer.Argument(metavar="CHUNK_OR_DOCUMENT", help="Id of a chunk or document.")
    ],
    *,
    answer: Annotated[
        str, typer.Option("--answer", metavar="ANSWER_ID", help="Id printed by `whence ask`.")
    ],
    access: ReaderAccess,
) -> int:
    """Show why a passage is not in an answer: rank, scores, the cut, and what would have let it in."""
    from whence.engine.json_documents import unknown_item, why_not_document

    told = run_with_engine(
        context,
        lambda engine, _: engine.why_not(item, answer, access),
        reads=f"answer {answer!r}",
    )
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
    for line in (names, told.chunk_id, f"{STAGE_LABELS.get(told.stage, told.stage)}: {told.code}"):
        if line:
            out.print(line, markup=False, soft_wrap=True)
    known = ((name, value) for name, value in told.numbers.items() if value is not None)
    numbers = {name.replace("_", " "): value for name, value in known}
    out.print(facts_table(numbers))
    if told.refusal is not None:
        out.print(f"no answer: {told.refusal.reason}", markup=False, soft_wrap=True)
