"""Load documents and bundles of code: from files to chunked documents and code nodes.

In: paths. Out: `load_results.LoadResult`s whose `DocumentDraft`s can be embedded and stored; for code, nodes
and edges (`bundles`). `documents.load_documents` finds files (`sources`), chooses a loader (`loader_registry`,
`loaders`), parses (`blocks.ParsedDocument`) and splits (`chunking`). `reader` parses in a process with limits
(`limited_process`, `reading_process`).
Malformed input raises `BadInput`.

Other packages use `documents`, `chunking`, `load_results`, `strict_json`, `bundles.bundle` and
`bundles.bundle_reader`; authors of loaders use `loaders.base`, `text_builder` and `document_builder`. Open
`documents` first.
"""
