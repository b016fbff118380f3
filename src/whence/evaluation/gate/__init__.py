"""The retrieval gate: a suite, a baseline and a policy in, a report with pass or fail out.

- `schema`: the files, read strictly
- `run`: run the suite and match results with targets
- `floor`: the fixed work that is the unit of latencies
- `gate_result`: checks and categories of regressions
- `report`: scores of each retriever alone, the printed document and new baselines
- `comparison`: two runs side by side

Start reading at `run.py`.
"""
