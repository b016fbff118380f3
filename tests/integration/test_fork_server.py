"""A program that is loaded once and forked for every run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.fork_server import ForkServer
from tests.support.remembering_session import RememberingSession

from whence.models.installed import find_model, shipped_graph
from whence.models.onnx_sessions import open_session
from whence.models.weights import EMBEDDER_NAME


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Runs Python's own formatter of JSON, which reads a file and writes to stdout."""
    made = ForkServer("json.tool:main", ["os"])
    yield made
    made.close()


def test_runs_are_separate(server: ForkServer, tmp_path: Path) -> None:
    """Two runs in two folders have their own arguments, files and output."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f'["{name}"]')
        done = server.run(
            ["tool", "--compact", "file"],
            environment=os.environ,
            folder=tmp_path / name,
            timeout_s=60,
        )

        assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, [name], b"")


def test_exit_code_and_errors_are_returned(server: ForkServer, tmp_path: Path) -> None:
    """A failing run returns its exit code and stderr; invalid UTF-8 is passed on."""
    missing = server.run(["tool", b"\xff"], environment=os.environ, folder=tmp_path, timeout_s=60)
    wrong = server.run(["tool", "--no"], environment=os.environ, folder=tmp_path, timeout_s=60)

    assert missing.returncode == 2
    assert b"\\udcff" in missing.stderr
    assert wrong.returncode == 2
    assert b"--no" in wrong.stderr


@pytest.mark.parametrize(
    ("end", "code", "err"),
    [
        ("", 0, b""),
        ("sys.exit()", 0, b""),
        ("sys.exit(3)", 3, b""),
        ("sys.exit('why')", 1, b"why\n"),
        ("1 / 0", 1, b"ZeroDivisionError"),
    ],
)
def test_exit_handlers_run_and_output_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, code: int, err: bytes
) -> None:
    """A run ends as a program does: threads are awaited, exit handlers run, what is printed is written."""
    lines = (
        "import atexit, sys, threading, time",
        "def main():",
        "    atexit.register(print, 'handler')",
        "    threading.Thread(target=lambda: time.sleep(0.05) or print('thread')).start()",
        "    print('main')",
        f"    {end}",
    )
    (tmp_path / "ending.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path.cwd()}")
    server = ForkServer("ending:main")
    done = server.run(["ending"], environment=os.environ, folder=tmp_path, timeout_s=60)
    server.close()

    assert (done.returncode, done.stdout) == (code, b"main\nthread\nhandler\n")
    assert err in done.stderr
    assert bool(done.stderr) == bool(err)


def test_a_run_that_does_not_end_is_killed(server: ForkServer, tmp_path: Path) -> None:
    """A run over its time limit is killed and reported, and the next run works."""
    os.mkfifo(tmp_path / "never")
    with pytest.raises(TimeoutError):
        server.run(["tool", "never"], environment=os.environ, folder=tmp_path, timeout_s=0.2)
    (tmp_path / "file").write_text("1")
    done = server.run(["tool", "file"], environment=os.environ, folder=tmp_path, timeout_s=60)

    assert done.stdout == b"1\n"


def test_a_fork_has_what_a_former_one_computed() -> None:
    """Vectors are equal bit for bit to those of the model, which computes each text once."""
    folder = find_model(EMBEDDER_NAME)
    model = open_session(shipped_graph("minilm-w8.onnx"), folder)
    asked: list[int] = []

    class Counting:
        def run(self, names: Any, inputs: Any) -> Any:
            asked.append(len(inputs["input_ids"]))
            return model.run(names, inputs)

    kept = RememberingSession(Counting())  # type: ignore[arg-type]
    ids = np.array([[101, 2000 + n, 3000, 102] for n in range(3)])
    names = ["vector", "tokens"]
    process = os.fork()
    if not process:
        kept.run(names, {"input_ids": ids[:2]})
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    for _ in range(2):
        for found, right in zip(
            kept.run(names, {"input_ids": ids}), model.run(names, {"input_ids": ids}), strict=True
        ):
            assert np.array_equal(found, right)

    assert asked == [1]
