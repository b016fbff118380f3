"""Code as it is stored: nodes, edges, the snapshot they belong to, and what an import found."""

from __future__ import annotations

from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.code_ids import CodeKind
from whence.schema.message import Message

__all__ = (
    "BundleWarning",
    "CodeEdge",
    "CodeNode",
    "ImportReport",
    "KindCounts",
    "SnapshotInfo",
)


class SnapshotInfo(Message, frozen=True, kw_only=True):
    """One state of one repository."""

    snapshot_id: str
    """UUID made of the repository and the revision; the same whenever it is imported."""
    repo: str
    """Name of the repository, the first part of every node's id."""
    branch: str
    """Branch or release it was taken from; `(unknown)` when the bundle does not say."""
    head_sha: str
    """Commit hash, or the fingerprint of the folder where there is no commit; never empty."""
    generated_at: str = ""
    """When the bundle was made, as the bundle writes it."""


class CodeNode(Message, frozen=True, kw_only=True):
    """One piece of code: a member of a C# class or an SQL object, with its whole text."""

    id: str
    """Canonical id, `Repo::snapshot::kind::local`."""
    local_id: str
    """Id within the bundle, `C0005` or `SQL:dbo.proc_ProcessPayment`."""
    kind: CodeKind
    """Language."""
    text: str
    """The code, verbatim; may be empty."""
    tags: DocumentTags
    """Rights a reader needs."""
    file: str = ""
    """Source file as the bundle names it."""
    path: str = ""
    """Path within the repository; the file where the bundle gives none."""
    name: str = ""
    """Member of the class, or name of the SQL object."""
    qualified_name: str = ""
    """`Class.Member`, or `schema.name`."""
    symbol_type: str = ""
    """`Method`, `Snippet`, `Procedure`, `Table`, `View`, `Function`, or what the bundle says."""
    metadata: dict[str, Any] = {}
    """Those of `project_name`, `class_name`, `member_name`, `signature`, `chunk_part`, `chunk_total`,
    `sql_schema`, `owner_id`, `source_system_id`, `data_type`, `file_type`, `domain` that have a value;
    strings, the two of a chunk integers."""


class CodeEdge(Message, frozen=True, kw_only=True):
    """One node depends on another."""

    from_id: str
    """Canonical id of the node that depends."""
    to_id: str
    """Canonical id of the node it depends on."""
    relation: str
    """Stored relation, `cs_dep` or `sql_` and the name in the SQL graph."""


class KindCounts(Message, frozen=True, kw_only=True):
    """How many of each kind; an edge is of the graph it was listed in."""

    cs: int = 0
    sql: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.cs + self.sql


class BundleWarning(Message, frozen=True, kw_only=True):
    """Something odd in a bundle that does not keep it from being imported."""

    code: str
    """`dangling_edge`, `edge_without_end`, `unknown_label`, `missing_body`, or `not_shown` for the rest
    of a long list."""
    message: str
    """One line: member, line, what is odd, with both ends of an edge."""


class ImportReport(Message, frozen=True, kw_only=True):
    """What a bundle holds, once all of it was read and found good."""

    snapshot: SnapshotInfo
    """The snapshot it makes."""
    digest: str
    """SHA-256 over all nodes and edges, hexadecimal; free of their order, of repeats, of the layout of
    the bundle and of the repository's name."""
    nodes: KindCounts
    """Nodes, each id once."""
    edges: KindCounts
    """Edges with both ends in the bundle, each once."""
    duplicate_nodes: KindCounts = KindCounts()
    """Nodes given again with the same content."""
    duplicate_edges: KindCounts = KindCounts()
    """Edges given again."""
    dangling_edges: KindCounts = KindCounts()
    """Edges with an end that is not in the bundle; not imported."""
    empty_texts: int = 0
    """Nodes without text."""
    unknown_labels: tuple[str, ...] = ()
    """Labels outside the vocabulary, sorted."""
    warnings: tuple[BundleWarning, ...] = ()
    """In the order found, the first 1,000."""
