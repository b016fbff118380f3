"""A bundle as a zip archive; equal contents make equal bytes.

The layout is the one that importers know. One member is ours: `regular_code_bundle/edges.csv` gives the
dependencies once more with the names of their relations, for which `dependencies.json` has no room.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from whence.bundler.code_graph import Definition, Edge
from whence.schema.access import DocumentTags
from whence.schema.code_ids import kind_from_local_id
from whence.schema.errors import BadInput
from whence.schema.relations import inferred_relation

__all__ = ("BundleContent", "write_bundle")

#: The first moment that the format can express.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644 << 16
_COLUMNS = ("from", "to", "relation", "to_kind", "file", "batch")
_SUFFIXES = {"csharp": "cs", "python": "py", "sql": "sql"}
_BATCH = "whence"


class BundleContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle is made of."""

    repo: str
    """Name of the repository."""
    branch: str
    """Empty when it is not known."""
    head_sha: str
    """Commit; empty for a folder that is no checkout."""
    fingerprint: str
    """SHA-256 over the files."""
    definitions: tuple[Definition, ...]
    """In the order in which they are written."""
    edges: tuple[Edge, ...]
    """Each with both ends among the definitions."""
    tags: DocumentTags
    """Rights that every node states."""


def write_bundle(content: BundleContent, target: Path) -> None:
    """Write a bundle; what was there is replaced once the new one is whole.

    Memory holds one member at a time.

    Raises:
        BadInput: The file cannot be written.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, text in _members(content):
                    archive.writestr(_entry(name), text.encode())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(
            f"{target} cannot be written: {error.strerror}", hint="name a file in a folder of yours"
        ) from error


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _members(content: BundleContent) -> Iterator[tuple[str, str]]:
    kinds = {one.id: _kind(one) for one in content.definitions}
    code = [one for one in content.definitions if one.language != "sql"]
    sql = [one for one in content.definitions if one.language == "sql"]
    of_code = [
        edge
        for edge in content.edges
        if kind_from_local_id(edge.source) == kind_from_local_id(edge.target) == "cs"
    ]
    known = set(of_code)
    of_sql = [edge for edge in content.edges if edge not in known]
    yield "repo_meta.json", _json(_meta(content)) + "\n"
    chunks = ",\n".join(_json(_chunk(one, content.tags)) for one in code)
    yield "regular_code_bundle/chunks.json", f"[\n{chunks}\n]\n"
    yield "regular_code_bundle/dependencies.json", _dependencies(code, of_code)
    yield "regular_code_bundle/edges.csv", _table(of_code, kinds)
    if sql:
        bodies = "".join(_json(_body(one, content.tags)) + "\n" for one in sql)
        yield "sql_bundle/docs/sql_bodies.jsonl", bodies
        yield "sql_bundle/graph/edges.csv", _table(of_sql, kinds)


def _meta(content: BundleContent) -> dict[str, Any]:
    revision = "HeadSha" if content.head_sha else "FolderFingerprint"
    meta = {"RepoName": content.repo, revision: content.head_sha or content.fingerprint}
    return meta | ({"Branch": content.branch} if content.branch else {})


def _chunk(one: Definition, tags: DocumentTags) -> dict[str, Any]:
    return {
        "Id": one.id,
        "File": one.file,
        "RepoRelativePath": one.file,
        "ProjectName": one.project,
        "Class": one.class_name,
        "Member": one.member,
        "Type": one.symbol_type,
        "Signature": one.signature,
        "ChunkPart": 1,
        "ChunkTotal": 1,
        "Text": one.text,
        **_rights(one, tags),
    }


def _body(one: Definition, tags: DocumentTags) -> dict[str, Any]:
    return {
        "key": one.id,
        "kind": one.symbol_type,
        "schema": one.class_name,
        "name": one.member,
        "file": one.file,
        "body": one.text,
        "data_type": "sql_code",
        "domain": "sql",
        **_rights(one, tags),
    }


def _rights(one: Definition, tags: DocumentTags) -> dict[str, Any]:
    """Return the rights, stated also where there are none, and what the node comes from."""
    return {
        "acl_allow": list(tags.acl),
        "classification_labels_all": list(tags.labels),
        "clearance_level": tags.clearance,
        "source_system_id": f"code.{one.language}",
        "file_type": _SUFFIXES[one.language],
    }


def _dependencies(code: Iterable[Definition], edges: Iterable[Edge]) -> str:
    targets: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        targets[edge.source].add(edge.target)
    lines = (f"{_json(one.id)}: {_json(sorted(targets[one.id]))}" for one in code)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _table(edges: Iterable[Edge], kinds: dict[str, str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for edge in edges:
        relation = inferred_relation(edge.relation) if edge.inferred else edge.relation
        writer.writerow((edge.source, edge.target, relation, kinds[edge.target], edge.file, _BATCH))
    return text.getvalue()


def _kind(one: Definition) -> str:
    return one.symbol_type.upper() if one.language == "sql" else one.language.upper()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
