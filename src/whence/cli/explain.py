"""`whence explain`: where an answer came from, as a tree, triples or a picture."""

from __future__ import annotations

from typing import Annotated

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, print_json, say
from whence.cli.session import access_of, as_json, run_with_engine
from whence.schema.errors import BadInput

__all__ = ("explain",)

_FORMATS = ("tree", "json", "nquads", "trig", "jsonld", "svg")


def explain(
    context: typer.Context,
    answer_id: Annotated[str, typer.Argument(help="Id that `whence ask` printed.")],
    form: Annotated[
        str | None, typer.Option("--format", help=f"One of {', '.join(_FORMATS)}.")
    ] = None,
    sparql: Annotated[
        str | None, typer.Option("--sparql", metavar="QUERY", help="Ask the trace in SPARQL.")
    ] = None,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Show which passages were considered, kept and dropped for an answer, and why."""
    chosen = form or ("json" if as_json(context) else "tree")
    if chosen not in _FORMATS:
        raise BadInput(f"unknown format {chosen!r}", hint=f"use one of {', '.join(_FORMATS)}")
    # `--json` promises one JSON document, whatever else is asked for; JSON-LD is one.
    if as_json(context) and chosen != "jsonld":
        chosen = "json"
    access = access_of(acl, label, clearance)
    trace = run_with_engine(
        context,
        lambda engine, _settings: engine.explain(answer_id, access),
        reads=f"answer {answer_id!r}",
    )
    if sparql is not None:
        from whence.provenance.render.rdf import run_sparql

        print_json(run_sparql(trace.triples, sparql))
    elif chosen == "json":
        from whence.provenance.render.json import to_json

        print_json(to_json(trace))
    elif chosen == "tree":
        from whence.provenance.render.tree import to_tree

        console().print(to_tree(trace))
    elif chosen == "svg":
        from whence.provenance.render.svg import to_svg

        say(to_svg(trace))
    else:
        from whence.provenance.render.rdf import serialize

        say(serialize(trace.triples, chosen))
    return 0
