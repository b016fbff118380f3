"""Everything that chooses and writes text without a language model: answers that quote, and what they refuse.

In: a question, and passages with the headings above them. Out: verbatim spans that answer it, or a refusal.

- `extractive_writer` (open first): the writer that answers with spans of the documents.
- `evidence_choice`, `evidence_spans`, `span_picking`: which spans answer, of all that could.
- `tables`: rows and columns of tables that a question asks for.
- `units`: the smallest pieces of a passage that a reader understands.
- `asked`, `identifiers`, `named_terms`: what a question asks for and names.
- `follow_ups`: a question that stands alone, from one that goes on with others.
"""
