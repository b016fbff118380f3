"""The workflow and the script that enforce the gate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from whence.evaluation.gate.files import load_baseline, load_policy, load_suite
from whence.evaluation.suite import INTENTS

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples" / "gate"


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    """Return the steps of the workflow's job."""
    path = ROOT / ".github" / "workflows" / "retrieval-eval-gate.yml"
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]["gate"]["steps"]
    return found


def test_the_workflow_enforces_the_verdict(steps: list[dict[str, Any]]) -> None:
    """It runs the script, without a dry run and without going on after a failure."""
    gate = next(step for step in steps if "tools/gate.sh" in step.get("run", ""))
    script = (ROOT / "tools" / "gate.sh").read_text()

    assert "continue-on-error" not in gate
    assert "||" not in gate["run"]
    assert "eval gate" in script
    assert "set -euo pipefail" in script
    assert "dry-run" not in script + gate["run"]
    assert os.access(ROOT / "tools" / "gate.sh", os.X_OK)


def test_the_report_is_always_kept(steps: list[dict[str, Any]]) -> None:
    """The upload runs after a failing verdict too, and uploads what the gate wrote."""
    names = [step.get("name") for step in steps]
    upload = next(step for step in steps if "upload-artifact" in step.get("uses", ""))
    gate = next(step for step in steps if "tools/gate.sh" in step.get("run", ""))

    assert upload["if"] == "always()"
    assert upload["with"]["path"] in gate["run"]
    assert names.index("Gate") < names.index("Keep the report")


def test_continuous_integration_runs_the_same() -> None:
    """`.ci/run` and `make gate` run the one script."""
    assert "make --no-print-directory gate" in (ROOT / ".ci" / "run").read_text()
    assert "tools/gate.sh" in (ROOT / "Makefile").read_text()


def test_the_shipped_suite_is_large_enough() -> None:
    """Sixty queries at least, a quarter of them for each intent; every hint is a document of the handbook."""
    suite = load_suite(FILES / "suite.json")
    by_intent = {
        intent: sum(query.intent == intent for query in suite.queries) for intent in INTENTS
    }
    handbook = ROOT / "examples" / "handbook"
    known = {str(file.relative_to(handbook)) for file in handbook.rglob("*.md")}
    lines = (handbook / "faq.jsonl").read_text().splitlines()
    known |= {json.loads(line)["_id"] for line in lines}
    hints = {target.hint for query in suite.queries for target in query.expected_targets}

    assert len(suite.queries) >= 60
    assert min(by_intent.values()) >= 15
    assert hints <= known


def test_the_shipped_files_belong_together() -> None:
    """The baseline is of this suite, has every query and retriever, and meets the policy."""
    suite = load_suite(FILES / "suite.json")
    baseline = load_baseline(FILES / "baseline.json")
    policy = load_policy(FILES / "policy.json")

    assert baseline.suite_digest == suite.digest
    assert [query.id for query in baseline.per_query] == [query.id for query in suite.queries]
    assert {"bm25", "dense", "hybrid", "expansion"} <= baseline.legs.keys()
    assert baseline.metrics.recall_at_k >= policy.quality.min_recall_at_k
    assert baseline.metrics.mrr >= policy.quality.min_mrr
    assert baseline.metrics.ndcg_at_k >= policy.quality.min_ndcg_at_k
