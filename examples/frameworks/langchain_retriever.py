"""Find passages from LangChain; run `whence demo` first, and install the extra `langchain`."""

from whence.integrations.langchain import WhenceRetriever

retriever = WhenceRetriever(collection="handbook", k=3)
for document in retriever.invoke("How many days of annual leave do employees get?"):
    source = document.metadata
    print(f"{source['source_file']}:{source['location']['line_start']}", document.page_content[:60])
retriever.close()
