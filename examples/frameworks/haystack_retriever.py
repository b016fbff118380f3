"""Find passages from a pipeline of Haystack; run `whence demo` first, and install the extra `haystack`."""

from haystack import Pipeline

from whence.integrations.haystack import WhenceRetriever

pipeline = Pipeline()
pipeline.add_component("retriever", WhenceRetriever("handbook", top_k=3))
question = "How many days of annual leave do employees get?"
for document in pipeline.run({"retriever": {"query": question}})["retriever"]["documents"]:
    source = document.meta
    print(f"{source['source_file']}:{source['location']['line_start']}", document.content[:60])
pipeline.get_component("retriever").close()
