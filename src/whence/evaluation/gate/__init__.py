"""The retrieval gate: a suite, a baseline and a policy in, a report with pass or fail out.

- `files`: suite, baseline and policy, read strictly
- `query_reports`: the run of a suite, and the measures of its queries
- `hints`: which results a hint of the suite names
- `reference_work`: the fixed work that is the unit of latencies
- `retrievers`: scores of each retriever alone
- `checks`: checks and categories of regressions
- `report`: the printed document and new baselines
- `comparison`: two runs side by side
"""
