"""What `whence status` and `whence doctor` tell of a home."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_status_tells_what_is_stored(cli: Any, handbook: Path) -> None:
    """Server, size and what it is spent on, documents, questions and the last of each."""
    cli("ask", "How many days of annual leave do employees get?")
    told = cli("status", "--json").json["store"]

    assert told["server"].startswith("PostgreSQL ")
    assert told["pgvector"]
    assert told["documents"] >= 20
    assert told["questions"] >= 1
    assert told["bytes"] > sum(told["parts"].values()) > 0
    assert {"texts", "vectors", "words", "traces"} <= set(told["parts"])
    assert told["asked_at"] >= told["stored_at"]
    page = cli("status").out
    assert "PostgreSQL" in page
    assert "default" in page


def test_doctor_makes_one_small_use_of_everything(cli: Any, handbook: Path) -> None:
    """Every check has a finding; with the models there all is well, and each setting has an origin."""
    result = cli("doctor", "--json")
    checks = {check["name"]: check for check in result.json["checks"]}

    assert result.code == 0, result.out
    assert {"python", "home", "database", "broker", "reranker"} <= set(checks)
    assert "pgvector" in checks["database"]["detail"]
    assert all(check["detail"] for check in checks.values())
    assert {line["origin"] for line in result.json["settings"]} <= {
        "option", "environment", "whence.toml", "default",
    }  # fmt: skip


def test_doctor_has_a_remedy_for_each_fault(cli: Any, tmp_path: Path) -> None:
    """Missing models are exit 1, each with what to do."""
    result = cli("doctor", "--json", env={"WHENCE_MODELS": str(tmp_path)})
    faults = [check for check in result.json["checks"] if not check["ok"]]

    assert result.code == 1
    assert faults
    assert all(fault["remedy"] for fault in faults)
