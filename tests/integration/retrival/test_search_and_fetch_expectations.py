"""Search and fetch: sixteen questions, words their texts must hold, and files of which one must be found."""

from __future__ import annotations

from typing import Any

import pytest

#: Case, question, words that must occur, files of which one must be found.
SEMANTIC = [
    (
        "1.1",
        "Where is the application entry point and bootstrap?",
        ["point, entry point", "bootstrap"],
        "Program.cs AppBootstrap.cs QueryRouter.cs",
    ),
    (
        "1.2",
        "How does semantic search and nearest neighbors work?",
        ["semantic search", "nearest neighbors"],
        "SemanticSearcher.cs EmbeddingModel.cs NearestNeighbors.cs CosineSimilarity.cs",
    ),
    (
        "1.3",
        "Which component combines BM25 and semantic search?",
        ["bm25", "semantic", "hybrid"],
        "HybridRanker.cs ReciprocalRankFusion.cs KeywordRerankScorer.cs SearchFacade.cs",
    ),
    (
        "1.4",
        "Where is fraud risk calculated with token validation?",
        ["fraud, risk score", "token validation"],
        "FraudRiskScorer.cs TokenValidator.cs proc_ComputeFraudRisk.sql",
    ),
    (
        "1.5",
        "How do we search shipments by tracking number?",
        ["tracking number", "shipment"],
        "ShipmentService.cs ShipmentRepository.cs proc_GetShipmentByTracking.sql view_Shipments.sql",
    ),
]
BM25 = [
    (
        "2.1",
        "proc_SearchShipments_BM25",
        ["proc_SearchShipments_BM25"],
        "proc_SearchShipments_BM25.sql",
    ),
    (
        "2.2",
        "KeywordExtractor ExtractKeywords",
        ["ExtractKeywords"],
        "KeywordExtractor.cs Bm25Searcher.cs",
    ),
    (
        "2.3",
        "TokenValidator ValidateToken",
        ["ValidateToken", "signature verification"],
        "TokenValidator.cs proc_ValidateToken.sql",
    ),
    (
        "2.4",
        "table_Payments proc_ProcessPayment",
        ["table_Payments", "proc_ProcessPayment", "PaymentService", "proc_GenerateInvoice"],
        "table_Payments.sql proc_ProcessPayment.sql PaymentService.cs proc_GenerateInvoice.sql",
    ),
    (
        "2.5",
        "DependencyTreeExpander",
        ["DependencyTreeExpander"],
        "DependencyTreeExpander.cs GraphProviderFacade.cs",
    ),
]
HYBRID = [
    (
        "3.1",
        "hybrid search BM25 semantic rerank shipments",
        ["hybrid", "bm25", "semantic"],
        "HybridRanker.cs SearchFacade.cs proc_SearchShipments_Hybrid.sql",
    ),
    (
        "3.2",
        "ACL filter before rank",
        ["acl", "filter", "permissions"],
        "AclFilter.cs AclPolicy.cs SearchFacade.cs",
    ),
    (
        "3.3",
        "payments invoices VAT",
        ["payment", "invoice", "vat"],
        "PaymentService.cs InvoiceGenerator.cs VatCalculator.cs table_Payments.sql",
    ),
    (
        "3.4",
        "who calls stored procedure execute",
        ["stored procedure", "SqlExecutor"],
        "SqlExecutor.cs ShipmentService.cs PaymentService.cs",
    ),
    (
        "3.5",
        "query routing and retrieval strategy selection",
        ["route request", "search facade"],
        "QueryRouter.cs QueryParser.cs SearchFacade.cs",
    ),
]


def check(
    retrieval: Any,
    case: str,
    question: str,
    mode: str,
    markers: list[str],
    candidates: str,
    source: str = "primary",
) -> None:
    """Search, fetch the texts found, and compare both with what is expected."""
    access = retrieval.everyone(source)
    report = retrieval.search(question, mode, access, source=source)
    seeds = [hit.document_id for hit in report.results]
    assert seeds, "the search found nothing"
    texts = retrieval.fetch(seeds, tokens=8000, source=source)
    retrieval.log_search(case, report, texts=texts)
    words = "\n".join(one.text for one in texts.node_texts).lower()
    files = {hit.chunk.metadata["source_file"].rsplit("/", 1)[-1] for hit in report.results}

    assert report.degraded == ()
    assert [one.id for one in texts.node_texts] == seeds
    assert [marker for marker in markers if marker.lower() not in words] == []
    assert files & set(candidates.split()), sorted(files)
    for hit in report.results:
        assert hit.document_id.split("::")[1] == retrieval.snapshot(source).info.snapshot_id


def parametrized(cases: list[tuple[str, str, list[str], str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("case", "question", "markers", "candidates"), cases, ids=[one[0] for one in cases]
    )


@parametrized(SEMANTIC)
def test_semantic(
    retrieval: Any, case: str, question: str, markers: list[str], candidates: str
) -> None:
    """1.1 to 1.5: by meaning."""
    check(retrieval, case, question, "semantic", markers, candidates)


@parametrized(BM25)
def test_bm25(
    retrieval: Any, case: str, question: str, markers: list[str], candidates: str
) -> None:
    """2.1 to 2.5: by words."""
    check(retrieval, case, question, "bm25", markers, candidates)


@parametrized(HYBRID)
def test_hybrid(
    retrieval: Any, case: str, question: str, markers: list[str], candidates: str
) -> None:
    """3.1 to 3.5: by both."""
    check(retrieval, case, question, "hybrid", markers, candidates)


def test_secondary_snapshot(retrieval: Any) -> None:
    """4.1: the search runs on the second snapshot of the set and finds no node of the first."""
    check(
        retrieval,
        "4.1",
        "token validation and auth",
        "semantic",
        ["token validation", "jwt"],
        "TokenValidator.cs proc_ValidateToken.sql FraudRiskScorer.cs",
        source="secondary",
    )
    primary, secondary = (
        retrieval.snapshot(source).info.snapshot_id for source in ("primary", "secondary")
    )
    assert primary != secondary
