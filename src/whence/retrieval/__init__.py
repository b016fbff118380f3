"""From a query to ranked, readable passages: one way, used by search, questions and evaluation.

In: a query, a reader's rights, limits. Out: ranked passages with their texts and what was left out.
Open `pipeline` first, then `fusion` (joins the scores of several retrievers and
ranks definitions before mentions), `links` (the passage graph) and `rerank`
(rerank score fusion). This package sees protocols of stores and models only.
"""
