"""Our own short documents and questions in fourteen languages; `python -m benchmarks.languages` asks them."""
