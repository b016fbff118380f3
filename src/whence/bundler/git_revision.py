"""Read the commit of a checkout from its `.git`, without the git program.

Formats: gitrepository-layout(5), and `git-pack-refs(1)` for `packed-refs`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = "refs/heads/"
#: Symbolic references that are followed, as in git.
_MAX_STEPS = 5


class GitRevision(NamedTuple):
    """A commit and its branch."""

    sha: str
    branch: str


def read_git_revision(folder: Path) -> GitRevision | None:
    """Return the commit of a checkout; None if a folder is not a checkout, or has no commit."""
    git = _git_directory(folder)
    if git is None:
        return None
    common = git / _read_line(git / "commondir") if (git / "commondir").is_file() else git
    value = _read_line(git / "HEAD")
    branch = ""
    for _ in range(_MAX_STEPS):
        if _SHA.fullmatch(value):
            return GitRevision(value, branch)
        if not value.startswith("ref: "):
            return None
        name = value.removeprefix("ref: ").strip()
        branch = name.removeprefix(_BRANCH) if name.startswith(_BRANCH) else branch
        value = (
            _read_line(git / name) or _read_line(common / name) or _packed_reference(common, name)
        )
    return None


def _git_directory(folder: Path) -> Path | None:
    """Return the git directory; in a linked work tree or a submodule `.git` is a file that names it."""
    git = folder / ".git"
    if git.is_dir():
        return git
    line = _read_line(git)
    return folder / line.removeprefix("gitdir: ") if line.startswith("gitdir: ") else None


def _read_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _packed_reference(common: Path, name: str) -> str:
    for line in _read_line(common / "packed-refs").splitlines():
        sha, _, ref = line.partition(" ")
        if ref == name:
            return sha
    return ""
