"""The fake enterprise: facts that the questions about it rely on, checked in the bundles."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from tests.support.fake_bundles import fake_head_sha, write_fake_bundles
from tests.support.small_bundles import edges_between

from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader
from whence.schema.access import Access
from whence.schema.code import CodeNode, ImportReport
from whence.schema.relations import RelationFilter

RELEASES = ("1.0", "1.1")
BOTH = pytest.mark.parametrize("release", RELEASES)
SQL_RELATIONS = (
    "ReadsFrom", "WritesTo", "Calls", "Executes", "FK", "On", "SynonymFor", "ReferencedBy(C#)",
)  # fmt: skip


class Snapshot:
    """A bundle read into memory, by local ids."""

    def __init__(self, path: Path) -> None:
        contents = BundleReader(open_bundle(path))
        nodes = list(contents.nodes())
        self.nodes: dict[str, CodeNode] = {node.local_id: node for node in nodes}
        local = {node.id: node.local_id for node in self.nodes.values()}
        self.edges = [
            (local[edge.from_id], edge.relation, local[edge.to_id])
            for edge in edges_between(nodes, contents.edges())
        ]
        self.report: ImportReport = contents.report()

    def texts_of(self, files: Sequence[str]) -> dict[str, str]:
        """Return the texts of the nodes in these files, by file name."""
        names = {Path(node.file).name: node.text for node in self.nodes.values()}
        return {name: names[name] for name in files}

    def expand(
        self,
        seed: str,
        depth: int,
        relations: Collection[str] | None = None,
        sees: Callable[[CodeNode], bool] = lambda node: True,
    ) -> tuple[dict[str, int], set[tuple[str, str, str]]]:
        """Expand breadth first; return the depth of each node, and the edges. Hidden nodes block."""
        allowed = RelationFilter(relations)
        reached = {seed: 0} if sees(self.nodes[seed]) else {}
        walked = set()
        for level in range(depth):
            for edge in self.edges:
                source, relation, target = edge
                is_open = reached.get(source) == level and allowed.allows(relation)
                if is_open and sees(self.nodes[target]):
                    walked.add(edge)
                    reached.setdefault(target, level + 1)
        return reached, walked


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_fake_bundles(tmp_path_factory.mktemp("fake") / "bundles")


@pytest.fixture(scope="module")
def snapshots(paths: list[Path]) -> dict[str, Snapshot]:
    return {release: Snapshot(path) for release, path in zip(RELEASES, paths, strict=True)}


def local(*names: str) -> set[str]:
    """Return local ids: `C5` is a C# node, others are SQL objects."""
    is_cs = {name: name[1:].isdigit() for name in names}
    return {f"C{name[1:]:0>4}" if is_cs[name] else f"SQL:dbo.{name}" for name in names}


#: Case, markers, candidate files.
CASES: list[tuple[str, list[str], list[str]]] = [
    ("1.1", ["point, entry point", "bootstrap"], ["Program.cs", "AppBootstrap.cs", "QueryRouter.cs"]),
    (
        "1.2",
        ["semantic search", "nearest neighbors"],
        ["SemanticSearcher.cs", "EmbeddingModel.cs", "NearestNeighbors.cs", "CosineSimilarity.cs"],
    ),
    (
        "1.3",
        ["bm25", "semantic", "hybrid"],
        ["HybridRanker.cs", "ReciprocalRankFusion.cs", "KeywordRerankScorer.cs", "SearchFacade.cs"],
    ),
    (
        "1.4",
        ["fraud, risk score", "token validation"],
        ["FraudRiskScorer.cs", "TokenValidator.cs", "proc_ComputeFraudRisk.sql"],
    ),
    (
        "1.5",
        ["tracking number", "shipment"],
        ["ShipmentService.cs", "ShipmentRepository.cs", "proc_GetShipmentByTracking.sql", "view_Shipments.sql"],
    ),
    ("2.1", ["proc_SearchShipments_BM25"], ["proc_SearchShipments_BM25.sql"]),
    ("2.2", ["ExtractKeywords"], ["KeywordExtractor.cs", "Bm25Searcher.cs"]),
    ("2.3", ["ValidateToken", "signature verification"], ["TokenValidator.cs", "proc_ValidateToken.sql"]),
    (
        "2.4",
        ["table_Payments", "proc_ProcessPayment", "PaymentService", "proc_GenerateInvoice"],
        ["table_Payments.sql", "proc_ProcessPayment.sql", "PaymentService.cs", "proc_GenerateInvoice.sql"],
    ),
    ("2.5", ["DependencyTreeExpander"], ["DependencyTreeExpander.cs", "GraphProviderFacade.cs"]),
    (
        "3.1",
        ["hybrid", "bm25", "semantic"],
        ["HybridRanker.cs", "SearchFacade.cs", "proc_SearchShipments_Hybrid.sql"],
    ),
    ("3.2", ["acl", "filter", "permissions"], ["AclFilter.cs", "AclPolicy.cs", "SearchFacade.cs"]),
    (
        "3.3",
        ["payment", "invoice", "vat"],
        ["PaymentService.cs", "InvoiceGenerator.cs", "VatCalculator.cs", "table_Payments.sql"],
    ),
    ("3.4", ["stored procedure", "SqlExecutor"], ["SqlExecutor.cs", "ShipmentService.cs", "PaymentService.cs"]),
    ("3.5", ["route request", "search facade"], ["QueryRouter.cs", "QueryParser.cs", "SearchFacade.cs"]),
    ("4.1", ["token validation", "jwt"], ["TokenValidator.cs"]),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("markers", "files"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_every_marker_is_in_a_candidate_file(
    snapshots: dict[str, Snapshot], release: str, markers: list[str], files: list[str]
) -> None:
    """Each question has all its candidate files, none of them empty, and each marker in one of them."""
    texts = snapshots[release].texts_of(files)

    assert all(texts.values())
    assert [
        marker for marker in markers if not any(marker in text for text in texts.values())
    ] == []


PAYMENT = "SQL:dbo.proc_ProcessPayment"
WRITES = (PAYMENT, "sql_WritesTo", "SQL:dbo.table_Payments")
EXECUTES = {
    (PAYMENT, "sql_Executes", "SQL:dbo.proc_ValidateToken"),
    (PAYMENT, "sql_Executes", "SQL:dbo.proc_ComputeFraudRisk"),
}


@BOTH
@pytest.mark.parametrize(
    ("relations", "edges"),
    [
        (SQL_RELATIONS, {WRITES} | EXECUTES),
        (("ReadsFrom", "WritesTo", "Calls"), {WRITES}),
        (("WritesTo",), {WRITES}),
    ],
    ids=["A", "B", "C"],
)
def test_a_list_of_relations_decides_what_is_reached(
    snapshots: dict[str, Snapshot],
    release: str,
    relations: tuple[str, ...],
    edges: set[tuple[str, str, str]],
) -> None:
    """Cases A to C: one step from the payment procedure, in both releases."""
    nodes, walked = snapshots[release].expand(PAYMENT, 1, relations)

    assert walked == edges
    assert set(nodes) == {PAYMENT} | {edge[2] for edge in edges}


D1 = (
    local("c6", "c11", "c16", "c19"),
    local(*(f"c{n}" for n in (7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 20))),
)
D2 = (
    local("proc_SearchShipments_BM25", "proc_SearchShipments_Semantic"),
    local("view_Shipments"),
)
D3 = local("c4", "c5"), local("c6", "c11", "c16", "c19")
MORE_1_1 = {
    "D1": (set(), local("c202")),
    "D2": (local("proc_SearchShipments_VectorFallback"), local("table_SearchAudit")),
    "D3": (local("c202"), set()),
}


@BOTH
@pytest.mark.parametrize(
    ("case", "seed", "levels", "count"),
    [
        ("D1", "C0005", D1, 15),
        ("D2", "SQL:dbo.proc_SearchShipments_Hybrid", D2, 4),
        ("D3", "C0003", D3, 6),
    ],
    ids=["D1", "D2", "D3"],
)
def test_two_steps_reach_what_is_expected(
    snapshots: dict[str, Snapshot],
    release: str,
    case: str,
    seed: str,
    levels: tuple[set[str], set[str]],
    count: int,
) -> None:
    """Cases D1 to D3, level by level: exactly these in 1.0, and the new nodes besides in 1.1."""
    more = MORE_1_1[case] if release == "1.1" else (set(), set())
    nodes, walked = snapshots[release].expand(seed, 2, None if case != "D2" else SQL_RELATIONS)

    for level in (1, 2):
        assert {node for node, depth in nodes.items() if depth == level} == levels[
            level - 1
        ] | more[level - 1]
    if release == "1.0":
        assert len(walked) == count


def test_sql_relations_do_not_start_at_a_cs_node(snapshots: dict[str, Snapshot]) -> None:
    """Dependencies of C# are a relation of their own, which a list must name."""
    assert snapshots["1.0"].expand("C0005", 2, SQL_RELATIONS) == ({"C0005": 0}, set())


@pytest.mark.parametrize(
    ("labels", "kept", "edges"),
    [
        ({"restricted"}, ("c6", "c7", "c8", "c10", "c11", "c12", "c15"), 7),
        (
            {"public", "internal", "secret"},
            ("c6", "c7", "c8", "c10", "c11", "c12", "c15", "c16", "c18"),
            9,
        ),
    ],
)
def test_access_tags_trim_the_tree(
    snapshots: dict[str, Snapshot], labels: set[str], kept: tuple[str, ...], edges: int
) -> None:
    """Case D4: what readers of finance and security see of the search facade, hidden nodes blocking."""
    access = Access({"finance", "security"}, labels)
    nodes, walked = snapshots["1.0"].expand("C0005", 2, None, lambda node: access.allows(node.tags))

    assert set(nodes) == local("c5", *kept)
    assert len(walked) == edges
    assert all(
        not access.allows(snapshots["1.0"].nodes[hidden].tags) for hidden in local("c3", "c27")
    )


@BOTH
def test_nodes_of_the_budget_cases_are_short_and_alike(snapshots: dict[str, Snapshot], release: str) -> None:  # fmt: skip
    """Cases F1 to F8: the ten texts exist and are 15 to 30 words long, so budgets can be chosen."""
    nodes = snapshots[release].nodes
    words = [
        len(nodes[node].text.split())
        for node in sorted(local(*(f"c{n}" for n in (*range(5, 14), 16))))
    ]

    assert len(words) == 10
    assert all(15 <= count <= 30 for count in words)


@BOTH
@pytest.mark.parametrize(
    ("acl", "labels", "sees", "hides"),
    [
        (True, None, [("finance",), ("security",), ("finance", "hr")], [("hr",)]),
        (False, {"public", "internal", "secret"}, [(), ("public",), ("secret",), ("internal", "secret")],
         [("sensitive",), ("restricted",)]),
    ],
    ids=["ACL", "labels"],
)  # fmt: skip
def test_rows_of_the_access_matrix_have_a_node(
    snapshots: dict[str, Snapshot],
    release: str,
    acl: bool,
    labels: set[str] | None,
    sees: list[tuple[str, ...]],
    hides: list[tuple[str, ...]],
) -> None:
    """For each row there is a node with these tags that the reader sees, or one that is hidden."""
    access = Access({"finance", "security"}, labels or set())
    tags = [node.tags for node in snapshots[release].nodes.values() if node.tags.clearance == 0]

    def rows(is_visible: bool) -> set[tuple[str, ...]]:
        return {
            (tag.acl if acl else tag.labels) for tag in tags if access.allows(tag) == is_visible
        }

    assert set(sees) <= rows(is_visible=True)
    assert set(hides) <= rows(is_visible=False)


@BOTH
def test_rows_of_both_rights_have_a_node(snapshots: dict[str, Snapshot], release: str) -> None:
    """ACL and labels together: each of the four rows, with what the reader may do."""
    access = Access({"finance", "security"}, {"public", "internal", "secret"})
    tags = {
        (node.tags.acl, node.tags.labels): node.tags for node in snapshots[release].nodes.values()
    }

    rows = [(("finance",), ("internal",)), (("security",), ()), (("hr",), ("internal",)), (("finance",), ("sensitive",))]  # fmt: skip
    assert [access.allows(tags[row]) for row in rows] == [True, True, False, False]


@BOTH
def test_access_tags_have_the_documented_mix(snapshots: dict[str, Snapshot], release: str) -> None:
    """None, ACL, labels, both: 70, 15, 10 and 5 per cent, within one point; one node is `sensitive`."""
    nodes = snapshots[release].nodes.values()
    counts = Counter((bool(node.tags.acl), bool(node.tags.labels)) for node in nodes)

    shares = [
        counts[key] / len(nodes)
        for key in ((False, False), (True, False), (False, True), (True, True))
    ]
    assert shares == pytest.approx([0.70, 0.15, 0.10, 0.05], abs=0.01)
    assert sum("sensitive" in node.tags.labels for node in nodes) == 1


@BOTH
def test_irregularities_of_real_bundles_are_included(
    snapshots: dict[str, Snapshot], release: str
) -> None:
    """All relations, an edge between languages, a cycle, a repeat, a dangling edge, no text, levels."""
    snapshot = snapshots[release]
    edges = set(snapshot.edges)

    assert {relation for _, relation, _ in edges} == {f"sql_{name}" for name in SQL_RELATIONS} | {
        "cs_dep"
    }
    assert ("SQL:dbo.proc_Depot_009", "sql_ReferencedBy(C#)", "C0030") in edges
    assert "C0050" in snapshot.expand("C0053", 3)[0]
    assert ("C0050", "cs_dep", "C0053") in edges
    assert snapshot.report.duplicate_edges.total == 1
    assert snapshot.report.dangling_edges.total == 1
    assert snapshot.report.empty_texts == 1
    assert {node.tags.clearance for node in snapshot.nodes.values()} == {0, 10, 20}


def test_releases_differ_as_documented(snapshots: dict[str, Snapshot]) -> None:
    """Counts, names and revisions of both releases; 1.1 has two nodes of each kind more."""
    older, newer = (snapshots[release].report for release in RELEASES)

    assert (older.nodes.cs, older.nodes.sql, newer.nodes.cs, newer.nodes.sql) == (201, 90, 203, 92)
    new = set(snapshots["1.1"].nodes) - set(snapshots["1.0"].nodes)
    assert new == local("c202", "c203", "table_SearchAudit", "proc_SearchShipments_VectorFallback")
    assert [report.snapshot.branch for report in (older, newer)] == ["release-1.0", "release-1.1"]
    assert (
        older.snapshot.head_sha
        == fake_head_sha("1.0")
        == "fdb0d25c05c0b1647d4954a0f1850aff13570970"
    )
    assert newer.snapshot.snapshot_id == "a4e24b9f-4d29-5249-8c8a-aaaf2b376f0b"


def test_bytes_are_equal_on_every_machine(paths: list[Path], tmp_path: Path) -> None:
    """Writing again yields the same file names and bytes, on every machine."""
    again = write_fake_bundles(tmp_path)

    assert [path.name for path in again] == [
        f"Release_FAKE_ENTERPRISE_{name}.zip" for name in RELEASES
    ]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (*paths, *again)]
    assert digests == ["b3948a9bdcc5be67", "fe52296f446c0592"] * 2
