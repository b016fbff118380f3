"""Traces as terminal tree, JSON, RDF and SVG; each module is imported only when its format is asked for."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.provenance.trace import Trace

#: Columns of a tree that is not printed to a terminal.
_TREE_WIDTH = 110


def render_trace(trace: Trace, form: str) -> str:
    """Return a trace as text: `tree`, `svg`, `nquads`, `turtle`, `trig` or `jsonld`."""
    if form == "tree":
        from rich.console import Console

        from whence.provenance.render.tree import to_tree

        out = StringIO()
        Console(file=out, width=_TREE_WIDTH).print(to_tree(trace))
        return out.getvalue()
    if form == "svg":
        from whence.provenance.render.svg import to_svg

        return to_svg(trace)
    from whence.provenance.render.rdf import serialize

    return serialize(trace.triples, form)
