"""Joining what a reranker says of a chunk with what retrieval said, on one scale.

Both scores mean the same for every query, and so does their sum: a threshold keeps its meaning. Retrieval keeps
most of the weight. Measured with the local late-interaction model over the first 20 of a hybrid search, titles
read with the texts, all queries of eight collections: nDCG@10 rises by .003 in the mean, by .008 at most
(`wikihop`), and falls by .002 at most (`scifact`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("RERANK_DEPTH", "RERANK_SHARE", "blended_score", "text_to_read")

#: Candidates that are read together with the query, at least. With so small a share of the score hardly any
#: comes in from further down, and those that do are no better: see `docs/benchmarks.md`.
RERANK_DEPTH = 20

#: Share of the reranker's score. From .05 to .2 the mean over eight collections is the same within its standard
#: error, and the smallest of such shares does least harm where the reranker is wrong (the rule of one standard
#: error: Breiman and others, "Classification and Regression Trees", 1984, section 3.4.3). Chosen so on any
#: seven of the collections it is .05, and the eighth loses .002 at most; by the best mean it loses up to .006.
RERANK_SHARE = 0.05


def blended_score(retrieved: float, reranked: float, share: float = RERANK_SHARE) -> float:
    """Give `(1 - share) retrieved + share reranked`, 0 to 1.

    Args:
        retrieved: Score of the search, 0 to 1.
        reranked: Score of the reranker, 0 to 1.
        share: How much of it counts, 0 to 1.
    """
    return (1.0 - share) * retrieved + share * min(1.0, max(0.0, reranked))


def text_to_read(content: str, metadata: Mapping[str, Any]) -> str:
    """Give what a reranker reads of a chunk: title and heading in front of the text, as when it was embedded.

    What the text begins with is not repeated. Without titles the local model lost 3 points of nDCG@10 on
    abstracts whose titles say what they found.
    """
    parts = [metadata.get(key) for key in ("title", "heading")]
    names = [part for part in dict.fromkeys(parts) if isinstance(part, str) and part]
    return "\n".join([*(name for name in names if not content.startswith(name)), content])
