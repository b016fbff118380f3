"""The nodes and edges of a bundle, each once and checked, and the account of what was found.

Whoever stores a bundle reads it in one pass:

    contents = BundleContents(bundle)
    for node in contents.nodes(): ...
    for edge in contents.edges(): ...
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

from msgspec.structs import replace

from whence.ingest.bundles.archive import open_archive
from whence.ingest.bundles.bundle import Bundle
from whence.ingest.bundles.edges import FoundEdges, read_edges
from whence.ingest.bundles.nodes import FoundNode, read_nodes
from whence.schema.code import BundleWarning, CodeEdge, CodeNode, ImportReport, KindCounts
from whence.schema.code_ids import checked_local_id, kind_of_local
from whence.schema.codec import encode
from whence.schema.relations import relation_key

__all__ = ("KNOWN_LABELS", "MAX_WARNINGS", "BundleContents", "validate")

#: Labels that are no surprise; others are reported, and protect all the same.
KNOWN_LABELS = frozenset({"public", "internal", "restricted", "confidential", "secret"})
#: Warnings kept word for word; the rest is counted.
MAX_WARNINGS = 1000
#: Changes when equal bundles would have to be stored anew.
_VERSION = b"whence bundle 1\n"
#: Bytes of a digest kept for each node and edge: 16 make an accidental match a matter of 2**64 nodes.
_DIGEST_BYTES = 16

_Stage = Literal["opened", "reading nodes", "nodes read", "reading edges", "edges read"]


class BundleContents:
    """One pass over a bundle.

    Memory holds a block of nodes with their texts, and of each node its ids, of each edge and node 16 bytes;
    time grows with the bytes of the bundle, and with n log n and m log m of n nodes and m edges for the digest.

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
        #: Of each node: its id, and its digest.
        self._ids: list[str] = []
        self._digests = bytearray()
        self._edge_digests: set[bytes] = set()
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

    def edges(self) -> Iterator[CodeEdge]:
        """Yield every edge whose two ends are nodes once, in the order of the bundle; after all nodes.

        Raises:
            BadInput: An edge is malformed, or an id cannot be read; member, line and reason are named.
        """
        self._begin("reading edges", after="nodes read")
        bundle = self._bundle
        with open_archive(bundle.path, bundle.limits) as archive:
            for found in read_edges(archive, bundle.layout, warn=self._warn):
                yield from self._new_edges(found)
        self._stage = "edges read"

    def report(self) -> ImportReport:
        """Give the account, after all edges."""
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
        place, node = found
        digest = _short(encode(replace(node, id="")))
        known = self._places.setdefault(node.local_id, len(self._ids))
        if known < len(self._ids):
            if digest == self._digest_of(known):
                self._counts["duplicate node", node.kind] += 1
                return False
            raise place.error(
                f"{node.local_id!r} was there before with other content",
                "an id names one node; keep one of the two",
            )
        self._ids.append(node.id)
        self._digests += digest
        self._counts["node", node.kind] += 1
        self._empty_texts += not node.text
        self._look_at_labels(found)
        return True

    def _look_at_labels(self, found: FoundNode) -> None:
        place, node = found
        if not node.tags.labels:
            return
        unknown = set(node.tags.labels) - self._known_labels - self._unknown_labels
        for label in sorted(unknown):
            message = f"{place}: the label {label!r} of {node.local_id!r} is not in the vocabulary"
            self._warn(BundleWarning(code="unknown_label", message=message))
        self._unknown_labels |= unknown

    def _new_edges(self, found: FoundEdges) -> Iterator[CodeEdge]:
        """Yield those whose two ends are nodes and that were not there before."""
        _, graph, source, targets, relation = found
        places, ids, known = self._places, self._ids, self._edge_digests
        if source not in places:
            self._warn_of_dangling(found, targets)
            return
        from_id = ids[places[source]]
        # Relations are compared without regard to case, so `Calls` and `calls` are one edge.
        begin = f"{relation_key(relation)}\0{source}\0".encode()
        first = size = len(known)
        dangling = 0
        for target in targets:
            place = places.get(target)
            if place is None:
                dangling += 1
                self._warn_of_dangling(found, (target,))
                continue
            known.add(blake2b(begin + target.encode(), digest_size=_DIGEST_BYTES).digest())
            if len(known) > size:
                size += 1
                yield CodeEdge(from_id=from_id, to_id=ids[place], relation=relation)
        self._counts["edge", graph] += size - first
        self._counts["duplicate edge", graph] += len(targets) - dangling - (size - first)

    def _digest_of(self, place: int) -> bytes:
        at = place * _DIGEST_BYTES
        return bytes(self._digests[at : at + _DIGEST_BYTES])

    def _warn_of_dangling(self, found: FoundEdges, targets: Sequence[str]) -> None:
        place, graph, source, _, relation = found
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
        digest = hashlib.sha256(_VERSION)
        for local_id in sorted(self._places):
            digest.update(self._digest_of(self._places[local_id]))
        digest.update(len(self._ids).to_bytes(8))
        digest.update(b"".join(sorted(self._edge_digests)))
        return digest.hexdigest()


def validate(bundle: Bundle, *, known_labels: Iterable[str] = KNOWN_LABELS) -> ImportReport:
    """Read a whole bundle once and give its account; nothing is stored.

    Raises:
        BadInput: The bundle cannot be imported; member, line and reason are named.
    """
    contents = BundleContents(bundle, known_labels=known_labels)
    for _ in contents.nodes():
        pass
    for _ in contents.edges():
        pass
    return contents.report()


def _short(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
