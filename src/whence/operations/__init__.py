"""Operations: what a caller can ask of Whence, each declared once.

In comes a struct whose fields are its parameters; out comes its result. Surfaces (Python, command line, HTTP,
MCP) read types, ranges, defaults, sentences and names from it, and add only what is their own. Read
`operation.py` first, then `ask.py`.
"""
