"""A folder of source code becomes a bundle that can be imported."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from whence.bundler.code_graph import CodeGraph, Resolution
from whence.bundler.csharp_edges import read_csharp
from whence.bundler.git_revision import GitRevision, read_git_revision
from whence.bundler.python_edges import read_python
from whence.bundler.source_files import Sources, read_sources
from whence.bundler.sql_in_code import connect_sql
from whence.bundler.sql_objects import read_sql
from whence.bundler.writer import BundleContent, write_bundle
from whence.ingest.sources import display_path
from whence.schema.access import DocumentTags
from whence.schema.code_ids import validate_repo
from whence.schema.errors import BadInput

__all__ = ("BundleReport", "ResolutionCounts", "SkippedFile", "analyze_folder", "bundle_folder")


class ResolutionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the calls in code, or of the names in SQL."""

    resolved: int
    """To a definition in the folder."""
    unresolved: int
    """It is not known what is meant; no edge is made."""
    ambiguous: int
    """Several definitions in the folder fit; no edge is made."""
    external: int
    """To a library or the language itself."""


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was not read, or not all of it."""

    path: str
    reason: str


class BundleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and written."""

    bundle: str
    """The file."""
    repo: str
    branch: str
    """Empty when it is not known."""
    head_sha: str
    """Commit; the fingerprint of the folder where there is none."""
    is_commit: bool
    """Tells the one from the other."""
    files: dict[str, int]
    """Files read, by language."""
    nodes: dict[str, int]
    """`cs` and `sql`, as an import counts them; Python is among `cs`."""
    types: dict[str, int]
    """Nodes by what they are, e.g. `Class`."""
    edges: dict[str, int]
    """Edges by relation."""
    inferred: int
    """Edges among them that were concluded from strings or equal names."""
    calls: ResolutionCounts
    """Calls in C# and Python."""
    references: ResolutionCounts
    """Names of tables, procedures and so on in SQL."""
    skipped: tuple[SkippedFile, ...]
    """Files that were left out: too large, no text, not to be read."""
    failures: tuple[SkippedFile, ...]
    """Files with code that could not be understood."""
    bytes: int
    """Size of the bundle."""
    seconds: float


class Analysis(NamedTuple):
    """All that is known of a folder."""

    sources: Sources
    graph: CodeGraph


def analyze_folder(folder: Path) -> Analysis:
    """Read the sources of a folder: definitions and edges.

    Cost and memory grow with the sources.
    """
    sources = read_sources(folder)
    graph = CodeGraph()
    read_csharp(sources.files, graph)
    read_python(sources.files, folder.resolve().name, graph)
    connect_sql(graph, read_sql(sources.files, graph))
    return Analysis(sources, graph)


def bundle_folder(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    repo: str | None = None,
    tags: DocumentTags | None = None,
) -> BundleReport:
    """Write the bundle of a folder; the same sources make the same bytes.

    Args:
        folder: A checkout or any folder with C#, Python or SQL.
        target: The zip archive to write.
        repo: Name of the repository; that of the folder when None.
        tags: Rights that every node gets; public when None.

    Raises:
        BadInput: There is no such folder, nothing is found in it, the name cannot be that of a repository,
            or the archive cannot be written.
    """
    begin = time.perf_counter()
    root, goal = Path(folder), Path(target)
    if not root.is_dir():
        raise BadInput(f"{display_path(root)} is no folder", hint="name the folder of a checkout")
    name = validate_repo(root.resolve().name if repo is None else repo)
    sources, graph = analyze_folder(root)
    if not graph.definitions:
        raise BadInput(
            f"{display_path(root)} holds no C#, Python or SQL that can be read",
            hint="name the folder of a checkout; hidden folders are passed over",
        )
    revision = read_git_revision(root)
    content = _content(name, revision, sources, graph, tags or DocumentTags())
    write_bundle(content, goal)
    return _report(content, sources, graph, goal, time.perf_counter() - begin)


def _content(
    repo: str,
    revision: GitRevision | None,
    sources: Sources,
    graph: CodeGraph,
    tags: DocumentTags,
) -> BundleContent:
    return BundleContent(
        repo=repo,
        branch=revision.branch if revision else "",
        head_sha=revision.sha if revision else "",
        fingerprint=sources.fingerprint,
        definitions=tuple(graph.definitions.values()),
        edges=tuple(graph.edges()),
        tags=tags,
    )


def _report(
    content: BundleContent, sources: Sources, graph: CodeGraph, target: Path, seconds: float
) -> BundleReport:
    languages = Counter(source.language for source in sources.files)
    of_sql = sum(one.language == "sql" for one in content.definitions)
    return BundleReport(
        bundle=display_path(target),
        repo=content.repo,
        branch=content.branch,
        head_sha=content.head_sha or content.fingerprint,
        is_commit=bool(content.head_sha),
        files={name: languages[name] for name in ("csharp", "python", "sql")},
        nodes={"cs": len(content.definitions) - of_sql, "sql": of_sql},
        types=_counted(one.symbol_type for one in content.definitions),
        edges=_counted(edge.relation for edge in content.edges),
        inferred=sum(edge.inferred for edge in content.edges),
        calls=_calls(graph.calls),
        references=_calls(graph.references),
        skipped=_left_out(sources.skipped),
        failures=_left_out(graph.failures),
        bytes=target.stat().st_size,
        seconds=round(seconds, 3),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _calls(counts: Mapping[Resolution, int]) -> ResolutionCounts:
    return ResolutionCounts(
        resolved=counts.get("resolved", 0),
        unresolved=counts.get("unresolved", 0),
        ambiguous=counts.get("ambiguous", 0),
        external=counts.get("external", 0),
    )


def _left_out(files: Iterable[tuple[str, str]]) -> tuple[SkippedFile, ...]:
    return tuple(SkippedFile(path=path, reason=reason) for path, reason in files)
