"""Code behind an engine, `engine.code`: import bundles, manage snapshots and sets, expand, fetch and ask."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from whence.answering.state import (
    ChunkCallback,
    ExplainCallback,
    check_question,
)
from whence.code.node_texts import FetchReport, NearbyNode, NodeChunks
from whence.code.snapshot_reading import read_snapshot
from whence.code.snapshots.protocols import ImportResult, SnapshotList
from whence.engine.audit import Operation, audit_calls
from whence.engine.session import EngineSession
from whence.retrieval.pipeline import search_mode
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer
from whence.schema.errors import BadInput, NotFound
from whence.schema.graph import Direction, ExpandRequest, ExpandResponse
from whence.schema.texts import Prioritize, TextBudget, TextRequest, TextResponse

if TYPE_CHECKING:
    from whence.code.bundle_import import Progress
    from whence.code.snapshots.protocols import SnapshotRecord, SnapshotSet, SnapshotSource

_PUBLIC = Access.public()
#: What the audit log has of each method.
_AUDITED = {
    "import_bundles": Operation("import", lambda result: len(result.imports)),
    "expand": Operation("expand", lambda reply: len(reply.nodes)),
    "fetch": Operation("fetch", lambda report: len(report.node_texts)),
    "ask": Operation("ask", lambda answer: len(answer.citations), lambda answer: answer.answer_id),
}


class CodeSnapshots:
    """Snapshots of code. A `snapshot` is an id, head sha, branch or tag, or a `SnapshotChoice`.

    Args:
        session: The flow behind the engine.
    """

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        audit_calls(self, _AUDITED, session.audit_log)

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
        """Import bundles of code in one transaction: all of them or none.

        A snapshot that is published with the same content is only read. Nodes whose text occurs in another
        snapshot of the repository reuse its vector.

        Args:
            bundles: Zip archives or folders.
            set_name: Set to make of the snapshots, the first is primary; replaces a set of that name.
            repo: Repository name to use instead of the bundles' own.
            replace: Whether other content at the same commit is replaced.
            tags: An additional name for each snapshot; the bundle's file name when empty.
            progress: Called with the number of nodes read and None, then with the number of nodes embedded
                and their total.

        Raises:
            BadInput: A bundle cannot be imported, or other content is published at its commit.
            Unavailable: A service that is needed does not answer.
        """
        from whence.code.bundle_import import CodeImporter, open_bundles

        opened = await asyncio.to_thread(
            open_bundles, list(bundles), repo=repo, set_name=set_name, tags=tags
        )
        importer = CodeImporter(
            self._session.client,
            await self._session.code_store(),
            await self._session.resources.get("embedder"),
            replace=replace,
            progress=progress,
        )
        return await importer.run(opened, set_name=set_name, tags=tags)

    async def overview(self) -> SnapshotList:
        """Return all published snapshots, newest first, and all sets by name."""
        store = await self._session.code_store()
        return SnapshotList(snapshots=await store.snapshots(), sets=await store.sets())

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots by any of their names, the first primary; replaces a set.

        Raises:
            NotFound: A reference matches no readable snapshot.
            BadInput: The name is invalid, or the snapshots are none, repeated or of several repositories.
        """
        return await (await self._session.code_store()).make_set(name, references)

    async def set_active(self, name: str, active: bool) -> None:
        """Activate or deactivate a set, or else a snapshot by any of its names.

        Raises:
            NotFound: There is neither.
            BadInput: Several snapshots have that name.
        """
        store = await self._session.code_store()
        is_set = any(one.name == name for one in await store.sets())
        await store.set_active(name if is_set else await self._snapshot_id(name), active)

    async def remove_set(self, name: str) -> None:
        """Remove a set; its snapshots stay.

        Raises:
            NotFound: There is no such set.
        """
        await (await self._session.code_store()).remove_set(name)

    async def purge(self, name: str) -> None:
        """Delete a snapshot by any of its names, with its nodes, edges and memberships in sets.

        Raises:
            NotFound: There is no such snapshot.
            BadInput: Several snapshots have that name.
        """
        await (await self._session.code_store()).purge_snapshot(await self._snapshot_id(name))

    async def expand(
        self,
        nodes: Iterable[str],
        *,
        snapshot: str | SnapshotChoice,
        max_depth: int = 2,
        max_nodes: int = 120,
        relations: Iterable[str] = (),
        direction: str = "out",
        seed_only: bool = False,
        access: Access = _PUBLIC,
    ) -> ExpandResponse:
        """Return the visible neighbourhood of some nodes, breadth first.

        Args:
            nodes: Canonical or local ids to start from.
            snapshot: Snapshot to read.
            max_depth: Most steps from a seed, 1 or more.
            max_nodes: Most nodes, seeds included, 1 or more.
            relations: Relations to follow, with or without prefix, in any case; none, or `*`, for all.
            direction: `out`, `in` or `both`.
            seed_only: Whether only the seeds are expanded.
            access: Rights of the reader.

        Raises:
            BadInput: A limit, the direction, a relation or the snapshot choice is wrong, there are more
                seeds than `max_nodes`, or a seed belongs to another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = SnapshotChoice.of(snapshot)
        _check_one_of("direction", direction, get_args(Direction))
        seeds, wanted = tuple(nodes), tuple(relations)

        async def read(record: SnapshotRecord) -> ExpandResponse:
            request = ExpandRequest(
                access=access,
                snapshot=record.info.snapshot_id,
                seeds=seeds,
                max_depth=max_depth,
                max_nodes=max_nodes,
                relations=wanted,
                direction=cast("Direction", direction),
                seed_only=seed_only,
            )
            return await self._session.client.call("graph-expander", request, ExpandResponse)

        return await read_snapshot(await self._session.code_store(), choice, read)

    async def fetch(
        self,
        seeds: Sequence[str],
        graph: Iterable[str | NearbyNode] = (),
        *,
        budget: TextBudget,
        snapshot: str | SnapshotChoice,
        prioritize: str = "balanced",
        access: Access = _PUBLIC,
    ) -> FetchReport:
        """Return whole texts of nodes, as many as fit a budget.

        Args:
            seeds: Canonical or local ids, in order of rank.
            graph: Nodes around the seeds; a plain id has depth 1. A hidden or missing one is skipped.
            budget: Most characters or tokens.
            snapshot: Snapshot to read.
            prioritize: `seed_first`, `graph_first`, `balanced` or `clustered`.
            access: Rights of the reader.

        Raises:
            BadInput: The budget is below 1, the order is unknown, no node is given, or a node belongs to
                another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = SnapshotChoice.of(snapshot)
        _check_one_of("prioritisation", prioritize, get_args(Prioritize))
        around = [NearbyNode(id=one) if isinstance(one, str) else one for one in graph]
        if not seeds and not around:
            raise BadInput("no node is named", hint="give the id of a seed or of a graph node")
        if budget.limit < 1:
            raise BadInput(f"a budget must be at least 1, not {budget.limit}")

        async def read(record: SnapshotRecord) -> FetchReport:
            chunks = NodeChunks(record, seeds, around)
            plan = chunks.plan(cast("Prioritize", prioritize), budget)
            request = TextRequest(access=access, collection=record.collection, plan=plan)
            reply = await self._session.client.call("text-fetcher", request, TextResponse)
            return chunks.report(reply, budget)

        return await read_snapshot(await self._session.code_store(), choice, read)

    async def ask(
        self,
        question: str,
        *,
        snapshot: str | SnapshotChoice,
        access: Access = _PUBLIC,
        doc_limit: int | None = None,
        mode: str | None = None,
        timeout_s: float = 120.0,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
    ) -> Answer:
        """Answer a question from a snapshot: search, expand over dependencies, write from the texts that fit.

        `doc_limit` is the most nodes, seeds included, None for the flow's own; other arguments and errors are
        those of `Engine.ask`.
        """
        if doc_limit is not None:
            check_question(question, doc_limit)
        choice = SnapshotChoice.of(snapshot)
        request = CodeRagRequest(
            access=access,
            question=question,
            snapshot=choice.snapshot,
            set_name=choice.set_name,
            snapshot_source=cast("SnapshotSource", choice.source or "primary"),
            doc_limit=doc_limit or 0,
            mode=None if mode is None else search_mode(mode),
            streaming=chunk_callback is not None,
        )
        return await self._session.ask(request, timeout_s, chunk_callback, explain_callback)

    async def _snapshot_id(self, name: str) -> str:
        """Return the id of the only snapshot, active or not, of a name.

        Reading takes the newest of several; a change refuses, because a branch moves on.
        """
        store = await self._session.code_store()
        found = [
            one.info.snapshot_id
            for one in await store.snapshots()
            if name in (one.info.snapshot_id, one.info.head_sha, *one.refs)
        ]
        if not found:
            raise NotFound(f"there is no set or snapshot {name!r}", hint="see whence snapshots")
        if len(found) > 1:
            raise BadInput(
                f"{name!r} is a name of {len(found)} snapshots: {', '.join(sorted(found))}",
                hint="use the id of one of them",
            )
        return found[0]


def _check_one_of(what: str, value: str, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise BadInput(f"unknown {what} {value!r}", hint=f"use one of {', '.join(known)}")
