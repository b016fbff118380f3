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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.fake_bundles import write_fake_bundles

from whence.operations.search import Search
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.texts import TextBudget

if TYPE_CHECKING:
    from whence.code.node_texts import FetchReport
    from whence.code.snapshots.protocols import ImportResult, SnapshotRecord, SnapshotSet
    from whence.retrieval.results import SearchReport
    from whence.schema.graph import ExpandResponse
    from whence.surfaces.python.engine import Engine

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
        """Keep the trace of a case in a file of its own and as `latest.json`."""
        text = json.dumps({"case": case, **document}, indent=2) + "\n"
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
        trace_file: Path,
    ) -> None:
        self._runner = runner
        self._trace_file = trace_file
        self._traced: list[tuple[object, dict[str, Any]]] = []
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

    def traced(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for work and keep the trace that the engine wrote of it."""
        self._trace_file.unlink(missing_ok=True)
        result = self.run(work)
        self._traced.append((result, json.loads(self._trace_file.read_text(encoding="utf-8"))))
        return result

    def trace_of(self, result: object) -> dict[str, Any]:
        """Return the trace that the engine wrote of the operation with this result."""
        return next(trace for one, trace in self._traced if one is result)

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
        return self.traced(
            self.engine.run(
                Search(
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
        return self.traced(
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
        return self.traced(
            self.engine.code.fetch(
                seeds,
                graph,
                budget=TextBudget(kind=kind, limit=limit),  # type: ignore[arg-type]
                prioritize=prioritize,
                snapshot=SnapshotChoice(set_name=SET, source=source),
                access=self.everyone(source) if access is None else access,
            )
        )

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
        report: SearchReport,
        *,
        texts: FetchReport | None = None,
    ) -> None:
        """Write a search case to the readable log and keep its trace."""
        trace = self.trace_of(report)
        source, state = trace["snapshot_source"], trace["state_after"]
        local_ids = [local(one) for one in state["retrieval_seed_nodes"]]
        files = [posixpath.basename(one) for one in state["observed_sources"]]
        self.log.block(
            "test_results_latest.log",
            [
                ("Case", case),
                ("Question", trace["question"]),
                ("Search mode", trace["search_mode"]),
                ("Snapshot source", source),
                ("Applied filters", json.dumps(state["retrieval_filters"])),
                ("Observed results", ", ".join(files)),
                ("Observed security", self.security(local_ids, source)),
            ],
        )
        if texts is not None:
            trace["fetch"] = self.trace_of(texts)
            state["node_texts"] = trace["fetch"]["state_after"]["node_texts"]
        self.log.trace(case, trace)

    def log_graph(
        self,
        case: str,
        reply: ExpandResponse,
        *,
        untrimmed: ExpandResponse,
    ) -> None:
        """Write an expansion to the graph log and keep its trace.

        Args:
            case: Its name.
            reply: What was found.
            untrimmed: The same expansion for a reader of everything.
        """
        trace = self.trace_of(reply)
        source, state = trace["snapshot_source"], trace["state_after"]
        whole = self.trace_of(untrimmed)["state_after"]["graph_debug"]
        debug = state["graph_debug"]
        removed = {
            "nodes": whole["expanded_count"] - debug["expanded_count"],
            "edges": whole["edges_count"] - debug["edges_count"],
        }
        settings = ("graph_max_depth", "graph_max_nodes", "graph_edge_allowlist")
        nodes = [f"{local(one['id'])}@{one['depth']}" for one in state["graph_nodes"]]
        edges = [
            f"{local(one['from_id'])} --{one['edge_type']}--> {local(one['to_id'])}"
            for one in state["graph_edges"]
        ]
        seeds = ", ".join(map(local, state["retrieval_seed_nodes"]))
        found = [local(one) for one in state["graph_expanded_nodes"]]
        self.log.block(
            "graph_results_latest.log",
            [
                ("Case", case),
                ("Snapshot source", source),
                *((name, json.dumps(state[name])) for name in settings),
                ("Applied filters", json.dumps(state["retrieval_filters"])),
                ("Seeds", seeds),
                ("Nodes", f"{len(nodes)}: {', '.join(nodes)}"),
                ("Edges", f"{len(edges)}: {'; '.join(edges)}"),
                ("Relations", ", ".join(debug["relations"])),
                ("Truncated", str(debug["truncated"]).lower()),
                ("Removed by security", f"{removed['nodes']} nodes, {removed['edges']} edges"),
                ("Observed security", self.security(found, source)),
            ],
        )
        debug["removed_by_security"] = removed
        named = {"question": f"dependency tree {case}: {seeds}", "search_mode": "graph"}
        self.log.trace(f"graph_{case}", trace | named)

    def log_fetch(self, case: str, report: FetchReport) -> None:
        """Write a fetch to its log and keep its trace."""
        trace = self.trace_of(report)
        state = trace["state_after"]
        taken = [local(one["id"]) for one in state["node_texts"]]
        decisions = [
            f"{local(one['id'])}: {one['action']} ({one['reason']})" for one in state["decisions"]
        ]
        self.log.block(
            "fetch_texts_results_latest.log",
            [
                ("Case", case),
                ("Prioritization mode", state["prioritization_mode"]),
                ("Budget", json.dumps(state["budget"])),
                ("Used", json.dumps(state["used"])),
                ("Node texts", ", ".join(taken)),
                ("Decisions", "; ".join(decisions)),
            ],
        )
        named = {"question": f"fetch node texts {case}", "search_mode": "fetch"}
        self.log.trace(f"fetch_{case}", trace | named)


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
    from whence.surfaces.python.engine import Engine

    folder = ROOT / "log/integration/retrival"
    if SPREAD:
        folder = tmp_path_factory.mktemp("log")
    log = Log(Path(os.environ.get("INTEGRATION_LOG_DIR") or folder), whole=not SPREAD)
    with asyncio.Runner() as runner:
        trace_file = tmp_path_factory.mktemp("trace") / "trace.json"
        engine = Engine(home=new_home(tmp_path_factory.mktemp("retrival")), trace=trace_file)
        runner.run(engine.__aenter__())
        try:
            imported = runner.run(engine.code.import_bundles(bundle_paths, set_name=SET))
            bundles = [RawBundle(path) for path in bundle_paths]
            yield Retrieval(runner, engine, imported, bundles, log, trace_file)
        finally:
            runner.run(engine.__aexit__(None, None, None))
