"""Commands that measure quality, which the entry-point group `whence.commands` names."""

from __future__ import annotations

from whence.surfaces.cli.commands import Command

_PANEL = "Quality"

VALIDATE = Command(
    "whence.evaluation.commands.validate:validate",
    _PANEL,
    ("whence validate", "whence validate --suite suite.yaml --report report.json"),
    after="traces",
)
EVAL = Command(
    "",
    _PANEL,
    (
        "whence eval beir scifact/",
        "whence eval gate --suite suite.json --baseline baseline.json --policy policy.json",
        "whence eval cases export --out cases.json",
    ),
    {
        "beir": "whence.evaluation.commands.beir:beir",
        "gate": "whence.evaluation.commands.gate:gate",
        "baseline": "whence.evaluation.commands.gate:baseline",
        "compare": "whence.evaluation.commands.gate:compare",
        "cases": "whence.evaluation.commands.cases:cases",
    },
    help="Measure the quality of retrieval.",
    after="models",
)
