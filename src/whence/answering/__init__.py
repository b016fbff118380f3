"""From a question to a cited answer and its trace: one pipeline for every kind of question.

In: a request message. Out: pieces of text, one explain event a stage, and the answer.
Open `pipeline` first: it runs query processing, retrieval, reranking and generation (`evidence` has the first
three, `writing` the last). `requests` has the way from a message to its replies. `trace_recorder` records what
every stage considered. `question_rankings` ranks again, without limits, what a recorded question searched for.
This package sees protocols of clients only; `whence.processors` connects them to the bus.
"""
