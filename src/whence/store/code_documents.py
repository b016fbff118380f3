"""How a node of code becomes a document of one chunk, the same in both stores."""

from __future__ import annotations

from typing import Any

import msgspec

from whence.schema.code import CodeNode, SnapshotInfo
from whence.schema.errors import BadInput, NotFound
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.checks import check_text, content_digest, is_text

__all__ = (
    "UNKNOWN_BRANCH",
    "check_references",
    "check_set_name",
    "different_content",
    "internal_name",
    "is_internal",
    "missing_set",
    "missing_snapshot",
    "node_document",
    "refs_of",
)

#: What a bundle's branch is called when it names none; nothing can be found by it.
UNKNOWN_BRANCH = "(unknown)"
#: No name that a user may give holds a dot.
_INTERNAL = "code."
#: A row of a B-tree holds 2704 bytes; names are for people.
_LONGEST_NAME = 200


def internal_name(number: int) -> str:
    """Give the name of the collection that an import writes into."""
    return f"{_INTERNAL}{number}"


def is_internal(name: str) -> bool:
    """Tell whether only an import may write a collection of this name."""
    return name.startswith(_INTERNAL)


def node_document(node: CodeNode) -> DocumentDraft:
    """Give the document that a node is stored as.

    Its id is the node's canonical id, its one chunk the whole text. What is embedded and searched begins with
    what the node is called and where it stands, so that a node without text can be found as well.
    """
    title = node.qualified_name or node.name or node.local_id
    metadata: dict[str, Any] = {
        **node.metadata,
        "local_id": node.local_id,
        "kind": node.kind,
        "path": node.path,
        "name": node.name,
        "qualified_name": node.qualified_name,
        "symbol_type": node.symbol_type,
    }
    head = (node.symbol_type, title, str(node.metadata.get("signature", "")), node.path)
    embed_text = f"{' '.join(filter(None, head))}\n{node.text}"
    chunk = ChunkDraft(
        content=node.text,
        end=len(node.text),
        heading=title,
        section_path=title,
        embed_text=embed_text,
    )
    return DocumentDraft(
        document_id=node.id,
        chunks=(chunk,),
        title=title,
        source_file=node.file,
        tags=node.tags,
        metadata=metadata,
        digest=content_digest(f"{msgspec.json.encode(metadata).decode()}\0{embed_text}"),
    )


def refs_of(snapshot: SnapshotInfo, tags: tuple[str, ...]) -> tuple[str, ...]:
    """Give the names beside id and head sha that a snapshot is found by, sorted."""
    branch = () if snapshot.branch == UNKNOWN_BRANCH else (snapshot.branch,)
    return tuple(sorted({*branch, *tags}))


def check_references(names: tuple[str, ...]) -> None:
    """Refuse names that a snapshot cannot be found by.

    Raises:
        BadInput: One is blank, holds NUL or half of a surrogate pair, or is longer than 200 characters.
    """
    for name in names:
        check_text(name, "the name of a snapshot")
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise BadInput(
                f"{name[:40]!r} is no name for a snapshot",
                hint=f"use 1 to {_LONGEST_NAME} characters",
            )


def check_set_name(name: str) -> None:
    """Refuse what cannot be the name of a set.

    Raises:
        BadInput: As for `check_references`, or it holds a character that does not show.
    """
    if not name.isprintable() or name != name.strip() or not 0 < len(name) <= _LONGEST_NAME:
        raise BadInput(
            f"{name[:40]!r} is no name for a set",
            hint=f"use 1 to {_LONGEST_NAME} characters without space at an end",
        )
    check_text(name, "the name of a set")


def missing_snapshot(reference: str) -> NotFound:
    """Give the error for a reference that stands for no snapshot that can be read."""
    shown = reference if is_text(reference) else repr(reference)
    return NotFound(f"there is no snapshot {shown!r}", hint="see whence snapshots")


def missing_set(name: str) -> NotFound:
    """Give the error for a set that does not exist or is switched off."""
    return NotFound(f"there is no active set {name!r}", hint="see whence snapshots")


def different_content(snapshot: SnapshotInfo) -> BadInput:
    """Give the error for other content under an id that is taken."""
    return BadInput(
        f"{snapshot.repo} at {snapshot.head_sha} is imported already, with other content",
        hint="use --replace to put this content in its place",
    )
