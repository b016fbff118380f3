"""Make bundles: from a folder of C#, Python and SQL sources to a zip archive that `whence import` reads.

In: a checkout. Out: a bundle and a `builder.BundleReport`. Open `builder` first; `limited` runs it in a process
with limits (`bundle_process`). `source_files` reads the files; `csharp_edges`, `python_edges` and `sql_objects`
fill a `code_graph.CodeGraph`, which `builder` writes. The other modules resolve names.
"""
