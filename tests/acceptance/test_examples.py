"""The programs in the README and in `examples/` work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(cli: Any, *arguments: str | Path) -> str:
    """Run a Python program at the root of the repository, on the shared home."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=cli.environment(),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_example_answers(cli: Any, tmp_path: Path) -> None:
    """The README's program cites the expected document."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text(block)

    assert "finance/salary-bands.md" in run(cli, program)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(cli: Any, example: Path) -> None:
    """Every example runs and prints something."""
    assert run(cli, example).strip()
