"""Protocols of a store for snapshots of code, their import and their graph, and what is reported of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from whence.schema.code import BundleWarning, CodeNode, ImportReport, KindCounts, SnapshotInfo
from whence.schema.embedding import EmbeddingModel
from whence.schema.graph import ExpandRequest, ExpandResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SnapshotSource = Literal["primary", "secondary"]
"""First or second member of a set."""


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A published snapshot."""

    info: SnapshotInfo
    """Which state of which repository it is."""
    collection: str
    """Internal collection of its texts and its graph: a document of one chunk for each node, whose id is the
    canonical id. A replaced snapshot gets a new one."""
    digest: str
    """`ImportReport.digest` of the import; empty when an earlier version imported it."""
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
    """Reference in the request that made the set."""
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
    """Edges of a snapshot as columns; a node is named by its place in the order of arrival."""

    sources: NDArray[np.int32]
    """The dependent node of each edge."""
    targets: NDArray[np.int32]
    """The node that it depends on."""
    relations: NDArray[np.int32]
    """Index of the relation in `names`."""
    names: tuple[str, ...]
    """Stored relations."""


class NodeText(msgspec.Struct, frozen=True, kw_only=True):
    """A staged node that has no vector yet."""

    key: int
    """Key for `add_vectors`."""
    text: str
    """Text to embed; never empty."""


class StagedSnapshot(Protocol):
    """A snapshot that is being imported: nodes, `end_nodes`, edges, `close`, vectors. It cannot be read."""

    async def add_nodes(self, nodes: Sequence[CodeNode]) -> None:
        """Write some nodes, each id once."""

    async def end_nodes(self) -> None:
        """End the nodes and start the work that needs all of them."""

    async def add_edges(self, edges: SnapshotEdges) -> None:
        """Write all edges, each once; after the last node."""

    async def close(self, report: ImportReport, *, replace: bool = False) -> bool:
        """End the writing; return False when the published snapshot has the same content already.

        In that case nothing has to be embedded, and the written rows are removed.

        Raises:
            BadInput: The snapshot is published with other content and `replace` is False.
        """

    async def texts(self, limit: int) -> list[NodeText]:
        """Return some nodes without a vector, each node once; an empty list at the end.

        The first call returns one node. Its vector makes the model known; then nodes with the same text in
        another snapshot of the repository get the vector that they have there.
        """

    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Store the vectors of nodes.

        Args:
            keys: Keys of nodes from `texts`.
            vectors: float32, shape (len(keys), dimension), rows of length 1.
            model: Model of the vectors, the same for all of a snapshot.

        Raises:
            ModelMismatch: The model is another one than in the first call.
            BadInput: The vectors cannot be stored.
        """


class CodeImport(Protocol):
    """One import of one or more bundles: all of them are published, or none."""

    async def stage(
        self, import_id: str, snapshot: SnapshotInfo, *, tags: Sequence[str] = ()
    ) -> StagedSnapshot:
        """Begin to write a snapshot.

        Args:
            import_id: Unique id of this run.
            snapshot: Which state of which repository.
            tags: Further names of the snapshot.

        Raises:
            BadInput: The same snapshot is in this import already, or a name cannot be stored.
        """

    async def publish(
        self, *, set_name: str = "", refs: Sequence[str] = ()
    ) -> tuple[list[SnapshotRecord], SnapshotSet | None]:
        """Publish all staged snapshots in one transaction; return them in the order of staging.

        Args:
            set_name: Set to make of these snapshots, replacing any of that name; empty for none.
            refs: Reference of each member in the set.

        Raises:
            BadInput: The name of the set is not valid, the snapshots are not of one repository, or one was
                published with other content meanwhile.
        """


class CodeStore(Protocol):
    """Snapshots of code, the sets they are in, and their graphs."""

    async def snapshots(self) -> list[SnapshotRecord]:
        """Return all published snapshots, newest first; regardless of rights."""

    async def sets(self) -> list[SnapshotSet]:
        """Return all sets by name; regardless of rights."""

    async def resolve_snapshot(self, reference: str, *, within: str = "") -> SnapshotRecord:
        """Return the newest active snapshot that has this id, head sha, branch or tag.

        Args:
            reference: One of these.
            within: Set to search in; empty for all snapshots.

        Raises:
            NotFound: There is none, or no such set that is active.
        """

    async def resolve_set(self, name: str, source: SnapshotSource = "primary") -> SnapshotRecord:
        """Return the first or the second snapshot of a set.

        Raises:
            NotFound: There is no such set, it or the snapshot is not active, or it has no second one.
        """

    def importing(self) -> AbstractAsyncContextManager[CodeImport]:
        """Run an import for the time of a block; what it does not publish is removed.

        It also removes what a process that died has left.
        """

    async def make_set(self, name: str, references: Sequence[str]) -> SnapshotSet:
        """Make a set of published snapshots, replacing any of that name.

        Args:
            name: Its name.
            references: Ids, head shas, branches or tags; the first is primary.

        Raises:
            NotFound: A reference names no active snapshot.
            BadInput: The name is not valid, or the snapshots are none or not of one repository.
        """

    async def set_active(self, name: str, active: bool) -> None:
        """Switch a set, or else a snapshot by its id, on or off.

        Raises:
            NotFound: There is neither.
        """

    async def remove_set(self, name: str) -> None:
        """Delete a set; its snapshots stay.

        Raises:
            NotFound: There is none.
        """

    async def purge_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot, and sets that become empty.

        Raises:
            NotFound: There is none.
        """

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Walk the graph of a snapshot from some nodes, breadth first, as far as the reader may see.

        Nodes are ordered by depth, then relation, then id. Cost: linear in the nodes visited and their edges.

        Args:
            request: Seeds, limits, relations and access.
            travel: Whether to walk through hidden nodes, which are left out of the result either way. The
                reader then sees what lies behind them, and that something lies between.

        Raises:
            BadInput: A limit is out of range, there are more seeds than `max_nodes`, a seed is of another
                snapshot, or a relation is neither a known one nor that of an edge between visible
                nodes.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """


class ImportedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """Report of one imported bundle."""

    import_id: str
    repo: str
    branch: str
    head_sha: str
    snapshot_id: str
    status: str = "completed"
    """Always `completed`: if a bundle fails, the whole import fails."""
    unchanged: bool
    """Whether the snapshot was published with the same content before."""
    nodes: dict[str, int]
    edges: dict[str, int]
    """`cs` and `sql`; edges with both ends, each once."""
    duplicates: dict[str, dict[str, int]]
    """Repeated `nodes` and `edges`, `cs` and `sql` of each."""
    dangling: dict[str, int]
    """Edges with a missing end, `cs` and `sql`; they are not stored."""
    empty_texts: int
    unknown_labels: tuple[str, ...]
    warnings: tuple[BundleWarning, ...]
    embedded: int
    """Nodes that were embedded; the others reused the vector of an equal text."""


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """Report of one `import`."""

    imports: list[ImportedBundle]
    set: SnapshotSet | None
    seconds: float


class SnapshotList(msgspec.Struct, frozen=True, kw_only=True):
    """All published snapshots and sets."""

    snapshots: list[SnapshotRecord]
    sets: list[SnapshotSet]
