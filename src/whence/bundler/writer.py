"""Write a bundle as a zip archive; equal contents yield equal bytes.

The layout is that of the importer. The member `regular_code_bundle/edges.csv` is an addition: it lists the
dependencies with their relations, which `dependencies.json` cannot express.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from whence.bundler.code_graph import CodeGraph, Definition, Edge
from whence.schema.access import DocumentTags
from whence.schema.code_ids import kind_from_local_id
from whence.schema.errors import BadInput
from whence.schema.relations import inferred_relation

#: The earliest time that the zip format can express.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644 << 16
_COLUMNS = ("from", "to", "relation", "to_kind", "file", "batch")
_FILE_TYPES = {"csharp": "cs", "python": "py", "sql": "sql"}
_BATCH = "whence"


def write_bundle(
    target: Path, meta: Mapping[str, str], graph: CodeGraph, tags: DocumentTags
) -> None:
    """Write a bundle; an existing file is replaced when the new one is complete.

    Memory holds one member at a time.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, text in _members(meta, graph, tags):
                    archive.writestr(_entry(name), text.encode())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(
            f"{target} cannot be written: {error.strerror}",
            hint="name a file in a folder where you may write",
        ) from error


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _members(
    meta: Mapping[str, str], graph: CodeGraph, tags: DocumentTags
) -> Iterator[tuple[str, str]]:
    definitions = graph.definitions.values()
    code = [one for one in definitions if one.language != "sql"]
    sql = [one for one in definitions if one.language == "sql"]
    code_edges: list[Edge] = []
    sql_edges: list[Edge] = []
    for edge in graph.edges():
        is_code = kind_from_local_id(edge.source) == kind_from_local_id(edge.target) == "cs"
        (code_edges if is_code else sql_edges).append(edge)
    yield "repo_meta.json", _json(meta) + "\n"
    chunks = ",\n".join(_json(_chunk(one, tags)) for one in code)
    yield "regular_code_bundle/chunks.json", f"[\n{chunks}\n]\n"
    yield "regular_code_bundle/dependencies.json", _dependencies(code, code_edges)
    yield "regular_code_bundle/edges.csv", _table(code_edges, graph.definitions)
    if sql:
        bodies = "".join(_json(_body(one, tags)) + "\n" for one in sql)
        yield "sql_bundle/docs/sql_bodies.jsonl", bodies
        yield "sql_bundle/graph/edges.csv", _table(sql_edges, graph.definitions)


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
        **_common_fields(one, tags),
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
        **_common_fields(one, tags),
    }


def _common_fields(one: Definition, tags: DocumentTags) -> dict[str, Any]:
    """Return the access tags, stated even if empty, and the origin of a node."""
    return {
        "acl_allow": list(tags.acl),
        "classification_labels_all": list(tags.labels),
        "clearance_level": tags.clearance,
        "source_system_id": f"code.{one.language}",
        "file_type": _FILE_TYPES[one.language],
    }


def _dependencies(code: Iterable[Definition], edges: Iterable[Edge]) -> str:
    targets: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        targets[edge.source].add(edge.target)
    lines = (f"{_json(one.id)}: {_json(sorted(targets[one.id]))}" for one in code)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _table(edges: Iterable[Edge], definitions: Mapping[str, Definition]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for edge in edges:
        relation = inferred_relation(edge.relation) if edge.inferred else edge.relation
        target = definitions[edge.target]
        kind = target.symbol_type if target.language == "sql" else target.language
        writer.writerow((edge.source, edge.target, relation, kind.upper(), edge.file, _BATCH))
    return text.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
