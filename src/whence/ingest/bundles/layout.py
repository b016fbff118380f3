"""Which member of a bundle is what; several layouts are in use."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from whence.ingest.bundles.archive import Archive

__all__ = ("Layout", "find_layout")

_REPO_META = "repo_meta.json"
_CHUNKS = ("regular_code_bundle/chunks.json", "code/chunks.json")
_DEPENDENCIES = ("regular_code_bundle/dependencies.json", "code/dependencies.json")
_CS_EDGES = ("regular_code_bundle/edges.csv", "code/edges.csv")
_SQL_BODIES = (
    "sql_bundle/docs/sql_bodies.jsonl",
    "sql_code_bundle/docs/sql_bodies.jsonl",
    "docs/sql_bodies.jsonl",
)
_SQL_NODES = ("sql_code_bundle/graph/nodes.csv", "sql_bundle/graph/nodes.csv", "graph/nodes.csv")
_SQL_EDGES = ("sql_bundle/graph/edges.csv", "sql_code_bundle/graph/edges.csv", "graph/edges.csv")
#: Folders below which the path of an SQL body may be meant, besides the root.
_BODY_FOLDERS = ("", "sql_code_bundle/", "sql_bundle/")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The members of one bundle, by their full names; None for an optional one that is absent."""

    root: str
    """Folder that holds everything, with `/` at its end; empty when there is none."""
    repo_meta: str
    chunks: str
    dependencies: str | None = None
    cs_edges: str | None = None
    """The dependencies again with the names of their relations, in bundles that Whence writes."""
    sql_bodies: str | None = None
    sql_nodes: str | None = None
    """The older form of SQL nodes; None where `sql_bodies` exists, which goes before it."""
    sql_edges: str | None = None

    def body_names(self, path: str) -> tuple[str, ...]:
        """Return the members that may be meant by the path of an SQL body, the likeliest first."""
        return tuple(f"{self.root}{folder}{path}" for folder in _BODY_FOLDERS)


def find_layout(archive: Archive) -> Layout:
    """Find the parts of a bundle; where several names exist, the first of the fixed order counts.

    Raises:
        BadInput: `repo_meta.json` or `chunks.json` is not there.
    """
    root = _root(archive.sizes)

    def first(names: Iterable[str]) -> str | None:
        return next((root + name for name in names if root + name in archive.sizes), None)

    repo_meta, chunks = first((_REPO_META,)), first(_CHUNKS)
    if repo_meta is None:
        raise archive.place(root + _REPO_META).error(
            "is missing", "a bundle has repo_meta.json at its root; name one bundle at a time"
        )
    if chunks is None:
        raise archive.place(root + _CHUNKS[0]).error("is missing", f"{_CHUNKS[1]} will do as well")
    sql_bodies = first(_SQL_BODIES)
    return Layout(
        root=root,
        repo_meta=repo_meta,
        chunks=chunks,
        dependencies=first(_DEPENDENCIES),
        cs_edges=first(_CS_EDGES),
        sql_bodies=sql_bodies,
        sql_nodes=first(_SQL_NODES) if sql_bodies is None else None,
        sql_edges=first(_SQL_EDGES),
    )


def _root(names: Iterable[str]) -> str:
    """Return the one folder that all members are in, with `/`; empty when there is no such folder."""
    tops = {name.split("/", 1)[0] if "/" in name else "" for name in names}
    return f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""
