"""A cross-encoder that a user installs: it reads all that was fetched, and decides the order alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.cross_encoder import write_cross_encoder

from whence.models.installed import find_model
from whence.models.weights import EMBEDDER_NAME, RERANKER_NAME

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("handbook")]

QUESTION = "How many days of annual leave are there?"


@pytest.fixture
def models(tmp_path: Path) -> dict[str, str]:
    """A folder, with the embedder."""
    place = tmp_path / "models"
    shutil.copytree(find_model(EMBEDDER_NAME), place / EMBEDDER_NAME, copy_function=_link)
    return {"WHENCE_MODELS": str(place)}


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _focus(cli: Any, env: dict[str, str], *options: str) -> dict[str, Any]:
    asked = cli("ask", QUESTION, "--doc-limit", "3", "--json", *options, env=env)
    assert asked.code == 0, asked.err
    explained = cli("explain", asked.json["answer_id"], "--json", env=env).json
    stages = {one["stage"]: one for one in explained["stages"]}
    return {**stages["focus"], "candidates": stages["exploration"]["candidates"]}


def test_it_is_installed_listed_and_decides_the_order(
    cli: Any, models: dict[str, str], tmp_path: Path
) -> None:
    """Status and doctor name it, `auto` uses it, and its scores alone order all passages that were fetched."""
    words = ("annual", "leave", "days", "many")
    folder = write_cross_encoder(tmp_path / "tiny", words)
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, folder.name)
    before = _focus(cli, models, "--fetch-limit", "40")
    installed = cli("models", "install", archive, "--json", env=models)
    again = cli("models", "install", str(folder), env=models)

    assert (installed.code, installed.json["models"], again.code) == (0, ["tiny"], 0)
    status = cli("models", "status", "--json", env=models)
    states = {one["name"]: one["state"] for one in status.json["models"]}
    assert (status.code, states) == (0, {EMBEDDER_NAME: "ready", "tiny": "ready"})
    listed = {
        one["name"]: one for one in cli("models", "list", "--json", env=models).json["models"]
    }
    assert (listed["tiny"]["role"], listed["tiny"]["installed"]) == ("reranker", True)
    assert listed[EMBEDDER_NAME]["installed"]
    assert not listed["multilingual-e5-small"]["installed"]
    assert "multilingual-e5-small" in cli("models", "list", env=models).out
    checks = {one["name"]: one for one in cli("doctor", "--json", env=models).json["checks"]}
    assert checks["reranker"]["detail"].startswith("flashrank:tiny")

    after = _focus(cli, models, "--fetch-limit", "40")
    assert [one["models"][0]["name"] for one in (before, after)] == [
        RERANKER_NAME,
        "flashrank:tiny",
    ]
    scored = [one for one in after["candidates"] if one["rerank_rank"]]
    assert len(scored) == len(after["candidates"]) == 40
    assert all(one["raw_score"] == one["final_score"] for one in scored)
    best = sorted(scored, key=lambda one: (-one["raw_score"], one["rank"]))
    kept = [one["chunk_id"] for one in after["selected"]]
    assert kept == [one["chunk_id"] for one in best[:3]]
    assert kept != [one["chunk_id"] for one in before["selected"]]
    assert any(one["raw_score"] != one["final_score"] for one in before["selected"])

    chosen = _focus(cli, {**models, "WHENCE_RERANKER": RERANKER_NAME}, "--fetch-limit", "40")
    assert chosen["selected"] == before["selected"]


def test_a_rerank_limit_leaves_passages_unread(cli: Any) -> None:
    """The reranker reads that many; the others are dropped with their reason."""
    focus = _focus(cli, {}, "--fetch-limit", "30", "--rerank-limit", "10")
    codes = [one["reason_code"] for one in focus["candidates"]]

    assert (len(codes), codes.count("over_rerank_limit"), len(focus["selected"])) == (30, 20, 3)
    assert [one["rerank_rank"] > 0 for one in focus["candidates"]] == [True] * 10 + [False] * 20


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("ms-marco-MiniLM-L-12-v2", 4, "could not be fetched from flashrank's hub"),
        ("no-such-model", 2, "there is no model"),
        ("e5-small-v3", 2, "e5-small-v2"),
        ("{folder}", 2, "is no cross-encoder"),
        ("{folder}/text.zip", 2, "is not a readable archive"),
    ],
)
def test_what_is_no_cross_encoder_is_refused(
    cli: Any, models: dict[str, str], tmp_path: Path, what: str, code: int, said: str
) -> None:
    """An unreachable hub is exit 4, everything else exit 2; nothing is left behind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "text.zip").write_text("no archive")
    unreachable = dict.fromkeys(("HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    result = cli("models", "install", what.format(folder=folder), env={**models, **unreachable})

    assert (result.code, said in result.err, "hint: " in result.err) == (code, True, True)
    assert [one.name for one in Path(models["WHENCE_MODELS"]).iterdir()] == [EMBEDDER_NAME]
