"""Validation of a collection: a suite of queries in, a report with a result for each query out.

- `suite_file`: the suite from a file, or from the collection's headings
- `target`: the protocol of a collection whose stored documents can be read
- `run`: the run of a suite, with its limits
- `checks`, `source_texts`: checks of the results, and the texts that they are compared with
- `latencies`: latencies, failures and changed results of repeated searches
- `report`: the report
"""
