"""The pipeline tracer: files that appear whole, also of an operation that fails."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from whence.answering.trace_recorder import Sources
from whence.code.operations import Expand
from whence.operations.pipeline_trace import PipelineTracer
from whence.operations.traced_client import TracedCall, calls_of_operation
from whence.schema.access import Access
from whence.schema.errors import BadInput, Unavailable
from whence.schema.graph import ExpandRequest, ExpandResponse, GraphEdge, GraphNode
from whence.surfaces.python.methods import method

IDS = iter(range(1000))
SOURCES = Sources(
    new_id=lambda: f"{next(IDS):032x}"[::-1], clock=lambda: datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
)
REPLY = ExpandResponse(
    snapshot_id="s",
    seeds=("R::s::cs::a",),
    nodes=(
        GraphNode(id="R::s::cs::a", local_id="a", depth=0),
        GraphNode(id="R::s::cs::b", local_id="b", depth=1, parent_id="R::s::cs::a"),
    ),
    edges=(
        GraphEdge(from_id="R::s::cs::a", to_id="R::s::cs::b", relation="dep", stored_relation="d"),
    ),
)


class ExpandStub(Expand, frozen=True):
    """Expands by one call that asks for what it was given; fails for the node `away`."""

    async def run(self, session: Any) -> ExpandResponse:
        """Return the reply."""
        snapshot = str(self.snapshot)
        request = ExpandRequest(access=self.access, snapshot=snapshot, seeds=tuple(self.nodes))
        calls = calls_of_operation.get()
        if calls is not None:
            calls.append(TracedCall("graph-expander", request, [REPLY], 1.5))
        if "away" in request.seeds:
            raise Unavailable("the graph is away")
        return REPLY


class Code:
    """Runs each operation within a tracer."""

    def __init__(self, tracer: PipelineTracer) -> None:
        self._tracer = tracer
        self._session: Any = self

    async def run(self, operation: Any) -> Any:
        """Run an operation as a session does."""
        return await self._tracer.around(operation, operation.run)(self._session)

    expand = method(ExpandStub)


def traced(file: Path | None, folder: Path | None) -> Code:
    return Code(PipelineTracer(file, folder, SOURCES))


async def test_what_was_sent_is_told_not_what_was_asked(tmp_path: Path) -> None:
    """Rights and limits come from the request on the bus; an iterator of nodes is read once."""
    file = tmp_path / "trace.json"
    given = Access({"hr", "board"}, {"secret"}, 3)
    assert await traced(file, None).expand(iter(["a"]), snapshot="s", access=given) is REPLY
    trace = json.loads(file.read_text(encoding="utf-8"))
    state = trace["state_after"]

    assert trace["generated_utc"] == "2026-01-02T03:04:05.000006Z"
    assert (trace["nodes"], trace["snapshot"], trace["error"]) == (["a"], "s", None)
    assert state["retrieval_filters"] == {
        "repo": "R",
        "snapshot_id": "s",
        "acl_tags_any": ["board", "hr"],
        "classification_labels_all": ["secret"],
        "clearance": 3,
    }
    assert (state["graph_max_depth"], state["graph_max_nodes"]) == (2, 120)
    assert state["graph_edge_allowlist"] is None
    assert state["graph_expanded_nodes"] == ["R::s::cs::a", "R::s::cs::b"]
    assert trace["calls"][0]["request"]["seeds"] == ["a"]
    assert calls_of_operation.get() is None


async def test_a_failure_leaves_a_trace_and_stays_the_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is in the trace; when the trace cannot be written either, the first error is raised."""
    file = tmp_path / "sub" / "trace.json"
    file.parent.mkdir()
    code = traced(file, None)
    with pytest.raises(Unavailable):
        await code.expand(["away \ud800", "away"], snapshot="s", access=Access())
    trace = json.loads(file.read_text(encoding="utf-8"))
    assert trace["error"] == {"code": "unavailable", "message": "the graph is away"}
    assert trace["state_after"]["retrieval_filters"] == {"snapshot_id": "s", "acl_tags_any": []}
    file.unlink()
    file.parent.rmdir()

    with caplog.at_level(logging.WARNING, "whence"), pytest.raises(Unavailable):
        await code.expand(["away"], snapshot="s", access=Access())
    assert "cannot write" in caplog.text
    with pytest.raises(BadInput, match="cannot write"):
        await code.expand(["a"], snapshot="s", access=Access())


async def test_file_and_folder_get_the_same_trace(tmp_path: Path) -> None:
    """The file is replaced, the folder collects; nothing else is left behind."""
    file, folder = tmp_path / "trace.json", tmp_path / "all"
    code = traced(file, folder)
    for _ in range(2):
        await code.expand(["a"], snapshot="s", access=Access())
    names: list[Any] = sorted(one.name for one in folder.iterdir())

    assert len(names) == 2
    assert all(name.startswith("20260102T030405.000006Z-expand-") for name in names)
    assert file.read_text() in {(folder / name).read_text() for name in names}
    assert {one.name for one in tmp_path.iterdir()} == {"trace.json", "all"}
