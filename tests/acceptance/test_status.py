"""What `whence status` and `whence doctor` tell of a home."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.models.installed import find_model
from whence.models.weights import EMBEDDER_NAME


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


def test_without_a_broker_status_says_what_cannot_be_known(cli: Any, handbook: Path) -> None:
    """No flow and no dead letter of another process can be seen; that is said, not shown as none."""
    told = cli("status", "--json").json
    page = cli("status").out

    assert (told["topics"], told["processors"]) == ([], [])
    assert any("memory://" in note for note in told["notes"])
    assert "running flows  not shown" in page
    assert "dead letters   none" in page


def _a_file(folder: Path) -> dict[str, str]:
    (folder / "file").touch()
    return {"WHENCE_HOME": str(folder / "file")}


def _no_place_for_anything(folder: Path) -> dict[str, str]:
    return {"WHENCE_HOME": "/proc/nowhere"}


def _models_less_one_file(folder: Path) -> dict[str, str]:
    shutil.copytree(find_model(EMBEDDER_NAME), folder / EMBEDDER_NAME)
    (folder / EMBEDDER_NAME / "tokenizer.json").unlink()
    return {"WHENCE_MODELS": str(folder)}


def _models_with_another_byte(folder: Path) -> dict[str, str]:
    """Size and time of change are as they were: only the hash tells."""
    copy = folder / EMBEDDER_NAME
    shutil.copytree(find_model(EMBEDDER_NAME), copy)
    file = copy / "tokenizer.json"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    status = file.stat()
    file.write_bytes(data)
    shutil.copystat(find_model(EMBEDDER_NAME) / "tokenizer.json", file)
    assert file.stat().st_size == status.st_size
    return {"WHENCE_MODELS": str(folder)}


FAULTS = {
    "a home that is a file": ("home", "not a folder", "--home", _a_file),
    "a home that cannot be": ("home", "is not writable", "--home", _no_place_for_anything),
    "a dead database": (
        "database", "127.0.0.1:1/x", "--database-url",
        lambda _: {"WHENCE_DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/x"},
    ),
    "a dead broker": (
        "broker", "pulsar://127.0.0.1:1", "address", lambda _: {"WHENCE_BROKER": "pulsar://127.0.0.1:1"},
    ),
    "an embedder that refuses": (
        "embedder", "http://127.0.0.1:1/v1", "address",
        lambda _: {"WHENCE_EMBEDDER": "openai:m", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
    ),
    "a writer that refuses": (
        "writer", "http://127.0.0.1:1/v1", "address",
        lambda _: {"WHENCE_WRITER": "openai:m", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
    ),
    "no such reranker": ("reranker", "nosuch", "one of", lambda _: {"WHENCE_RERANKER": "nosuch"}),
    "a setting misspelt": (
        "environment", "WHENCE_COLLECTON", "WHENCE_COLLECTION", lambda _: {"WHENCE_COLLECTON": "x"},
    ),
    "a model file gone": (
        f"model {EMBEDDER_NAME}", "tokenizer.json is missing", "models install", _models_less_one_file,
    ),
    "a model file changed": (
        f"model {EMBEDDER_NAME}", "other contents", "models install", _models_with_another_byte,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_doctor_names_each_fault_and_its_remedy(own: Any, tmp_path: Path, fault: str) -> None:
    """Whatever is broken is exit 1, found under its name, with what to do; secrets stay out of it."""
    name, detail, remedy, breaking = FAULTS[fault]
    arrange: Callable[[Path], dict[str, str]] = breaking  # type: ignore[assignment]
    folder = tmp_path / "broken"
    folder.mkdir()
    result = own("doctor", "--json", env=arrange(folder))
    faults = {check["name"]: check for check in result.json["checks"] if not check["ok"]}

    assert result.code == 1
    assert detail in faults[name]["detail"]
    assert remedy in faults[name]["remedy"]
    assert "secret" not in result.out + result.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('collecton = "x"', "'collection'"),
        ("collection = ", "not valid TOML"),
        ("collection = 1", "collection"),
    ],
)
def test_doctor_names_a_fault_in_the_settings_file(
    fresh: Any, tmp_path: Path, text: str, said: str
) -> None:
    """A settings file that is wrong is exit 2: nothing was looked at."""
    (tmp_path / "whence.toml").write_text(text)
    result = fresh("doctor", cwd=tmp_path)

    assert result.code == 2
    assert said in result.err
    assert "hint: " in result.err
