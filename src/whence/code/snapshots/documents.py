"""Documents of code nodes, and the checks and errors of snapshots that stores share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.code import CodeNode, SnapshotInfo
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.results import content_digest
from whence.store.validation import are_unit_vectors, check_model, describe_model, is_text

#: Branch of a bundle without one; no snapshot is found by it.
UNKNOWN_BRANCH = "(unknown)"
#: Longest name, in characters.
_LONGEST_NAME = 200


def node_document(node: CodeNode) -> DocumentDraft:
    """Return the document of a node: its id is the node's id, its one chunk the whole text.

    What is embedded and indexed begins with kind, title, signature and path, so that a node without text is
    found as well.
    """
    title = node.qualified_name or node.name or node.local_id
    signature = str(node.metadata.get("signature", ""))
    head = " ".join(filter(None, (node.symbol_type, title, signature, node.path)))
    searched = f"{head}\n{node.text}"
    metadata = {
        **node.metadata,
        "local_id": node.local_id,
        "kind": node.kind,
        "path": node.path,
        "name": node.name,
        "qualified_name": node.qualified_name,
        "symbol_type": node.symbol_type,
    }
    chunk = ChunkDraft(
        content=node.text,
        end=len(node.text),
        heading=title,
        section_path=title,
        embed_text=searched,
    )
    return DocumentDraft(
        document_id=node.id,
        chunks=(chunk,),
        title=title,
        source_file=node.file,
        tags=node.tags,
        metadata=metadata,
        digest=content_digest(f"{msgspec.json.encode(metadata).decode()}\0{searched}"),
    )


def snapshot_refs(snapshot: SnapshotInfo, tags: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a snapshot is found by, other than id and head sha, sorted."""
    for name in (snapshot.repo, snapshot.branch, snapshot.head_sha, *tags):
        check_display_name(name, "a snapshot")
    branch = () if snapshot.branch == UNKNOWN_BRANCH else (snapshot.branch,)
    return tuple(sorted({*branch, *tags}))


def check_display_name(name: str, what: str) -> None:
    """Refuse a name that people cannot read or type, such as one with control characters."""
    # Surrogates and NUL are not printable either.
    if not name.isprintable() or name != name.strip() or not 0 < len(name) <= _LONGEST_NAME:
        raise BadInput(
            f"{name[:40]!r} is no name for {what}",
            hint=f"use 1 to {_LONGEST_NAME} characters that show, without space at an end",
        )


def check_vectors(
    vectors: NDArray[np.float32], n: int, model: EmbeddingModel, former: EmbeddingModel | None
) -> None:
    """Check vectors of nodes.

    Args:
        vectors: float32, shape (n, model.dimension), rows of length 1.
        n: Number of nodes.
        model: Model of the vectors.
        former: Model of earlier vectors; None for the first.
    """
    if former is None:
        check_model(model)
    elif model != former:
        raise ModelMismatch(
            f"the vectors of one snapshot come from {describe_model(former)} and {describe_model(model)}"
        )
    if vectors.shape != (n, model.dimension):
        raise BadInput(f"{n} nodes were given vectors of shape {vectors.shape}")
    if not are_unit_vectors(vectors):
        raise BadInput("a node was given a vector whose length is not 1")


def missing_snapshot(reference: str) -> NotFound:
    """Return the error for a reference without a readable snapshot."""
    shown = reference if is_text(reference) else repr(reference)
    return NotFound(
        f"there is no snapshot {shown!r}",
        hint="see whence snapshots; a set of them is given with --set",
    )


def missing_set(name: str) -> NotFound:
    """Return the error for a set that is missing or switched off."""
    return NotFound(f"there is no active set {name!r}", hint="see whence snapshots")


def different_content(snapshot: SnapshotInfo, *, comparable: bool = True) -> BadInput:
    """Return the error for a snapshot that is published with other content.

    Args:
        snapshot: The snapshot to import.
        comparable: Whether the contents can be compared; those of an earlier version cannot.
    """
    other = (
        "with other content"
        if comparable
        else "by an earlier version: its content cannot be compared"
    )
    return BadInput(
        f"{snapshot.repo} at {snapshot.head_sha} is imported already, {other}",
        hint="use --replace to put this content in its place",
    )
