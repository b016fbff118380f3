"""Writer, embedder and reranker on servers of their own, through the installed command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.support.embedding_server import EmbeddingModel
from tests.support.model_server import Answer, Server, ok
from tests.support.onnx_folder import minilm_folder, write_json

QUESTION = "Who may borrow company bikes?"
USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "cost": 0.0015}


def chat(path: str, body: dict[str, Any]) -> Answer:
    """A writer that cites the first document, streaming."""
    events: list[Any] = [
        {"choices": [{"delta": {"content": "Employees may borrow company bikes [1]."}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE},
    ]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return 200, {"content-type": "text/event-stream"}, f"{lines}data: [DONE]\n\n".encode()


def rerank(path: str, body: dict[str, Any]) -> Answer:
    """A reranker that leaves the last document of several without a score."""
    count = len(body["documents"])
    scored = range(count - 1 or 1)
    return ok({"results": [{"index": n, "relevance_score": 0.9 - n / 100} for n in scored]})


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two short documents, and one with many marks, of which a model of 64 tokens reads little."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bikes.md").write_text("# Bikes\n\nEmployees may borrow company bikes for free.\n")
    (folder / "cars.md").write_text("# Cars\n\nCompany cars are for managers.\n")
    table = " ".join(f"{place}:{place + 1}," for place in range(1000, 1200))
    (folder / "table.md").write_text(f"# Table\n\n{table} zebra\n")
    return folder


def test_each_role_asks_its_own_server_with_its_own_key(cli: Any, documents: Path) -> None:
    """No key reaches another server or is shown; traces and `doctor` name hosts; all text is embedded."""
    model = EmbeddingModel(64)
    with Server(chat) as writer, Server(model) as embedder, Server(rerank) as reranker, Server(chat) as other:  # fmt: skip
        env = {
            "WHENCE_WRITER": "openai:writes", "WHENCE_WRITER_URL": f"{writer.url}/v1", "WHENCE_WRITER_API_KEY": "k-secret-w",
            "WHENCE_EMBEDDER": "ollama:m", "OLLAMA_HOST": embedder.host, "WHENCE_EMBEDDER_API_KEY": "k-secret-e",
            "WHENCE_RERANKER": "http:ranks", "WHENCE_RERANKER_URL": reranker.url, "WHENCE_RERANKER_API_KEY": "k-secret-r",
            "OPENAI_BASE_URL": f"{other.url}/v1", "OPENAI_API_KEY": "k-secret-o", "WHENCE_LOG": "debug",
        }  # fmt: skip
        indexed = cli("index", documents, "--collection", "served", "--json", env=env)
        asked = cli("ask", QUESTION, "--collection", "served", "--json", env=env)
        doctor = cli("doctor", "--json", env=env)
        explained = cli("explain", asked.json["answer_id"], "--json", env=env)
        again = cli("index", documents, "--collection", "served", "--json", env=env)

    assert (indexed.json["documents"]["added"], again.json["documents"]["unchanged"]) == (3, 3)
    assert model.read >= {"zebra", "1000", "1199", "borrow"}
    servers = {writer: "k-secret-w", embedder: "k-secret-e", reranker: "k-secret-r"}
    assert {one.host: one.keys for one in servers} == {
        one.host: {f"Bearer {key}"} for one, key in servers.items()
    }
    assert other.requests == []
    results = (indexed, asked, doctor, explained, again)
    assert "k-secret" not in "".join(one.out + one.err for one in results)

    assert asked.json["model"] == f"writes@{writer.host}"
    faults = [one["reason"] for one in asked.json["degraded"]]
    assert any(f"ranks@{reranker.host} gave 1 passages no valid score" in one for one in faults)
    used = {
        (one["role"], one["name"]) for stage in explained.json["stages"] for one in stage["models"]
    }
    assert used == {
        ("writer", f"writes@{writer.host}"),
        ("embedding", f"m@{embedder.host}"),
        ("reranker", f"ranks@{reranker.host}"),
    }
    checks = {one["name"]: one for one in doctor.json["checks"]}
    found = {name: (checks[name]["model"], checks[name]["host"], checks[name]["tokens"]) for name in ("writer", "embedder", "reranker")}  # fmt: skip
    assert found == {
        "writer": ("writes", writer.host, 25),
        "embedder": ("m", embedder.host, 5),
        "reranker": ("ranks", reranker.host, 0),
    }
    assert all(checks[name]["latency_ms"] > 0 for name in found)
    assert [checks[name]["price"] for name in found] == [0.0015, None, None]
    assert "25 tokens, price 0.0015, as the server says" in checks["writer"]["detail"]


def everything(path: str, body: dict[str, Any]) -> Answer:
    """A server of all roles."""
    if path.endswith("/rerank"):
        return rerank(path, body)
    if path.endswith("/chat/completions"):
        return chat(path, body)
    return EmbeddingModel(300)(path, body)


@pytest.mark.models
def test_the_page_on_models_works_as_printed(served: Any, tmp_path: Path, documents: Path) -> None:
    """Every command of the page exits with 0 on servers that answer as those that it names.

    Their vectors say nothing, so a question may be refused.
    """
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    checkout = tmp_path / "checkout"
    (checkout / "docs").mkdir(parents=True)
    documents.rename(checkout / "docs" / "how-to")
    printed_blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    # Other tests install what is fetched, and exchange encoders.
    blocks = [one for one in printed_blocks if not re.search("models install|reembed", one)]
    folder = minilm_folder(tmp_path / "mini")
    with Server(everything) as server:
        for printed in blocks:
            block = re.sub(r"https?://[\w.:]+(?:/v\d)?", f"{server.url}/v1", printed)
            env = dict(re.findall(r"export (\w+)=(\S+)", block.replace("FOLDER", str(folder))))
            env |= {"OLLAMA_HOST": server.host, "OPENAI_BASE_URL": f"{server.url}/v1"}
            commands = [line for line in block.splitlines() if line.startswith("whence ")]
            for line in commands:
                result = served(*shlex.split(line)[1:], cwd=checkout, env=env)
                refused = "Nearest passages" in result.out
                assert result.code == refused, (line, result.err)

    assert len(blocks) == 7
    assert len(server.requests) > 12


@pytest.mark.models
def test_another_model_of_the_same_folder_name_is_not_used(
    cli: Any, tmp_path: Path, documents: Path
) -> None:
    """A collection keeps the digest of its ONNX folder: with another one, words alone answer, which is said."""
    folder = minilm_folder(tmp_path / "mini")
    env = {"WHENCE_EMBEDDER": f"onnx:{folder}"}
    assert cli("index", documents, "--collection", "onnx", env=env).code == 0
    hits = cli("search", QUESTION, "--collection", "onnx", "--json", env=env).json["hits"]
    write_json(folder, **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    other = cli("search", QUESTION, "--collection", "onnx", env=env)

    assert hits[0]["document_id"] == "bikes.md"
    assert other.code == 0
    assert "reembed" in other.err
