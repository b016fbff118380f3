"""Surfaces: the ways in which people and programs reach the operations.

Each reads the declarations in `whence.operations` and adds what is its own: how a result is printed, a status
code, an event stream. `python` is `whence.Engine`, `cli` the command, `http` serves HTTP and the page, `mcp`
and `openai` speak the protocols of assistants.
"""
