"""Measure answers that real language models write, beside those without a model.

In: questions of `benchmarks.answers`, weights that package indexes have as data. Out: figures per model and
window (`python -m benchmarks.writer`). Open `__main__` first; `weights` fetches and checks models, `serving`
runs one, `scoring` judges one answer.
"""
