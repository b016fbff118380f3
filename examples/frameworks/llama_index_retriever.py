"""Find passages from LlamaIndex; run `whence demo` first, and install the extra `llama_index`."""

from whence.integrations.llama_index import WhenceRetriever

retriever = WhenceRetriever("handbook", similarity_top_k=3)
for found in retriever.retrieve("How many days of annual leave do employees get?"):
    source = found.node.metadata
    print(f"{source['source_file']}:{source['location']['line_start']}", found.node.text[:60])
retriever.close()
