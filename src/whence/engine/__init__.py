"""One object for Python code: index, search, ask and explain, by composition of small parts.

In: settings and arguments of the caller. Out: reports, answers and traces (`results`, `whence.schema`).
Open `engine` first: every method delegates to one module with an `EngineSession` (the flow, its client and
resources): `indexing`, `search`, `trace_access` (explain), `why_not`, `history` (replay, diff, changes),
`erasure`; `code` holds `engine.code` (import, snapshots, expand, fetch, ask). `audit` logs operations.
`json_documents` has the JSON shapes for the command line and the gateway.
"""
