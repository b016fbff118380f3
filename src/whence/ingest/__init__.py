"""Load documents: from files to chunked documents.

In: paths. Out: `load_results.LoadResult`s whose `DocumentDraft`s can be embedded and stored.
`documents.load_documents` finds files (`sources`), chooses a loader (`loader_registry`, `loaders`), parses
(`blocks.ParsedDocument`) and splits (`chunking`). `reader` parses in a process with limits (`limited_process`,
`reading_process`). Malformed input raises `BadInput`.

Other packages use `documents`, `chunking`, `load_results` and `strict_json`; authors of loaders use
`loaders.base`, `text_builder` and `document_builder`. Open `documents` first.
"""
