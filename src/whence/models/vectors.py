"""Checking and normalising the vectors that a service sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whence.models.api_client import ApiClient

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("KNOWN_DIMENSIONS", "estimated_tokens", "unit_rows")

#: Lengths of vectors that providers document, so that they are known before the first call.
KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
}


def unit_rows(rows: Any, count: int, dimension: int, client: ApiClient) -> NDArray[np.float32]:
    """Turn a list of lists of numbers into unit vectors, float32 (count, dimension).

    Args:
        rows: What the service sent.
        count: Texts that were sent.
        dimension: Expected length; 0 accepts any, if it is the same in all rows.
        client: Names the service in errors.

    Raises:
        Unavailable: The shape is wrong, or a vector is not finite or of length zero.
    """
    import numpy as np

    if not isinstance(rows, list) or len(rows) != count:
        got = len(rows) if isinstance(rows, list) else "no list of"
        raise client.broken(f"{got} vectors for {count} texts")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise client.broken("its vectors are not rows of numbers of one length") from error
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise client.broken("its vectors are not rows of numbers of one length")
    if dimension and matrix.shape[1] != dimension:
        raise client.broken(f"vectors of length {matrix.shape[1]} instead of {dimension}")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise client.broken("a vector is not finite or has length zero")
    units: NDArray[np.float32] = (matrix / lengths).astype(np.float32)
    return units


def estimated_tokens(texts: Sequence[str]) -> list[int]:
    """Estimate tokens for models whose tokeniser is not here: a quarter of the characters, rounded up.

    That is what providers document for English; other scripts have up to one token per character, so
    characters beyond ASCII count in full.

    >>> estimated_tokens(["", "four", "seventeen letters"])
    [0, 1, 5]
    """
    counts = []
    for text in texts:
        plain = sum(character.isascii() for character in text)
        counts.append(-(-plain // 4) + len(text) - plain)
    return counts
