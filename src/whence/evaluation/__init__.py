"""Measures retrieval: suites or test collections in, reports with measures and latencies out.

Modules for others:
- `searcher`: the protocol of the search under test
- `files`: strict reading of suites, policies and reports
- `measures`: recall, MRR, nDCG, percentiles; intervals and significance
- `beir`, `benchmark`: test collections in BEIR's layout, rankings of documents
- `gate`: a run against a recorded baseline; `validation`: a run against fixed requirements

Start reading at `gate/run.py` or `validation/run.py`. Both follow one order: suite, run, report.
"""
