"""Parts of office files that several loaders read.

In: the bytes of a file. Out: its parts as XML trees within limits (`archive`), and the texts of what stands in
them: numbers of lists (`numbering`), equations (`equations`), charts and diagrams (`drawings`), runs of text
with what was deleted or hidden left out (`runs`), grids of tables (`tables`). `word_*` are the parts of Word
files alone. The loaders are `loaders/docx.py`, `pptx.py`, `odf.py` and `rtf.py`.
"""
