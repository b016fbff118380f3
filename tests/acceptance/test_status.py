"""`whence status` and `whence doctor`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.models.installed import find_model
from whence.models.weights import EMBEDDER_NAME


def test_status_shows_what_is_stored(cli: Any, handbook: Path) -> None:
    """Server, size and what it is spent on, documents, questions and the last of each."""
    cli("ask", "How many days of annual leave do employees get?")
    document = cli("status", "--json").json
    told, learnt = document["store"], document["calibration"]["default"]

    assert learnt["encoder"] == EMBEDDER_NAME
    assert learnt["passages"] > 0
    assert (learnt["slope"], learnt["dense_weight"]) == (1.0, 0.35)
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


def test_doctor_uses_every_service_once(cli: Any, handbook: Path) -> None:
    """Every check has a finding; with the models installed all pass, and each setting has an origin."""
    result = cli("doctor", "--json")
    checks = {check["name"]: check for check in result.json["checks"]}

    assert result.code == 0, result.out
    assert {"python", "home", "database", "broker", "reranker"} <= set(checks)
    assert "pgvector" in checks["database"]["detail"]
    assert all(check["detail"] for check in checks.values())
    assert {line["origin"] for line in result.json["settings"]} <= {
        "option", "environment", "whence.toml", "default",
    }  # fmt: skip


def test_without_a_broker_status_says_what_is_not_shown(cli: Any, handbook: Path) -> None:
    """Flows and dead letters of other processes are not visible, and the output says so."""
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
    _flip_a_byte(copy / "tokenizer.json")
    return {"WHENCE_MODELS": str(folder)}


def _flip_a_byte(file: Path) -> None:
    status = file.stat()
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


Fault = tuple[str, str, str]


def _no_service(_: Path) -> dict[str, str]:
    return {
        "WHENCE_DATABASE_URL": "postgresql://u:hush-hush@127.0.0.1:1/x",
        "WHENCE_BROKER": "pulsar://127.0.0.1:1",
        "WHENCE_EMBEDDER": "openai:m",
        "WHENCE_WRITER": "openai:m",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "WHENCE_RERANKER": "nosuch",
        "WHENCE_COLLECTON": "x",
    }


#: Set-ups by name: how to break an installation, and the (check, detail, remedy) of each fault.
FAULTS: dict[str, tuple[Callable[[Path], dict[str, str]], tuple[Fault, ...]]] = {
    "home is a file": (_a_file, (("home", "not a folder", "--home"),)),
    "home is not writable": (_no_place_for_anything, (("home", "is not writable", "--home"),)),
    "no service answers": (
        _no_service,
        (
            ("database", "127.0.0.1:1/x", "--database-url"),
            ("broker", "pulsar://127.0.0.1:1", "address"),
            ("embedder", "http://127.0.0.1:1/v1", "address"),
            ("writer", "http://127.0.0.1:1/v1", "address"),
            ("reranker", "nosuch", "one of"),
            ("environment", "WHENCE_COLLECTON", "WHENCE_COLLECTION"),
        ),
    ),
    "a model file is missing": (
        _models_less_one_file,
        ((f"model {EMBEDDER_NAME}", "tokenizer.json is missing", "models install"),),
    ),
    "a model file is damaged": (
        _models_with_another_byte,
        ((f"model {EMBEDDER_NAME}", "other contents", "models install"),),
    ),
}


@pytest.mark.parametrize("setup", FAULTS)
def test_doctor_names_each_fault_and_its_remedy(own: Any, tmp_path: Path, setup: str) -> None:
    """Every fault is listed under its name with a remedy; exit 1; secrets are not printed."""
    arrange, expected = FAULTS[setup]
    folder = tmp_path / "broken"
    folder.mkdir()
    result = own("doctor", "--json", env=arrange(folder))
    faults = {check["name"]: check for check in result.json["checks"] if not check["ok"]}

    assert result.code == 1
    for name, detail, remedy in expected:
        assert detail in faults[name]["detail"]
        assert remedy in faults[name]["remedy"]
    assert all(fault["remedy"] for fault in faults.values())
    assert "hush-hush" not in result.out + result.err


@pytest.mark.models
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_a_damaged_model_file_is_refused_by_search(
    cli: Any, handbook: Path, tmp_path: Path, mode: str
) -> None:
    """Weights that only their hash tells from the installed ones are not used; the error says what to do."""
    folder = tmp_path / EMBEDDER_NAME
    shutil.copytree(find_model(EMBEDDER_NAME), folder)
    _flip_a_byte(folder / "w8.bin")
    env = {"WHENCE_MODELS": str(tmp_path)}
    status = cli("models", "status", env=env)
    result = cli("search", "annual leave", "--mode", mode, "--json", env=env)

    assert (status.code, "w8.bin has other contents" in status.err) == (1, True)
    said = result.out + result.err
    assert "w8.bin has other contents" in said
    if mode == "dense":
        assert (result.code, "whence models install" in said) == (4, True)
    else:
        assert result.json["degraded"]
        assert all(
            "dense_score" not in hit["score_breakdown"] or not hit["score_breakdown"]["dense_score"]
            for hit in result.json["hits"]
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('collecton = "x"', "'collection'"),
        ("collection = ", "not valid TOML"),
        ('collection = ["a", "b"]', "one text or number"),
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


def test_a_setting_is_written_and_used(fresh: Any, tmp_path: Path) -> None:
    """What `config set` writes is what the next command uses; a wrong value is refused and changes nothing."""
    assert fresh("config", "set", "collection", "handbook", cwd=tmp_path).code == 0
    assert fresh("config", "set", "collection", "hand", "--here", cwd=tmp_path).code == 0
    refused = fresh("config", "set", "broker", "kafka://x", cwd=tmp_path)
    shown = fresh("config", "show", "--json", cwd=tmp_path).json["settings"]
    used = {one["name"]: (one["value"], one["origin"]) for one in shown}
    removed = fresh("config", "set", "collection", "--unset", "--here", "--json", cwd=tmp_path)

    assert refused.code == 2
    assert "must start with memory://" in refused.err
    assert used["broker"] == ("memory://", "default")
    assert used["collection"] == ("hand", "whence.toml")
    assert (removed.json["value"], removed.json["origin"]) == ("handbook", "home")
    assert (tmp_path / "whence.toml").read_text() == ""
    for wrong in (["collection"], ["colection", "x"], ["collection", "a", "b"], ["home", "/x"]):
        assert fresh("config", "set", *wrong, cwd=tmp_path).code == 2
