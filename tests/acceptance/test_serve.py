"""`whence serve`: HTTP, server-sent events, MCP and the web page of a running gateway."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.issuer import AUDIENCE, Issuer, public_jwk, running_issuer
from tests.support.serving import Gateway, serving, start

ROOT = Path(__file__).resolve().parents[2]
WHENCE = Path(sys.executable).parent / "whence"
HANDBOOK = ROOT / "examples" / "handbook"
QUESTION = "How many days of leave do we get?"
SECRET = "correct horse battery staple"
#: A document of the handbook that only finance may read, and a question it answers.
HIDDEN = "What are the salary bands for engineers?"


@pytest.fixture(scope="module")
def indexed(cli: Any) -> Any:
    """Return the command on a home with the handbook in a collection of its own."""
    done = cli("index", HANDBOOK, "--collection", "serve", "--json")
    assert done.code == 0, done.err
    return cli


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tokens file with a token for finance."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    tokens.write_text(f'[tokens.desk]\nsha256 = "{digest}"\nacl = ["finance"]\nclearance = 3\n')
    return tokens


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Return an identity provider."""
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(indexed: Any, tokens: Path, issuer: Issuer) -> Iterator[Gateway]:
    """Return a gateway with a token for finance and an identity provider whose group `books` is finance."""
    mapping = tokens.with_name("groups.toml")
    mapping.write_text("[groups.books]\nacl = ['finance']\nclearance = 3\n")
    sign_in = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE, "--oidc-mapping", mapping)
    roles = ("--oidc-groups-claim", "realm_access.roles")
    with serving(indexed, "--tokens", tokens, *sign_in, *roles) as running:
        yield running


def test_http_answers_equal_the_command_line(gateway: Gateway, indexed: Any) -> None:
    """Answer and trace over HTTP equal those of `whence ask` and `whence explain`."""
    told = gateway.post("/v1/ask", {"question": QUESTION}).json()
    printed = indexed("ask", QUESTION, "--collection", "serve", "--json").json
    assert set(told) == set(printed)
    assert told["answer"] == printed["answer"]
    assert told["citations"] == printed["citations"]
    trace = gateway.http.get(f"/v1/answers/{told['answer_id']}").json()
    assert trace["complete"] is True
    explained = indexed("explain", told["answer_id"], "--json").json
    assert explained["triples"] == trace["triples"]
    for form, start_of in (
        ("svg", "<svg"),
        ("tree", "Question"),
        ("nquads", "<urn:"),
        ("turtle", "@prefix"),
    ):
        text = gateway.http.get(f"/v1/answers/{told['answer_id']}?format={form}").text
        assert text.startswith(start_of)
    over_http = gateway.http.get(f"/v1/answers/{told['answer_id']}?format=evidence").json()
    assert over_http == indexed("explain", told["answer_id"], "--format", "evidence").json
    assert gateway.http.get(f"/v1/answers/{'f' * 32}?format=evidence").status_code == 404


def test_events_end_with_the_answer(gateway: Gateway) -> None:
    """Five stages and the text are events; the last event is the answer."""
    names, text = [], ""
    with gateway.http.stream(
        "POST", "/v1/ask", json={"question": QUESTION}, headers={"Accept": "text/event-stream"}
    ) as told:
        for line in told.iter_lines():
            if line.startswith("event: "):
                names.append(line[7:])
            elif line.startswith("data: "):
                last = json.loads(line[6:])
                text += last.get("text", "") if names[-1] == "text" else ""
    assert names.count("stage") == 5
    assert names[-1] == "answer"
    assert last["answer"].split() == text.split()


def test_a_token_grants_its_rights(gateway: Gateway) -> None:
    """A restricted document is visible with a token, and not with claimed rights."""
    seen = gateway.post("/v1/search", {"query": HIDDEN, "threshold": 0}, SECRET).json()
    opened = {hit["document_id"] for hit in seen["hits"]}
    claimed = {"query": HIDDEN, "threshold": 0, "top_k": 100, "access": {"acl": ["finance"]}}
    public = gateway.post("/v1/search", claimed).json()
    hidden = opened - {hit["document_id"] for hit in public["hits"]}
    assert hidden
    answer = gateway.post("/v1/ask", {"question": HIDDEN}, SECRET).json()
    assert {one["document_id"] for one in answer["citations"]} & hidden
    # Its trace does not exist for anybody else.
    path = f"/v1/answers/{answer['answer_id']}"
    refused = gateway.http.get(path)
    unknown = gateway.http.get("/v1/answers/0123456789abcdef")
    assert (refused.status_code, unknown.status_code) == (404, 404)
    # A token that narrows itself sees no more than it asked for.
    narrowed = {"query": HIDDEN, "threshold": 0, "top_k": 100, "access": {}}
    less = gateway.post("/v1/search", narrowed, SECRET).json()
    assert not hidden & {hit["document_id"] for hit in less["hits"]}


def test_readers_sign_in_with_their_provider(gateway: Gateway, issuer: Issuer) -> None:
    """A token of the provider shows what the groups of its reader grant, and what is asked for it."""

    def found(**claims: Any) -> set[str]:
        body = {"query": HIDDEN, "top_k": 100}
        reply = gateway.post("/v1/search", body, issuer.token(**claims))
        assert reply.status_code == 200, reply.text
        return {hit["document_id"] for hit in reply.json()["hits"]}

    body = {"query": HIDDEN, "top_k": 100}
    opened = {hit["document_id"] for hit in gateway.post("/v1/search", body, SECRET).json()["hits"]}
    public = {hit["document_id"] for hit in gateway.post("/v1/search", body).json()["hits"]}
    hidden = opened - public
    assert hidden
    assert found(realm_access={"roles": ["staff", "books"]}) == opened
    for claims in ({}, {"realm_access": {"roles": ["finance"]}}, {"groups": ["books"]}):
        assert found(**claims) == public
    answer = gateway.post(
        "/v1/ask", {"question": HIDDEN}, issuer.token(realm_access={"roles": ["books"]})
    ).json()
    assert {one["document_id"] for one in answer["citations"]} & hidden
    # Keys that the provider makes later count, too.
    issuer.keys.append(public_jwk("later", "ES256"))
    assert gateway.post("/v1/search", body, issuer.token("later", "ES256")).status_code == 200
    for token, words in (
        (issuer.token(aud="other"), "for another audience"),
        (issuer.token(exp=1), "expired"),
        (issuer.token("foreign"), "not signed by its issuer"),
        (issuer.token(realm_access={"roles": 3}), "neither a list of strings nor a string"),
    ):
        refused = gateway.post("/v1/search", body, token)
        assert refused.status_code == 401
        told = refused.headers["WWW-Authenticate"]
        assert 'error="invalid_token"' in told
        assert words in told


def test_clients_find_the_provider(gateway: Gateway, issuer: Issuer) -> None:
    """The official client is led from 401 to the metadata, which it understands."""
    from mcp.client.auth.utils import extract_resource_metadata_from_www_auth
    from mcp.shared.auth import ProtectedResourceMetadata

    refused = gateway.post("/mcp", {}, "wrong")
    address = extract_resource_metadata_from_www_auth(refused)
    assert address == f"{gateway.url}/.well-known/oauth-protected-resource/mcp"
    told = ProtectedResourceMetadata.model_validate_json(gateway.http.get(address).content)
    assert str(told.resource) == f"{gateway.url}/mcp"
    assert [str(one).rstrip("/") for one in told.authorization_servers] == [issuer.url]
    assert told.bearer_methods_supported == ["header"]


def test_tokens_of_a_running_server(gateway: Gateway, indexed: Any, tokens: Path) -> None:
    """A token made by the command is accepted at once, listed without itself, and refused once revoked."""
    made = indexed(
        "tokens", "new", "board", "--acl", "finance", "--clearance", "3", "--expires", "30d",
        "--tokens", tokens, "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    token = made.json["token"]
    body = {"query": HIDDEN, "top_k": 100}
    hits = [gateway.post("/v1/search", body, one).json()["hits"] for one in (token, SECRET)]
    assert hits[0] == hits[1]
    listed = indexed("tokens", "list", env={"WHENCE_TOKENS": str(tokens)})
    assert listed.out.splitlines()[0] == f"{'desk':24s} acl finance; clearance 3"
    assert listed.out.splitlines()[1].startswith(f"{'board':24s} acl finance; clearance 3; expires")
    assert token not in listed.out + tokens.read_text()
    told = indexed("tokens", "list", "--tokens", tokens, "--json").json["tokens"]
    assert [(one["name"], one["acl"], one["expired"]) for one in told] == [
        ("desk", ["finance"], False),
        ("board", ["finance"], False),
    ]
    assert indexed("tokens", "revoke", "board", "--tokens", tokens).code == 0
    assert gateway.post("/v1/search", body, token).status_code == 401
    assert gateway.post("/v1/search", body, SECRET).status_code == 200
    indexed("tokens", "revoke", "board", "--tokens", tokens).assert_error(3)
    indexed("tokens", "new", "desk", "--tokens", tokens).assert_error(2)
    indexed("tokens", "new", "a", "--expires", "0", "--tokens", tokens).assert_error(2)


def test_tokens_of_a_home(fresh: Any) -> None:
    """Without a file the tokens are in the home, and the token alone is on standard output."""
    own = fresh
    page = (ROOT / "docs" / "how-to" / "tokens.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("whence tokens ")]
    assert [own(*line.split()[1:]).code for line in lines] == [0, 0, 0, 0]
    assert own("tokens", "revoke", "importer").code == 0
    made = own("tokens", "new", "reader")
    assert made.code == 0, made.err
    assert made.out.startswith("whence_")
    assert len(made.out.split()) == 1
    assert f"{own.home / 'tokens.toml'}" in made.err
    assert own("tokens", "list").out == f"{'reader':24s} public documents\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--oidc-issuer", "http://id.example", "--oidc-audience", "a"], "https"),
        (["--oidc-issuer", "https://id.example"], "--oidc-audience"),
        (["--oidc-audience", "a"], "--oidc-issuer"),
        (["--tokens", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_sign_in_that_does_not_fit(indexed: Any, options: list[str], words: str) -> None:
    """A setting that would let in too many or nobody ends the start with its name."""
    done = indexed("serve", "--port", "0", *options).assert_error(2)
    assert words in done.err


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_uses_the_tools(gateway: Gateway, mode: str) -> None:
    """The official client lists and calls the tools, with the newest revision and the handshake."""
    from mcp import Client
    from mcp_types import PromptReference

    stages: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, what: str | None) -> None:
        stages.append((done, total, what))

    async def use() -> None:
        async with Client(f"{gateway.url}/mcp", mode=mode) as client:
            listed = await client.list_tools()
            names = ["search", "fetch", "ask", "explain", "why_not", "documents", "stale", "expand"]
            assert [tool.name for tool in listed.tools] == names
            found = await client.call_tool("search", {"query": QUESTION})
            first = found.structured_content["results"][0]
            assert set(first) == {"id", "title", "url", "text"}
            assert all(one["url"] for one in found.structured_content["results"])
            read = (await client.call_tool("fetch", {"id": first["id"]})).structured_content
            assert set(read) == {"id", "title", "text", "url", "metadata"}
            assert first["text"] in read["text"]
            assert read["url"] == first["url"]
            place = read["metadata"]["passage"]["location"]
            assert read["text"][place["char_start"] : place["char_end"]] == first["text"]
            by_url = await client.call_tool("fetch", {"id": first["url"]})
            assert by_url.structured_content["text"] == read["text"]
            hidden = await client.call_tool(
                "fetch", {"id": "finance/salary-bands.md", "collection": "serve"}
            )
            missing = await client.call_tool(
                "fetch", {"id": "finance/none.md", "collection": "serve"}
            )
            assert hidden.is_error
            assert hidden.content[0].text.replace("salary-bands", "none") == missing.content[0].text
            page = await client.list_resources()
            resources = page.resources
            while page.next_cursor:
                page = await client.list_resources(cursor=page.next_cursor)
                resources += page.resources
            assert f"whence://serve/{read['metadata']['document_id']}" in {
                str(one.uri) for one in resources
            }
            assert not any("salary" in str(one.uri) for one in resources)
            (content,) = (await client.read_resource(first["url"])).contents
            assert content.text == read["text"]
            assert (await client.list_resource_templates()).resource_templates
            (prompt,) = (await client.list_prompts()).prompts
            given = await client.get_prompt(prompt.name, {"question": QUESTION})
            assert first["text"] in given.messages[0].content.text
            ref = PromptReference(name=prompt.name)
            completed = await client.complete(ref, {"name": "collection", "value": "ser"})
            assert "serve" in completed.completion.values
            asked = await client.call_tool(
                "ask", {"question": QUESTION}, progress_callback=on_progress
            )
            assert asked.structured_content["citations"]
            labels = ["query processing", "retrieval", "reranking", "generation"]
            assert stages == [(n, 4, label) for n, label in enumerate(labels, 1)]
            given = {"answer_id": asked.structured_content["answer_id"]}
            explained = await client.call_tool("explain", given)
            assert explained.structured_content["complete"] is True
            missed = await client.call_tool("why_not", given | {"item": "people/sick-leave.md"})
            assert missed.structured_content["stage"]
            failed = await client.call_tool("ask", {"question": " "})
            assert failed.is_error

    asyncio.run(use())


def test_official_client_reads_code(gateway: Gateway, releases: Any) -> None:
    """A snapshot of code is searched, expanded and read by the ids that the search returns."""
    from mcp import Client

    async def use() -> None:
        async with Client(f"{gateway.url}/mcp") as client:
            snapshot = {"snapshot": "release-1.1"}
            found = await client.call_tool("search", {"query": "depot", **snapshot})
            first = found.structured_content["results"][0]
            given = {"nodes": [first["id"]], "direction": "both", **snapshot}
            around = (await client.call_tool("expand", given)).structured_content
            assert first["id"] in [one["id"] for one in around["nodes"]]
            assert len(around["nodes"]) > 1
            read = await client.call_tool("fetch", {"id": first["id"], **snapshot})
            assert read.structured_content["text"] == first["text"]
            assert read.structured_content["url"] == first["url"]
            refused = await client.call_tool("expand", {"nodes": [first["id"]]})
            assert "no snapshot is named" in refused.content[0].text

    asyncio.run(use())


def test_official_client_over_standard_input(indexed: Any) -> None:
    """The official client uses standard input and output."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def use() -> None:
        arguments = ["serve", "--stdio", "--collection", "serve", "--acl", "finance"]
        parameters = StdioServerParameters(
            command=str(WHENCE), args=arguments, env=indexed.environment()
        )
        async with Client(stdio_client(parameters)) as client:
            found = await client.call_tool("search", {"query": HIDDEN, "threshold": 0})
            texts = [one["text"] for one in found.structured_content["results"]]
            assert any("salar" in text.lower() for text in texts)

    asyncio.run(use())


def test_port_that_is_taken(indexed: Any, gateway: Gateway) -> None:
    """A port in use is exit 4 with a hint."""
    port = gateway.url.rpartition(":")[2]
    done = indexed("serve", "--port", port)
    assert done.code == 4
    assert done.err.startswith(f"error: cannot listen on 127.0.0.1:{port}")
    assert "hint: choose another --port" in done.err


def test_more_than_public_for_the_whole_network(indexed: Any) -> None:
    """Rights for all callers on the network are refused at start."""
    done = indexed("serve", "--host", "0.0.0.0", "--acl", "board", "--port", "0")
    assert done.code == 2
    assert "hint: assign rights to tokens" in done.err


def test_stopping_ends_open_requests_first(indexed: Any) -> None:
    """A request in progress at Ctrl-C is answered; pressed again, there is one JSON document, and exit 130."""
    # Jobs in the background of a shell ignore the signal, and so would their children.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = start(indexed, "--json")
    signal.signal(signal.SIGINT, ours)
    address = httpx.URL(running.url)
    body = json.dumps({"question": QUESTION}).encode()
    head = (
        f"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.host, address.port or 80), timeout=60) as raw:
        raw.sendall(head.encode() + body)
        # The request counts as begun once the server has read it: it answers another one after it.
        assert running.http.get("/live").status_code == 200
        running.process.send_signal(signal.SIGINT)
        answered = b"".join(iter(lambda: raw.recv(65536), b""))
    running.http.close()
    assert answered.startswith(b"HTTP/1.1 200")
    for _ in range(3_000):
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGINT)
            time.sleep(0.01)
    out, err = running.process.communicate(timeout=30)
    assert running.process.returncode == 130, err
    assert json.loads(out)["url"] == running.url
    assert b"Traceback" not in err
