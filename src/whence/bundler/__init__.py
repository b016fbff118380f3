"""Make bundles: from a folder of C#, Python and SQL sources to a zip archive that `whence import` reads.

In: a checkout. Out: a bundle and a `builder.BundleReport`. `source_files` reads the files; `csharp_edges`,
`python_edges` and `sql_objects` fill a `code_graph.CodeGraph` with definitions and edges, which `builder`
writes. The other modules resolve names: `csharp_types`, `csharp_project` and `csharp_expressions` for C#,
`python_modules` and `python_expressions` for Python, `sql_references` for SQL.

Only the command `whence bundle` uses this package, through `limited`, which runs `builder` in a process with
limits (`bundle_process`). Open `builder` first.
"""
