"""Write the fake enterprise as bundles, in every layout and with every name of an access tag.

The bytes are equal on all machines: entries have a fixed order and time, and are not compressed, because
versions of zlib compress differently.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tests.support.fake_enterprise import RELEASES, FakeNode, FakeRelease, fake_release

_GENERATED = {"1.0": "2026-01-15T08:00:00Z", "1.1": "2026-04-15T08:00:00Z"}
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644 << 16
_SHORT_KINDS = {"Procedure": "PROC", "Table": "TABLE", "View": "VIEW", "Function": "FUNC"}


class BundleForm(msgspec.Struct, frozen=True, kw_only=True):
    """A layout of bundles."""

    top_folder: bool = True
    """Whether all members are in a folder named like the bundle."""
    cs_folder: str = "regular_code_bundle"
    """Or `code`."""
    sql_folder: str = "sql_bundle"
    """Or `sql_code_bundle`, or empty."""
    acl_name: str = "acl_tags_any"
    """Or `acl_allow`, or `AclTags`."""
    labels_name: str = "classification_labels_all"
    """Or `classification_labels`."""
    level_name: str = "doc_level"
    """Or `clearance_level`."""
    legacy_sql: bool = False
    """Whether SQL nodes are a CSV table with a file for each body."""


def fake_bundle_name(release: str) -> str:
    """Return the name of a release's bundle, without `.zip`."""
    return f"Release_FAKE_ENTERPRISE_{release}"


def fake_head_sha(release: str) -> str:
    """Return the commit hash that a release claims: the SHA-1 of its name, in hexadecimal."""
    return hashlib.sha1(f"Fake:{release}".encode(), usedforsecurity=False).hexdigest()


def write_fake_bundles(folder: Path) -> list[Path]:
    """Write the bundles of both releases as zip archives; return their paths, older release first.

    Args:
        folder: Target, created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for release in RELEASES:
        path = folder / f"{fake_bundle_name(release)}.zip"
        write_zip(bundle_files(fake_release(release)), path)
        paths.append(path)
    return paths


def bundle_files(release: FakeRelease, form: BundleForm | None = None) -> dict[str, bytes]:
    """Return the members of a release's bundle, bytes by name, in order of name."""
    chosen = form or BundleForm()
    top = f"{fake_bundle_name(release.name)}/" if chosen.top_folder else ""
    sql = f"{chosen.sql_folder}/" if chosen.sql_folder else ""
    files = {
        "repo_meta.json": _repo_meta(release),
        f"{chosen.cs_folder}/chunks.json": _json(
            [_chunk(node, chosen) for node in release.cs_nodes]
        ),
        f"{chosen.cs_folder}/dependencies.json": _json(
            {node.local_id: sorted(node.depends_on) for node in release.cs_nodes}
        ),
        f"{sql}graph/edges.csv": _edge_table(release),
        f"{sql}manifest.json": _json({"release": release.name, "repo": "Fake"}),
    }
    if chosen.legacy_sql:
        files[f"{sql}graph/nodes.csv"] = _node_table(release, chosen)
        files |= {f"{sql}{node.file}": node.text.encode() for node in release.sql_nodes}
    else:
        lines = [msgspec.json.encode(_sql_body(node, chosen)) for node in release.sql_nodes]
        files[f"{sql}docs/sql_bodies.jsonl"] = b"".join(line + b"\n" for line in lines)
    return {top + name: files[name] for name in sorted(files)}


def write_zip(
    files: Mapping[str, bytes], path: Path, *, compression: int = zipfile.ZIP_STORED
) -> None:
    """Write members to a zip archive, in the order given."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, _FIRST_DAY)
            info.create_system, info.external_attr = 3, _REGULAR_FILE
            archive.writestr(info, data, compression)


def write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write members as files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _repo_meta(release: FakeRelease) -> bytes:
    sha = fake_head_sha(release.name)
    return _json(
        {
            "RepoName": "Fake",
            "Branch": f"release-{release.name}",
            "HeadSha": sha,
            "SnapshotId": sha,
            "GeneratedAtUtc": _GENERATED[release.name],
            "RepositoryRoot": "C:\\repositories\\Fake",
        }
    )


def _rights(node: FakeNode, form: BundleForm) -> dict[str, Any]:
    rights: dict[str, Any] = {
        form.acl_name: node.rights.acl,
        form.labels_name: node.rights.labels,
    }
    if node.rights.level is not None:
        rights[form.level_name] = node.rights.level
    return rights


def _chunk(node: FakeNode, form: BundleForm) -> dict[str, Any]:
    return {
        "Id": node.local_id,
        "File": node.file,
        "RepoRelativePath": node.file,
        "ProjectName": "FakeEnterprise",
        "Class": node.group,
        "Member": node.name,
        "Type": node.symbol_type,
        "ChunkPart": 1,
        "ChunkTotal": 1,
        "Text": node.text,
        **_rights(node, form),
        "owner_id": node.owner,
        "source_system_id": "code.csharp",
    }


def _sql_body(node: FakeNode, form: BundleForm) -> dict[str, Any]:
    return {
        "key": node.local_id,
        "kind": node.symbol_type,
        "schema": node.group,
        "name": node.name,
        "file": node.file,
        "body": node.text,
        "data_type": "sql_code",
        "file_type": "sql",
        "domain": "sql",
        **_rights(node, form),
        "owner_id": node.owner,
        "source_system_id": "code.sql",
    }


def _table(header: list[str], rows: list[list[str]]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([header, *rows])
    return stream.getvalue().encode()


def _edge_table(release: FakeRelease) -> bytes:
    nodes = {node.local_id: node for node in release.nodes}
    rows = []
    for edge in release.sql_edges:
        target = nodes.get(edge.to_local)
        kind = "CSHARP" if target is not None and not target.is_sql else ""
        kind = kind or (_short_kind(target) if target is not None else "UNKNOWN")
        source = nodes[edge.from_local].file
        rows.append([edge.from_local, edge.to_local, edge.relation, kind, source, "whence-fake"])
    return _table(["from", "to", "relation", "to_kind", "file", "batch"], rows)


def _node_table(release: FakeRelease, form: BundleForm) -> bytes:
    names = [form.acl_name, form.labels_name, form.level_name]
    header = [
        "key",
        "kind",
        "name",
        "schema",
        "file",
        "batch",
        "domain",
        "body_path",
        "owner_id",
        *names,
    ]
    rows = []
    for node in release.sql_nodes:
        rights = _rights(node, form)
        cells = [
            msgspec.json.encode(rights[name]).decode() if rights.get(name) else "" for name in names
        ]
        place = [node.file, "whence-fake", "sql", node.file, node.owner]
        rows.append([node.local_id, _short_kind(node), node.name, node.group, *place, *cells])
    return _table(header, rows)


def _short_kind(node: FakeNode) -> str:
    return _SHORT_KINDS.get(node.symbol_type, node.symbol_type.upper())
