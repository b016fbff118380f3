"""Store the edges of a bundle in integer columns, four bytes for each end."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whence.schema.code_ids import CodeKind
from whence.schema.relations import normalize_relation
from whence.store.snapshot_protocols import SnapshotEdges


class EdgeList:
    """Edges in the order they are read, repeats included."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, CodeKind], int] = {}
        #: For each list of edges from one node: the node, the number of the relation, the number of edges.
        self._sources = array("i")
        self._relations = array("i")
        self._lengths = array("i")
        self._targets = array("i")

    def add(self, source: int, targets: Sequence[int], relation: str, graph: CodeKind) -> None:
        """Add edges of one relation from one node; nodes are given by number."""
        self._sources.append(source)
        self._relations.append(self._names.setdefault((relation, graph), len(self._names)))
        self._lengths.append(len(targets))
        self._targets.extend(targets)

    def unique(self, counts: Counter[tuple[str, str]]) -> SnapshotEdges:
        """Return the first of equal edges, and count edges and repeats of each graph.

        Relations are compared without regard to case, so `Calls` and `calls` are one edge. Cost: m log m.
        """
        lengths = np.array(self._lengths, dtype=np.int32)
        sources = np.repeat(np.array(self._sources, dtype=np.int32), lengths)
        relations = np.repeat(np.array(self._relations, dtype=np.int32), lengths)
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
    keys = sorted({normalize_relation(name) for name in edges.names})
    order_of = {key: position for position, key in enumerate(keys)}
    relations = np.array(
        [order_of[normalize_relation(name)] for name in edges.names], dtype=np.int32
    )
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
