"""Measure whether answers hold the fact that was asked for, on documentation from package indexes.

In: `sets.toml` (packages by name, version and digest), `questions/SET.jsonl` (questions of our own with the
right documents and facts). Out: figures per set (`python -m benchmarks.answers`). Open `__main__` first; `sets`
fetches and indexes, `questions` reads the questions, `scoring` judges one answer.
"""
