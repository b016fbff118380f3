"""What several steps gain and cost beside one pass; the command is `python -m benchmarks.deep`."""
