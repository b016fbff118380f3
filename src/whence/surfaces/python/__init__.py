"""One object for Python code: `whence.Engine`, whose methods run the operations.

In: settings and arguments of the caller. Out: reports, answers and traces (`whence.operations.results`,
`whence.schema`). Open `engine` first, then `methods`, which makes a method of an operation. `retriever` is
`whence.Retriever`, for one collection and reader.
"""
