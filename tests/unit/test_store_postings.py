"""Postings are inverted a batch of terms at a time; batches lose no posting and split no term."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whence.store.postgres.lexical.term_vectors import TermVectors, term_batches


@given(st.lists(st.integers(1, 40), max_size=300), st.integers(1, 40))
def test_batches_have_each_posting_once_and_each_term_whole(terms: list[int], size: int) -> None:
    """Postings are in the order of terms, and those of a term in one batch, for any batch size."""
    batches = [one.tolist() for one in term_batches(np.array(terms, dtype=np.int32), size)]
    terms_of_batches = [{terms[number] for number in batch} for batch in batches]

    numbers = [number for batch in batches for number in batch]
    assert numbers == sorted(range(len(terms)), key=lambda one: (terms[one], one))
    assert sum(map(len, terms_of_batches)) == len(set(terms))


def test_chunks_are_ordered_by_class_with_their_words() -> None:
    """Classes ascend, slots ascend in a class, and every chunk keeps its terms and counts."""
    ints = lambda *numbers: np.array(numbers, dtype=np.int32)  # noqa: E731 - shorter than five arrays
    chunks = TermVectors(
        slots=ints(0, 1, 2, 3),
        classes=ints(7, 2, 7, 2),
        lengths=ints(10, 11, 12, 13),
        widths=ints(2, 1, 0, 3),
        terms=ints(5, 6, 8, 1, 2, 3),
        counts=ints(50, 60, 80, 10, 20, 30),
    )
    ordered = chunks.by_class()

    assert ordered.slots.tolist() == [1, 3, 0, 2]
    assert ordered.classes.tolist() == [2, 2, 7, 7]
    assert ordered.widths.tolist() == [1, 3, 2, 0]
    assert ordered.terms.tolist() == [8, 1, 2, 3, 5, 6]
    assert ordered.counts.tolist() == [80, 10, 20, 30, 50, 60]
