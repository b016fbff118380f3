"""The paths of a run that reads only some of the files below its folders."""

from __future__ import annotations

from collections.abc import Iterable


class Selection:
    """Files and folders, by absolute path without links; a folder stands for all that is below it."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._above = frozenset(folder for path in self._paths for folder in _folders_above(path))

    def has(self, path: str) -> bool:
        """Return whether a path is selected. Cost: linear in its depth."""
        return path in self._paths or not self._paths.isdisjoint(_folders_above(path))

    def leads_to(self, path: str) -> bool:
        """Return whether a path is selected, or is a folder above one that is."""
        return path in self._above or self.has(path)


def _folders_above(path: str) -> Iterable[str]:
    at = path.rfind("/")
    while at > 0:
        path = path[:at]
        yield path
        at = path.rfind("/")
