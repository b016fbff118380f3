"""Read the edges of a bundle: dependencies of C# nodes, and the graph of the SQL objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence, Set

import msgspec

from whence.ingest.bundles.archive import Archive
from whence.ingest.bundles.fields import first_text
from whence.ingest.bundles.json_stream import object_elements
from whence.ingest.bundles.layout import Layout
from whence.ingest.bundles.locations import Location
from whence.ingest.bundles.tables import csv_rows
from whence.schema.code import BundleWarning
from whence.schema.code_ids import CodeKind
from whence.schema.relations import CS_DEPENDENCY, stored_relation

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
    warn: Callable[[BundleWarning], None],
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
    archive: Archive, member: str, graph: CodeKind, warn: Callable[[BundleWarning], None]
) -> Iterator[LocatedEdges]:
    with archive.open(member) as stream:
        for row in csv_rows(
            stream, archive.limits.max_item_bytes, required=(_FROM_NAMES, _TO_NAMES)
        ):
            with row.location.prefix_errors():
                source, target = (
                    first_text(row.cells, *_FROM_NAMES),
                    first_text(row.cells, *_TO_NAMES),
                )
                relation = first_text(row.cells, *_RELATION_NAMES, default=_DEFAULT_RELATION)
            if not source or not target:
                message = f"{row.location}: the edge from {source!r} to {target!r} lacks an end"
                warn(BundleWarning(code="edge_without_end", message=message))
                continue
            stored = stored_relation(graph, relation)
            yield LocatedEdges(row.location, graph, source, (target,), stored)
