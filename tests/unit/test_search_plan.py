"""Which searches are made for a question."""

from __future__ import annotations

from typing import Any, cast

import pytest

from whence.answering.evidence import ProcessedQuery, plan_searches
from whence.retrieval.services import Embedded, RetrievalServices


class Retrieval:
    """Retrieval that is only asked for its mode."""

    def __init__(self, mode: str) -> None:
        self.mode = mode


@pytest.mark.parametrize(
    ("question", "mode", "searches"),
    [
        ("What is new in Barge 9.0.0?", "hybrid", ["vector", "words"]),
        ("What is new in Barge?", "hybrid", ["vector"]),
        ("What is new in Barge 9.0.0?", "dense", ["vector"]),
        ("Are there 12 boats of type B2?", "hybrid", ["vector"]),
    ],
)
async def test_a_release_is_searched_by_words_too(
    question: str, mode: str, searches: list[str]
) -> None:
    """Notes of all releases are alike in meaning: the words of the question are searched once more."""
    degraded: list[tuple[str, ...]] = []
    plan = await plan_searches(
        cast("RetrievalServices", cast("Any", Retrieval(mode))),
        question,
        ProcessedQuery((question,), Embedded((object(),))),
        pool=60,
        degrade=lambda *lost: degraded.append(lost),
    )

    assert ["words" if one.vector is None else "vector" for one in plan.queries] == searches
    assert {(one.text, one.limit) for one in plan.queries} == {(question, 60)}
    assert (plan.own, degraded) == (len(searches), [])
