"""The commands of the page on backups restore a home that is searched and verified."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import WHENCE

from whence.store.postgres.server.process import server_program

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "backup.md").read_text()
COPY, UNPACK, DUMP, RESTORE = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
QUESTION = "How many days of annual leave do employees get?"


def run(cli: Any, block: str, *, source: Path, backup: Path, restored: Path) -> None:
    """Run a block of the page."""
    environment = cli.environment(
        WHENCE_HOME=str(source),
        BACKUP=str(backup),
        RESTORED=str(restored),
        BIN=str(server_program("pg_dump").parent),
    )
    environment["PATH"] = f"{WHENCE.parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_backups_are_restored(cli: Any, handbook: Path, new_cli: Any, tmp_path: Path) -> None:
    """A dump of a running home and a copy of a stopped one have the documents, the traces and the chain."""
    assert cli("ask", QUESTION).code == 0
    wanted = [hit["chunk"]["id"] for hit in cli("search", QUESTION, "--json").json["hits"]]
    traces = cli("verify", "--json").json["traces"]
    from_dump, from_copy = tmp_path / "dumped", tmp_path / "copied"
    from_dump.mkdir()

    run(cli, DUMP, source=cli.home, backup=tmp_path, restored=from_dump)
    run(cli, RESTORE, source=cli.home, backup=tmp_path, restored=from_dump)
    run(cli, COPY, source=from_dump, backup=tmp_path, restored=from_copy)
    run(cli, UNPACK, source=from_dump, backup=tmp_path, restored=from_copy)

    for home in (from_dump, tmp_path / "home", from_copy):
        restored = new_cli(home)
        found = restored("search", QUESTION, "--json").json["hits"]
        verified = restored("verify", "--json")

        assert [hit["chunk"]["id"] for hit in found] == wanted
        assert (verified.code, verified.json["ok"], verified.json["traces"]) == (0, True, traces)
