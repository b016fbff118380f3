"""Pin every dependency with hashes: `requirements.lock` to run, `requirements-dev.lock` to develop.

The files contain names, versions, markers and hashes, but no address of an index, and apply to every supported
version of Python.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Extras that `make setup` installs; adapters for other frameworks bring these with them and stay out.
EXTRAS = ("code", "oidc", "otel", "qdrant")
FLAGS = ("--quiet", "--upgrade", "--universal", "--generate-hashes", "--no-header", "--no-annotate")


def compile_lock(target: str, *extra: str) -> None:
    """Resolve the project and its groups into the lock file `target`."""
    command = ["uv", "pip", "compile", *FLAGS, "--output-file", target, *extra, "pyproject.toml"]
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Write both lock files; the second keeps the pins of the first."""
    extras = [f"--extra={name}" for name in EXTRAS]
    compile_lock("requirements.lock", *extras, "--group=build")
    compile_lock(
        "requirements-dev.lock",
        "--constraint=requirements.lock",
        *extras,
        "--group=build",
        "--group=dev",
    )


if __name__ == "__main__":
    main()
