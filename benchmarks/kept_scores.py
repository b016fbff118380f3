"""A reranker that stores its scores on disk, because scoring dominates the time of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ("KeptScores",)


class KeptScores:
    """Scores pairs of query and text once; implements `Reranker`.

    Args:
        reranker: Scores what is new.
        file: Where scores are kept, by model, query and text: what is reworded is scored again.
    """

    def __init__(self, reranker: Any, file: Path) -> None:
        self._reranker = reranker
        self._file = file
        self._known: dict[str, float] = (
            json.loads(file.read_text("utf-8")) if file.is_file() else {}
        )

    @property
    def model(self) -> str:
        """Name of the model."""
        name: str = self._reranker.model
        return name

    @property
    def share(self) -> float:
        """Share of the scores in the final score."""
        share: float = getattr(self._reranker, "share", 1.0)
        return share

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document, 0 to 1, in the order given."""
        keys = [self.key(query, text) for text in documents]
        new = [place for place, key in enumerate(keys) if key not in self._known]
        scores = (
            await self._reranker.score(query, [documents[place] for place in new]) if new else ()
        )
        self._known |= {keys[place]: one for place, one in zip(new, scores, strict=True)}
        return [self._known[key] for key in keys]

    def key(self, query: str, text: str) -> str:
        """Return what a score is kept by."""
        parts = json.dumps([self.model, query, text]).encode()
        return hashlib.sha256(parts).hexdigest()

    def keep(self) -> None:
        """Write all scores to the file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._known), encoding="utf-8")

    async def aclose(self) -> None:
        """Free what the reranker holds."""
        await self._reranker.aclose()
