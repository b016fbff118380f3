"""Traces as terminal tree, JSON, RDF and SVG; each module is imported only when its format is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.provenance.trace import Trace

#: Columns of a tree that is not printed to a terminal.
_TREE_WIDTH = 110


def render_trace(trace: Trace, form: str) -> str:
    """Return a trace as text: `tree`, `svg`, `nquads`, `trig` or `jsonld`."""
    if form == "tree":
        from whence.provenance.render.tree import tree_text

        return tree_text(trace, width=_TREE_WIDTH)
    if form == "svg":
        from whence.provenance.render.svg import to_svg

        return to_svg(trace)
    from whence.provenance.render.rdf import serialize

    return serialize(trace.triples, form)
