"""The retrievers for frameworks, each in an environment with the wheel, its extra and nothing of development.

`checks/` has what runs in that environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from tests.support.base_size import BASE_LIMIT

from whence.models.installed import install_target

ROOT = Path(__file__).resolve().parents[2]
CHECKS = Path(__file__).parent / "checks"
#: What the checks need beside the extra.
FURTHER = {"langchain": ["langchain-tests"], "llama_index": [], "haystack": []}

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of Whence."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, ROOT], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize("name", sorted(FURTHER))
def test_a_framework(name: str, wheel: Path, tmp_path: Path) -> None:
    """The example prints three passages with file and line, and all checks of the framework pass.

    The base, as pip resolves it, is under its limit.
    """
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    install = [programs / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
    further = ["pytest", "pytest-asyncio", *FURTHER[name]]
    # Before 23.3 pip knows extras by their normalized names alone.
    subprocess.run([*install, f"{wheel}[{name.replace('_', '-')}]", *further], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "WHENCE_HOME": str(tmp_path / "home"),
        "WHENCE_MODELS": str(install_target()),
        "HAYSTACK_TELEMETRY_ENABLED": "false",
        "FRAMEWORK": name,
    }

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    base = json.loads(run(programs / "python", ROOT / "tests" / "support" / "base_size.py"))
    assert sum(base["sizes"].values()) < BASE_LIMIT, base["sizes"]
    assert not base["absent"]

    run(programs / "whence", "demo")
    printed = run(programs / "python", ROOT / "examples" / "frameworks" / f"{name}_retriever.py")
    search = run(
        *(programs / "whence", "search", "How many days of annual leave do employees get?"),
        *("--collection", "handbook", "--top-k", "3", "--json"),
    )
    expected = [_printed(hit) for hit in json.loads(search)["hits"]]

    assert re.findall(r"^(\S+):\d+ ", printed, re.MULTILINE) == expected
    run(
        *(programs / "python", "-m", "pytest", "-q", "-c", CHECKS / "pytest.ini", "-p", "no:cacheprovider"),
        *(CHECKS / "every_framework.py", CHECKS / f"{name}_standard.py"),
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(FURTHER))
def test_the_page_has_the_example(name: str) -> None:
    """The program on the page of a framework is the example, which the test above runs."""
    page = (ROOT / "docs" / "clients" / f"{name.replace('_', '-')}.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    example = (ROOT / "examples" / "frameworks" / f"{name}_retriever.py").read_text()

    assert example.endswith(code)


def _printed(hit: dict[str, Any]) -> str:
    return str(hit["chunk"]["metadata"]["source_file"])
