"""Batches of nodes as columns of rows; preparing them needs no database and can run in another process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode, SnapshotInfo
from whence.store.chunk_ids import document_key
from whence.store.snapshot_documents import node_text
from whence.store.validation import check_text

#: First byte of the binary format of `jsonb`.
_JSONB = b"\x01"
_encoder = msgspec.json.Encoder()


class NodeBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Some nodes of a snapshot as columns; texts in UTF-8."""

    tags: list[DocumentTags]
    """The different tags of the nodes."""
    tag_of: NDArray[np.int32]
    """Index of the tags of each node."""
    local_ids: list[str]
    lengths: NDArray[np.int32]
    """Length of each text, in characters."""
    documents: dict[str, list[bytes]]
    """Columns of the rows of documents."""
    chunks: dict[str, list[bytes]]

    def __len__(self) -> int:
        return len(self.local_ids)


class NodePreparer:
    """Prepares batches of nodes of one snapshot; can be pickled for another process."""

    def __init__(self, snapshot: SnapshotInfo, collection: str) -> None:
        # All ids have the same beginning, which is escaped once here.
        begin = f"{snapshot.repo}::{snapshot.snapshot_id}::"
        self._heads = {
            kind: document_key(collection, f"{begin}{kind}::").removesuffix(":")
            for kind in ("cs", "sql")
        }

    def __call__(self, nodes: Sequence[CodeNode]) -> NodeBatch:
        """Prepare some nodes, each id once. Cost: linear in their texts."""
        texts = [node_text(node) for node in nodes]
        for node, text in zip(nodes, texts, strict=True):
            if not text.searched.isascii() or "\0" in text.searched:
                check_text(text.searched, f"node {node.id!r}")
        tags: dict[DocumentTags, int] = {}
        tag_of = [tags.setdefault(node.tags, len(tags)) for node in nodes]
        titles = [text.title.encode() for text in texts]
        contents = [node.text.encode() for node in nodes]
        searched = [text.searched.encode() for text in texts]
        metadata = [_encoder.encode(text.metadata) for text in texts]
        return NodeBatch(
            tags=list(tags),
            tag_of=np.array(tag_of, dtype=np.int32),
            local_ids=[node.local_id for node in nodes],
            lengths=np.array([len(node.text) for node in nodes], dtype=np.int32),
            documents={
                "document_id": [node.id.encode() for node in nodes],
                "digest": [
                    sha256(one + b"\0" + two).hexdigest().encode()
                    for one, two in zip(metadata, searched, strict=True)
                ],
                "title": titles,
                "source_file": [node.file.encode() for node in nodes],
                "source_url": [b""] * len(nodes),
                "metadata": [_JSONB + one for one in metadata],
            },
            chunks={
                "chunk_key": [
                    f"{self._heads[node.kind]}{quote(node.local_id, safe='/')}:0".encode()
                    for node in nodes
                ],
                "content": contents,
                "digest": [sha256(content).hexdigest().encode() for content in contents],
                "heading": titles,
                "section_path": titles,
                "embed_text": searched,
            },
        )
