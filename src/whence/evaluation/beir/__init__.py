"""Test collections in BEIR's layout: a folder in, measures of each mode and files for trec_eval out.

- `collection`: the folder, read and checked
- `scores`: a run of the collection, and its measures
- `trec`: judgements and rankings in the formats of trec_eval
"""
