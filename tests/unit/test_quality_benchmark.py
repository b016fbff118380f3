"""Parts of the quality benchmark: cached scores and the choice of the reranking share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.kept_scores import KeptScores
from benchmarks.rerank_shares import SHARES, chosen, judged


class CountingReranker:
    """Scores a text by its length, and remembers what it was asked."""

    def __init__(self, model: str = "lengths") -> None:
        self.model = model
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.closed = False

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        self.asked.append((query, tuple(documents)))
        return [len(text) / 100 for text in documents]

    async def aclose(self) -> None:
        self.closed = True


async def test_a_pair_is_scored_once(tmp_path: Path) -> None:
    """Known scores are reused, in this run and the next; new texts are scored in the given order."""
    reranker = CountingReranker()
    kept = KeptScores(reranker, tmp_path / "deep" / "scores.json")

    assert await kept.score("q", ["a", "bb"]) == [0.01, 0.02]
    assert await kept.score("q", ["ccc", "bb", "a"]) == [0.03, 0.02, 0.01]
    assert reranker.asked == [("q", ("a", "bb")), ("q", ("ccc",))]

    kept.keep()
    again = CountingReranker()
    reread = KeptScores(again, tmp_path / "deep" / "scores.json")
    assert await reread.score("q", ["bb", "ccc"]) == [0.02, 0.03]
    assert again.asked == []


async def test_another_query_text_or_model_has_its_own_score(tmp_path: Path) -> None:
    """A score belongs to its query, text and model."""
    file = tmp_path / "scores.json"
    kept = KeptScores(CountingReranker(), file)
    await kept.score("q", ["a"])
    kept.keep()
    other = CountingReranker("other")
    for reranker, query, text in ((other, "q", "a"), (CountingReranker(), "Q", "a")):
        await KeptScores(reranker, file).score(query, [text])
        assert reranker.asked == [(query, (text,))]

    # Where query and text meet is part of the key.
    assert kept.key("q a", "b") != kept.key("q", "a b")


async def test_scores_are_written_as_whole_runs(tmp_path: Path) -> None:
    """The file has whole runs only, as JSON; the reranker is closed with it."""
    reranker = CountingReranker()
    kept = KeptScores(reranker, tmp_path / "scores.json")
    await kept.score("q", ["a"])
    assert not (tmp_path / "scores.json").exists()

    kept.keep()
    await kept.aclose()
    assert json.loads((tmp_path / "scores.json").read_text()) == {kept.key("q", "a"): 0.01}
    assert reranker.closed


def _rows(*gains: float, noise: float = 0.0, queries: int = 20) -> list[list[float]]:
    """Return rows in which each share gains an amount, with noise by query."""
    return [
        [gain + (noise if (query + place) % 2 else -noise) for place, gain in enumerate(gains)]
        for query in range(queries)
    ]


def test_the_smallest_share_within_noise_is_chosen() -> None:
    """Without noise the best share is chosen, with noise the smallest that is as good within it."""
    gains = [0.0, 0.0, 0.09, *([0.1] * (len(SHARES) - 4)), 0.0]

    assert chosen([_rows(*gains), _rows(*gains)]) == 3
    assert chosen([_rows(*gains, noise=0.1), _rows(*gains, noise=0.1)]) == 2
    assert chosen([_rows(*gains, noise=0.4), _rows(*gains, noise=0.4)]) == 0


def test_shares_are_chosen_on_other_collections() -> None:
    """The share is chosen on the other collections, and its gain measured on the one left out."""
    flat = [0.0] * len(SHARES)
    lost, won = list(flat), list(flat)
    lost[4], won[4] = -0.2, 0.1
    found = judged({"a": _rows(*won), "b": _rows(*won), "odd": _rows(*lost)})

    assert found["odd"] == (SHARES[4], pytest.approx(-0.2))
    assert found["a"] == (0.0, 0.0)
