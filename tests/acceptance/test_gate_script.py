"""The script of the gate and what calls it, on an index that lost documents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.acceptance.conftest import ROOT, WHENCE

from whence.evaluation.gate.files import load_suite

WORKFLOW = ROOT / ".github" / "workflows" / "retrieval-eval-gate.yml"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what the gate reads, with a quarter of the queries, without a folder of documents."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.rmtree(tmp_path / "examples" / "handbook" / "travel")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "gate.sh", tmp_path / "tools")
    files = tmp_path / "examples" / "gate"
    kept = {query.id for query in load_suite(files / "suite.json").queries[::4]}
    suite = json.loads((files / "suite.json").read_text())
    suite["queries"] = [query for query in suite["queries"] if query["id"] in kept]
    (files / "suite.json").write_text(json.dumps(suite))
    baseline = json.loads((files / "baseline.json").read_text())
    baseline["suite_digest"] = load_suite(files / "suite.json").digest
    baseline["per_query"] = baseline["per_query"][::4]
    (files / "baseline.json").write_text(json.dumps(baseline))
    return tmp_path


def test_the_workflow_fails_on_a_broken_index(checkout: Path) -> None:
    """The command line of the workflow, run as its runner does, fails for lost documents and reports them."""
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]
    step = next(one for one in job["steps"] if "tools/gate.sh" in one.get("run", ""))
    upload = next(one for one in job["steps"] if "upload-artifact" in one.get("uses", ""))
    done = subprocess.run(
        # https://docs.github.com/actions: the shell of a step that names none.
        ["bash", "-e", "-c", step["run"]],
        cwd=checkout,
        env=os.environ | {"CI": "true", "WHENCE": str(WHENCE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    report = checkout / upload["with"]["path"]

    assert done.returncode == 1, done.stderr
    assert "recall_drop" in json.loads(report.read_text())["gate"]["taxonomy"]
    assert "verdict fail" in done.stdout
    # Nothing may skip the step, or let the job pass without it.
    assert set(step) == {"name", "run"}
    assert set(job) == {"runs-on", "timeout-minutes", "steps"}


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_failing_gate_fails_what_runs_it(tmp_path: Path, code: int) -> None:
    """`make gate` and `.ci/run` end with an error when `whence eval gate` does, and only then."""
    for name, words in (("whence", '"eval gate"*'), ("make", "*gate")):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\ncase "$*" in {words}) exit {code};; esac\n')
        program.chmod(0o755)
    environment = os.environ | {"WHENCE": str(tmp_path / "whence")}
    # The environment is there already.
    make = ["make", "--no-print-directory", "-o", "setup", "gate"]
    made = subprocess.run(make, cwd=ROOT, env=environment, capture_output=True, check=False)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    ci = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, check=False)

    assert bool(made.returncode) is bool(code), made.stderr
    assert bool(ci.returncode) is bool(code), ci.stderr
