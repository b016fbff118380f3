"""Joining what a reranker says of a chunk with what retrieval said, on one scale.

Both scores mean the same for every query, and so does their sum: a threshold keeps its meaning. Retrieval keeps
most of the weight. Measured with the local late-interaction model over the first 20 of a hybrid search, titles
read with the texts: on eight collections nDCG@10 rises by .003 (`cacm`) to .027 (`cosqa`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("RERANK_SHARE", "blended_score", "text_to_read")

#: Share of the reranker's score. Shares of .1 to .2 lose on none of the eight collections, .2 gains the most of
#: these; .25 loses .005 on `cacm`.
RERANK_SHARE = 0.2


def blended_score(retrieved: float, reranked: float) -> float:
    """Give `0.8 retrieved + 0.2 reranked`, 0 to 1.

    Args:
        retrieved: Score of the search, 0 to 1.
        reranked: Score of the reranker, 0 to 1.
    """
    return (1.0 - RERANK_SHARE) * retrieved + RERANK_SHARE * min(1.0, max(0.0, reranked))


def text_to_read(content: str, metadata: Mapping[str, Any]) -> str:
    """Give what a reranker reads of a chunk: title and heading in front of the text, as when it was embedded.

    What the text begins with is not repeated. Without titles the local model lost 3 points of nDCG@10 on
    abstracts whose titles say what they found.
    """
    parts = [metadata.get(key) for key in ("title", "heading")]
    names = [part for part in dict.fromkeys(parts) if isinstance(part, str) and part]
    return "\n".join([*(name for name in names if not content.startswith(name)), content])
