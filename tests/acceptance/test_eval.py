"""`whence eval`, through the installed command."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from whence.surfaces.cli.main import run_command
from whence.surfaces.python.engine import Engine

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a test collection of three documents and two judged queries."""
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


def _policy(path: Path) -> Path:
    shares = ("recall_at_k", "mrr", "ndcg_at_k")
    caps = ("zero_result_rate", "clustering_ratio", "degraded_query_rate")
    policy = {
        "version": "retrieval-gate-policy-v1",
        "quality": {f"min_{name}": 0.1 for name in shares} | {f"max_{name}": 1 for name in caps},
        "latency": {"max_p50_latency_ms": 60000, "max_p95_latency_ms": 60000},
        "tolerance": dict.fromkeys((*shares, *caps), 0.01)
        | {"p50_latency_ms": 60000, "p95_latency_ms": 60000},
    }
    path.write_text(json.dumps(policy))
    return path


@pytest.fixture
def gated(cli: Any, tiny: Path, tmp_path: Path) -> list[Any]:
    """Return the words of a gate whose baseline was recorded just now."""
    cli("index", tiny / "corpus.jsonl", "--collection", "gated", "--json")
    suite, baseline = tmp_path / "suite.json", tmp_path / "baseline.json"
    queries = [
        {"id": "1", "query": "how is a ship steered", "intent": "natural_language"},
        {"id": "2", "query": "why does dough rise", "intent": "symbol"},
    ]
    for query, hint in zip(queries, ("ships", "bread"), strict=True):
        query["expected_targets"] = [{"hint": hint}]  # type: ignore[assignment]
    suite.write_text(json.dumps({"version": "v1", "queries": queries}))
    words = ["--suite", suite, "--collection", "gated", "--json"]
    made = cli("eval", "baseline", *words, "--out", baseline, env={"CI": ""})
    assert made.code == 0, made.err
    policy = _policy(tmp_path / "policy.json")
    return ["eval", "gate", *words, "--baseline", baseline, "--policy", policy]


def test_the_gate_passes_what_did_not_change(cli: Any, gated: list[Any], tmp_path: Path) -> None:
    """Exit 0, and the report file is the printed document."""
    report = tmp_path / "report.json"
    result = cli(*gated, "--report", report)

    assert result.code == 0, result.out
    assert result.json["gate"]["verdict"] == "pass"
    assert report.read_text() == result.out


def test_the_gate_fails_when_a_document_is_lost(
    cli: Any, gated: list[Any], tiny: Path, tmp_path: Path
) -> None:
    """Exit 1 with `recall_drop` alone, and 0 with --dry-run; the changed collection is reported."""
    records = map(json.loads, (tiny / "corpus.jsonl").read_text().splitlines())
    for lost in [one["_id"] for one in records if "ships" in json.dumps(one)]:
        assert cli("erase", lost, "--collection", "gated", "--json").code == 0
    result, dry = cli(*gated), cli(*gated, "--dry-run")

    assert (result.code, dry.code) == (1, 0)
    assert result.json["gate"]["taxonomy"] == ["recall_drop"]
    assert result.json["report"]["collection_changed"] is True
    assert dry.json["gate"]["verdict"] == "fail"


def test_no_baseline_is_recorded_in_ci(cli: Any, gated: list[Any], tmp_path: Path) -> None:
    """Exit 2 and nothing written."""
    out = tmp_path / "new.json"
    result = cli("eval", "baseline", "--suite", gated[3], "--out", out, env={"CI": "true"})

    assert (result.code, out.exists()) == (2, False)


def test_files_are_checked_before_the_collection(cli: Any, gated: list[Any]) -> None:
    """A broken suite is exit 2 even where there is no collection; a good one is exit 3 there."""
    nowhere = ["nowhere" if word == "gated" else word for word in gated]

    assert cli(*nowhere).code == 3
    assert cli(*gated, "--k", "9").code == 2
    gated[3].write_text('{"version": "v1", "queries": []}')
    assert cli(*nowhere).code == 2


def test_a_baseline_is_recorded_on_purpose(cli: Any, gated: list[Any], tmp_path: Path) -> None:
    """A failing policy leaves the old one in place (exit 1); recorded again, it tells what changed."""
    baseline, policy = gated[gated.index("--baseline") + 1], gated[gated.index("--policy") + 1]
    words = ("--suite", gated[3], "--collection", "gated", "--out", baseline, "--no-legs")
    before = baseline.read_text()
    strict = tmp_path / "strict.json"
    limits = json.loads(policy.read_text())
    limits["latency"] = {"max_p50_latency_ms": 0.0, "max_p95_latency_ms": 0.0}
    strict.write_text(json.dumps(limits))
    refused = cli("eval", "baseline", *words, "--policy", strict, env={"CI": ""})
    kept = baseline.read_text() == before
    again = cli("eval", "baseline", *words, "--policy", policy, env={"CI": ""})

    assert (refused.code, kept) == (1, True)
    assert "latency_p50_ms" in refused.err
    assert again.code == 0
    assert "only latencies changed" in again.err


def test_a_slower_search_is_a_latency_regression(cli: Any, gated: list[Any]) -> None:
    """Exit 1 with that category alone, for every intent; every leg is in the report."""
    baseline, policy = gated[gated.index("--baseline") + 1], gated[gated.index("--policy") + 1]
    plain = json.loads(baseline.read_text())
    plain["metrics"] |= {"latency_p50_ms": 0.001, "latency_p95_ms": 0.001}
    for latency in plain["latency_by_intent"].values():
        latency |= {"p50_ms": 0.001, "p95_ms": 0.001}
    baseline.write_text(json.dumps(plain))
    limits = json.loads(policy.read_text())
    limits["tolerance"] |= {"p50_latency_ms": 0.0, "p95_latency_ms": 0.0}
    policy.write_text(json.dumps(limits))
    result = cli(*gated)
    failed = {one["metric"] for one in result.json["gate"]["checks"] if not one["passed"]}

    assert result.code == 1
    assert result.json["gate"]["taxonomy"] == ["latency_regression"]
    assert {"latency_p95_ms.natural_language", "latency_p95_ms.symbol"} <= failed
    assert {"bm25", "dense", "hybrid", "expansion"} <= result.json["report"]["legs"].keys()


def test_a_search_that_takes_twice_as_long_fails(
    cli: Any,
    handbook: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With every search of the engine delayed, the shipped policy fails, also when measured again."""
    files = ROOT / "examples" / "gate"
    suite, baseline = json.loads((files / "suite.json").read_text()), tmp_path / "baseline.json"
    fewer = tmp_path / "suite.json"
    fewer.write_text(json.dumps(suite | {"queries": suite["queries"][::3]}))
    words = ["--suite", str(fewer), "--policy", str(files / "policy.json")]
    words += ["--home", str(cli.home), "--no-legs", "--json"]
    real = Engine.run

    async def delayed(self: Engine, request: Any) -> Any:
        started = time.perf_counter()
        found = await real(self, request)
        # Two and a half times as long: the limit is 1.6, and the time of a busy machine varies.
        await asyncio.sleep(1.5 * (time.perf_counter() - started))
        return found

    monkeypatch.setenv("CI", "")
    assert run_command(["eval", "baseline", *words, "--out", str(baseline)]) == 0
    monkeypatch.setattr(Engine, "run", delayed)
    monkeypatch.setattr("whence.evaluation.commands.gate._MEASUREMENTS", 2)
    capsys.readouterr()
    code = run_command(["eval", "gate", *words, "--baseline", str(baseline)])
    out, err = capsys.readouterr()
    gate, report = json.loads(out)["gate"], json.loads(out)["report"]

    assert (code, gate["taxonomy"]) == (1, ["latency_regression"])
    # Which of the two depends on how busy the machine was when the baseline was made.
    failed = {one["metric"] for one in gate["checks"] if not one["passed"]}
    assert failed & {"latency_p50_ms", "latency_p95_ms"}
    assert report["measurements"] == 2
    assert "measuring again, 2 of 2" in err
