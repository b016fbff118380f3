"""The folders that a collection was indexed from, kept in the home: they turn the name of a file into its path.

Stored documents hold names relative to these folders, so that no path of this machine leaves it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

_FILE = "source-folders.json"
#: Most folders remembered for a collection.
_MOST = 50


def remember_folders(home: Path, collection: str, paths: Iterable[Path]) -> None:
    """Put the folders of these files and folders first in the list of a collection.

    They serve links in a terminal only, so a list that cannot be written is left as it is.
    """
    folders = [path.resolve() for path in paths]
    new = [str(path if path.is_dir() else path.parent) for path in folders]
    known = _read(home)
    kept = list(dict.fromkeys([*new, *known.get(collection, [])]))[:_MOST]
    if kept == known.get(collection):
        return
    try:
        with tempfile.NamedTemporaryFile(dir=home, prefix=f".{_FILE}-", delete=False) as file:
            file.write(msgspec.json.encode({**known, collection: kept}))
        Path(file.name).replace(home / _FILE)
    except OSError:
        return


def find_source(home: Path, collection: str, source_file: str) -> Path | None:
    """Return the path of a document's file; None when it is not where it was indexed from."""
    for folder in _read(home).get(collection, []):
        path = Path(folder, source_file)
        if source_file and path.is_file():
            return path
    return None


def _read(home: Path) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode((home / _FILE).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.MsgspecError):
        return {}
