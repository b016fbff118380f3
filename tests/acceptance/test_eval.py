"""`whence eval`, through the installed command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a test collection of three documents and two judged queries."""
    folder = tmp_path_factory.mktemp("tiny")
    texts = {
        "cats": "Cats sleep for most of the day and hunt at dusk.",
        "ships": "A ship is steered by its rudder and driven by its propeller.",
        "bread": "Bread dough rises because yeast makes carbon dioxide.",
    }
    queries = {"q1": "how is a ship steered", "q2": "why does dough rise", "q3": "not judged"}
    for name, records in (("corpus", texts), ("queries", queries)):
        lines = [json.dumps({"_id": key, "text": text}) + "\n" for key, text in records.items()]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("q1 0 ships 2\nq1 0 cats 0\nq2 0 bread 1\n")
    return folder


def test_beir_measures_every_mode(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """All modes but the switched-off reranker, perfect on three documents, exported for trec_eval."""
    run, qrels = tmp_path / "run", tmp_path / "qrels"
    result = cli(
        *("eval", "beir", tiny, "--trec-run-out", run, "--trec-qrels-out", qrels, "--json"),
        env={"WHENCE_RERANKER": "none"},
    )
    report = result.json

    assert result.code == 0, result.err
    assert (report["documents"], report["queries"]) == (3, 2)
    assert sorted(report["modes"]) == ["bm25", "dense", "hybrid"]
    for scores in report["modes"].values():
        assert (scores["ndcg@10"], scores["recall@100"], scores["mrr@10"]) == (1.0, 1.0, 1.0)
        assert scores["latency_ms"]["p50"] <= scores["latency_ms"]["p95"]
    tags = {line.split()[5] for line in run.read_text().splitlines()}
    assert tags == {"whence-bm25", "whence-dense", "whence-hybrid"}
    assert qrels.read_text() == "q1 0 cats 0\nq1 0 ships 2\nq2 0 bread 1\n"


def test_beir_names_a_malformed_judgement(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """Exit 2 with file and line, before anything is indexed."""
    broken = tmp_path / "broken.tsv"
    broken.write_text("q1 0 ships 2\nq1 ships\n")
    result = cli("eval", "beir", tiny, "--qrels", broken)

    assert result.code == 2
    assert "broken.tsv:2" in result.err
    assert "Traceback" not in result.err


def test_beir_refuses_a_reranker_that_is_switched_off(cli: Any, tiny: Path) -> None:
    """Asked for by name it is exit 4, not an empty answer."""
    result = cli("eval", "beir", tiny, "--mode", "rerank", env={"WHENCE_RERANKER": "none"})

    assert result.code == 4
    assert "WHENCE_RERANKER" in result.err
