"""Import of code bundles: read, stage, embed, then publish all snapshots in one transaction."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from whence.code.bundles.bundle import Bundle, open_bundle
from whence.code.bundles.bundle_reader import BundleReader, node_batches, validate_bundle
from whence.code.snapshots.documents import UNKNOWN_BRANCH, check_display_name, different_content
from whence.code.snapshots.protocols import ImportedBundle, ImportResult
from whence.operations.passage_pooling import PassagePooling
from whence.schema.code import CodeNode, ImportReport
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import BadInput, Unavailable, WhenceError

if TYPE_CHECKING:
    import os

    from whence.code.snapshots.protocols import (
        CodeImport,
        CodeStore,
        NodeText,
        SnapshotRecord,
        StagedSnapshot,
    )
    from whence.flow.client import FlowClient
    from whence.models.protocols import Embedder
    from whence.operations.index import Progress


#: Nodes written at once: large enough for COPY, small enough to keep some batches in memory.
_NODES_PER_BATCH = 2000
#: Batches being written while the next one is read.
_BATCHES_IN_FLIGHT = 2
#: Texts and characters of one embedding request; replies stay below a broker's limit of 5 MiB, with vectors
#: of 3,072 numbers as well.
_TEXTS_PER_REQUEST = 256
_CHARACTERS_PER_REQUEST = 200_000
#: Embedding requests in flight.
_IN_FLIGHT = 2
_EMBEDDING_TIMEOUT_S = 900.0


def open_bundles(
    paths: Iterable[str | os.PathLike[str]],
    *,
    repo: str | None,
    set_name: str,
    tags: Sequence[str],
) -> list[Bundle]:
    """Open and check all bundles before any is read."""
    bundles = [open_bundle(path, repo=repo) for path in paths]
    if not bundles:
        raise BadInput("no bundle is given", hint="name at least one zip archive or folder")
    if tags and len(tags) != len(bundles):
        raise BadInput(
            f"{len(bundles)} bundles and {len(tags)} tags",
            hint="give --tag once for each bundle, in their order",
        )
    if set_name:
        check_display_name(set_name, "a set")
        repos = {bundle.snapshot.repo for bundle in bundles}
        if len(repos) > 1:
            raise BadInput(
                f"a set holds snapshots of one repository, not of {', '.join(sorted(repos))}",
                hint="name the repository with --repo, or import without a set",
            )
    first: dict[str, str] = {}
    for bundle in bundles:
        other = first.setdefault(bundle.snapshot.snapshot_id, bundle.name)
        if other is not bundle.name:
            raise BadInput(
                f"{other} and {bundle.name} are both {bundle.snapshot.repo} at"
                f" {bundle.snapshot.head_sha}",
                hint="give each state of a repository once",
            )
    return bundles


class CodeImporter:
    """Imports bundles of code.

    Memory is bounded by a few batches of nodes and the node ids of the bundle being read.

    Args:
        client: Client of the flow that embeds texts.
        store: Store of the snapshots.
        embedder: Counts tokens, to cut long texts where the model would.
        replace: Whether other content at the same commit is replaced.
        progress: Called with the number of nodes read and None, then with nodes embedded and their total.
    """

    def __init__(
        self,
        client: FlowClient,
        store: CodeStore,
        embedder: Embedder,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._embedder = embedder
        self._replace = replace
        self._progress = progress or (lambda _done, _total: None)
        self._nodes_read = 0

    async def run(
        self, bundles: Sequence[Bundle], *, set_name: str = "", tags: Sequence[str] = ()
    ) -> ImportResult:
        """Import all bundles or none."""
        started = time.monotonic()
        staged: list[_StagedBundle] = []
        published = {one.info.snapshot_id: one for one in await self._store.snapshots()}
        async with self._store.importing() as run:
            for place, bundle in enumerate(bundles):
                tag = tags[place] if tags else bundle.name
                former = published.get(bundle.snapshot.snapshot_id)
                staged.append(await self._stage(run, bundle, tag, former))
            # After all bundles are read: an error in the last one should not cost hours of embedding.
            for one in staged:
                await self._embed(one)
            refs = list(tags) or [
                bundle.name if bundle.snapshot.branch == UNKNOWN_BRANCH else bundle.snapshot.branch
                for bundle in bundles
            ]
            _, made = await run.publish(set_name=set_name, refs=refs)
        return ImportResult(
            imports=[one.report_entry() for one in staged],
            set=made,
            seconds=round(time.monotonic() - started, 3),
        )

    async def _unchanged(self, bundle: Bundle, former: SnapshotRecord) -> ImportReport | None:
        """Return the report of a bundle whose content is published already; None when it is to be replaced.

        Reading costs a fraction of storing.
        """
        report = await asyncio.to_thread(validate_bundle, bundle)
        if report.digest == former.digest:
            return report
        if not self._replace:
            raise different_content(bundle.snapshot, comparable=bool(former.digest))
        return None

    async def _stage(
        self, run: CodeImport, bundle: Bundle, tag: str, former: SnapshotRecord | None
    ) -> _StagedBundle:
        known = None if former is None else await self._unchanged(bundle, former)
        import_id = str(uuid.uuid4())
        staged = await run.stage(import_id, bundle.snapshot, tags=(tag,))
        report = known or await self._add_content(staged, bundle)
        is_new = await staged.close(report, replace=self._replace)
        if is_new and known is not None:
            raise Unavailable(
                f"{bundle.snapshot.repo} at {bundle.snapshot.head_sha} was changed during the import",
                hint="run the same command again",
            )
        return _StagedBundle(import_id, staged, report, is_new)

    async def _add_content(self, staged: StagedSnapshot, bundle: Bundle) -> ImportReport:
        async def add(batch: Sequence[CodeNode]) -> None:
            await staged.add_nodes(batch)
            self._nodes_read += len(batch)
            self._progress(self._nodes_read, None)

        reader = BundleReader(bundle)
        batches = node_batches(reader, _NODES_PER_BATCH)
        await _copy_batches(lambda: asyncio.to_thread(next, batches, None), add)
        await staged.end_nodes()
        await staged.add_edges(await asyncio.to_thread(reader.edges))
        return await asyncio.to_thread(reader.report)

    async def _embed(self, one: _StagedBundle) -> None:
        slots = asyncio.Semaphore(_IN_FLIGHT)
        if hasattr(self._embedder, "prepare"):
            await self._embedder.prepare()
        passages = PassagePooling(self._embedder)
        try:
            async with asyncio.TaskGroup() as group:
                first = True
                while nodes := await one.staged.texts(_TEXTS_PER_REQUEST):
                    await slots.acquire()
                    task = group.create_task(self._embed_some(one, nodes, passages, slots))
                    if first:
                        await asyncio.wait({task})
                        first = False
        except* WhenceError as errors:
            raise _first_error(errors) from errors

    async def _embed_some(
        self,
        one: _StagedBundle,
        nodes: Sequence[NodeText],
        passages: PassagePooling,
        slots: asyncio.Semaphore,
    ) -> None:
        try:
            pieces, owners = await asyncio.to_thread(passages.split, [node.text for node in nodes])
            rows = []
            for start, end in _requests(pieces):
                request = EmbeddingRequest(texts=tuple(pieces[start:end]), purpose="document")
                reply = await self._client.call(
                    "embedding", request, EmbeddingResponse, timeout_s=_EMBEDDING_TIMEOUT_S
                )
                rows.append(passages.matrix(reply, end - start))
            vectors = passages.pool(rows, owners, len(nodes))
            await one.staged.add_vectors([node.key for node in nodes], vectors, reply.model)
        finally:
            slots.release()
        one.embedded += len(nodes)
        self._progress(one.embedded, one.report.nodes.total)


class _StagedBundle(msgspec.Struct):
    import_id: str
    staged: StagedSnapshot
    report: ImportReport
    is_new: bool
    embedded: int = 0

    def report_entry(self) -> ImportedBundle:
        snapshot, report = self.report.snapshot, self.report
        return ImportedBundle(
            import_id=self.import_id,
            repo=snapshot.repo,
            branch=snapshot.branch,
            head_sha=snapshot.head_sha,
            snapshot_id=snapshot.snapshot_id,
            unchanged=not self.is_new,
            nodes=asdict(report.nodes),
            edges=asdict(report.edges),
            duplicates={
                "nodes": asdict(report.duplicate_nodes),
                "edges": asdict(report.duplicate_edges),
            },
            dangling=asdict(report.dangling_edges),
            empty_texts=report.empty_texts,
            unknown_labels=report.unknown_labels,
            warnings=report.warnings,
            embedded=self.embedded,
        )


async def _copy_batches(
    read: Callable[[], Awaitable[Any]], write: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    """Read batches while the two before are written.

    Writes are not cancelled after an error: an interrupted COPY closes the connection.
    """
    writes: deque[asyncio.Task[None]] = deque()
    try:
        while (batch := await read()) is not None:
            writes.append(asyncio.create_task(write(batch)))
            if len(writes) > _BATCHES_IN_FLIGHT:
                await writes.popleft()
    finally:
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _requests(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for place, text in enumerate(texts):
        full = place - start >= _TEXTS_PER_REQUEST or size + len(text) > _CHARACTERS_PER_REQUEST
        if full and place > start:
            yield start, place
            start, size = place, 0
        size += len(text)
    yield start, len(texts)


def _first_error(group: BaseExceptionGroup[WhenceError]) -> WhenceError:
    """Return the first error; the others have the same cause or are cancellations."""
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
