"""Clients of OpenAI's API and curl, against one running gateway."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from tests.support.serving import Gateway, serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "clients"
ADDRESS = "http://127.0.0.1:9420"
ASK = {"role": "user", "content": "How many days of leave do we get?"}
WRITER, FINANCE = "a token that writes", "a token of finance"
HIDDEN = {"role": "user", "content": "What are the salary bands for engineers?"}


@pytest.fixture(scope="module")
def gateway(
    cli: Any, handbook: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Return a gateway with the handbook, a token that writes and one of finance."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    rights = {
        WRITER: ("writer", "write = true"),
        FINANCE: ("desk", "acl = ['finance']\nclearance = 3"),
    }
    tokens.write_text(
        "\n".join(
            f'[tokens.{name}]\nsha256 = "{hashlib.sha256(token.encode()).hexdigest()}"\n{right}'
            for token, (name, right) in rights.items()
        )
    )
    tokens.chmod(0o600)
    origin = ("--allow-origin", "http://localhost:3000")
    with serving(cli, "--tokens", tokens, *origin, collection="default") as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    """Return the stock client of a reader without a token."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="public", max_retries=0) as client:
        yield client


def without_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what differs each time."""
    changing = ("answer_id", "latency_ms", "stages", "answer", "notes")
    return {name: value for name, value in answer.items() if name not in changing}


def test_the_stock_client(gateway: Gateway, client: openai.OpenAI) -> None:
    """An answer of the stock client is that of `/v1/ask`, whole and as a stream, with its trace."""
    plain = gateway.post("/v1/ask", {"question": ASK["content"]}).json()
    told: Any = client.chat.completions.create(model="default", messages=[ASK])
    assert told.choices[0].message.content == plain["answer"]
    assert told.choices[0].finish_reason == "stop"
    assert told.usage.completion_tokens > 5
    assert without_numbers(told.whence) == without_numbers(plain)
    traces = [
        gateway.http.get(f"/v1/answers/{one['answer_id']}").json()["stages"]
        for one in (plain, told.whence)
    ]
    kept = [
        [(one["stage"], one.get("selected"), one.get("candidates")) for one in trace]
        for trace in traces
    ]
    assert kept[0] == kept[1]
    chunks: list[Any] = list(
        client.chat.completions.create(
            model="default", messages=[ASK], stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [one.choices[0].delta for one in chunks if one.choices]
    assert "".join(one.content or "" for one in deltas) == plain["answer"]
    assert chunks[-1].usage == told.usage
    (whence,) = [one.whence for one in chunks if getattr(one, "whence", None)]
    assert without_numbers(whence) == without_numbers(plain)


async def test_the_stock_client_asynchronously(gateway: Gateway) -> None:
    """Several questions at once, whole and as streams; a follow-up is completed."""
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="public") as client:
        messages: Any = [ASK, {"role": "assistant", "content": "x"}]
        messages.append({"role": "user", "content": "And for parents?"})
        chat = client.chat.completions

        async def streamed() -> str:
            stream = await chat.create(model="default", messages=[ASK], stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])

        first, text, more = await asyncio.gather(
            chat.create(model="default", messages=[ASK]),
            streamed(),
            chat.create(model="default", messages=messages),
        )
        assert text == first.choices[0].message.content
        used = more.model_extra["whence"]["question_used"]
        assert used == f"{ASK['content']} And for parents?"


def test_models_and_rights(gateway: Gateway, client: openai.OpenAI) -> None:
    """Models are the visible collections; a token shows more; errors are those that the client knows."""
    assert "default" in [one.id for one in client.models.list()]
    assert client.models.retrieve("default").owned_by == "whence"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="never", messages=[ASK])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="default", messages=[])
    assert refused.value.param == "messages"
    finance = client.with_options(api_key=FINANCE)
    seen: Any = finance.chat.completions.create(model="default", messages=[HIDDEN])
    public: Any = client.chat.completions.create(model="default", messages=[HIDDEN])
    names = [{c["document_id"] for c in one.whence["citations"]} for one in (seen, public)]
    assert names[0] - names[1]


def test_embeddings_of_the_stock_client(client: openai.OpenAI) -> None:
    """The client asks for base64 by itself; plain numbers are the same, and equal texts have equal vectors."""
    texts = ["leave", "parental leave", "leave"]
    packed = client.embeddings.create(model="default", input=texts)
    plain = client.embeddings.create(model=packed.model, input=texts, encoding_format="float")
    vectors = [one.embedding for one in packed.data]
    assert vectors[0] == vectors[2] != vectors[1]
    assert [one.embedding for one in plain.data] == [pytest.approx(one) for one in vectors]
    assert packed.usage.prompt_tokens == 4
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="default", input=[[1, 2, 3]])


def test_requests_of_open_webui(gateway: Gateway) -> None:
    """What Open WebUI sends: the check of a connection, a chat with its own fields, a title, a page."""
    head = {"Authorization": "Bearer public"}
    listed = gateway.http.get("/v1/models", headers=head | {"Content-Type": "application/json"})
    assert {one["id"] for one in listed.json()["data"]} >= {"default"}
    chat = {
        "stream": True,
        "model": "default",
        "messages": [{"role": "system", "content": "Be nice."}, ASK],
        "stream_options": {"include_usage": True},
        "temperature": 0.8,
        "user": {"name": "Ada", "id": "1", "email": "ada@x.example", "role": "user"},
    }
    forwarded = {
        "X-OpenWebUI-User-Id": "1",
        "X-OpenWebUI-Chat-Id": "7",
        "HTTP-Referer": "https://openwebui.com/",
    }
    told = gateway.post("/v1/chat/completions", chat, "public", **forwarded)
    lines = [line[6:] for line in told.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    deltas = [one["choices"][0]["delta"] for one in map(json.loads, lines) if one["choices"]]
    sources = [source for one in deltas for source in one.get("annotations", [])]
    assert sources
    for source in sources:
        assert source["type"] == "url_citation"
        page = source["url_citation"]["url"]
        assert gateway.http.get(page).status_code == 200
    task = f"### Task:\nGenerate a concise title.\n<chat_history>\nUSER: {ASK['content']}\n</chat_history>"
    title = {"model": "default", "messages": [{"role": "user", "content": task}], "stream": False}
    title |= {"max_completion_tokens": 1000}
    answered = gateway.post("/v1/chat/completions", title, "public").json()
    assert isinstance(answered["choices"][0]["message"]["content"], str)
    page_head = {"Origin": "http://localhost:3000"}
    direct = gateway.http.get("/v1/models", headers=head | page_head)
    assert direct.headers["access-control-allow-origin"] == "http://localhost:3000"


def test_requests_of_librechat(gateway: Gateway) -> None:
    """What LibreChat sends: the list of models, and a chat with its default parameters and headers."""
    listed = gateway.http.get("/v1/models", headers={"Authorization": "Bearer public"})
    assert listed.json()["object"] == "list"
    chat = {
        "model": "default",
        "temperature": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "user": "65f0c0ffee",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": [{"type": "text", "text": ASK["content"]}]}],
    }
    stainless = {"X-Stainless-Lang": "js", "X-Stainless-Retry-Count": "0"}
    told = gateway.post("/v1/chat/completions", chat, "public", **stainless)
    assert told.status_code == 200
    assert '"finish_reason":"stop"' in told.text
    assert told.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("name", ["curl", "librechat", "mcp", "open-webui", "openai"])
def test_pages_of_clients(gateway: Gateway, cli: Any, name: str, tmp_path: Path) -> None:
    """The commands and programs of each page work; its settings name the address of the API.

    Pages of frameworks are run by `make frameworks`.
    """
    page = PAGES / f"{name}.md"
    text = page.read_text().replace(ADDRESS, gateway.url)
    text = text.replace("examples/handbook", str(ROOT / "examples" / "handbook"))
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    commands = "\n".join(code for kind, code in blocks if kind == "sh")
    commands = re.sub(r"^whence serve\b.*$", "", commands, flags=re.MULTILINE)
    environment = cli.environment(
        WRITER=WRITER, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin"
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    programs = "\n".join(code for kind, code in blocks if kind == "python")
    exec(compile(programs, page.name, "exec"), {})
    assert programs or "curl" in commands or name == "mcp"
    for kind, code in blocks:
        if kind == "yaml":
            (endpoint,) = yaml.safe_load(code)["endpoints"]["custom"]
            assert endpoint["baseURL"].endswith(":9420/v1")
        elif kind == "ini":
            settings = dict(line.split("=", 1) for line in code.splitlines())
            assert settings["OPENAI_API_BASE_URL"].endswith(":9420/v1")
        elif kind == "json":
            (server,) = json.loads(code)["mcpServers"].values()
            assert server["args"][:2] == ["serve", "--stdio"]
        else:
            assert kind in ("sh", "python", "text")


def test_metrics_of_a_running_gateway(gateway: Gateway) -> None:
    """The flow and the requests are counted, for this machine and for tokens; probes are ready."""
    shown = gateway.http.get("/metrics").text
    assert re.search(r'whence_messages_handled_total\{[^}]*processor="document-rag"\} [1-9]', shown)
    assert 'whence_http_requests_total{handler="chat"' in shown
    assert gateway.http.get("/metrics", headers={"X-Forwarded-For": "10.0.0.7"}).status_code == 401
    assert gateway.http.get("/health").json()["status"] == "ok"
    assert gateway.http.get("/ready").status_code == 200
