"""Runs flows: a YAML file with processors and topics in, supervised processors on a broker out.

Modules for others:
- `loader`: a flow file, or the name of a shipped one, to a checked `definition.FlowDefinition`
- `runtime`, `service`: run a definition within a block, or as a process
- `client`: call a running flow
- `status`: backlog, dead letters and workers of a flow that runs elsewhere
- `settings`, `resources`: settings of a call; the store and models that they select
- `registry`: processor types, built-in and from the entry-point group `whence.processors`

Start reading at `loader.py` (files) and `runtime.py` (processes).
"""
