"""Read the edges of a bundle: dependencies of C# nodes, and the graph of the SQL objects."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.code.bundles.archive import Archive, Location
from whence.code.bundles.bundle import Layout
from whence.code.bundles.json_stream import object_elements
from whence.code.bundles.tables import csv_rows, first_text
from whence.code.snapshots.protocols import SnapshotEdges
from whence.schema.code_ids import CodeKind
from whence.schema.relations import CS_DEPENDENCY, normalize_relation

_FROM_NAMES = ("from_id", "from", "From")
_TO_NAMES = ("to_id", "to", "To")
_RELATION_NAMES = ("edge_type", "relation", "Relation", "type")
_DEFAULT_RELATION = "edge"


class LocatedEdges(msgspec.Struct, frozen=True):
    """Edges from one node, and their location in the bundle."""

    location: Location
    graph: CodeKind
    from_local: str
    to_local: Sequence[str]
    relation: str


def read_edges(
    archive: Archive,
    layout: Layout,
    *,
    warn: Callable[[str, str], None],
) -> Iterator[LocatedEdges]:
    """Yield all edges in the order of the bundle, those of C# nodes first, repeats included.

    A dependency that `edges.csv` lists with its relation (`calls`, `inherits`, ...) is yielded only with that
    relation. The ends are not checked. The column `to_kind` is ignored: an id implies its kind.

    Memory holds the dependencies of one node, or one row, and 16 bytes for each dependency with a relation.
    """
    with_relation: set[bytes] = set()
    if layout.cs_edges is not None:
        for edges in _table_edges(archive, layout.cs_edges, "cs", warn):
            with_relation.update(_pair_hash(edges.from_local, to) for to in edges.to_local)
            yield edges
    if layout.dependencies is not None:
        for edges in _dependencies(archive, layout.dependencies):
            yield _without(with_relation, edges) if with_relation else edges
    if layout.sql_edges is not None:
        yield from _table_edges(archive, layout.sql_edges, "sql", warn)


def _without(pairs: Set[bytes], edges: LocatedEdges) -> LocatedEdges:
    source = edges.from_local
    targets = [target for target in edges.to_local if _pair_hash(source, target) not in pairs]
    return msgspec.structs.replace(edges, to_local=targets)


def _pair_hash(source: str, target: str) -> bytes:
    return hashlib.blake2b(f"{source}\0{target}".encode(), digest_size=16).digest()


def _dependencies(archive: Archive, member: str) -> Iterator[LocatedEdges]:
    with archive.open(member) as stream:
        for element in object_elements(stream, archive.limits.max_item_bytes):
            location, source, targets = element.location, element.key, element.value
            if not isinstance(targets, list):
                raise location.error(f"the dependencies of {source!r} must be a list of ids")
            for target in targets:
                if not isinstance(target, str):
                    raise location.error(f"{source!r} depends on {target!r}, which is not an id")
            yield LocatedEdges(location, "cs", source, targets, CS_DEPENDENCY)


def _table_edges(
    archive: Archive, member: str, graph: CodeKind, warn: Callable[[str, str], None]
) -> Iterator[LocatedEdges]:
    with archive.open(member) as stream:
        for row in csv_rows(
            stream, archive.limits.max_item_bytes, required=(_FROM_NAMES, _TO_NAMES)
        ):
            with row.location.prefix_errors():
                source = first_text(row.cells, *_FROM_NAMES)
                target = first_text(row.cells, *_TO_NAMES)
                relation = first_text(row.cells, *_RELATION_NAMES, default=_DEFAULT_RELATION)
            if not source or not target:
                message = f"{row.location}: the edge from {source!r} to {target!r} lacks an end"
                warn("edge_without_end", message)
                continue
            stored = f"{graph}_{relation}"
            yield LocatedEdges(row.location, graph, source, (target,), stored)


class EdgeList:
    """Edges in the order they are read, repeats included."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, CodeKind], int] = {}
        self._sources = array("i")
        self._relations = array("i")
        self._targets = array("i")

    def add(self, source: int, targets: Sequence[int], relation: str, graph: CodeKind) -> None:
        """Add edges of one relation from one node; nodes are given by number."""
        number = self._names.setdefault((relation, graph), len(self._names))
        self._sources.extend([source] * len(targets))
        self._relations.extend([number] * len(targets))
        self._targets.extend(targets)

    def unique(self, counts: Counter[tuple[str, str]]) -> SnapshotEdges:
        """Return the first of equal edges, and count edges and repeats of each graph.

        Relations are compared without regard to case, so `Calls` and `calls` are one edge. Cost: m log m.
        """
        sources = np.array(self._sources, dtype=np.int32)
        relations = np.array(self._relations, dtype=np.int32)
        targets = np.array(self._targets, dtype=np.int32)
        first = _is_first(sources, targets, _keys_of([name for name, _ in self._names])[relations])
        for (_, graph), number in self._names.items():
            of_relation = relations == number
            kept = int(np.count_nonzero(first & of_relation))
            counts["edge", graph] += kept
            counts["duplicate edge", graph] += int(np.count_nonzero(of_relation)) - kept
        return SnapshotEdges(
            sources=sources[first],
            targets=targets[first],
            relations=relations[first],
            names=tuple(name for name, _ in self._names),
        )


def canonical_edges(edges: SnapshotEdges, ranks: NDArray[np.int32]) -> bytes:
    """Return bytes that do not depend on the order of edges and nodes or the case of relations.

    `ranks` are the positions of the nodes in the order of their ids.
    """
    normalized = [normalize_relation(name) for name in edges.names]
    keys = sorted(set(normalized))
    order_of = {key: position for position, key in enumerate(keys)}
    relations = np.array([order_of[key] for key in normalized], dtype=np.int32)
    used = np.unique(relations[edges.relations])
    columns = (ranks[edges.sources], ranks[edges.targets], relations[edges.relations])
    order = np.lexsort((columns[2], columns[1], columns[0]))
    numbers = np.searchsorted(used, columns[2])
    rows = np.stack([columns[0], columns[1], numbers], axis=1)[order]
    named = "\n".join(keys[one] for one in used.tolist()).encode()
    return named + b"\0" + rows.astype("<i4").tobytes()


def _keys_of(names: Sequence[str]) -> NDArray[np.int32]:
    """Number the names; names that differ only in case get the same number."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(normalize_relation(name), len(known)) for name in names]
    return np.array(numbers, dtype=np.int32)


def _is_first(*columns: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return for each row whether no earlier row is equal."""
    order = np.lexsort(columns)  # Stable: equal rows keep their order.
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= np.diff(column[order]) != 0
    first = np.empty_like(new)
    first[order] = new
    return first
