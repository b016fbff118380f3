"""Bootstrap cases B1 and B2: the set is there, imports are whole, bundles hold what cases rely on."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.support.fake_bundles import fake_head_sha
from tests.support.fake_enterprise import RELEASES, fake_release

from whence.schema.errors import BadInput

CORE_CS = [f"C{number:04}" for number in range(1, 32)]
CORE_SQL = [
    "SQL:dbo.fn_NormalizeQuery",
    "SQL:dbo.proc_ComputeFraudRisk",
    "SQL:dbo.proc_GenerateInvoice",
    "SQL:dbo.proc_GetShipmentByTracking",
    "SQL:dbo.proc_ProcessPayment",
    "SQL:dbo.proc_SearchShipments_BM25",
    "SQL:dbo.proc_SearchShipments_Hybrid",
    "SQL:dbo.proc_SearchShipments_Semantic",
    "SQL:dbo.proc_ValidateToken",
    "SQL:dbo.table_AclRecords",
    "SQL:dbo.table_Invoices",
    "SQL:dbo.table_Payments",
    "SQL:dbo.table_Shipments",
    "SQL:dbo.table_Tokens",
    "SQL:dbo.view_FinanceOverview",
    "SQL:dbo.view_Shipments",
]
#: Dependencies of the core, the same in every release.
CORE_EDGES = {
    "C0001": "C0002",
    "C0002": "C0003 C0005 C0031",
    "C0003": "C0004 C0005",
    "C0005": "C0006 C0011 C0016 C0019",
    "C0006": "C0007 C0008 C0009 C0010",
    "C0011": "C0012 C0013 C0014 C0015",
    "C0016": "C0017 C0018",
    "C0019": "C0020",
    "C0021": "C0023",
    "C0022": "C0023",
    "C0024": "C0021",
    "C0025": "C0026 C0030",
    "C0026": "C0030",
    "C0027": "C0024 C0029 C0030",
    "C0028": "C0029 C0030",
}
BOTH = pytest.mark.parametrize("source", ["primary", "secondary"])
generated_only = pytest.mark.skipif(
    bool(os.environ.get("INTEGRATION_BUNDLE_GLOB")), reason="other bundles than the generated ones"
)


def test_fake_snapshot_set_exists(retrieval: Any) -> None:
    """B1: the set exists and resolves to the imported snapshots, in the order of the bundles."""
    members = [member.snapshot_id for member in retrieval.set.members]

    assert members == [run.snapshot_id for run in retrieval.imported.imports]
    assert len(members) >= 2
    assert retrieval.snapshot("primary").info.branch == "release-1.0"
    assert retrieval.snapshot("secondary").info.branch == "release-1.1"
    assert {retrieval.snapshot(source).info.repo for source in ("primary", "secondary")} == {"Fake"}


def test_import_runs_are_completed(retrieval: Any) -> None:
    """B2: every import is completed, and every node and edge of every bundle is there."""
    for run in retrieval.imported.imports:
        assert run.status == "completed"
    for source in ("primary", "secondary"):
        record, bundle = retrieval.snapshot(source), retrieval.bundle(source)
        edges = {
            edge for edge in bundle.edges if edge[0] in bundle.nodes and edge[2] in bundle.nodes
        }
        assert record.active
        assert record.nodes.total == len(bundle.nodes)
        assert record.edges.total == len(edges)


@BOTH
def test_texts_of_the_core_are_whole(retrieval: Any, source: str) -> None:
    """Every core node has a text, and what is fetched is what the bundle holds, to the letter."""
    nodes = retrieval.bundle(source).nodes
    report = retrieval.fetch([*CORE_CS, *CORE_SQL], tokens=100_000, source=source)
    texts = {one.local_id: one.text for one in report.node_texts}

    assert texts == {one: nodes[one].text for one in (*CORE_CS, *CORE_SQL)}
    assert [one for one, text in texts.items() if not text.strip()] == []


@BOTH
def test_edges_of_the_core_are_whole(retrieval: Any, source: str) -> None:
    """Every dependency that the trees rely on is walked from its node."""
    for seed, targets in CORE_EDGES.items():
        reply = retrieval.expand([seed], retrieval.everyone(source), source=source, max_depth=1)
        found = {edge.to_id.split("::", 3)[3] for edge in reply.edges}
        assert set(targets.split()) <= found, seed


@generated_only
@BOTH
def test_the_bundles_are_those_that_are_generated(retrieval: Any, source: str) -> None:
    """No node lost its text or its rights and no edge is missing, compared with the generator."""
    release = fake_release(RELEASES[["primary", "secondary"].index(source)])
    bundle = retrieval.bundle(source)
    texts = {node.local_id: node.text for node in release.nodes}
    rights = {node.local_id: (node.rights.acl, node.rights.labels) for node in release.nodes}
    edges = {
        (node.local_id, "dep", target) for node in release.cs_nodes for target in node.depends_on
    }
    edges |= {(edge.from_local, edge.relation, edge.to_local) for edge in release.sql_edges}

    assert {one: node.text for one, node in bundle.nodes.items()} == texts
    assert {one: (node.acl, node.labels) for one, node in bundle.nodes.items()} == rights
    assert bundle.edges == edges
    assert retrieval.snapshot(source).info.head_sha == fake_head_sha(release.name)


def test_a_missing_bundle_is_no_import(retrieval: Any) -> None:
    """A bundle that is not there fails the import and leaves the set as it was."""
    before = retrieval.run(retrieval.engine.code.overview())
    missing = retrieval.bundle().path.with_name("no-such-bundle.zip")
    with pytest.raises(BadInput, match="no-such-bundle"):
        retrieval.run(
            retrieval.engine.code.import_bundles(
                [retrieval.bundle().path, missing], set_name="Fake_snapshot"
            )
        )

    assert retrieval.run(retrieval.engine.code.overview()) == before
