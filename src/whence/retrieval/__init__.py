"""From a query to ranked, readable passages: one way, used by search, questions and evaluation.

In: a query, a reader's rights, limits. Out: ranked passages with their texts and what was left out.
Open `pipeline` first: it embeds, searches, reads and reranks through the services of `services`. The search
service is `hybrid`; it asks the retrievers of a store, and joins their scores by `fusion` and the passage
graph (`links`). `rerank` joins scores with those of a reranker. This package sees protocols of stores and
models only.
"""
