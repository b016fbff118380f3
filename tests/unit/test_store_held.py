"""What a store holds in memory: bounded, of one state, and complete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.embedding import EmbeddingModel
from whence.store.postgres.collection_version import Standing, StandingMemory
from whence.store.postgres.dense import vector_cache as held_vectors
from whence.store.postgres.dense.vector_cache import Matrices, _best, _Block, _margin
from whence.store.postgres.lexical.posting_cache import HeldPostings, Postings, Term
from whence.store.protocols import CollectionInfo


def _standing(version: int = 1, number: int = 1) -> Standing:
    return Standing(
        id=number,
        info=CollectionInfo(name=f"c{number}", model=EmbeddingModel(name="m", dimension=2)),
        version=version,
        epoch=UUID(int=1),
        analyzer="",
        languages=(),
        chunks=0,
        measured=None,
        indexed=False,
    )


@given(
    st.lists(st.integers(-50, 50), max_size=400),
    st.integers(1, 500),
    st.integers(0, 3),
)
def test_the_best_and_all_that_may_be_are_found(values: list[int], n: int, margin: int) -> None:
    """Every score within the margin of the n-th greatest is found, and none else."""
    scores = np.array(values, dtype=np.float32)
    level = sorted(values)[-n] - margin if n <= len(values) else -100
    found = _best(scores, n, float(margin))

    assert sorted(found.tolist()) == [k for k, value in enumerate(values) if value >= level]


@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 384, 2000]))
def test_another_arithmetic_stays_within_the_margin(seed: int, dimension: int) -> None:
    """Scores added up in two ways differ by less than a quarter of the margin."""
    drawn = np.random.default_rng(seed).normal(size=(40, dimension))
    vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    products = vectors * vectors[0]
    one = np.cumsum(products, axis=1, dtype=np.float32)[:, -1]
    other = np.vecdot(vectors, vectors[0])

    assert np.abs(one - other).max() <= _margin(dimension) / 4


async def test_a_failure_ends_with_those_it_befell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches worked on together fail together; those that come later are worked on without them."""
    monkeypatch.setattr(held_vectors, "_AT_ONCE", 0)
    vectors = np.eye(4, dtype=np.float32)
    matrices = Matrices([_Block(np.arange(4, dtype=np.int32), vectors)])
    answers, batches = matrices._answers, []

    def noted(batch: Sequence[Any]) -> list[list[int]]:
        batches.append(len(batch))
        if len(batches) == 2:
            raise MemoryError
        return answers(batch)

    monkeypatch.setattr(matrices, "_answers", noted)
    # The first works alone; the others wait for it, and are worked on together.
    found = await asyncio.gather(
        *(matrices.nearest(one, 1) for one in vectors), return_exceptions=True
    )
    assert [isinstance(one, MemoryError) for one in found] == [False, True, True, True]
    assert await matrices.nearest(vectors[2], 1) == [2]
    assert batches == [1, 3, 1]


def test_postings_are_held_for_one_reader_and_state() -> None:
    """Neither another reader nor a later state of the collection finds them."""
    held = HeldPostings()
    term = Term(1, 1, (Postings(1, 1, b"x" * 6),))
    held.put(_standing(), [1, 2], {"a": term})

    assert held.get(_standing(), [1, 2], ["a", "b"]) == {"a": term}
    assert held.get(_standing(), [1], ["a"]) == {}
    assert held.get(_standing(2), [1, 2], ["a"]) == {}
    held.put(_standing(2), [1], {"b": term})
    assert held.get(_standing(), [1, 2], ["a"]) == {}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 900)), max_size=40))
def test_postings_are_bounded(puts: list[tuple[int, int, int]]) -> None:
    """Whatever is put in, no more than so many bytes are held, and the count of them is right."""
    held = HeldPostings(most_bytes=3000)
    for reader, term, size in puts:
        held.put(_standing(), [reader], {f"t{term}": Term(1, 1, (Postings(1, 1, bytes(size)),))})
        real = sum(
            500 + len(one.postings[0].visible)
            for some in held._held.values()
            for one in some.values()
        )
        assert held._size == real <= 3000


def test_where_a_collection_stands_is_forgotten_in_time() -> None:
    """What is remembered lives for half a minute and no longer, and not more than a thousand are."""
    now = [0.0]
    memory = StandingMemory(lambda: now[0])
    memory.put(_standing())
    now[0] = 29.0
    assert memory.get("c1") == _standing()
    now[0] = 31.0
    assert memory.get("c1") is None
    for number in range(3000):
        memory.put(_standing(number=number))
        assert memory.get(f"c{number}") is not None
        assert len(memory._known) <= 1000
