"""Which files below a folder the user wants to leave out: `--exclude`, `.whenceignore`, and `.gitignore`.

Patterns are those of Git: a later one has precedence, `!` takes back, and files of deeper folders come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from whence.schema.errors import BadInput

#: A longer file of patterns is refused.
_MAX_BYTES = 2**20
OWN_FILE = ".whenceignore"
GIT_FILE = ".gitignore"


class Patterns(NamedTuple):
    """Patterns of one file, or of one option."""

    folder: str
    """Absolute; paths are relative to it."""
    source: str
    """What a reason names."""
    spec: Any

    def without(self, path: str) -> Patterns:
        """Return the patterns but those that a folder, or one around it, matches."""
        from pathspec import GitIgnoreSpec

        relative = self.relative(path, is_folder=True)
        kept = [one for one in self.spec.patterns if not one.match_file(relative)]
        return self._replace(spec=GitIgnoreSpec(kept))

    def relative(self, path: str, *, is_folder: bool) -> str:
        """Return a path as the patterns are compared with it."""
        return path[len(self.folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")


class Exclusions:
    """The patterns that hold in a folder; `below` adds those of a folder in it.

    Args:
        patterns: Outermost first.
        in_checkout: Whether files of Git are read.
    """

    def __init__(self, patterns: Sequence[Patterns] = (), *, in_checkout: bool = False) -> None:
        self.patterns = patterns
        self.in_checkout = in_checkout

    @classmethod
    def of_run(cls, base: str, folder: str, globs: Sequence[str]) -> Exclusions:
        """Return what holds in a folder before its own files are read.

        Args:
            base: Absolute path of the root, which `globs` are relative to.
            folder: Absolute path at or below it.
            globs: Of `--exclude`.

        Raises:
            BadInput: A pattern is none.
        """
        given = [_parse(base, f"--exclude {one}", [one]) for one in globs]
        checkout = next(
            (one for one in (Path(folder), *Path(folder).parents) if (one / ".git").exists()), None
        )
        found = cls(in_checkout=checkout is not None)
        first = checkout if checkout is not None else Path(base)
        outer = [
            one for one in reversed(Path(folder).parents) if one == first or first in one.parents
        ]
        for one in outer:
            found = found.below(str(one))
        # Who names a folder wants it read, though the folders around leave it out.
        patterns = [one.without(folder) for one in found.patterns]
        # What a command says comes before all files.
        return cls([*patterns, *given], in_checkout=found.in_checkout)

    def below(self, folder: str) -> Exclusions:
        """Return what holds in a folder: its own patterns come before those of the folders around it."""
        names = (GIT_FILE, OWN_FILE) if self.in_checkout else (OWN_FILE,)
        own = list(_read(folder, names))
        if not own:
            return self
        given = [one for one in self.patterns if one.source.startswith("--exclude")]
        files = [one for one in self.patterns if one not in given]
        return Exclusions([*files, *own, *given], in_checkout=self.in_checkout)

    def reason(self, path: str, *, is_folder: bool = False) -> str:
        """Return why a path is left out; empty when it is not."""
        for one in reversed(self.patterns):
            found = one.spec.check_file(one.relative(path, is_folder=is_folder))
            if found.include is not None:
                return f"excluded by {one.source}" if found.include else ""
        return ""


def _read(folder: str, names: Sequence[str]) -> Iterator[Patterns]:
    for name in names:
        path = Path(folder, name)
        try:
            if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
                yield _parse(folder, name, lines)
        except OSError:
            continue


def _parse(folder: str, source: str, lines: Sequence[str]) -> Patterns:
    from pathspec import GitIgnoreSpec

    try:
        return Patterns(folder, source, GitIgnoreSpec.from_lines(lines))
    except ValueError as error:
        raise BadInput(
            f"{source} is no pattern: {error}", hint="for example --exclude '*.log'"
        ) from error
