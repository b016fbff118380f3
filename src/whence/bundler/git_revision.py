"""Which commit a checkout stands at, read from its `.git` without the git program.

Formats: gitrepository-layout(5), and `git-pack-refs(1)` for `packed-refs`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ("GitRevision", "read_git_revision")

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = "refs/heads/"
#: A symbolic name that names another, and so on: git follows five.
_MOST_STEPS = 5


class GitRevision(NamedTuple):
    """A commit, and the branch it was checked out from."""

    sha: str
    branch: str
    """Empty when the commit was checked out by itself."""


def read_git_revision(folder: Path) -> GitRevision | None:
    """Return the commit a folder is checked out at; None when it is no checkout, or has no commit yet."""
    git = _git_folder(folder)
    if git is None:
        return None
    common = git / _line(git / "commondir") if (git / "commondir").is_file() else git
    value = _line(git / "HEAD")
    branch = ""
    for _ in range(_MOST_STEPS):
        if _SHA.fullmatch(value):
            return GitRevision(value, branch)
        if not value.startswith("ref: "):
            return None
        name = value.removeprefix("ref: ").strip()
        branch = name.removeprefix(_BRANCH) if name.startswith(_BRANCH) else branch
        value = _line(git / name) or _line(common / name) or _packed(common, name)
    return None


def _git_folder(folder: Path) -> Path | None:
    """Return the folder with the state; in a linked work tree or a submodule `.git` is a file that names it."""
    git = folder / ".git"
    if git.is_dir():
        return git
    line = _line(git)
    return folder / line.removeprefix("gitdir: ") if line.startswith("gitdir: ") else None


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _packed(common: Path, name: str) -> str:
    for line in _line(common / "packed-refs").splitlines():
        sha, _, ref = line.partition(" ")
        if ref == name:
            return sha
    return ""
