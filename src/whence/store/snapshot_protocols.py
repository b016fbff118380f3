"""What is asked of the store about snapshots of code, and how one gets in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from whence.schema.code import CodeNode, ImportReport, KindCounts, SnapshotInfo
from whence.schema.embedding import EmbeddingModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = (
    "CodeImport",
    "CodeStore",
    "NodeText",
    "SetMember",
    "SnapshotEdges",
    "SnapshotRecord",
    "SnapshotSet",
    "SnapshotSource",
    "StagedSnapshot",
)

SnapshotSource = Literal["primary", "secondary"]
"""First or second member of a set."""


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A published snapshot."""

    info: SnapshotInfo
    """Which state of which repository it is."""
    collection: str
    """Internal collection that holds its texts and its graph: one document of one chunk a node, the
    document's id the canonical id. Another one once the snapshot is replaced; the old name is then gone."""
    digest: str
    """`ImportReport.digest` of what was imported; empty when an earlier version imported it, which made it in
    another way."""
    nodes: KindCounts
    edges: KindCounts
    refs: tuple[str, ...]
    """Branch and tags, sorted."""
    active: bool
    """False while it is switched off; it cannot be read then."""
    published_at: str
    """ISO 8601 in UTC."""


class SetMember(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of a set."""

    ref: str
    """What it was called when the set was made."""
    snapshot_id: str


class SnapshotSet(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots of one repository under one name, in the order given."""

    name: str
    repo: str
    members: tuple[SetMember, ...]
    """The first is primary, the second secondary."""
    active: bool
    """False while it is switched off; nothing can be read through it then."""


class SnapshotEdges(msgspec.Struct, frozen=True, kw_only=True):
    """Edges of a snapshot as columns; a node is named by how many were added before it."""

    sources: NDArray[np.int32]
    """Of each edge: the node that depends."""
    targets: NDArray[np.int32]
    """Of each edge: the node it depends on."""
    relations: NDArray[np.int32]
    """Of each edge: which of the names."""
    names: tuple[str, ...]
    """Stored relations."""


class NodeText(msgspec.Struct, frozen=True, kw_only=True):
    """A staged node that has no vector yet."""

    key: int
    """Names it towards `add_vectors`."""
    text: str
    """What to embed; never empty."""


class StagedSnapshot(Protocol):
    """A snapshot on its way in; nobody can read it. All nodes, their end, all edges, `close`, then vectors."""

    def preparer(self) -> Callable[[Sequence[CodeNode]], Any]:
        """Return what prepares nodes, each id once; it can be sent to another process before it is used."""
        ...

    async def add_prepared(self, batch: Any) -> None:
        """Write some nodes that a preparer made ready."""
        ...

    async def end_nodes(self) -> None:
        """End the nodes and start the work that needs all of them."""
        ...

    async def add_edges(self, edges: SnapshotEdges) -> None:
        """Write all edges, each once; after the last node."""
        ...

    async def close(self, report: ImportReport, *, replace: bool = False) -> bool:
        """End the writing; return False when the published snapshot has the same content already.

        Nothing is left to embed then, and nothing of what was written is kept.

        Raises:
            BadInput: The snapshot is published with other content and `replace` is False.
        """
        ...

    async def texts(self, limit: int) -> list[NodeText]:
        """Return some nodes that have no vector and were not given before; empty when there are no more.

        The first call gives one: with its vector the model becomes known, and nodes that stand in another
        snapshot of the repository with the same text and a vector of that model get that vector.
        """
        ...

    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Store the vectors of nodes.

        Args:
            keys: Of nodes from `texts`.
            vectors: float32, shape (len(keys), dimension), rows of length 1.
            model: What made them; the same for all of a snapshot.

        Raises:
            ModelMismatch: It is another model than that of the first call.
            BadInput: The vectors cannot be stored.
        """
        ...


class CodeImport(Protocol):
    """One import of one or more bundles: all of them are published, or none."""

    async def stage(
        self, import_id: str, snapshot: SnapshotInfo, *, tags: Sequence[str] = ()
    ) -> StagedSnapshot:
        """Begin to write a snapshot.

        Args:
            import_id: Names this run, once and for all.
            snapshot: Which state of which repository.
            tags: Other names for the snapshot, beside its branch.

        Raises:
            BadInput: The same snapshot is in this import already, or a name cannot be stored.
        """
        ...

    async def publish(
        self, *, set_name: str = "", refs: Sequence[str] = ()
    ) -> tuple[list[SnapshotRecord], SnapshotSet | None]:
        """Make everything staged readable, in one transaction; return the snapshots in the order staged.

        Args:
            set_name: Set to make of these snapshots, in the place of any of that name; none when empty.
            refs: What the set calls its members; one a snapshot.

        Raises:
            BadInput: The name of the set cannot be, the snapshots are not of one repository, or one was
                published with other content meanwhile.
        """
        ...


class CodeStore(Protocol):
    """Snapshots of code and the sets they are in."""

    async def snapshots(self) -> list[SnapshotRecord]:
        """Return all published snapshots, newest first; for the owner's eyes only."""
        ...

    async def sets(self) -> list[SnapshotSet]:
        """Return all sets by name; for the owner's eyes only."""
        ...

    async def resolve_snapshot(self, reference: str, *, within: str = "") -> SnapshotRecord:
        """Return the newest active snapshot that has this id, head sha, branch or tag.

        Args:
            reference: One of these.
            within: Set that it must be in; any snapshot when empty.

        Raises:
            NotFound: There is none, or no such set that is active.
        """
        ...

    async def resolve_set(self, name: str, source: SnapshotSource = "primary") -> SnapshotRecord:
        """Return the first or the second snapshot of a set.

        Raises:
            NotFound: There is no such set, it or the snapshot is not active, or it has no second one.
        """
        ...

    def importing(self) -> AbstractAsyncContextManager[CodeImport]:
        """Begin an import for the time of a block.

        What was staged and not published when the block ends is removed, and so is what a process that
        died has left.
        """
        ...

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots, in the place of any of that name.

        Args:
            name: Its name.
            references: Ids, head shas, branches or tags; the first is primary.

        Raises:
            NotFound: A reference stands for no active snapshot.
            BadInput: The name cannot be, or the snapshots are none or not of one repository.
        """
        ...

    async def set_active(self, name: str, active: bool) -> None:
        """Switch a set, or else a snapshot by its id, on or off.

        Raises:
            NotFound: There is neither.
        """
        ...

    async def remove_set(self, name: str) -> None:
        """Forget a set; its snapshots stay.

        Raises:
            NotFound: There is none.
        """
        ...

    async def purge_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot with everything of it, in sets too; a set left empty goes with it.

        Raises:
            NotFound: There is none.
        """
        ...
