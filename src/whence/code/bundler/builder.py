"""Analyse a folder of source code, write its bundle, and report what it contains."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from whence.code.bundler.code_graph import CodeGraph, Definition, Edge
from whence.code.bundler.csharp_edges import read_csharp
from whence.code.bundler.python_edges import read_python
from whence.code.bundler.source_files import Sources, read_sources
from whence.code.bundler.sql_objects import connect_sql, read_sql
from whence.ingest.sources import display_path
from whence.schema.access import DocumentTags
from whence.schema.code_ids import kind_from_local_id, validate_repo
from whence.schema.errors import BadInput
from whence.schema.relations import INFERRED


class ResolutionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls in code, or names in SQL, were resolved; only resolved ones become edges."""

    resolved: int = 0
    unresolved: int = 0
    ambiguous: int = 0
    """Several definitions in the folder match."""
    external: int = 0


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was not read, or not all of it."""

    path: str
    reason: str


class BundleReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a bundle that was written."""

    bundle: str
    repo: str
    branch: str
    head_sha: str
    """The commit; without one the fingerprint of the folder."""
    is_commit: bool
    files: dict[str, int]
    nodes: dict[str, int]
    """`cs` and `sql`, as an import counts them; Python is counted as `cs`."""
    types: dict[str, int]
    edges: dict[str, int]
    inferred: int
    calls: ResolutionCounts
    """Calls in C# and Python."""
    references: ResolutionCounts
    """Names of objects in SQL."""
    skipped: tuple[SkippedFile, ...]
    """Files that were not read: too large, not text, not readable."""
    failures: tuple[SkippedFile, ...]
    """Files with code that could not be parsed."""
    bytes: int
    seconds: float


_NONE: Mapping[str, str] = MappingProxyType({})


class Analysis(NamedTuple):
    """The sources of a folder and their definitions and edges."""

    sources: Sources
    graph: CodeGraph


def analyze_folder(
    folder: Path,
    *,
    left_out: Mapping[str, str] = _NONE,
    on_file: Callable[[str], None] = lambda _: None,
) -> Analysis:
    """Find the definitions and edges in the sources of a folder.

    Cost and memory are linear in the sources.

    Args:
        folder: The folder.
        left_out: Paths of files that are not to be parsed, with the reasons, which become failures.
        on_file: See `CodeGraph`.
    """
    sources = read_sources(folder)
    kept = tuple(source for source in sources.files if source.path not in left_out)
    sources = msgspec.structs.replace(sources, files=kept)
    graph = CodeGraph(on_file)
    graph.failures.extend(left_out.items())
    read_csharp(sources.files, graph)
    read_python(sources.files, folder.resolve().name, graph)
    connect_sql(graph, read_sql(sources.files, graph))
    graph.begin()
    return Analysis(sources, graph)


def bundle_folder(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    repo: str | None = None,
    tags: DocumentTags | None = None,
    left_out: Mapping[str, str] = _NONE,
    on_file: Callable[[str], None] = lambda _: None,
) -> BundleReport:
    """Write the bundle of a folder; equal sources yield equal bytes.

    The sources are parsed in this process, without limits; `limited` does it within limits. See
    `analyze_folder` for `left_out` and `on_file`.

    Raises:
        BadInput: The folder does not exist, contains no sources, its name is not valid for a repository, or the
            archive cannot be written.
    """
    start = time.perf_counter()
    root, archive = Path(folder), Path(target)
    if not root.is_dir():
        raise BadInput(
            f"{display_path(root)} is not a folder", hint="name the folder of a checkout"
        )
    name = validate_repo(root.resolve().name if repo is None else repo)
    sources, graph = analyze_folder(root, left_out=left_out, on_file=on_file)
    if not graph.definitions:
        raise BadInput(
            f"{display_path(root)} contains no C#, Python or SQL that can be read",
            hint="name the folder of a checkout; hidden folders are ignored",
        )
    revision = read_git_revision(root)
    meta = {
        "RepoName": name,
        "HeadSha" if revision else "FolderFingerprint": (
            revision.sha if revision else sources.fingerprint
        ),
    }
    if revision and revision.branch:
        meta["Branch"] = revision.branch
    write_bundle(archive, meta, graph, tags or DocumentTags())
    return _report(name, revision, sources, graph, archive, time.perf_counter() - start)


def _report(
    repo: str,
    revision: GitRevision | None,
    sources: Sources,
    graph: CodeGraph,
    archive: Path,
    seconds: float,
) -> BundleReport:
    definitions, edges = graph.definitions.values(), graph.edges()
    languages = Counter(source.language for source in sources.files)
    sql = sum(one.language == "sql" for one in definitions)
    return BundleReport(
        bundle=display_path(archive),
        repo=repo,
        branch=revision.branch if revision else "",
        head_sha=revision.sha if revision else sources.fingerprint,
        is_commit=revision is not None,
        files={name: languages[name] for name in ("csharp", "python", "sql")},
        nodes={"cs": len(definitions) - sql, "sql": sql},
        types=_count(one.symbol_type for one in definitions),
        edges=_count(edge.relation for edge in edges),
        inferred=sum(edge.inferred for edge in edges),
        calls=msgspec.convert(graph.calls, ResolutionCounts),
        references=msgspec.convert(graph.references, ResolutionCounts),
        skipped=_skipped(sources.skipped),
        failures=_skipped(graph.failures),
        bytes=archive.stat().st_size,
        seconds=round(seconds, 3),
    )


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _skipped(files: Iterable[tuple[str, str]]) -> tuple[SkippedFile, ...]:
    return tuple(SkippedFile(path=path, reason=reason) for path, reason in files)


_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = "refs/heads/"
#: Symbolic references that are followed, as in git.
_MAX_STEPS = 5


class GitRevision(NamedTuple):
    """A commit and its branch."""

    sha: str
    branch: str


def read_git_revision(folder: Path) -> GitRevision | None:
    """Return the commit of a checkout; None if a folder is not a checkout, or has no commit."""
    git = _git_directory(folder)
    if git is None:
        return None
    common = git / _read_line(git / "commondir") if (git / "commondir").is_file() else git
    value = _read_line(git / "HEAD")
    branch = ""
    for _ in range(_MAX_STEPS):
        if _SHA.fullmatch(value):
            return GitRevision(value, branch)
        if not value.startswith("ref: "):
            return None
        name = value.removeprefix("ref: ").strip()
        branch = name.removeprefix(_BRANCH) if name.startswith(_BRANCH) else branch
        value = (
            _read_line(git / name) or _read_line(common / name) or _packed_reference(common, name)
        )
    return None


def _git_directory(folder: Path) -> Path | None:
    """Return the git directory; in a linked work tree or a submodule `.git` is a file that names it."""
    git = folder / ".git"
    if git.is_dir():
        return git
    line = _read_line(git)
    return folder / line.removeprefix("gitdir: ") if line.startswith("gitdir: ") else None


def _read_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _packed_reference(common: Path, name: str) -> str:
    rows = (line.partition(" ") for line in _read_line(common / "packed-refs").splitlines())
    return next((sha for sha, _, ref in rows if ref == name), "")


#: The earliest time that the zip format can express.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644 << 16
_COLUMNS = ("from", "to", "relation", "to_kind", "file", "batch")
_FILE_TYPES = {"csharp": "cs", "python": "py", "sql": "sql"}
_BATCH = "whence"


def draft_path(target: Path, process: int) -> Path:
    """Return the file that a process writes before it replaces a bundle."""
    return target.with_name(f".{target.name}.{process}.part")


def write_bundle(
    target: Path, meta: Mapping[str, str], graph: CodeGraph, tags: DocumentTags
) -> None:
    """Write a bundle; an existing file is replaced when the new one is complete.

    Memory holds one member at a time.
    """
    draft = draft_path(target, os.getpid())
    try:
        try:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, text in _members(meta, graph, tags):
                    entry = zipfile.ZipInfo(name, _TIME)
                    entry.create_system, entry.external_attr = _UNIX, _MODE
                    archive.writestr(entry, text.encode(), zipfile.ZIP_DEFLATED)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(
            f"{target} cannot be written: {error.strerror}",
            hint="name a file in a folder where you may write",
        ) from error


def _members(
    meta: Mapping[str, str], graph: CodeGraph, tags: DocumentTags
) -> Iterator[tuple[str, str]]:
    code = [one for one in graph.definitions.values() if one.language != "sql"]
    sql = [one for one in graph.definitions.values() if one.language == "sql"]
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
        relation = edge.relation + INFERRED if edge.inferred else edge.relation
        target = definitions[edge.target]
        kind = target.symbol_type if target.language == "sql" else target.language
        writer.writerow((edge.source, edge.target, relation, kind.upper(), edge.file, _BATCH))
    return text.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
