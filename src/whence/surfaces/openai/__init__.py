"""The interface of OpenAI's API over collections: a collection is a model that answers with citations.

In: requests as clients of that API send them. Out: its documents and chunks, with the document of `/v1/ask`
under `whence`. Open `routes` first; `bodies` has the requests, `completions` the answers, `embeddings` the
vectors, `faults` the errors. A parameter that has no effect is named in
`whence.notes`; one that would change what an answer is, is refused.
"""
