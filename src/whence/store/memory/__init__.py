"""The store in memory, for tests and trials: every result is computed by definition, without an index.

Open `search` first: it has the collections, their searches, and the traces. `documents` writes and lists
documents, `names` finds links and symbols, and `store` joins these parts.
"""
