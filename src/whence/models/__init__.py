"""Models: embedders, rerankers and writers, local or behind an API, and the installation of the local ones.

In: a setting such as `openai:gpt-4o-mini` and a `ModelSettings`. Out: objects of the protocols.

- `protocols` (open first): `Embedder`, `Reranker`, `Writer` and the requests of a writer.
- `factory`: from a setting to a model; other packages add models through entry points.
- `local_embedder`, `flashrank_reranker`: on this machine.
- `onnx_embedder`, `onnx_folder`: any ONNX model from a folder.
- `endpoints`, `api_client`: which server a role asks, with which key, and how.
- `openai`, `api_embedder`, `text_limits`, `http_reranker`: models behind it.
- `installation`, `cross_encoders`, `hub`: putting local models in place.
- `installed`: finding and checking them.
"""
