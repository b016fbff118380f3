"""A reranker that scores a passage by the share of the query's words that it contains.

`WHENCE_RERANKER=overlap` selects it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


class OverlapReranker:
    """Scores documents by shared words."""

    model = "overlap"

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document, 0 to 1, in the order given."""
        wanted = _words(query)
        return [len(wanted & _words(text)) / max(1, len(wanted)) for text in documents]

    async def aclose(self) -> None:
        """Free nothing."""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def make_reranker(model: str, settings: Any) -> OverlapReranker:
    """Return the reranker; it has no variants, so `model` is empty."""
    return OverlapReranker()
