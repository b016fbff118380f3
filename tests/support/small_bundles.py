"""Small bundles written in a line, and their import without a flow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.support.code_edges import CodeEdge
from tests.support.fake_bundles import write_zip

from whence.code.bundle_import import CodeImporter, open_bundles
from whence.code.snapshots.protocols import ImportResult, SnapshotEdges
from whence.code.snapshots.store import PostgresCode
from whence.schema.code import CodeNode
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.message import Message
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder

M = TypeVar("M", bound=Message)


class EmbeddingOnly:
    """Stands for the client of a flow that has nothing but an embedding service.

    Args:
        embedder: What embeds.
    """

    def __init__(self, embedder: HashEmbedder) -> None:
        self._embedder = embedder

    async def call(
        self, interface: str, message: Message, reply: type[M], *, timeout_s: float = 0.0
    ) -> M:
        """Answer an embedding request."""
        assert isinstance(message, EmbeddingRequest)
        vectors = await self._embedder.embed(message.texts, message.purpose)
        answer = EmbeddingResponse(
            vectors=vectors.astype("<f4").tobytes(), model=self._embedder.model
        )
        assert isinstance(answer, reply)
        return answer


def small_files(
    nodes: Mapping[str, str | Mapping[str, Any]],
    edges: Iterable[tuple[str, str, str]] = (),
    *,
    repo: str = "Small",
    branch: str = "main",
    head_sha: str = "a1",
) -> dict[str, bytes]:
    """Return the members of a bundle.

    Args:
        nodes: Text by local id, or the fields of a node; without an ACL of its own a node is public.
        edges: From, to and relation; `dep` between C# nodes is written as a dependency.
        repo: Name of the repository.
        branch: Branch.
        head_sha: Commit.
    """
    chunks, bodies = [], []
    for local, value in nodes.items():
        fields: dict[str, Any] = {"Text": value} if isinstance(value, str) else dict(value)
        fields.setdefault("acl_allow", [])
        if local.startswith("SQL:"):
            schema, _, name = local.removeprefix("SQL:").rpartition(".")
            text = fields.pop("Text", "")
            bodies.append({"key": local, "schema": schema, "name": name, "body": text, **fields})
        else:
            chunks.append({"Id": local, "File": f"src/{local}.cs", "Class": local, **fields})
    dependencies: dict[str, list[str]] = {}
    rows = ["from,to,relation"]
    for source, target, relation in edges:
        if relation == "dep":
            dependencies.setdefault(source, []).append(target)
        else:
            rows.append(f"{source},{target},{relation}")
    meta = {"RepoName": repo, "Branch": branch, "HeadSha": head_sha}
    return {
        "repo_meta.json": json.dumps(meta).encode(),
        "code/chunks.json": json.dumps(chunks).encode(),
        "code/dependencies.json": json.dumps(dependencies).encode(),
        "docs/sql_bodies.jsonl": b"".join(json.dumps(one).encode() + b"\n" for one in bodies),
        "graph/edges.csv": "\n".join(rows).encode() + b"\n",
    }


def write_small(path: Path, *arguments: Any, **options: Any) -> Path:
    """Write the bundle of `small_files` as a zip archive; gives its path."""
    write_zip(small_files(*arguments, **options), path)
    return path


async def import_into(
    store: PostgresStore,
    paths: Sequence[Path],
    *,
    embedder: HashEmbedder | None = None,
    set_name: str = "",
    tags: Sequence[str] = (),
    repo: str | None = None,
    replace: bool = False,
) -> ImportResult:
    """Import bundles into a store as the engine does; errors as there."""
    chosen = embedder or HashEmbedder()
    bundles = open_bundles(paths, repo=repo, set_name=set_name, tags=tags)
    client: Any = EmbeddingOnly(chosen)
    importer = CodeImporter(client, PostgresCode(store), chosen, replace=replace)
    return await importer.run(bundles, set_name=set_name, tags=tags)


def edges_between(nodes: Sequence[CodeNode], edges: SnapshotEdges) -> list[CodeEdge]:
    """Return edges with the ids of their ends, in their order; the nodes as they were read."""
    columns = (edges.sources, edges.targets, edges.relations)
    return [
        CodeEdge(from_id=nodes[a].id, to_id=nodes[b].id, relation=edges.names[c])
        for a, b, c in zip(*(column.tolist() for column in columns), strict=True)
    ]
