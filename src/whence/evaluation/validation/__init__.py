"""Validation of a collection: a suite of queries in, a report with a result for each query out.

- `suite`: the suite from a file, or from the collection's headings
- `target`, `qdrant`: the protocol of a collection; collections in Qdrant
- `run`: searches once, in a sequence, and with several readers
- `checks`, `source_texts`: checks of the results, and the texts that they are compared with
- `repeated`: latencies, failures and changed results of repeated searches
- `report`: the report and its chart

Start reading at `run.py`.
"""
