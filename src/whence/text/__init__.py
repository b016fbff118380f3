"""Text analysis that indexing, search and answering share.

In: plain text. Out: terms, sentences, spans, a language. Nothing here knows a store or a model.

- `analysis` (open first): the analyzer of documents and queries, from text to index terms.
- `normalization`: case folding, stop words and stemming.
- `overlap`: which share of a question's words a sentence has.
- `sentences`: sentences of Markdown with their headings, and sentence borders for chunks.
- `spans`: lines, paragraphs and slices of a text as offsets.
- `languages`: the language of a document.
"""
