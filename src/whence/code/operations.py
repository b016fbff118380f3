"""Operations on snapshots of code: import, list, expand, fetch, ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast, get_args

from msgspec import Meta

from whence.code.node_texts import FetchReport, NearbyNode, NodeChunks
from whence.code.snapshot_reading import code_store, read_snapshot
from whence.code.snapshots.protocols import (
    ImportResult,
    SnapshotList,
    SnapshotRecord,
    SnapshotSet,
    SnapshotSource,
)
from whence.operations.ask import ChunkCallback, ExplainCallback, check_question
from whence.operations.index import Progress
from whence.operations.operation import CLI, PYTHON, Offered, Operation
from whence.retrieval.pipeline import search_mode
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer
from whence.schema.errors import BadInput, NotFound
from whence.schema.graph import Direction, ExpandRequest, ExpandResponse
from whence.schema.texts import Prioritize, TextBudget, TextRequest, TextResponse
from whence.surfaces.python.methods import method

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.operations.traced_client import TracedCall

_IN_PYTHON = Offered(on=frozenset({PYTHON}), local=True)
_HERE = Offered(on=frozenset({CLI, PYTHON}))


def _set_name(given: str) -> str:
    from whence.code.snapshots.documents import check_display_name

    check_display_name(given, "a set")
    return given


class ImportBundles(Operation[ImportResult], frozen=True):
    """Import bundles of code in one transaction: all of them or none.

    A snapshot that is published with the same content is only read. Nodes whose text occurs in another snapshot
    of the repository reuse its vector.
    """

    NAME: ClassVar[str] = "import"

    bundles: Annotated[
        Sequence[str | PathLike[str]],
        Offered(metavar="BUNDLE...", on=frozenset({CLI, PYTHON})),
    ]
    """Zip archives or folders."""
    set_name: Annotated[str, Offered(option="--set", metavar="NAME", parse=_set_name)] = ""
    """Set to make of the snapshots, the first is primary; replaces a set of that name."""
    repo: Annotated[str | None, Offered(metavar="NAME")] = None
    """Name of the repository; the bundle's own by default."""
    replace: bool = False
    """Replace other content at the same commit."""
    tags: Annotated[Sequence[str], Offered(option="--tag", metavar="NAME")] = ()
    """Additional name of a snapshot, once for each bundle, in their order; its file name by default."""
    progress: Annotated[Progress | None, _IN_PYTHON] = None
    """Called with the number of nodes read and None, then with the number of nodes embedded and their total."""

    async def run(self, session: Session) -> ImportResult:
        """Return what was imported.

        Raises:
            BadInput: A bundle cannot be imported, or other content is published at its commit.
            Unavailable: A service that is needed does not answer.
        """
        from whence.code.bundle_import import CodeImporter, open_bundles

        bundles, set_name, tags = list(self.bundles), self.set_name, self.tags
        opened = await asyncio.to_thread(
            open_bundles, bundles, repo=self.repo, set_name=set_name, tags=tags
        )
        importer = CodeImporter(
            session.client,
            await code_store(session),
            await session.resources.get("embedder"),
            replace=self.replace,
            progress=self.progress,
        )
        return await importer.run(opened, set_name=set_name, tags=tags)

    def count(self, result: ImportResult) -> int:
        """Return the number of bundles."""
        return len(result.imports)


class ListSnapshots(Operation[SnapshotList], frozen=True):
    """List published snapshots, newest first, and sets by name."""

    NAME: ClassVar[str] = "snapshots"
    audited: ClassVar[bool] = False

    async def run(self, session: Session) -> SnapshotList:
        """Return all of them."""
        store = await code_store(session)
        return SnapshotList(snapshots=await store.snapshots(), sets=await store.sets())


class MakeSet(Operation[SnapshotSet], frozen=True):
    """Make a set of published snapshots by any of their names, the first primary; replaces a set."""

    NAME: ClassVar[str] = "snapshots set"
    audited: ClassVar[bool] = False

    name: str
    """Name of the set."""
    references: Annotated[Sequence[str], Offered(metavar="SNAPSHOT...")]
    """Ids, head shas, branches or tags; the first is primary."""

    async def run(self, session: Session) -> SnapshotSet:
        """Return the set.

        Raises:
            NotFound: A reference matches no readable snapshot.
            BadInput: The name is invalid, or the snapshots are none, repeated or of several repositories.
        """
        return await (await code_store(session)).make_set(self.name, self.references)


class SetActive(Operation[None], frozen=True):
    """Activate or deactivate a set, or else a snapshot by any of its names."""

    NAME: ClassVar[str] = "snapshots activate"
    audited: ClassVar[bool] = False

    name: str
    """Name of a set; or id, head sha, branch or tag of a snapshot."""
    active: Annotated[bool, _IN_PYTHON] = True
    """Whether it can be read."""

    async def run(self, session: Session) -> None:
        """Change it.

        Raises:
            NotFound: There is neither.
            BadInput: Several snapshots have that name.
        """
        store = await code_store(session)
        is_set = any(one.name == self.name for one in await store.sets())
        name = self.name if is_set else await _snapshot_id(session, self.name)
        await store.set_active(name, self.active)


class RemoveSet(Operation[None], frozen=True):
    """Remove a set; its snapshots stay."""

    NAME: ClassVar[str] = "snapshots remove"
    audited: ClassVar[bool] = False

    name: str
    """Name of the set."""

    async def run(self, session: Session) -> None:
        """Remove it; `NotFound` when there is no such set."""
        await (await code_store(session)).remove_set(self.name)


class PurgeSnapshot(Operation[None], frozen=True):
    """Delete a snapshot by any of its names, with its nodes, edges and memberships in sets."""

    NAME: ClassVar[str] = "snapshots purge"
    audited: ClassVar[bool] = False

    name: Annotated[str, Offered(metavar="SNAPSHOT")]
    """Id, head sha, branch or tag of the snapshot."""

    async def run(self, session: Session) -> None:
        """Delete it.

        Raises:
            NotFound: There is no such snapshot.
            BadInput: Several snapshots have that name.
        """
        await (await code_store(session)).purge_snapshot(await _snapshot_id(session, self.name))


class Expand(Operation[ExpandResponse], frozen=True):
    """Find what code nodes of a snapshot depend on, or what depends on them."""

    NAME: ClassVar[str] = "expand"
    traced: ClassVar[bool] = True

    nodes: Annotated[Sequence[str], Meta(min_length=1), Offered(metavar="NODE...")]
    """Canonical or local ids to start from."""
    snapshot: str | SnapshotChoice
    """Snapshot of code to read."""
    max_depth: Annotated[int, Meta(ge=1)] = 2
    """Most steps from a node."""
    max_nodes: Annotated[int, Meta(ge=1)] = 120
    """Most nodes in all."""
    relations: Annotated[Sequence[str], Offered(option="--relation", metavar="R")] = ()
    """Relations to follow, e.g. ReadsFrom; all when empty."""
    direction: Annotated[str, Offered(metavar="out|in|both")] = "out"
    """`out`, `in` or `both`."""
    seed_only: Annotated[bool, _HERE] = False
    """Expand only the seeds themselves."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> ExpandResponse:
        """Return the visible neighbourhood, breadth first.

        Raises:
            BadInput: A limit, the direction, a relation or the snapshot choice is wrong, there are more seeds
                than `max_nodes`, or a seed belongs to another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = SnapshotChoice.of(self.snapshot)
        _check_one_of("direction", self.direction, get_args(Direction))
        seeds, wanted = tuple(self.nodes), tuple(self.relations)

        async def read(record: SnapshotRecord) -> ExpandResponse:
            request = ExpandRequest(
                access=self.access,
                snapshot=record.info.snapshot_id,
                seeds=seeds,
                max_depth=self.max_depth,
                max_nodes=self.max_nodes,
                relations=wanted,
                direction=cast("Direction", self.direction),
                seed_only=self.seed_only,
            )
            return await session.client.call("graph-expander", request, ExpandResponse)

        return await read_snapshot(await code_store(session), choice, read)

    def count(self, result: ExpandResponse) -> int:
        """Return the number of nodes."""
        return len(result.nodes)

    def state_after(
        self, calls: Sequence[TracedCall], result: ExpandResponse | None
    ) -> dict[str, Any]:
        """Return its limits and what it reached."""
        from whence.code.pipeline_states import expand_state

        return expand_state(calls, result)


class Fetch(Operation[FetchReport], frozen=True):
    """Read whole texts of nodes, as many as fit a budget."""

    NAME: ClassVar[str] = "fetch"
    traced: ClassVar[bool] = True

    seeds: Annotated[Sequence[str], Offered(option="--seed", metavar="ID")] = ()
    """Nodes found by a search, best first; repeatable."""
    graph: Annotated[Sequence[str | NearbyNode], Offered(metavar="ID")] = ()
    """Nodes near the seeds; repeatable. A plain id has depth 1; a hidden or missing one is skipped."""
    budget: Annotated[TextBudget | None, _IN_PYTHON] = None
    """Most characters or tokens."""
    snapshot: str | SnapshotChoice = ""
    """Snapshot of code to read."""
    prioritize: Annotated[str, Offered(metavar="ORDER")] = "balanced"
    """`seed_first`, `graph_first`, `balanced` (alternating) or `clustered` (each seed, then its neighbours)."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> FetchReport:
        """Return the texts.

        Raises:
            BadInput: The budget is missing or below 1, the order is unknown, no node is given, or one belongs
                to another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = SnapshotChoice.of(self.snapshot)
        _check_one_of("prioritisation", self.prioritize, get_args(Prioritize))
        around = [NearbyNode(id=one) if isinstance(one, str) else one for one in self.graph]
        seeds, budget = list(self.seeds), self.budget
        if not seeds and not around:
            raise BadInput("no node is named", hint="give the id of a seed or of a graph node")
        if budget is None or budget.limit < 1:
            limit = None if budget is None else budget.limit
            raise BadInput(f"a budget must be at least 1, not {limit}")

        async def read(record: SnapshotRecord) -> FetchReport:
            chunks = NodeChunks(record, seeds, around)
            plan = chunks.plan(cast("Prioritize", self.prioritize), budget)
            request = TextRequest(access=self.access, collection=record.collection, plan=plan)
            reply = await session.client.call("text-fetcher", request, TextResponse)
            return chunks.report(reply, budget)

        return await read_snapshot(await code_store(session), choice, read)

    def count(self, result: FetchReport) -> int:
        """Return the number of texts."""
        return len(result.node_texts)

    def state_after(
        self, calls: Sequence[TracedCall], result: FetchReport | None
    ) -> dict[str, Any]:
        """Return the budget and order of texts, and the decision for each."""
        from whence.code.pipeline_states import fetch_state

        return fetch_state(calls, result)


class AskCode(Operation[Answer], frozen=True):
    """Answer a question from a snapshot: search, expand over dependencies, write from the texts that fit."""

    NAME: ClassVar[str] = "ask"
    traced: ClassVar[bool] = True

    question: str
    """The question."""
    snapshot: str | SnapshotChoice
    """Snapshot of code to read."""
    access: Access = Access.public()
    """Rights to read with."""
    doc_limit: Annotated[int, Meta(ge=1)] | None = None
    """Most nodes, seeds included; null for the flow's own."""
    mode: str | None = None
    """`hybrid`, `dense` or `bm25`; null for the flow's own."""
    timeout_s: Annotated[float, Meta(gt=0), Offered(metavar="SECONDS", local=True)] = 120.0
    """Time limit in seconds."""
    chunk_callback: Annotated[ChunkCallback | None, _IN_PYTHON] = None
    """Receives the text while it is written."""
    explain_callback: Annotated[ExplainCallback | None, _IN_PYTHON] = None
    """Receives the triples of each finished stage; its exceptions are only logged."""

    async def run(self, session: Session) -> Answer:
        """Return the answer; errors are those of `Ask`."""
        if self.doc_limit is not None:
            check_question(self.question, self.doc_limit)
        choice = SnapshotChoice.of(self.snapshot)
        request = CodeRagRequest(
            access=self.access,
            question=self.question,
            snapshot=choice.snapshot,
            set_name=choice.set_name,
            snapshot_source=cast("SnapshotSource", choice.source or "primary"),
            doc_limit=self.doc_limit or 0,
            mode=None if self.mode is None else search_mode(self.mode),
            streaming=self.chunk_callback is not None,
        )
        callbacks = (self.timeout_s, self.chunk_callback, self.explain_callback)
        return await session.send(request, *callbacks)

    def count(self, result: Answer) -> int:
        """Return the number of citations."""
        return len(result.citations)

    def answer_of(self, result: Answer) -> str:
        """Return the id of the answer."""
        return result.answer_id

    def state_after(self, calls: Sequence[TracedCall], result: Answer | None) -> dict[str, Any]:
        """Return what it searched, walked, read and cited."""
        from whence.code.pipeline_states import walk_state
        from whence.operations.pipeline_states import question_state

        return question_state(calls, CodeRagRequest, result, walk_state)


async def _snapshot_id(session: Session, name: str) -> str:
    """Return the id of the only snapshot, active or not, of a name.

    Reading takes the newest of several; a change refuses, because a branch moves on.
    """
    store = await code_store(session)
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


class CodeSnapshots:
    """Operations on snapshots of code, `engine.code`.

    A `snapshot` is an id, head sha, branch or tag, or a `SnapshotChoice`.

    Args:
        session: The flow behind the engine.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    import_bundles = method(ImportBundles)
    overview = method(ListSnapshots)
    make_set = method(MakeSet)
    set_active = method(SetActive)
    remove_set = method(RemoveSet)
    purge = method(PurgeSnapshot)
    expand = method(Expand)
    fetch = method(Fetch)
    ask = method(AskCode)
