"""Measures retrieval: one suite of queries, one runner, one run that is read in three ways.

- `suite`: queries with expectations, which a reader for each file format makes
- `searcher`: the protocol of the search under test; `engine_searcher`, `qdrant_searcher` implement it
- `run`: the runner, and the run of recorded searches
- `validation`: a run against requirements; `gate`: against a recorded baseline; `beir`: against judgements
- `commands`: its part of the command line
- `files`, `measures`, `charts`: strict reading; recall, MRR, nDCG, percentiles, significance; SVG

Start reading at `run.py`.
"""
