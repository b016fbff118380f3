"""A policy of the gate with low limits and the smallest set of keys."""

from __future__ import annotations

from typing import Any

POLICY: dict[str, Any] = {
    "version": "retrieval-gate-policy-v1",
    "quality": {
        "min_recall_at_k": 0.1,
        "min_mrr": 0.1,
        "min_ndcg_at_k": 0.1,
        "max_zero_result_rate": 0.9,
        "max_clustering_ratio": 1.0,
        "max_degraded_query_rate": 0.9,
    },
    "latency": {"max_p95_latency_ms": 1000.0},
    "tolerance": {
        "recall_at_k": 0.01,
        "mrr": 0.01,
        "ndcg_at_k": 0.01,
        "zero_result_rate": 0.05,
        "clustering_ratio": 0.05,
        "degraded_query_rate": 0.05,
        "p95_latency_ms": 40,
    },
}
