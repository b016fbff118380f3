"""From a query to ranked, readable passages: one way, used by search, questions, `Retriever` and evaluation.

In: a query, a reader's rights, limits. Out: ranked passages with their texts and what was left out.
Open `pipeline` first, then `fusion` (how the scores of several retrievers are joined), `symbols` (definitions before
mentions for identifier queries), `links` (the passage graph) and `rerank` (rerank score fusion).
Sees protocols of stores and models only.
"""
