"""Roots: the folders under which documents are found, and where their files lie on this machine.

The store has the roots of each collection with their paths, for its owner alone. A root is known by its path,
so a run that finds a known folder, or something below it, goes on with the root of before. A path that is on
another machine is no file here, and nothing is said about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from whence.ingest.catalogue import Catalogue, SourcePlace, check_root_name, normal
from whence.ingest.sources import display_path, file_digest, is_utf8, time_of_change
from whence.operations.many_collections import collection_names
from whence.operations.mirrors import mirror_entries
from whence.operations.operation import Operation
from whence.schema.errors import BadInput
from whence.store.source_states import SourceRoot, numbered

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import ListedDocument, Store

#: Name of the root of files that were sent by HTTP, the page or MCP.
UPLOADS = "uploads"
#: A larger file of another time counts as changed without being read.
_MAX_COMPARED_BYTES = 64 * 2**20


class ListRoots(Operation[list[SourceRoot]], frozen=True):
    """List the roots of a collection with their paths; for the owner of the database."""

    NAME: ClassVar[str] = "roots"
    audited: ClassVar[bool] = False
    many_collections: ClassVar[bool] = True

    collection: str = "default"
    """The collection, or several, separated by commas."""

    async def run(self, session: Session) -> list[SourceRoot]:
        """Return the roots by name; none when the store is another process's.

        Of several collections a name is left out that means two folders.
        """
        store = await own_store(session)
        if store is None:
            return []
        names = collection_names(self.collection)
        found = [root for name in names for root in await store.source_roots(name)]
        paths: dict[str, set[str]] = {}
        for one in found:
            paths.setdefault(one.name, set()).add(one.path)
        return [one for one in found if len(paths[one.name]) == 1]


async def own_store(session: Session) -> Store | None:
    """Return the store that the flow writes to; None when only the flow's processes know it."""
    if session.runs_flow or session.settings.database_url:
        return await session.store()
    return None


async def open_catalogue(
    session: Session,
    collection: str,
    paths: Sequence[Path],
    root: str | None = None,
    *,
    upload: bool = False,
    dry_run: bool = False,
) -> Catalogue | None:
    """Return the roots and ids of a collection, with the roots of some paths added to it.

    None when the store is not known here: then documents have no root.

    Args:
        session: Of the engine.
        collection: Its name.
        paths: What is indexed.
        root: Name for roots of these paths that are new; those of the folders when None.
        upload: Whether the paths are of a folder that is not kept.
        dry_run: Whether nothing is stored.
    """
    name = None if root is None else check_root_name(root)
    store = await own_store(session)
    if store is None:
        return None
    places: dict[str, SourcePlace] = {}
    for path in paths:
        known = {one.name: one.path for one in await store.source_roots(collection)}
        if upload:
            found = await store.add_root(collection, UPLOADS, "")
            places[os.fspath(path)] = SourcePlace(os.fspath(path), root=found.name)
            continue
        places[os.fspath(path)] = place = _place(path, name, known)
        if known.get(place.root) != place.base and not dry_run:
            # A name that was given, of a folder that is gone, is that of a folder that was moved.
            moved = name == place.root and place.root in known
            added = await store.add_root(collection, place.root, place.base, moved=moved)
            places[os.fspath(path)] = place._replace(root=added.name)
    roots = {one.name: one.path for one in await store.source_roots(collection)}
    catalogue = Catalogue(roots, await store.stored_sources(collection), places)
    for path in () if upload else paths:
        root = places[os.fspath(path)].root
        for name, entry in (await mirror_entries(session, path)).items():
            catalogue.entries[root, normal(name)] = entry
    return catalogue


def _place(path: Path, name: str | None, known: Mapping[str, str]) -> SourcePlace:
    """Return where a path stands: in the known root around it, else in one of its own."""
    is_folder = path.is_dir()
    whole = path.resolve() if is_folder else path.parent.resolve() / path.name
    folder = whole if is_folder else whole.parent
    around = {
        other: base
        for other, base in known.items()
        if base and (Path(base) == folder or Path(base) in folder.parents)
    }
    fitting = [one for one, base in around.items() if name in (None, one) or Path(base) == folder]
    if fitting:
        root = max(fitting, key=lambda one: (len(around[one]), one))
        base = Path(around[root])
    else:
        base = folder
        root = name or normal(display_path(folder.name)) or "root"
        is_moved = root == name and root in known and known[root] and not Path(known[root]).exists()
        # The name of uploads is theirs, also before the first one.
        root = root if is_moved else numbered(root, {UPLOADS, *known})
    if not is_utf8(os.fspath(base)):
        raise BadInput(
            f"the path of the folder {display_path(base)} is not UTF-8",
            hint="give it another name, then run the command again",
        )
    inner = whole.relative_to(base).as_posix()
    prefix = "" if inner == "." else f"{inner}/" if is_folder else inner
    return SourcePlace(os.fspath(path), os.fspath(base), root, prefix)


def source_path(roots: Iterable[SourceRoot], root: str, path: str) -> Path | None:
    """Return the file of a document on this machine; None when it is not there."""
    found = _path(roots, root, path)
    return found if found is not None and found.is_file() else None


def _path(roots: Iterable[SourceRoot], root: str, path: str) -> Path | None:
    base = next((one.path for one in roots if root and path and one.name == root), "")
    return _on_disk(Path(base), path) if base and Path(base).is_dir() else None


def _on_disk(base: Path, path: str) -> Path:
    """Return a file by its stored path, whose names have one Unicode form; on disk they may have another."""
    whole = Path(base, path)
    if path.isascii() or whole.exists():
        return whole
    found = base
    for part in PurePosixPath(path).parts:
        found = _entry(found, part)
    return found


def _entry(folder: Path, name: str) -> Path:
    """Return what has a name in a folder, in any Unicode form; the name as it is when nothing has."""
    if (folder / name).exists() or not folder.is_dir():
        return folder / name
    with suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            if normal(one.name) == normal(name):
                return folder / one.name
    return folder / name


def is_changed(roots: Iterable[SourceRoot], document: ListedDocument) -> bool | None:
    """Return whether the file of a document is another one now; None when that cannot be known."""
    path = _path(roots, document.root, document.path)
    if path is None or document.size < 0:
        return None
    try:
        found = path.stat()
        if (found.st_size, time_of_change(found)) == (document.size, document.modified):
            return False
        if found.st_size != document.size or found.st_size > _MAX_COMPARED_BYTES:
            return True
        if not document.file_digest:
            return True
        return file_digest(path.read_bytes()) != document.file_digest
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return None


async def documents_below(session: Session, collection: str, folder: str) -> list[str]:
    """Return the sorted ids of the documents of a folder: a path, or the beginning of ids."""
    store = await session.store()
    path = os.path.realpath(folder)  # noqa: ASYNC240 - one look at a path
    roots = {one.name: one.path for one in await store.source_roots(collection) if one.path}
    below = {
        one.document_id
        for one in await store.stored_sources(collection)
        if one.document_id
        and one.root in roots
        and _is_below(f"{roots[one.root]}/{one.path}", path)
    }
    known = set(await store.document_ids(collection))
    if found := sorted(below & known):
        return found
    return await store.document_ids(collection, prefix=f"{folder.rstrip('/')}/")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")
