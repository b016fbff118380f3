"""Each plug-in of `examples/plugins` works where it is installed from its own distribution.

The wheel of Whence and the plug-ins are installed into an environment of their own, so that nothing but entry
points joins them. What `requirements.lock` names is linked there from the environment of the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.support.webdav_server import webdav_server

from whence.models.installed import install_target

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "examples" / "plugins"
KINDS = sorted(path.parent.name for path in PLUGINS.glob("*/pyproject.toml"))

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("plugins"), pytest.mark.timeout(300)]

Run = Callable[..., Any]


def link(distribution: metadata.Distribution, packages: Path) -> None:
    """Make the modules and the metadata of a distribution importable from another environment."""
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(str(distribution.locate_file(top)))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment with Whence's wheel, its locked dependencies and all plug-ins."""
    folder = tmp_path_factory.mktemp("environment")
    wheels = folder / "wheels"
    sources = [ROOT, *(PLUGINS / kind for kind in KINDS)]
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", wheels, *sources], check=True)
    venv.create(folder / "venv")
    programs = folder / "venv" / "bin"
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    for line in re.findall(r"^\S+==[^\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        locked = Requirement(line)
        if locked.marker is None or locked.marker.evaluate():
            link(metadata.distribution(locked.name), packages)
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    options = ["--no-deps", "--no-compile", "--no-index"]
    subprocess.run([*pip, *options, *wheels.glob("*.whl")], check=True)
    return programs


@pytest.fixture
def run(programs: Path, tmp_path: Path) -> Run:
    """Return a function that runs `whence ... --json` in a folder of the test and parses its output."""

    def whence(*arguments: str | Path, **settings: str) -> Any:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [programs / "whence", *arguments, "--json"],
            cwd=tmp_path,
            env=environment
            | {"WHENCE_DATABASE_URL": f"sqlite:///{tmp_path}/store.db"}
            | {"WHENCE_EMBEDDER": "hashing:128", "WHENCE_RERANKER": "none"}
            | {"WHENCE_HOME": str(tmp_path / "home"), "WHENCE_WRITER": "first-passage"}
            | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    (tmp_path / "moon.md").write_text("# Moon\n\nThe moon orbits the earth in 27 days.\n")
    (tmp_path / "sun.md").write_text("# Sun\n\nThe sun is a star. The moon is not a star.\n")
    return whence


def test_every_kind_has_a_worked_plugin() -> None:
    """There is one distribution for each plug-in point."""
    assert KINDS == [
        "command", "embedder", "loader", "processor", "reranker", "source", "store", "transport",
        "writer",
    ]  # fmt: skip


def test_the_demo_needs_no_checkout(
    programs: Path, tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """The wheel has the documents and questions of `whence demo`; two questions have no answer there."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {"WHENCE_HOME": str(new_home(tmp_path / "home"))}
    settings["WHENCE_MODELS"] = str(install_target())
    done = subprocess.run(
        [programs / "whence", "demo", "--json"],
        cwd=tmp_path, env=kept | settings, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert [bool(answer["citations"]) for answer in json.loads(done.stdout)["answers"]] == [
        True, False, True, False, True
    ]  # fmt: skip


def test_store_embedder_and_writer(run: Run) -> None:
    """Documents are stored in the plug-in's file, found by its vectors, and quoted by its writer."""
    assert run("index", "moon.md", "sun.md")["documents"]["added"] == 2
    hits = run("search", "moon orbits", "--mode", "dense", "--threshold", "0")["hits"]
    answer = run("ask", "How long does the moon orbit the earth?")

    assert hits[0]["document_id"] == "moon.md"
    assert answer["model"] == "first-passage"
    assert answer["answer"] == "The moon orbits the earth in 27 days. [1]"
    assert run("explain", answer["answer_id"])["complete"] is True


def test_reranker(run: Run) -> None:
    """The reranking stage names the plug-in's model."""
    run("index", "moon.md", "sun.md")
    answer = run("ask", "Is the sun a star?", WHENCE_RERANKER="overlap")
    triples = run("explain", answer["answer_id"])["triples"]

    assert "focus" in [stage["stage"] for stage in answer["stages"]]
    assert any(triple["o"] == "overlap" for triple in triples)


def test_loader(run: Run, tmp_path: Path) -> None:
    """Files with the plug-in's suffix are indexed as text without time codes."""
    subtitles = "1\n00:00:01,000 --> 00:00:03,000\nThe eclipse begins at noon.\n"
    (tmp_path / "talk.srt").write_text(subtitles)
    run("index", "talk.srt")
    (hit,) = run("search", "eclipse", "--mode", "bm25", "--threshold", "0")["hits"]

    assert hit["chunk"]["content"].strip() == "The eclipse begins at noon."


def test_source(run: Run) -> None:
    """Files of a WebDAV server are indexed, changes and removals follow, and its password is not shown."""
    files = {"/docs/moon.md": b"The moon is full.", "/docs/in/a b.md": b"Words of a file."}
    with webdav_server(files) as (port, requests):
        address = f"webdav+http://ada:secret@127.0.0.1:{port}/docs/"
        assert run("index", address)["documents"]["added"] == 2
        files["/docs/moon.md"] = b"The moon is new."
        del files["/docs/in/a b.md"]
        requests.clear()
        again = run("index", address, "--prune")

    assert (again["documents"]["updated"], again["documents"]["removed"]) == (1, 1)
    assert [one for one in requests if one.startswith("GET")] == ["GET /docs/moon.md"]
    assert "secret" not in json.dumps(again)
    (hit,) = run("search", "moon new", "--mode", "bm25", "--threshold", "0")["hits"]
    assert hit["chunk"]["metadata"]["source_url"] == f"http://127.0.0.1:{port}/docs/moon.md"


def test_command_and_tool(run: Run, programs: Path) -> None:
    """A command of a plug-in is listed where it asks to be and runs; its tool follows those of Whence."""
    run("index", "moon.md", "sun.md")
    listed = [one["name"] for one in run("help")["commands"]]
    code = "from whence.surfaces.mcp.offer import tools; print(*tools())"
    tools = subprocess.run([programs / "python", "-I", "-c", code], capture_output=True, check=True)

    assert run("titles") == {"titles": ["Moon", "Sun"]}
    assert listed[listed.index("show") + 1] == "titles"
    assert tools.stdout.split()[-2:] == [b"expand", b"titles"]


def test_transport(run: Run) -> None:
    """A whole question travels over the plug-in's transport, which delays each message."""
    run("index", "moon.md")
    answer = run("ask", "How long does the moon orbit?", "--broker", "slow://?delay_ms=40")

    assert answer["citations"]
    assert answer["latency_ms"] > 4 * 40


def test_processor(run: Run, programs: Path) -> None:
    """A flow file may name the plug-in's type, and the flow runs."""
    folder = PLUGINS / "processor"
    checked = run("run", folder / "counting.yaml", "--check")
    counted = subprocess.run(
        [programs / "python", "-I", folder / "count_words.py"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert [(one["name"], one["type"]) for one in checked["processors"]] == [
        ("counter", "word-counter")
    ]
    assert counted.stdout == "5 words of four letters or more\n"
