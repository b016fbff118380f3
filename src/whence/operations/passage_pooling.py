"""Vectors of texts that are longer than what a model reads at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from whence.schema.embedding import EmbeddingResponse
from whence.schema.errors import InternalError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.models.protocols import Embedder

#: Passages of one text that are embedded; a longer text is generated code or data, and its beginning suffices.
_MAX_PASSAGES = 16


class PassagePooling:
    """Splits texts at line ends into passages of a model's length, and pools the vectors of a text's passages.

    The vector of a text is the mean of those of its passages, normalized: the end of a long method counts as
    much as its beginning, which alone the model would read.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def split(self, texts: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return all passages in order, and the index of the text of each. Cost: linear in the texts."""
        passages: list[str] = []
        owners: list[int] = []
        # A token is at least one character: most texts need no counting.
        most = self._embedder.max_tokens
        long = [place for place, text in enumerate(texts) if len(text) > most]
        tokens = dict(zip(long, self._embedder.count_tokens([texts[n] for n in long]), strict=True))
        for place, text in enumerate(texts):
            parts = list(self._lines(text)) if tokens.get(place, 0) > most else [text]
            passages += parts
            owners += [place] * len(parts)
        return passages, owners

    def _lines(self, text: str) -> Iterator[str]:
        lines = text.splitlines(keepends=True)
        passage: list[str] = []
        size = given = 0
        for line, tokens in zip(lines, self._embedder.count_tokens(lines), strict=True):
            if passage and size + tokens > self._embedder.max_tokens:
                yield "".join(passage)
                given += 1
                passage, size = [], 0
                if given == _MAX_PASSAGES:
                    return
            passage.append(line)
            size += tokens
        yield "".join(passage)

    @staticmethod
    def matrix(reply: EmbeddingResponse, n: int) -> NDArray[np.float32]:
        """Read n vectors from their wire form: float32, shape (n, dimension)."""
        import numpy as np

        if len(reply.vectors) != n * reply.model.dimension * 4:
            raise InternalError(
                f"{n} texts were sent and {len(reply.vectors)} bytes of vectors came"
            )
        flat = np.frombuffer(reply.vectors, dtype="<f4").astype(np.float32, copy=False)
        return flat.reshape(n, reply.model.dimension)

    @staticmethod
    def pool(
        rows: Sequence[NDArray[np.float32]], owners: Sequence[int], n: int
    ) -> NDArray[np.float32]:
        """Return one unit vector per text: float32, shape (n, dimension)."""
        import numpy as np

        vectors = rows[0] if len(rows) == 1 else np.concatenate(rows)
        if len(vectors) == n:
            return vectors
        sums = np.zeros((n, vectors.shape[1]), dtype=np.float64)
        np.add.at(sums, np.asarray(owners), vectors)
        first = np.unique(np.asarray(owners), return_index=True)[1]
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        # Passages that cancel each other out leave no direction; the first one is used then.
        mean = np.where(norms > 1e-6, sums / np.maximum(norms, 1e-6), vectors[first])
        return mean.astype(np.float32)
