"""Stored code: nodes, edges, their snapshot, the choice of one, and the report of an import."""

from __future__ import annotations

from typing import Any

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.code_ids import CodeKind
from whence.schema.errors import BadInput
from whence.schema.message import Message


class SnapshotInfo(Message, frozen=True, kw_only=True):
    """One state of one repository."""

    snapshot_id: str
    """UUID derived from the repository and the revision."""
    repo: str
    """Name of the repository, the first part of every node's id."""
    branch: str
    """Branch or release; `(unknown)` when the bundle has none."""
    head_sha: str
    """Commit hash, or the fingerprint of the folder when there is no commit; never empty."""
    generated_at: str = ""
    """Creation time as written in the bundle."""


_SOURCES = ("primary", "secondary")


class SnapshotChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot to read, as the caller named it."""

    snapshot: str = ""
    """Id, head sha, branch or tag."""
    set_name: str = ""
    """A set: with `snapshot`, the set it must be in; alone, `source` selects the member."""
    source: str = ""
    """`primary` (also when empty) or `secondary`."""

    @classmethod
    def of(cls, snapshot: str | SnapshotChoice) -> SnapshotChoice:
        """Return a choice for an id, head sha, branch or tag; a choice is returned as it is."""
        return snapshot if isinstance(snapshot, SnapshotChoice) else cls(snapshot=snapshot)

    def __post_init__(self) -> None:
        if self.source and self.source not in _SOURCES:
            raise BadInput(
                f"unknown snapshot source {self.source!r}", hint=f"use {' or '.join(_SOURCES)}"
            )
        if not self.snapshot and not self.set_name:
            raise BadInput("no snapshot is named", hint="give a snapshot or a set")
        if self.source and not self.set_name:
            raise BadInput("a snapshot source goes with a set", hint="name the set too")
        if self.source and self.snapshot:
            raise BadInput("a snapshot and a snapshot source are given", hint="give one of the two")


class CodeNode(Message, frozen=True, kw_only=True):
    """One piece of code: a member of a C# class or an SQL object, with its whole text."""

    id: str
    """Canonical id, `Repo::snapshot::kind::local`."""
    local_id: str
    """Id within the bundle, `C0005` or `SQL:dbo.proc_ProcessPayment`."""
    kind: CodeKind
    text: str
    """The code, verbatim; may be empty."""
    tags: DocumentTags
    file: str = ""
    """Source file as named in the bundle."""
    path: str = ""
    """Path within the repository; `file` when the bundle has none."""
    name: str = ""
    """Member of the class, or name of the SQL object."""
    qualified_name: str = ""
    """`Class.Member`, or `schema.name`."""
    symbol_type: str = ""
    """`Method`, `Snippet`, `Procedure`, `Table`, `View`, `Function`, or another type of the bundle."""
    metadata: dict[str, Any] = {}
    """Those of `project_name`, `class_name`, `member_name`, `signature`, `chunk_part`, `chunk_total`,
    `sql_schema`, `owner_id`, `source_system_id`, `data_type`, `file_type`, `domain` that have a value;
    strings, the two of a chunk integers."""


class KindCounts(Message, frozen=True, kw_only=True):
    """Counts by kind; an edge has the kind of the graph that lists it."""

    cs: int = 0
    sql: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.cs + self.sql


class BundleWarning(Message, frozen=True, kw_only=True):
    """A fault of a bundle that does not prevent its import."""

    code: str
    """`dangling_edge`, `edge_without_end`, `unknown_label`, `missing_body`, or `not_shown` for the rest
    of a long list."""
    message: str
    """Member, line and fault, with both ends of an edge; one line."""


class ImportReport(Message, frozen=True, kw_only=True):
    """Contents of a bundle that was read completely and is valid."""

    snapshot: SnapshotInfo
    digest: str
    """SHA-256 of all nodes and edges, hexadecimal; independent of order, repeats, the layout of the bundle and
    the name of the repository."""
    nodes: KindCounts
    """Nodes, each id once."""
    edges: KindCounts
    """Edges with both ends in the bundle, each once."""
    duplicate_nodes: KindCounts = KindCounts()
    """Repeated nodes with the same content."""
    duplicate_edges: KindCounts = KindCounts()
    dangling_edges: KindCounts = KindCounts()
    """Edges with an end that is not in the bundle; not imported."""
    empty_texts: int = 0
    unknown_labels: tuple[str, ...] = ()
    """Labels outside the vocabulary, sorted."""
    warnings: tuple[BundleWarning, ...] = ()
    """In the order found, the first 1,000."""
