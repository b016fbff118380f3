"""The code retrieval cases: bundles imported once, a log of what every case asked and saw.

Bundles are those that `INTEGRATION_BUNDLE_GLOB` matches, by default the generated ones, in order of name; the
first is primary, the second secondary. Logs and traces go to `log/integration/retrival`, or to
`INTEGRATION_LOG_DIR`; where tests are spread over processes, each keeps its own out of the way.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import posixpath
import shutil
import zipfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.fake_bundles import write_fake_bundles

from whence.engine.search import SearchQuery
from whence.engine.snapshot_reading import SnapshotChoice
from whence.schema.access import Access
from whence.schema.texts import TextBudget

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.engine.node_texts import FetchReport
    from whence.engine.results import ImportResult
    from whence.retrieval.results import SearchReport
    from whence.schema.graph import ExpandResponse
    from whence.store.snapshot_protocols import SnapshotRecord, SnapshotSet

ROOT = Path(__file__).resolve().parents[3]
DEFAULT_GLOB = "tests/repositories/fake/Release_FAKE_ENTERPRISE_*.zip"
SET = "Fake_snapshot"
SOURCES = ("primary", "secondary")
#: Whether other processes may be running a part of the cases.
SPREAD = "PYTEST_XDIST_WORKER" in os.environ


class RawNode(NamedTuple):
    """A node as the bundle writes it."""

    local_id: str
    file: str
    text: str
    acl: tuple[str, ...]
    labels: tuple[str, ...]
    level: int

    @property
    def name(self) -> str:
        """Name of its file, without folders."""
        return posixpath.basename(self.file)

    def visible_to(self, access: Access) -> bool:
        """Return whether a reader may see it, by the rule as it is written."""
        return (
            (not self.acl or any(tag in access.acl_tags for tag in self.acl))
            and all(label in access.labels for label in self.labels)
            and self.level <= access.clearance
        )


class RawBundle:
    """A bundle read the plain way, past all of our own code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        chunks = json.loads(self._member(members, "chunks.json"))
        bodies = self._member(members, "sql_bodies.jsonl").decode().splitlines()
        found = [_node(one, "Id", "File", "Text") for one in chunks]
        found += [_node(json.loads(line), "key", "file", "body") for line in bodies if line.strip()]
        self.nodes = {node.local_id: node for node in found}
        dependencies = json.loads(self._member(members, "dependencies.json"))
        rows = csv.DictReader(io.StringIO(self._member(members, "edges.csv").decode()))
        self.edges = {(a, "dep", b) for a, targets in dependencies.items() for b in targets}
        self.edges |= {(row["from"], row["relation"], row["to"]) for row in rows}

    def _member(self, members: dict[str, bytes], name: str) -> bytes:
        found = [data for member, data in members.items() if member.rsplit("/", 1)[-1] == name]
        assert len(found) == 1, f"{self.path} has {len(found)} members called {name}"
        return found[0]


def _node(record: dict[str, Any], key: str, file: str, text: str) -> RawNode:
    def first(*names: str) -> Any:
        return next((record[name] for name in names if record.get(name)), ())

    return RawNode(
        record[key],
        record.get(file, ""),
        record.get(text, ""),
        tuple(first("acl_tags_any", "acl_allow", "AclTags")),
        tuple(first("classification_labels_all", "classification_labels")),
        first("doc_level", "clearance_level") or 0,
    )


class Log:
    """What the cases asked and saw, for people and for machines.

    Args:
        folder: Where to; emptied first, so that nothing of an earlier run is taken for this one's.
        whole: Whether all cases of the run are logged here.
    """

    def __init__(self, folder: Path, *, whole: bool) -> None:
        self.whole = whole
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.traces = folder / "pipeline_traces"
        self.traces.mkdir(parents=True)
        self.cases: list[str] = []

    def trace(self, case: str, document: dict[str, Any]) -> None:
        """Write the trace of a case to a file of its own and to `latest.json`."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        text = json.dumps({"case": case, "generated_utc": now, **document}, indent=2) + "\n"
        self.cases.append(case)
        for name in (case, "latest"):
            (self.traces / f"{name}.json").write_text(text, encoding="utf-8")

    def block(self, file: str, parts: Iterable[tuple[str, str]]) -> None:
        """Append a block to a readable log, one part a line."""
        lines = [f"{label}: {value}" for label, value in parts]
        with (self.folder / file).open("a", encoding="utf-8") as log:
            log.write("\n".join(lines) + "\n\n")


class Retrieval:
    """An engine over the imported bundles, asked from plain functions, and the log of what was asked."""

    def __init__(
        self,
        runner: asyncio.Runner,
        engine: Engine,
        imported: ImportResult,
        bundles: Sequence[RawBundle],
        log: Log,
    ) -> None:
        self._runner = runner
        self.engine = engine
        self.imported = imported
        self.log = log
        self.set: SnapshotSet = next(
            s for s in self.run(engine.code.overview()).sets if s.name == SET
        )
        self._bundles = dict(
            zip((run.snapshot_id for run in imported.imports), bundles, strict=True)
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for work on the engine's own loop."""
        return self._runner.run(work)

    def snapshot(self, source: str = "primary") -> SnapshotRecord:
        """Return the first or second snapshot of the set."""
        member = self.set.members[SOURCES.index(source)]
        records = self.run(self.engine.code.overview()).snapshots
        return next(one for one in records if one.info.snapshot_id == member.snapshot_id)

    def bundle(self, source: str = "primary") -> RawBundle:
        """Return the bundle that a snapshot came from."""
        return self._bundles[self.snapshot(source).info.snapshot_id]

    def everyone(self, source: str = "primary") -> Access:
        """Return the rights of a reader who may see all of a bundle."""
        nodes = self.bundle(source).nodes.values()
        return Access(
            {tag for node in nodes for tag in node.acl},
            {label for node in nodes for label in node.labels},
            max(node.level for node in nodes),
        )

    def visible(self, access: Access, source: str = "primary") -> set[str]:
        """Return the local ids that a reader may see, by the bundle and the written rule."""
        nodes = self.bundle(source).nodes.values()
        return {node.local_id for node in nodes if node.visible_to(access)}

    def search(
        self, question: str, mode: str, access: Access, *, source: str = "primary", top_k: int = 10
    ) -> SearchReport:
        """Search a snapshot of the set, without a threshold."""
        return self.run(
            self.engine.search_report(
                SearchQuery(
                    query=question,
                    mode=mode,
                    top_k=top_k,
                    threshold=0.0,
                    access=access,
                    snapshot=SnapshotChoice(set_name=SET, source=source),
                )
            )
        )

    def expand(
        self, seeds: Sequence[str], access: Access, *, source: str = "primary", **limits: Any
    ) -> ExpandResponse:
        """Expand nodes of a snapshot of the set."""
        return self.run(
            self.engine.code.expand(
                seeds, snapshot=SnapshotChoice(set_name=SET, source=source), access=access, **limits
            )
        )

    def fetch(
        self,
        seeds: Sequence[str],
        graph: Sequence[str] = (),
        *,
        tokens: int = 0,
        chars: int = 0,
        prioritize: str = "seed_first",
        access: Access | None = None,
        source: str = "primary",
    ) -> FetchReport:
        """Fetch texts of nodes of a snapshot of the set; everyone's rights unless others are given."""
        kind, limit = ("chars", chars) if chars else ("tokens", tokens)
        return self.run(
            self.engine.code.fetch(
                seeds,
                graph,
                budget=TextBudget(kind=kind, limit=limit),  # type: ignore[arg-type]
                prioritize=prioritize,
                snapshot=SnapshotChoice(set_name=SET, source=source),
                access=self.everyone(source) if access is None else access,
            )
        )

    def filters(self, access: Access, source: str) -> dict[str, Any]:
        """Return what a search was narrowed by: the snapshot and the reader's rights."""
        record = self.snapshot(source)
        filters: dict[str, Any] = {
            "repo": record.info.repo,
            "snapshot_id": record.info.snapshot_id,
            "acl_tags_any": sorted(access.acl_tags),
        }
        if access.labels:
            filters["classification_labels_all"] = sorted(access.labels)
        return filters

    def security(self, local_ids: Iterable[str], source: str) -> str:
        """Return the rights that nodes ask for, in the form of the log."""
        nodes = [self.bundle(source).nodes[local] for local in local_ids]
        return ", ".join(
            f"{node.name} [acl={','.join(node.acl) or '-'} / cls={','.join(node.labels) or '-'}"
            f" / lvl={node.level}]"
            for node in nodes
        )

    def log_search(
        self,
        case: str,
        question: str,
        mode: str,
        access: Access,
        report: SearchReport,
        *,
        source: str = "primary",
        texts: FetchReport | None = None,
    ) -> None:
        """Write a search case to the readable log and to its trace."""
        local_ids = [local(hit.document_id) for hit in report.results]
        filters = self.filters(access, source)
        files = [self.bundle(source).nodes[one].name for one in local_ids]
        self.log.block(
            "test_results_latest.log",
            [
                ("Case", case),
                ("Question", question),
                ("Search mode", mode),
                ("Snapshot source", source),
                ("Applied filters", json.dumps(filters)),
                ("Observed results", ", ".join(files)),
                ("Observed security", self.security(local_ids, source)),
            ],
        )
        self.log.trace(
            case,
            {
                "question": question,
                "search_mode": mode,
                "snapshot_source": source,
                "observed_sources": files,
                "state_after": {
                    "search_type": mode,
                    "snapshot_source": source,
                    "retrieval_filters": filters,
                    "retrieval_seed_nodes": [hit.document_id for hit in report.results],
                    "retrieval_hits": [
                        {"id": hit.document_id, "rank": hit.rank, "score": hit.similarity_score}
                        for hit in report.results
                    ],
                    "node_texts": [
                        {"id": one.id, "chars": one.chars, "tokens": one.tokens}
                        for one in (texts.node_texts if texts else ())
                    ],
                },
            },
        )

    def log_graph(
        self,
        case: str,
        access: Access,
        reply: ExpandResponse,
        *,
        source: str,
        max_depth: int,
        max_nodes: int,
        relations: Sequence[str] | None,
        untrimmed: ExpandResponse,
    ) -> None:
        """Write an expansion to the graph log and to its trace.

        Args:
            case: Its name.
            access: The reader's rights.
            reply: What was found.
            source: Which snapshot.
            max_depth: The limit asked for.
            max_nodes: Likewise.
            relations: Likewise; None for all.
            untrimmed: The same expansion for a reader of everything.
        """
        filters = self.filters(access, source)
        settings = {
            "graph_max_depth": max_depth,
            "graph_max_nodes": max_nodes,
            "graph_edge_allowlist": relations,
        }
        removed = {
            "nodes": len(untrimmed.nodes) - len(reply.nodes),
            "edges": len(untrimmed.edges) - len(reply.edges),
        }
        kinds = sorted({edge.relation for edge in reply.edges})
        nodes = [f"{node.local_id}@{node.depth}" for node in reply.nodes]
        edges = [f"{local(e.from_id)} --{e.relation}--> {local(e.to_id)}" for e in reply.edges]
        self.log.block(
            "graph_results_latest.log",
            [
                ("Case", case),
                ("Snapshot source", source),
                *((name, json.dumps(value)) for name, value in settings.items()),
                ("Applied filters", json.dumps(filters)),
                ("Seeds", ", ".join(map(local, reply.seeds))),
                ("Nodes", f"{len(nodes)}: {', '.join(nodes)}"),
                ("Edges", f"{len(edges)}: {'; '.join(edges)}"),
                ("Relations", ", ".join(kinds)),
                ("Truncated", str(reply.truncated).lower()),
                ("Removed by security", f"{removed['nodes']} nodes, {removed['edges']} edges"),
                ("Observed security", self.security([n.local_id for n in reply.nodes], source)),
            ],
        )
        self.log.trace(
            f"graph_{case}",
            {
                "question": f"dependency tree {case}: {', '.join(map(local, reply.seeds))}",
                "search_mode": "graph",
                "snapshot_source": source,
                "state_after": {
                    "snapshot_source": source,
                    "retrieval_filters": filters,
                    **settings,
                    "retrieval_seed_nodes": reply.seeds,
                    "graph_expanded_nodes": [node.id for node in reply.nodes],
                    "graph_edges": [
                        {"from_id": e.from_id, "to_id": e.to_id, "edge_type": e.relation}
                        for e in reply.edges
                    ],
                    "graph_debug": {
                        "seed_count": len(reply.seeds),
                        "expanded_count": len(reply.nodes),
                        "edges_count": len(reply.edges),
                        "truncated": reply.truncated,
                        "reason": reply.reason,
                        "removed_by_security": removed,
                    },
                },
            },
        )

    def log_fetch(
        self, case: str, report: FetchReport, prioritize: str, *, source: str = "primary"
    ) -> None:
        """Write a fetch to its log and to its trace."""
        access = self.everyone(source)
        taken = [one.local_id for one in report.node_texts]
        budget = {"kind": report.budget.kind, "limit": report.budget.limit}
        decisions = [f"{local(one.id)}: {one.action} ({one.reason})" for one in report.decisions]
        self.log.block(
            "fetch_texts_results_latest.log",
            [
                ("Case", case),
                ("Prioritization mode", prioritize),
                ("Budget", json.dumps(budget)),
                ("Used", json.dumps(report.used)),
                ("Node texts", ", ".join(taken)),
                ("Decisions", "; ".join(decisions)),
            ],
        )
        self.log.trace(
            f"fetch_{case}",
            {
                "question": f"fetch node texts {case}",
                "search_mode": "fetch",
                "snapshot_source": source,
                "state_after": {
                    "retrieval_filters": self.filters(access, source),
                    "prioritization_mode": prioritize,
                    "budget": budget,
                    "used": report.used,
                    "node_texts": [
                        {"id": n.id, "is_seed": n.is_seed, "chars": n.chars, "tokens": n.tokens}
                        for n in report.node_texts
                    ],
                    "decisions": [
                        {"id": one.id, "action": one.action, "reason": one.reason}
                        for one in report.decisions
                    ],
                },
            },
        )


def local(canonical: str) -> str:
    """Return the local id within a canonical one."""
    return canonical.split("::", 3)[3]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the cases in one process: they share one import and one log."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("retrival"))
            item.add_marker(pytest.mark.postgres)
            item.add_marker(pytest.mark.models)


@pytest.fixture(scope="session")
def bundle_paths() -> list[Path]:
    """Return the bundles, in order of name; the generated ones are made where there are none at all."""
    pattern = os.environ.get("INTEGRATION_BUNDLE_GLOB", "")
    if not pattern and not any(ROOT.glob(DEFAULT_GLOB)):
        write_fake_bundles(ROOT / Path(DEFAULT_GLOB).parent)
    path = Path(pattern or DEFAULT_GLOB)
    base = Path(path.anchor) if path.is_absolute() else ROOT
    found = sorted(base.glob(str(path.relative_to(path.anchor))))
    assert found, f"no bundle matches {pattern or DEFAULT_GLOB}"
    return found


@pytest.fixture(scope="session")
def retrieval(
    bundle_paths: list[Path],
    tmp_path_factory: pytest.TempPathFactory,
    new_home: Callable[[Path], Path],
) -> Iterator[Retrieval]:
    """Import the bundles into a fresh home and make the set of them, once for all cases."""
    from whence.engine.engine import Engine

    folder = ROOT / "log/integration/retrival"
    if SPREAD:
        folder = tmp_path_factory.mktemp("log")
    log = Log(Path(os.environ.get("INTEGRATION_LOG_DIR") or folder), whole=not SPREAD)
    with asyncio.Runner() as runner:
        engine = Engine(home=new_home(tmp_path_factory.mktemp("retrival")))
        runner.run(engine.__aenter__())
        try:
            imported = runner.run(engine.code.import_bundles(bundle_paths, set_name=SET))
            bundles = [RawBundle(path) for path in bundle_paths]
            yield Retrieval(runner, engine, imported, bundles, log)
        finally:
            runner.run(engine.__aexit__(None, None, None))
