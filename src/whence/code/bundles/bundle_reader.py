"""Read and check the nodes and edges of a bundle in one pass, and report what was found.

    reader = BundleReader(bundle)
    for node in reader.nodes(): ...
    edges = reader.edges()
    report = reader.report()

Each of the three may raise `BadInput`; then nothing of the bundle may be stored. `validate_bundle` makes the
same pass and stores nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
import numpy as np

from whence.code.bundles.archive import Location, open_archive
from whence.code.bundles.bundle import Bundle
from whence.code.bundles.edges import EdgeList, LocatedEdges, canonical_edges, read_edges
from whence.code.bundles.nodes import read_nodes
from whence.code.snapshots.protocols import SnapshotEdges
from whence.schema.code import BundleWarning, CodeNode, ImportReport, KindCounts
from whence.schema.code_ids import kind_from_local_id, validate_local_id

#: Labels that are not reported as unknown. Other labels protect a node in the same way.
KNOWN_LABELS = frozenset({"public", "internal", "restricted", "confidential", "secret"})
#: Warnings kept in full; further ones are only counted.
MAX_WARNINGS = 1000
#: Changes when bundles of equal content must be stored again.
_VERSION = b"whence bundle 2\n"
#: Bytes of the content hash of a node; with 16 a collision is expected at 2**64 nodes.
_HASH_BYTES = 16
#: Characters of the texts of one batch; memory holds a few batches.
_MAX_BATCH_CHARACTERS = 4_000_000
_encoder = msgspec.msgpack.Encoder(order="deterministic")

_Stage = Literal["opened", "reading nodes", "nodes read", "reading edges", "edges read"]


class BundleReader:
    """One pass over a bundle.

    Memory holds one node, the local id and a hash of every node, and a few integers for every edge. Time is
    linear in the bytes of the bundle, plus n log n and m log m for n nodes and m edges.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._unknown_labels: set[str] = set()
        self._warnings: list[BundleWarning] = []
        self._warning_count = 0
        self._empty_texts = 0
        #: Number of each node, in the order of the bundle, by local id.
        self._numbers: dict[str, int] = {}
        #: Content hashes of all nodes, one after the other.
        self._hashes = bytearray()
        self._edge_list = EdgeList()
        self._edges: SnapshotEdges | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._stage: _Stage = "opened"

    def nodes(self) -> Iterator[CodeNode]:
        """Yield every node once, in the order of the bundle, C# first.

        Raises:
            BadInput: A node is malformed, states no ACL, has an invalid id, or has the id of another node
                with other content; the message names member, line and reason.
        """
        self._begin("reading nodes", after="opened")
        bundle = self._bundle
        with open_archive(bundle.path, bundle.limits) as archive:
            # Not a variable: an error would keep the generator and its file open.
            for location, node in read_nodes(
                archive, bundle.layout, bundle.snapshot, warn=self._warn
            ):
                if self._is_new_node(location, node):
                    yield node
        self._stage = "nodes read"

    def edges(self) -> SnapshotEdges:
        """Return every edge between two nodes once, in the order of the bundle; call it after `nodes`.

        Cost: m log m for m edges; memory some 40 bytes an edge.

        Raises:
            BadInput: An edge is malformed or has an invalid id; the message names member, line and reason.
        """
        self._begin("reading edges", after="nodes read")
        bundle = self._bundle
        with open_archive(bundle.path, bundle.limits) as archive:
            for located in read_edges(archive, bundle.layout, warn=self._warn):
                self._add_edges(located)
        self._edges = edges = self._edge_list.unique(self._counts)
        self._stage = "edges read"
        return edges

    def report(self) -> ImportReport:
        """Return counts, warnings and the content hash; call it after `edges`."""
        self._begin("edges read", after="edges read")
        return ImportReport(
            snapshot=self._bundle.snapshot,
            digest=self._content_hash(),
            nodes=self._count("node"),
            edges=self._count("edge"),
            duplicate_nodes=self._count("duplicate node"),
            duplicate_edges=self._count("duplicate edge"),
            dangling_edges=self._count("dangling edge"),
            empty_texts=self._empty_texts,
            unknown_labels=tuple(sorted(self._unknown_labels)),
            warnings=self._all_warnings(),
        )

    def _begin(self, stage: _Stage, *, after: _Stage) -> None:
        if self._stage != after:
            raise RuntimeError(f"nodes, edges, report are read in this order; now: {self._stage}")
        self._stage = stage

    def _is_new_node(self, location: Location, node: CodeNode) -> bool:
        content_hash = _node_hash(node)
        number = len(self._numbers)
        known = self._numbers.setdefault(node.local_id, number)
        if known < number:
            start = known * _HASH_BYTES
            if content_hash == self._hashes[start : start + _HASH_BYTES]:
                self._counts["duplicate node", node.kind] += 1
                return False
            raise location.error(
                f"{node.local_id!r} occurred before with other content",
                "an id names one node; keep one of the two",
            )
        self._hashes += content_hash
        self._counts["node", node.kind] += 1
        self._empty_texts += not node.text
        self._check_labels(location, node)
        return True

    def _check_labels(self, location: Location, node: CodeNode) -> None:
        labels = node.tags.labels
        if KNOWN_LABELS.issuperset(labels):
            return
        unknown = set(labels) - KNOWN_LABELS - self._unknown_labels
        for label in sorted(unknown):
            local = node.local_id
            message = f"{location}: the label {label!r} of {local!r} is not in the vocabulary"
            self._warn("unknown_label", message)
        self._unknown_labels |= unknown

    def _add_edges(self, located: LocatedEdges) -> None:
        """Store the edges whose two ends are nodes, and warn of the others."""
        numbers = self._numbers
        source = numbers.get(located.from_local)
        missing = [one for one in located.to_local if source is None or one not in numbers]
        if missing:
            self._warn_dangling(located, missing)
        if source is not None:
            targets = [numbers[one] for one in located.to_local if one in numbers]
            self._edge_list.add(source, targets, located.relation, located.graph)

    def _warn_dangling(self, located: LocatedEdges, targets: Sequence[str]) -> None:
        location, source = located.location, located.from_local
        for target in targets:
            self._counts["dangling edge", located.graph] += 1
            missing = [end for end in (source, target) if end not in self._numbers]
            with location.prefix_errors():
                for local in missing:
                    validate_local_id(local, kind_from_local_id(local))
            absent = " and ".join(map(repr, dict.fromkeys(missing)))
            edge = f"{source!r} -{located.relation}-> {target!r}"
            message = f"{location}: the edge {edge} is left out: no node {absent}"
            self._warn("dangling_edge", message)

    def _warn(self, code: str, message: str) -> None:
        self._warning_count += 1
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(BundleWarning(code=code, message=message))

    def _all_warnings(self) -> tuple[BundleWarning, ...]:
        omitted = self._warning_count - len(self._warnings)
        if not omitted:
            return tuple(self._warnings)
        message = f"{omitted:,} more warnings are not shown"
        return (*self._warnings, BundleWarning(code="not_shown", message=message))

    def _count(self, what: str) -> KindCounts:
        return KindCounts(cs=self._counts[what, "cs"], sql=self._counts[what, "sql"])

    def _content_hash(self) -> str:
        """Hash the nodes in the order of their ids, and the edges between them."""
        assert self._edges is not None
        numbers = map(self._numbers.__getitem__, sorted(self._numbers))
        order = np.fromiter(numbers, np.int32, len(self._numbers))
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        hashes = np.frombuffer(self._hashes, np.uint8).reshape(-1, _HASH_BYTES)[order]
        digest = hashlib.sha256(_VERSION)
        digest.update(len(order).to_bytes(8))
        digest.update(hashes.tobytes())
        digest.update(canonical_edges(self._edges, ranks))
        return digest.hexdigest()


def node_batches(reader: BundleReader, size: int) -> Iterator[list[CodeNode]]:
    """Yield batches of `size` nodes, of fewer if their texts are long."""
    batch: list[CodeNode] = []
    characters = 0
    for node in reader.nodes():
        batch.append(node)
        characters += len(node.text)
        if len(batch) == size or characters >= _MAX_BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def validate_bundle(bundle: Bundle) -> ImportReport:
    """Read a whole bundle and return its report; nothing is stored.

    Raises:
        BadInput: The bundle cannot be imported; the message names member, line and reason.
    """
    reader = BundleReader(bundle)
    for _ in reader.nodes():
        pass
    reader.edges()
    return reader.report()


def _node_hash(node: CodeNode) -> bytes:
    """Hash all fields of a node except its canonical id, which contains the repository's name."""
    content = (
        node.local_id,
        node.kind,
        node.text,
        node.tags,
        node.file,
        node.path,
        node.name,
        node.qualified_name,
        node.symbol_type,
        node.metadata,
    )
    return blake2b(_encoder.encode(content), digest_size=_HASH_BYTES).digest()
