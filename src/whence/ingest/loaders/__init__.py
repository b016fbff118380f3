"""Document loaders: one module a format, from the bytes of a file to text and blocks.

Each module declares its formats in `LOADERS`, a tuple of `base.Loader`; `loader_registry` finds the modules.
Other packages add loaders through the entry-point group `whence.loaders`: the value of an entry point is a
`base.Loader`.

A loader returns a `blocks.ParsedDocument`. `document_builder.build_document` makes it from text and blocks;
`text_builder.TextBuilder` writes both for formats whose files are not text. `plain_text` is the smallest
example.
"""
