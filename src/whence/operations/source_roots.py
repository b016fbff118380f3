"""Where the documents of a collection lie on disk: the paths that were indexed, noted in the home.

The folder `sources` of the home has a file for each collection of each database. It is a convenience of the
machine that indexed: without it nothing is compared, unless the user names the paths, and sources are no links.
Stored documents hold names relative to these paths, so that no path of this machine leaves it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from whence.flow.settings import Settings
from whence.operations.output_files import write_text
from whence.schema.errors import BadInput


def record_roots(settings: Settings, collection: str, paths: Iterable[Path]) -> None:
    """Add indexed paths to those of a collection. A home that cannot be written is left as it is."""
    file = _file(settings, collection)
    known = {str(path) for path in known_roots(settings, collection)}
    found = known | {str(path.absolute()) for path in paths}
    if found == known:
        return
    with suppress(OSError, BadInput, UnicodeError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(file, msgspec.json.encode(sorted(found)).decode())


def known_roots(settings: Settings, collection: str) -> list[Path]:
    """Return the indexed paths of a collection that exist on this machine, sorted."""
    try:
        found = msgspec.json.decode(_file(settings, collection).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return []
    return [path for path in map(Path, found) if path.exists()]


def find_source(settings: Settings, collection: str, source_file: str) -> Path | None:
    """Return the path of a document's file; None when it is not where it was indexed from."""
    for root in known_roots(settings, collection) if source_file else ():
        path = root / source_file if root.is_dir() else root
        if path.is_file() and (root.is_dir() or root.name == source_file):
            return path
    return None


def ids_below(settings: Settings, collection: str, folder: str, ids: Iterable[str]) -> list[str]:
    """Return those of the document ids that belong to a folder: an indexed path, or the beginning of ids.

    Of several indexed paths, a document belongs to those that have its file; a record to all.
    """
    roots = known_roots(settings, collection)
    path = Path(folder).absolute()
    for root in roots:
        if path == root or root in path.parents:
            prefix = "" if path == root else f"{path.relative_to(root).as_posix()}/"
            found = [one for one in ids if one.startswith(prefix)]
            others = [other for other in roots if other != root]
            return [
                one
                for one in found
                if (root / one).exists() or not any((other / one).exists() for other in others)
            ]
    return [one for one in ids if one.startswith(f"{folder.rstrip('/')}/")]


def _file(settings: Settings, collection: str) -> Path:
    key = msgspec.json.encode([settings.database_url or "", collection])
    name = hashlib.sha256(key).hexdigest()[:32]
    return Path(settings.home).expanduser() / "sources" / f"{name}.json"
