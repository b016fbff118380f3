"""Dense retrieval: an exact scan of visible vectors, or an HNSW graph where many are visible.

Open `search.py` first. `vector_index` builds graphs and decides when to search them, `ef_search_tuning`
measures the `ef_search` that they need.
"""
