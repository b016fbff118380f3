"""The nodes and edges of a bundle, each once and checked, and the account of what was found.

Whoever stores a bundle reads it in one pass:

    contents = BundleContents(bundle)
    for node in contents.nodes(): ...
    edges = contents.edges()
    report = contents.report()

Any of the three may raise `BadInput`; then nothing of the bundle may be kept. `validate` makes the same pass
and stores nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
import numpy as np

from whence.ingest.bundles.archive import open_archive
from whence.ingest.bundles.bundle import Bundle
from whence.ingest.bundles.edge_list import EdgeList, canonical_edges
from whence.ingest.bundles.edges import FoundEdges, read_edges
from whence.ingest.bundles.nodes import FoundNode, read_nodes
from whence.schema.code import BundleWarning, CodeNode, ImportReport, KindCounts
from whence.schema.code_ids import checked_local_id, kind_of_local
from whence.store.snapshot_protocols import SnapshotEdges

__all__ = ("KNOWN_LABELS", "MAX_WARNINGS", "BundleContents", "validate")

#: Labels that are no surprise; others are reported, and protect all the same.
KNOWN_LABELS = frozenset({"public", "internal", "restricted", "confidential", "secret"})
#: Warnings kept word for word; the rest is counted.
MAX_WARNINGS = 1000
#: Changes when equal bundles would have to be stored anew.
_VERSION = b"whence bundle 2\n"
#: Bytes of a digest kept for each node: 16 make an accidental match a matter of 2**64 nodes.
_DIGEST_BYTES = 16
_encoder = msgspec.msgpack.Encoder(order="deterministic")

_Stage = Literal["opened", "reading nodes", "nodes read", "reading edges", "edges read"]


class BundleContents:
    """One pass over a bundle.

    Memory holds a block of nodes with their texts, of each node its local id and a digest, and of each edge
    some numbers; time grows with the bytes of the bundle, and with n log n and m log m of n nodes and m edges.

    Args:
        bundle: What to read; its files must not change meanwhile.
        known_labels: Labels that are not reported as unknown.
    """

    def __init__(self, bundle: Bundle, *, known_labels: Iterable[str] = KNOWN_LABELS) -> None:
        self._bundle = bundle
        self._known_labels = frozenset(known_labels)
        self._unknown_labels: set[str] = set()
        self._warnings: list[BundleWarning] = []
        self._warning_count = 0
        self._empty_texts = 0
        #: Which node each local id names, by the order in which they came.
        self._places: dict[str, int] = {}
        #: Of each node: its digest.
        self._digests = bytearray()
        self._read = EdgeList()
        self._edges: SnapshotEdges | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._stage: _Stage = "opened"

    def nodes(self) -> Iterator[CodeNode]:
        """Yield every node once, in the order of the bundle, C# first.

        Raises:
            BadInput: A node is malformed, states no ACL, has an id that cannot be read, or has the id of
                another node and other content; member, line and reason are named.
        """
        self._begin("reading nodes", after="opened")
        bundle = self._bundle
        with open_archive(bundle.path, bundle.limits) as archive:
            for found in read_nodes(
                archive,
                bundle.layout,
                bundle.snapshot,
                legacy_tags=bundle.legacy_tags,
                warn=self._warn,
            ):
                if self._is_new_node(found):
                    yield found.node
        self._stage = "nodes read"

    def edges(self) -> SnapshotEdges:
        """Return every edge whose two ends are nodes once, in the order of the bundle; after all nodes.

        Cost: m log m of m edges; memory some 40 bytes an edge.

        Raises:
            BadInput: An edge is malformed, or an id cannot be read; member, line and reason are named.
        """
        self._begin("reading edges", after="nodes read")
        bundle = self._bundle
        with open_archive(bundle.path, bundle.limits) as archive:
            for found in read_edges(archive, bundle.layout, warn=self._warn):
                self._take_edges(found)
        self._edges = edges = self._read.once(self._counts)
        self._stage = "edges read"
        return edges

    def report(self) -> ImportReport:
        """Return the account, after all edges."""
        self._begin("edges read", after="edges read")
        return ImportReport(
            snapshot=self._bundle.snapshot,
            digest=self._digest(),
            nodes=self._of("node"),
            edges=self._of("edge"),
            duplicate_nodes=self._of("duplicate node"),
            duplicate_edges=self._of("duplicate edge"),
            dangling_edges=self._of("dangling edge"),
            empty_texts=self._empty_texts,
            unknown_labels=tuple(sorted(self._unknown_labels)),
            warnings=(*self._warnings, *self._not_shown()),
        )

    def _begin(self, stage: _Stage, *, after: _Stage) -> None:
        if self._stage != after:
            raise RuntimeError(f"nodes, edges, report are read in this order; now: {self._stage}")
        self._stage = stage

    def _is_new_node(self, found: FoundNode) -> bool:
        node = found.node
        digest = _short(_content(node))
        new = len(self._places)
        known = self._places.setdefault(node.local_id, new)
        if known < new:
            if digest == self._digest_of(known):
                self._counts["duplicate node", node.kind] += 1
                return False
            raise found.place.error(
                f"{node.local_id!r} was there before with other content",
                "an id names one node; keep one of the two",
            )
        self._digests += digest
        self._counts["node", node.kind] += 1
        self._empty_texts += not node.text
        self._look_at_labels(found)
        return True

    def _look_at_labels(self, found: FoundNode) -> None:
        labels = found.node.tags.labels
        if self._known_labels.issuperset(labels):
            return
        unknown = set(labels) - self._known_labels - self._unknown_labels
        for label in sorted(unknown):
            local = found.node.local_id
            message = f"{found.place}: the label {label!r} of {local!r} is not in the vocabulary"
            self._warn(BundleWarning(code="unknown_label", message=message))
        self._unknown_labels |= unknown

    def _take_edges(self, found: FoundEdges) -> None:
        """Note those whose two ends are nodes."""
        targets = found.to_local
        place = self._places.get(found.from_local)
        if place is None:
            self._warn_of_dangling(found, targets)
            return
        try:
            places = list(map(self._places.__getitem__, targets))
        except KeyError:
            self._warn_of_dangling(found, [one for one in targets if one not in self._places])
            places = [self._places[one] for one in targets if one in self._places]
        self._read.add(place, places, found.relation, found.graph)

    def _digest_of(self, place: int) -> bytes:
        at = place * _DIGEST_BYTES
        return bytes(self._digests[at : at + _DIGEST_BYTES])

    def _warn_of_dangling(self, found: FoundEdges, targets: Sequence[str]) -> None:
        place, graph, source, relation = found.place, found.graph, found.from_local, found.relation
        for target in targets:
            self._counts["dangling edge", graph] += 1
            missing = [end for end in (source, target) if end not in self._places]
            with place.blamed():
                for local in missing:
                    checked_local_id(local, kind_of_local(local))
            absent = " and ".join(map(repr, dict.fromkeys(missing)))
            message = f"{place}: the edge {source!r} -{relation}-> {target!r} is left out: no node {absent}"
            self._warn(BundleWarning(code="dangling_edge", message=message))

    def _warn(self, warning: BundleWarning) -> None:
        self._warning_count += 1
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(warning)

    def _not_shown(self) -> Iterator[BundleWarning]:
        rest = self._warning_count - len(self._warnings)
        if rest:
            yield BundleWarning(code="not_shown", message=f"{rest:,} more warnings are not shown")

    def _of(self, what: str) -> KindCounts:
        return KindCounts(cs=self._counts[what, "cs"], sql=self._counts[what, "sql"])

    def _digest(self) -> str:
        """Digest the nodes in the order of their ids, and the edges between them by that order."""
        assert self._edges is not None
        order = np.fromiter(
            map(self._places.__getitem__, sorted(self._places)), np.int32, len(self._places)
        )
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        of_nodes = np.frombuffer(self._digests, np.uint8).reshape(-1, _DIGEST_BYTES)[order]
        digest = hashlib.sha256(_VERSION)
        digest.update(len(order).to_bytes(8))
        digest.update(of_nodes.tobytes())
        digest.update(canonical_edges(self._edges, ranks))
        return digest.hexdigest()


def validate(bundle: Bundle, *, known_labels: Iterable[str] = KNOWN_LABELS) -> ImportReport:
    """Read a whole bundle once and give its account; nothing is stored.

    Raises:
        BadInput: The bundle cannot be imported; member, line and reason are named.
    """
    contents = BundleContents(bundle, known_labels=known_labels)
    for _ in contents.nodes():
        pass
    contents.edges()
    return contents.report()


def _content(node: CodeNode) -> bytes:
    """Return all there is of a node but its canonical id, which holds the repository's name."""
    return _encoder.encode(
        (
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
    )


def _short(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
