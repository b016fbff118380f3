"""Models: embedders, rerankers and writers, local or behind an API, and the installation of the local ones.

In: a setting such as `openai:gpt-4o-mini` and a `ModelSettings`. Out: objects of the protocols.

- `protocols` (open first): `Embedder`, `Reranker`, `Writer` and the requests of a writer.
- `factory`: from a setting to a model; other packages add models through entry points.
- `local_embedder`, `flashrank_reranker`, `extractive_writer`: on this machine.
- `openai`, `api_embedder`: behind an API.
- `installation`, `installed`: putting the local models in place, and finding and checking them.
"""
