"""Our measures against `ir_measures`, through the files that we export."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG

from whence.evaluation import measures
from whence.evaluation.beir.trec import Qrels, RunRow, read_qrels, write_qrels, write_run

DOCUMENTS = [f"d{number:02}" for number in range(30)]


@st.composite
def collections(draw: st.DrawFn) -> tuple[Qrels, dict[str, list[tuple[str, float]]]]:
    """Draw judgements with grades, and rankings of which many scores are equal."""
    qrels: Qrels = {}
    rankings: dict[str, list[tuple[str, float]]] = {}
    for query in range(draw(st.integers(1, 4))):
        judged = draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=12, unique=True))
        grades = draw(st.lists(st.integers(-1, 3), min_size=len(judged), max_size=len(judged)))
        qrels[f"q{query}"] = dict(zip(judged, [max(grades[0], 1), *grades[1:]], strict=True))
        ranked = draw(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=30, unique=True))
        levels = draw(st.lists(st.integers(0, 4), min_size=len(ranked), max_size=len(ranked)))
        scores = [level / 3 for level in sorted(levels, reverse=True)]
        rankings[f"q{query}"] = list(zip(ranked, scores, strict=True))
    return qrels, rankings


def rows(rankings: dict[str, list[tuple[str, float]]]) -> list[RunRow]:
    """Return the lines of a run."""
    return [
        RunRow(query, document, rank, score, "test")
        for query, ranking in rankings.items()
        for rank, (document, score) in enumerate(ranking, 1)
    ]


@settings(max_examples=60, deadline=None)
@given(collections())
def test_measures_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Qrels, dict[str, list[tuple[str, float]]]],
) -> None:
    """Read back by another program, every measure of every query is equal to 1e-6, ties and grades included."""
    qrels, rankings = drawn
    folder = tmp_path_factory.mktemp("trec")
    write_qrels(folder / "qrels", qrels)
    write_run(folder / "run", rows(rankings))
    reference = {
        (one.query_id, str(one.measure)): one.value
        for one in ir_measures.iter_calc(
            [nDCG @ 10, nDCG @ 3, R @ 5, RR @ 10],
            ir_measures.read_trec_qrels(str(folder / "qrels")),
            ir_measures.read_trec_run(str(folder / "run")),
        )
    }

    assert read_qrels(folder / "qrels") == qrels
    for query, ranking in rankings.items():
        judged = qrels[query]
        gains = [judged.get(document, 0) for document, _ in ranking]
        relevant = sum(grade > 0 for grade in judged.values())
        ours = {
            "nDCG@10": measures.ndcg(gains, judged.values(), 10),
            "nDCG@3": measures.ndcg(gains, judged.values(), 3),
            "R@5": measures.recall(gains, relevant, 5),
            "RR@10": measures.reciprocal_rank(gains, 10),
        }
        theirs = {name: reference[query, name] for name in ours}
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_equal_scores_are_exported_in_order(tmp_path: Path) -> None:
    """Readers that sort by score in single precision, ties by name, get the ranks back."""
    ranking = [(name, 0.1) for name in ("b", "a", "c")] + [("d", 0.1 - 1e-12), ("e", 0.0)]
    write_run(tmp_path / "run", rows({"q": ranking}))
    read = ir_measures.read_trec_run(str(tmp_path / "run"))
    found = sorted(read, key=lambda one: (-one.score, one.doc_id))

    assert [one.doc_id for one in found] == ["b", "a", "c", "d", "e"]


def test_a_run_may_fall_below_zero(tmp_path: Path) -> None:
    """Scores of a new query or tag start independently."""
    lines = [
        RunRow("q1", "a", 1, 0.0, "x"),
        RunRow("q1", "b", 2, 0.0, "x"),
        RunRow("q2", "a", 1, 5.0, "x"),
        RunRow("q2", "a", 1, 9.0, "y"),
    ]
    write_run(tmp_path / "run", lines)
    scores = [float(line.split()[4]) for line in (tmp_path / "run").read_text().splitlines()]

    assert scores[0] == 0.0 > scores[1]
    assert scores[2:] == [5.0, 9.0]
