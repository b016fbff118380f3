"""The gate: a suite of queries, what they gave before, and how much worse is too much."""
