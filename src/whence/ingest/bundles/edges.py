"""Edges of a bundle: dependencies of C# nodes, and the graph of the SQL objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence, Set

import msgspec

from whence.ingest.bundles.archive import Archive
from whence.ingest.bundles.fields import first_text
from whence.ingest.bundles.json_stream import object_elements
from whence.ingest.bundles.layout import Layout
from whence.ingest.bundles.locations import Place
from whence.ingest.bundles.tables import csv_rows
from whence.schema.code import BundleWarning
from whence.schema.code_ids import CodeKind
from whence.schema.relations import CS_DEPENDENCY, stored_relation

__all__ = ("FoundEdges", "read_edges")

_FROM = ("from_id", "from", "From")
_TO = ("to_id", "to", "To")
_RELATION = ("edge_type", "relation", "Relation", "type")
_NO_RELATION = "edge"


class FoundEdges(msgspec.Struct, frozen=True):
    """Edges from one node as they stand in a bundle, and where."""

    place: Place
    graph: CodeKind
    """Which of the two graphs lists them."""
    from_local: str
    to_local: Sequence[str]
    """The other end of each."""
    relation: str
    """Stored relation of all."""


def read_edges(
    archive: Archive,
    layout: Layout,
    *,
    warn: Callable[[BundleWarning], None],
) -> Iterator[FoundEdges]:
    """Yield all edges in the order of the bundle, those of C# nodes first; repeats are yielded again.

    A dependency whose relation a bundle names beside (`calls`, `inherits`, ...) has that name and no other.

    Whether the ends are ids, and of nodes, is not looked at here. The column `to_kind` that some bundles
    have is not read: an id tells its kind itself.

    Memory holds the dependencies of one node, or one row, and 16 bytes for each dependency that has a name.

    Args:
        archive: The open bundle.
        layout: Where its parts are.
        warn: Takes rows that lack an end, which are left out.

    Raises:
        BadInput: Something is malformed.
    """
    named: set[bytes] = set()
    if layout.cs_edges is not None:
        for edges in _table_edges(archive, layout.cs_edges, "cs", warn):
            named.update(_pair(edges.from_local, target) for target in edges.to_local)
            yield edges
    if layout.dependencies is not None:
        for edges in _dependencies(archive, layout.dependencies):
            yield _without(named, edges) if named else edges
    if layout.sql_edges is not None:
        yield from _table_edges(archive, layout.sql_edges, "sql", warn)


def _without(named: Set[bytes], edges: FoundEdges) -> FoundEdges:
    source = edges.from_local
    left = [target for target in edges.to_local if _pair(source, target) not in named]
    return msgspec.structs.replace(edges, to_local=left)


def _pair(source: str, target: str) -> bytes:
    return hashlib.blake2b(f"{source}\0{target}".encode(), digest_size=16).digest()


def _dependencies(archive: Archive, member: str) -> Iterator[FoundEdges]:
    with archive.open(member) as stream:
        for element in object_elements(stream, archive.limits.max_item_bytes):
            place, source, targets = element.place, element.key, element.value
            if not isinstance(targets, list):
                raise place.error(f"the dependencies of {source!r} must be a list of ids")
            for target in targets:
                if not isinstance(target, str):
                    raise place.error(f"{source!r} depends on {target!r}, which is no id")
            yield FoundEdges(place, "cs", source, targets, CS_DEPENDENCY)


def _table_edges(
    archive: Archive, member: str, graph: CodeKind, warn: Callable[[BundleWarning], None]
) -> Iterator[FoundEdges]:
    with archive.open(member) as stream:
        for row in csv_rows(stream, archive.limits.max_item_bytes, needed=(_FROM, _TO)):
            with row.place.blamed():
                source, target = first_text(row.cells, *_FROM), first_text(row.cells, *_TO)
                relation = first_text(row.cells, *_RELATION, default=_NO_RELATION)
            if not source or not target:
                message = f"{row.place}: the edge from {source!r} to {target!r} lacks an end"
                warn(BundleWarning(code="edge_without_end", message=message))
                continue
            stored = stored_relation(graph, relation)
            yield FoundEdges(row.place, graph, source, (target,), stored)
