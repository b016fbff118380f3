"""Read the nodes of a bundle: C# from `chunks.json`, SQL from `sql_bodies.jsonl` or `nodes.csv`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from whence.code.bundles.archive import Archive, Location
from whence.code.bundles.bundle import Layout
from whence.code.bundles.json_stream import array_elements
from whence.code.bundles.tables import (
    TableRow,
    csv_rows,
    first_text,
    integer,
    text_lines,
    whole_text,
)
from whence.ingest.strict_json import parse_json, parse_object
from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode, SnapshotInfo
from whence.schema.code_ids import CodeKind, canonical_id, validate_local_id
from whence.schema.errors import BadInput

T = TypeVar("T")

ACL_NAMES = ("acl_allow", "acl_tags_any", "AclTags")
LABEL_NAMES = ("classification_labels_all", "classification_labels")
CLEARANCE_NAMES = ("clearance_level", "doc_level")
_KNOWN = frozenset(ACL_NAMES + LABEL_NAMES + CLEARANCE_NAMES)
_SEPARATORS = re.compile(r"[\s_.-]+")
#: Names that resemble those of access tags, without separators and in lower case.
_LOOKALIKES = frozenset(
    {_SEPARATORS.sub("", name).lower() for name in _KNOWN}
    | {"acl", "acltags", "acltagsall", "labels", "clearance", "level", "securitylevel"}
    | {"classification", "classificationlabel", "classificationlevel"}
)


def read_tags(record: Mapping[str, Any]) -> DocumentTags:
    """Read the access tags of a node.

    ACL and labels are lists of strings, null or an empty list for none; the clearance is an integer of 0 or
    more, 0 if absent or null.
    """
    _check_names(tuple(record))
    acl = _single_value(record, ACL_NAMES, _tag_list)
    labels = _single_value(record, LABEL_NAMES, _tag_list)
    clearance = _single_value(record, CLEARANCE_NAMES, _clearance)
    return _tags(acl or (), labels or (), clearance or 0)


@lru_cache(maxsize=4096)
def _tags(acl: tuple[str, ...], labels: tuple[str, ...], clearance: int) -> DocumentTags:
    """Return the tags; nodes with equal tags share one object."""
    return DocumentTags(acl, labels, clearance)


@lru_cache(maxsize=256)
def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in _KNOWN and _SEPARATORS.sub("", name).lower() in _LOOKALIKES:
            raise BadInput(
                f"{name!r} is not a known name of an access tag",
                hint=f"write {ACL_NAMES[0]}, {LABEL_NAMES[0]} or {CLEARANCE_NAMES[0]}",
            )
    if not any(name in names for name in ACL_NAMES):
        raise BadInput(
            "has no ACL attribute", hint=f"give every node {ACL_NAMES[0]}, an empty list if public"
        )


def _single_value(
    record: Mapping[str, Any], names: tuple[str, ...], read: Callable[[object, str], T]
) -> T | None:
    """Return the value that all names of a tag have in common; None if the record has none of them."""
    values = [(name, read(record[name], name)) for name in names if name in record]
    for name, value in values:
        if value != values[0][1]:
            raise BadInput(f"{values[0][0]} and {name} have different values")
    return values[0][1] if values else None


def _tag_list(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadInput(f"{name} must be a list of strings, not {value!r}")
    for tag in value:
        if not isinstance(tag, str) or not tag.strip():
            raise BadInput(f"{name} holds {tag!r}: a tag is a string that is not blank")
        if any("\ud800" <= char <= "\udfff" for char in tag):
            raise BadInput(f"{name} holds {tag!r}: an unpaired surrogate is not a character")
    return _tags(tuple(value), (), 0).acl


def _clearance(value: object, name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be an integer, not {value!r}")
    return _tags((), (), value).clearance


_KEY_NAMES = ("key", "Key")
#: Kinds of SQL objects, by the names that bundles use.
_SQL_KINDS = {
    "proc": "Procedure",
    "procedure": "Procedure",
    "table": "Table",
    "view": "View",
    "func": "Function",
    "function": "Function",
    "trigger": "Trigger",
    "synonym": "Synonym",
}


def read_nodes(
    archive: Archive,
    layout: Layout,
    snapshot: SnapshotInfo,
    *,
    warn: Callable[[str, str], None],
) -> Iterator[tuple[Location, CodeNode]]:
    """Yield all nodes with their locations in the order of the bundle, C# first, repeats included.

    Memory holds one node.
    """
    yield from _cs_nodes(archive, layout.chunks, snapshot)
    if layout.sql_bodies is not None:
        yield from _sql_nodes(archive, layout.sql_bodies, snapshot)
    if layout.sql_nodes is not None:
        yield from _csv_nodes(archive, layout, snapshot, warn)


def _cs_nodes(
    archive: Archive, member: str, snapshot: SnapshotInfo
) -> Iterator[tuple[Location, CodeNode]]:
    with archive.open(member) as stream:
        for element in array_elements(stream, archive.limits.max_item_bytes):
            location = element.location
            if not isinstance(element.value, dict):
                raise location.error("must be an object")
            with location.prefix_errors():
                node = _cs_node(element.value, snapshot)
            yield location, node


def _cs_node(record: Mapping[str, Any], snapshot: SnapshotInfo) -> CodeNode:
    local = _local_id(record, "Id", "id", kind="cs")
    file = first_text(record, "File", "source_file")
    class_name = first_text(record, "Class", "class")
    member = first_text(record, "Member", "member")
    return CodeNode(
        id=canonical_id(snapshot.repo, snapshot.snapshot_id, "cs", local),
        local_id=local,
        kind="cs",
        text=whole_text(record, "Text", "text"),
        tags=read_tags(record),
        file=file,
        path=first_text(record, "RepoRelativePath", "repo_relative_path", default=file),
        name=member or class_name,
        qualified_name=".".join(filter(None, (class_name, member))),
        symbol_type=first_text(record, "Type", "type"),
        metadata=_metadata(
            project_name=first_text(record, "ProjectName"),
            class_name=class_name,
            member_name=member,
            signature=first_text(record, "Signature", "signature"),
            chunk_part=integer(record, "ChunkPart"),
            chunk_total=integer(record, "ChunkTotal"),
            owner_id=first_text(record, "owner_id"),
            source_system_id=first_text(record, "source_system_id", default="code"),
            data_type="regular_code",
            file_type=first_text(record, "file_type", default="cs"),
            domain="code",
        ),
    )


def _sql_nodes(
    archive: Archive, member: str, snapshot: SnapshotInfo
) -> Iterator[tuple[Location, CodeNode]]:
    with archive.open(member) as stream:
        for location, line in text_lines(stream, archive.limits.max_item_bytes):
            if not line.strip():
                continue
            with location.prefix_errors():
                record = parse_object(line)
                tags = read_tags(record)
                text = whole_text(record, "body", "text")
                node = _sql_node(record, snapshot, tags, text)
            yield location, node


def _sql_node(
    record: Mapping[str, Any], snapshot: SnapshotInfo, tags: DocumentTags, text: str
) -> CodeNode:
    local = _local_id(record, *_KEY_NAMES, kind="sql")
    file = first_text(record, "file")
    schema = first_text(record, "schema")
    name = first_text(record, "name")
    kind = first_text(record, "kind")
    return CodeNode(
        id=canonical_id(snapshot.repo, snapshot.snapshot_id, "sql", local),
        local_id=local,
        kind="sql",
        text=text,
        tags=tags,
        file=file,
        path=file,
        name=name,
        qualified_name=".".join(filter(None, (schema, name))),
        symbol_type=_SQL_KINDS.get(kind.lower(), kind),
        metadata=_metadata(
            sql_schema=schema,
            owner_id=first_text(record, "owner_id"),
            source_system_id=first_text(record, "source_system_id", default="code"),
            data_type=first_text(record, "data_type", default="sql_code"),
            file_type=first_text(record, "file_type", default="sql"),
            domain=first_text(record, "domain", default="sql"),
        ),
    )


def _csv_nodes(
    archive: Archive,
    layout: Layout,
    snapshot: SnapshotInfo,
    warn: Callable[[str, str], None],
) -> Iterator[tuple[Location, CodeNode]]:
    """Yield SQL nodes in the older form: one CSV row each, the text in a file that the row names."""
    assert layout.sql_nodes is not None
    with archive.open(layout.sql_nodes) as stream:
        for row in csv_rows(stream, archive.limits.max_item_bytes, required=(_KEY_NAMES,)):
            with row.location.prefix_errors():
                tags = read_tags(_with_parsed_tags(row.cells))
            text = _body_text(row, archive, layout, warn)
            with row.location.prefix_errors():
                node = _sql_node(row.cells, snapshot, tags, text)
            yield row.location, node


def _with_parsed_tags(cells: Mapping[str, str]) -> dict[str, Any]:
    """Parse the columns of access tags: lists and numbers as JSON, an empty cell for none."""
    record: dict[str, Any] = dict(cells)
    for name in cells.keys() & _KNOWN:
        cell = cells[name].strip()
        record[name] = parse_json(cell) if cell else None
    return record


def _body_text(
    row: TableRow, archive: Archive, layout: Layout, warn: Callable[[str, str], None]
) -> str:
    path = first_text(row.cells, "body_path").replace("\\", "/")
    if not path:
        return ""
    member = next((name for name in layout.body_names(path) if name in archive.sizes), None)
    if member is None:
        message = f"{row.location}: {path!r}, the body of {row.cells.get('key')!r}, is missing"
        warn("missing_body", message)
        return ""
    text = archive.read_text(member)
    with archive.location(member).prefix_errors():
        return whole_text({"text": text}, "text")


def _local_id(record: Mapping[str, Any], *names: str, kind: CodeKind) -> str:
    values = (record[name] for name in names if record.get(name) not in (None, ""))
    return validate_local_id(next(values, ""), kind)


def _metadata(**values: str | int | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", None)}
