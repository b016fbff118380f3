"""The part of the engine that knows snapshots of code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from whence.engine.audit import AuditLog, audited
from whence.engine.results import ImportResult, SnapshotOverview
from whence.schema.errors import BadInput, NotFound

if TYPE_CHECKING:
    from whence.engine.code_import import Progress
    from whence.flow.client import FlowClient
    from whence.flow.resources import Resources
    from whence.store.snapshot_protocols import CodeStore, SnapshotSet

__all__ = ("CodeEngine",)


class CodeEngine:
    """Imports bundles and keeps snapshots and sets. Part of `Engine`."""

    def _opened(self) -> tuple[FlowClient, Resources]:
        """Give what an open engine has."""
        raise TypeError("CodeEngine is a part of Engine")

    @property
    def audit_log(self) -> AuditLog | None:
        """Where operations are logged."""
        raise TypeError("CodeEngine is a part of Engine")

    async def _code_store(self) -> CodeStore:
        _, resources = self._opened()
        store: CodeStore = await resources.get("store")
        return store

    @audited("import", lambda result: len(result.imports))
    async def import_bundles(
        self,
        bundles: Iterable[str | os.PathLike[str]],
        *,
        set_name: str = "",
        repo: str | None = None,
        replace: bool = False,
        tags: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> ImportResult:
        """Import bundles of code: all of them can be read afterwards, or nothing has changed.

        A snapshot that is published with the same content costs the reading only. Nodes whose text stands in
        another snapshot of the repository get its vector.

        Args:
            bundles: Zip archives or folders.
            set_name: Set to make of their snapshots, the first primary; it takes the place of any of that
                name. None when empty.
            repo: Name of the repository in the place of the bundles' own.
            replace: True puts other content at the same commit in the place of what is there.
            tags: Another name for each snapshot; the bundle's file name when empty.
            progress: Called with the number of nodes read and None, then with those embedded and how many
                there are.

        Raises:
            BadInput: A bundle cannot be imported, or other content is published at its commit.
            Unavailable: A service that is needed does not answer.
        """
        from whence.engine.code_import import Importing, open_bundles

        client, resources = self._opened()
        found = await asyncio.to_thread(
            open_bundles, list(bundles), repo=repo, set_name=set_name, tags=tags
        )
        importing = Importing(
            client,
            await self._code_store(),
            await resources.get("embedder"),
            replace=replace,
            progress=progress,
        )
        return await importing.run(found, set_name=set_name, tags=tags)

    async def snapshots(self) -> SnapshotOverview:
        """Give all published snapshots, newest first, and all sets by name."""
        store = await self._code_store()
        return SnapshotOverview(snapshots=await store.snapshots(), sets=await store.sets())

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots, in the place of any of that name.

        Args:
            name: Its name.
            references: Ids, head shas, branches or tags; the first is primary.

        Raises:
            NotFound: A reference stands for no snapshot that can be read.
            BadInput: The name cannot be, or the snapshots are none, given twice or not of one repository.
        """
        return await (await self._code_store()).make_set(name, references)

    async def set_active(self, name: str, active: bool) -> None:
        """Switch a set, or else a snapshot by any of its names, on or off.

        Raises:
            NotFound: There is neither.
            BadInput: Several snapshots have that name.
        """
        store = await self._code_store()
        is_set = any(one.name == name for one in await store.sets())
        await store.set_active(name if is_set else await self._one_snapshot(name), active)

    async def remove_set(self, name: str) -> None:
        """Forget a set; its snapshots stay.

        Raises:
            NotFound: There is none.
        """
        await (await self._code_store()).remove_set(name)

    async def purge_snapshot(self, name: str) -> None:
        """Delete a snapshot, named by any of its names, with everything of it, in sets too.

        Raises:
            NotFound: There is none.
            BadInput: Several snapshots have that name.
        """
        await (await self._code_store()).purge_snapshot(await self._one_snapshot(name))

    async def _one_snapshot(self, name: str) -> str:
        """Give the id of the one snapshot, active or not, of that name.

        Where the newest of several is read, none is changed: a branch moves on.
        """
        store = await self._code_store()
        found = [
            one.info.snapshot_id
            for one in await store.snapshots()
            if name in (one.info.snapshot_id, one.info.head_sha, *one.refs)
        ]
        if not found:
            raise NotFound(
                f"there is no set or snapshot {name!r}",
                hint="see whence snapshots",
            )
        if len(found) > 1:
            raise BadInput(
                f"{name!r} is a name of {len(found)} snapshots: {', '.join(sorted(found))}",
                hint="name the one that is meant by its id",
            )
        return found[0]
