"""Provenance: record, read, check, redact and render how each answer was produced.

In: what each stage of a question did (`stage_records`). Out: triples in PROV-O, the shared vocabulary and our
own, and from these a `Trace` in every format.

Open `trace` first: it defines what a trace holds. `terms` names nodes and values; `stages` and `graph_walks`
build triples; `trace.read_trace` reads them; `checking` finds faults; `redaction` hides what a reader may not
see; `erasing` removes erased texts; `why_not` explains the outcome of a chunk
(`outcome`); `render` writes text, JSON, RDF
and SVG. `namespaces` defines every name of the vocabulary, `reasons` every code. All of these modules may be
imported from outside.
"""
