"""Comparisons of two runs and the significance of their differences."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.evaluation import measures
from whence.evaluation.charts import differences_svg
from whence.evaluation.gate.comparison import compare_runs, load_run
from whence.evaluation.gate.query_reports import MEASURES
from whence.evaluation.measures import bootstrap_interval, paired_p_value
from whence.schema.errors import BadInput


def _run(path: Path, ranks: list[int | None], **changes: Any) -> Path:
    """Write a run with a query for each rank."""
    queries = [
        {
            "id": f"q{number:03}",
            "hit_rank": rank,
            "reciprocal_rank": 1 / rank if rank else 0.0,
            "recall_at_k": float(rank is not None),
            "ndcg_at_k": 1 / rank if rank else 0.0,
            "and": "more",
        }
        for number, rank in enumerate(ranks)
    ]
    path.write_text(json.dumps({"suite_digest": "s", "k": 10, "per_query": queries} | changes))
    return path


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    """Differences are b minus a, sorted from the largest decrease."""
    a = load_run(_run(tmp_path / "a", [1, 2, 1, None]))
    b = load_run(_run(tmp_path / "b", [1, 1, 4, None]))
    found = compare_runs(a, b, "mrr")
    sums = found.measures["mrr"]

    assert (found.a, found.b) == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert (sums.a, sums.b) == (0.625, 0.5625)
    assert (sums.better, sums.worse, sums.equal) == (1, 1, 2)
    assert [(one.id, one.delta, one.hit_rank_b) for one in found.differences] == [
        ("q002", -0.75, 4),
        ("q001", 0.5, 1),
    ]
    assert not sums.significant
    assert ET.fromstring(differences_svg(found)).tag.endswith("svg")


def test_a_consistent_difference_is_significant(tmp_path: Path) -> None:
    """Thirty equal decreases are significant; a run does not differ from itself."""
    a = load_run(_run(tmp_path / "a", [1] * 30))
    b = load_run(_run(tmp_path / "b", [2] * 30))

    assert compare_runs(a, b).measures["mrr"].significant
    assert compare_runs(a, a).measures["mrr"].p_value == 1.0
    assert compare_runs(a, a).differences == []


def test_a_report_of_the_gate_is_a_run(tmp_path: Path) -> None:
    """The report of `eval gate` can be compared."""
    plain = json.loads(_run(tmp_path / "a", [1, 2]).read_text())
    (tmp_path / "report").write_text(json.dumps({"gate": {}, "report": plain}))

    assert load_run(tmp_path / "report").per_query == load_run(tmp_path / "a").per_query


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suite_digest": "t"}, "^suite_digest differs"),
        ({"k": 5}, "^k differs"),
        ({"per_query": []}, "b: per_query is empty"),
        ({"per_query": None}, "/b: .*per_query"),
        ({"per_query": [{"id": "q000"}]}, "/b: .*ndcg_at_k"),
        ({"per_query": [dict.fromkeys(MEASURES.values(), 1) | {"id": "x"}]}, "^queries differs"),
    ],
)
def test_runs_of_different_suites_are_not_compared(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    """Suite, k and queries must be equal and not empty."""
    a = _run(tmp_path / "a", [1, 2])
    b = _run(tmp_path / "b", [1, 2], **changes)

    with pytest.raises(BadInput, match=words) as caught:
        compare_runs(load_run(a), load_run(b))
    assert caught.value.hint
    with pytest.raises(BadInput, match="unknown measure"):
        compare_runs(load_run(a), load_run(a), "f1")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_is_within_the_values(values: list[float]) -> None:
    """The interval is within the range of the values, and deterministic."""
    interval = bootstrap_interval(values)

    assert min(values) - 1e-6 <= interval.low <= interval.high <= max(values) + 1e-6
    assert interval == bootstrap_interval(values)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1, 1), max_size=10))
def test_the_p_value_is_two_sided(differences: list[float]) -> None:
    """The value is between 0 and 1 and does not change with the sign."""
    p_value = paired_p_value(differences)

    assert 0.0 < p_value <= 1.0
    assert p_value == paired_p_value([-one for one in differences])


def test_means_and_intervals_of_small_cases() -> None:
    """Of nothing they are 0; large samples are drawn in blocks, with the same seed as small ones."""
    assert (measures.mean([]), bootstrap_interval([])) == (0.0, (0.0, 0.0))
    assert measures.ndcg([3, 3], judged=[3], k=10) == 1.0, "a document that is found twice"
    assert bootstrap_interval([float(one) for one in range(10)]) == (2.7, 6.2)
    assert bootstrap_interval([one % 7 / 3 for one in range(600)]) == (0.942778, 1.048889)


def test_p_values_of_small_cases() -> None:
    """N equal signs are 2 of 2^n combinations; beyond 14 pairs the value is an estimate."""
    assert paired_p_value([0.1, 0.2, 0.3]) == 2 / 8
    assert paired_p_value([1.0] * 14) == 2 / 2**14
    assert paired_p_value([1.0] * 20) < 0.001
    assert paired_p_value([1.0, -1.0] * 20) > 0.9
    # 0.1 and 0.2 add to a bit more than 0.3, which must not count as more.
    assert paired_p_value([0.1, 0.2, -0.3]) == 1.0
    assert paired_p_value([0.1, 0.2, 0.3, 0.0]) == 2 / 8
    assert paired_p_value([1.0] * 20) == 1 / 20_001
    assert paired_p_value([0.3, 0.1, -0.2, 0.4] * 5) == 299 / 20_001
