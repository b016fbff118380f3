"""Links between passages: a passage is linked with another one whose title or heading its text mentions.

In: titles and terms of chunks (`whence.store.title_mentions`). Out: titles with the visible passages that have
them and those that mention them.

- `indexing` (open first): titles and mentions, written in the transactions that write the chunks.
- `queries`: titles around chunks and in a query, and how densely a collection is linked.
"""
