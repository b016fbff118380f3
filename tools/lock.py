"""Pin every dependency with hashes: `requirements.lock` to run, `requirements-dev.lock` to develop.

`requirements-uv.lock` pins uv, with which `tools/install.py` installs the other two.

The files contain names, versions, markers and hashes, but no address of an index, and apply to every supported
version of Python.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Extras that `make setup` installs; adapters for other frameworks bring these with them and stay out.
EXTRAS = ("code", "oidc", "otel", "passwords", "qdrant")
FLAGS = ("--quiet", "--upgrade", "--universal", "--generate-hashes", "--no-header", "--no-annotate")


def compile_lock(target: str, *sources: str) -> None:
    """Resolve the sources, options of `uv pip compile`, into the lock file `target`."""
    command = ["uv", "pip", "compile", *FLAGS, "--output-file", target, *sources]
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Write the lock files; that of development keeps the pins of the first."""
    extras = [f"--extra={name}" for name in EXTRAS]
    compile_lock("requirements-uv.lock", "--group=uv")
    compile_lock("requirements.lock", *extras, "--group=build", "pyproject.toml")
    compile_lock(
        "requirements-dev.lock",
        "--constraint=requirements.lock",
        *extras,
        "--group=build",
        "--group=dev",
        "pyproject.toml",
    )


if __name__ == "__main__":
    main()
