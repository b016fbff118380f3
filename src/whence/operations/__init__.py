"""Operations: what a caller can ask of Whence, each declared once.

In comes a struct whose fields are its parameters; out comes its result. Surfaces (Python, command line, HTTP,
MCP) read types, ranges, defaults, sentences and names from it, and add only what is their own. Open
`operation` first (the base, and what surfaces read), then `ask` and `search`; `session` is what every operation
works with, `audit` and `pipeline_trace` run around each, `json_documents` has the JSON shapes of results.
"""
