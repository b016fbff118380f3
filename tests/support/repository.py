"""A Git repository of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Repository:
    """A repository of a test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments: str, **environment: str) -> str:
        """Run git in it; return what it prints."""
        identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.path)} | environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | None], author: str = "Ada", date: str = "") -> str:
        """Write or remove files and commit that; return the commit."""
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "--all")
        when = date or "2024-03-05T10:00:00+00:00"
        self.git(
            "commit", "--quiet", "--message", "x", f"--author={author} <a@x>", f"--date={when}"
        )
        return self.git("rev-parse", "HEAD")
