"""The conformance suite of the Model Context Protocol, against the gateway with the items that it looks for.

The suite reads and calls items of a sample server (`test_simple_text`, ...). They stand beside those of Whence,
so that it judges everything between a request and an offer: messages, headers, lists, errors, streams.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from tests.support.gateway import StubEngine

from whence.schema import Access
from whence.schema.errors import NotFound
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator, Caller
from whence.surfaces.http.service import Service
from whence.surfaces.mcp.offer import DocumentOffer
from whence.surfaces.mcp.protocol import Progress, ProtocolError

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
#: The suite needs this release of Node or a later one; the package `node` brings it where it is missing.
NODE = 22
#: Scenarios of what Whence does not offer, by revision: it sends no requests to clients and no log, has no
#: sessions, and its documents no subscriptions.
NOT_OFFERED = {
    "2025-11-25": (
        "logging-set-level", "tools-call-with-logging", "tools-call-sampling", "tools-call-elicitation",
        "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "resources-subscribe", "resources-unsubscribe",
        "server-sse-multiple-streams",
    ),
    "2026-07-28": (
        "input-required-result-basic-elicitation", "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots", "input-required-result-request-state",
        "input-required-result-multiple-input-requests", "input-required-result-multi-round",
        "input-required-result-non-tool-request", "input-required-result-result-type",
        "input-required-result-tampered-state", "input-required-result-capability-check",
        "input-required-result-missing-input-response", "input-required-result-ignore-extra-params",
    ),
}  # fmt: skip
#: Optional checks that are reported and not required, as far as they hold.
HOLD = {"json-schema-2020-12", "http-header-validation"}

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
_TEXT = {"type": "text", "text": "A text."}
_IMAGE = {"type": "image", "data": _PIXEL, "mimeType": "image/png"}
_RESOURCE = {
    "type": "resource",
    "resource": {"uri": "test://embedded", "mimeType": "text/plain", "text": "Embedded."},
}
_TOOLS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [_TEXT],
    "test_image_content": [_IMAGE],
    "test_audio_content": [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
    "test_embedded_resource": [_RESOURCE],
    "test_multiple_content_types": [_TEXT, _IMAGE, _RESOURCE],
    "test_error_handling": [_TEXT],
    "test_tool_with_progress": [_TEXT],
    "test_missing_capability": [_TEXT],
    "test_streaming_elicitation": [_TEXT],
    "test_logging_tool": [_TEXT],
    "json_schema_2020_12_tool": [_TEXT],
}
_PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


def _schema(name: str) -> dict[str, Any]:
    """Return the schema of a tool; that of one has the keywords which must survive."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    if name != "json_schema_2020_12_tool":
        return schema
    text = {"type": "string"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": text, "city": text}}},
        "properties": {
            "name": text, "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": text, "email": text,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }  # fmt: skip


class SampleOffer(DocumentOffer):
    """Offers the items of the suite beside those of Whence."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        listed = [
            {"name": name, "description": name, "inputSchema": _schema(name)} for name in _TOOLS
        ]
        self.tools = (*self.tools, *listed)
        self.prompts = (
            *self.prompts,
            *({"name": name, "description": name, "arguments": [{"name": one, "required": True} for one in names]} for name, names in _PROMPTS.items()),
        )  # fmt: skip

    async def call(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], progress: Progress
    ) -> dict[str, Any]:
        if name not in _TOOLS:
            return await super().call(caller, name, arguments, progress)
        if name == "test_missing_capability":
            raise ProtocolError(
                -32021, "sampling is needed", {"requiredCapabilities": {"sampling": {}}}
            )
        if name == "test_tool_with_progress":
            for done in (0, 50, 100):
                await progress(done, 100, "a step")
        return {"content": _TOOLS[name], "isError": name == "test_error_handling"}

    async def read(self, caller: Caller, uri: str) -> dict[str, Any]:
        if not uri.startswith("test://"):
            return await super().read(caller, uri)
        if uri == "test://static-binary":
            return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": _PIXEL}]}
        known = re.fullmatch("test://(static-text|template/([0-9]+)/data)", uri)
        if known is None:
            raise NotFound(f"there is no {uri}")
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"Text of {known[1]}"}]}

    async def prompt(
        self, caller: Caller, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        if name not in _PROMPTS:
            return await super().prompt(caller, name, arguments)
        content = {"resource": _RESOURCE, "image": _IMAGE}.get(name.rpartition("_")[2])
        told = content or {"type": "text", "text": json.dumps(dict(arguments))}
        return {"messages": [{"role": "user", "content": told}]}

    async def complete(
        self,
        caller: Caller,
        ref: Mapping[str, Any],
        name: str,
        begun: str,
        known: Mapping[str, Any],
    ) -> list[str]:
        if ref.get("name") in _PROMPTS:
            return [f"{begun}s"]
        return await super().complete(caller, ref, name, begun, known)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the address of a gateway in a thread of this process, with the items of the suite."""
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as listening:
        patch.setattr("whence.surfaces.http.app.DocumentOffer", SampleOffer)
        service = Service(StubEngine(), "wiki", concurrent=4)  # type: ignore[arg-type]
        app = gateway(service, Authenticator(Access.public()), hosts={"127.0.0.1", "localhost"})
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """Return the command of the suite, installed into a folder of its own."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm and Node are not installed")
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    is_old = int(shown.lstrip("v").partition(".")[0]) < NODE
    folder = tmp_path_factory.mktemp("suite")
    packages = [SUITE, *([f"node@{NODE}"] if is_old else [])]
    install = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder]
    installed = subprocess.run([*install, *packages], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install the suite: {installed.stderr[-300:]}")
    modules = folder / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [modules / "node" / "bin" / "node" if is_old else node, program]


@pytest.mark.parametrize("revision", sorted(NOT_OFFERED))
def test_the_conformance_suite(
    url: str, suite: Sequence[str | Path], revision: str, tmp_path: Path
) -> None:
    """Every scenario that a revision requires of a server passes, but for those of what Whence does not offer.

    A scenario that passes by now and stands in the list of those that do not, fails the test, too.
    """
    given = tmp_path / "not_offered.yml"
    given.write_text(yaml.safe_dump({"server": list(NOT_OFFERED[revision])}))
    results = tmp_path / "results"
    done = subprocess.run(
        [
            *(*suite, "server", "--url", url, "--requirements", revision),
            *("--expected-failures", given, "--output-dir", results),
        ],
        env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    checks = {one.parent.name: json.loads(one.read_text()) for one in results.glob("*/checks.json")}
    assert len(checks) > 30
    for folder, told in checks.items():
        if any(f"server-{name}-" in folder for name in HOLD):
            assert not [one for one in told if one["status"] == "FAILURE"], folder
