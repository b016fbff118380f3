"""What the cosines of a collection mean: a sample of its visible passages compared with one another.

Two passages of different documents have little to do with each other, as a rule. The one that shares most rare
words with a passage is related to it. Neither depends on the encoder, so that the cosines of such pairs are two
fixed points of its scale, whatever the language and the kind of text.

The sample depends on the visible documents alone: at most 128 whose ids hash lowest, and of their passages at
most 128 that hash lowest. Results are equal in all stores and on all processors, because products are sums of
integers below 2**53.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whence.store.bm25 import K1, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Most passages of a sample. The related cosine of 128 has a standard error of a twentieth of its distance from
#: the unrelated one.
MAX_SAMPLE = 128
#: Digits of the results.
_DIGITS = 4
_STEPS = 2.0**20


class SampledPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of the sample."""

    document_id: str
    vector: Any
    """Of length 1, shape (dimension,)."""
    terms: Mapping[Any, int]
    """Frequency of each term, by whatever names it in this store."""
    language: str


class VectorStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Cosines between the passages of a sample."""

    passages: int
    """Passages in the sample, 2 or more."""
    judged: int
    """Those with a related passage: one of another document that shares more words than others do."""
    unrelated: float
    """Mean cosine of two passages of different documents."""
    spread: float
    """Its standard deviation, above 0."""
    related: float
    """Mean cosine of a passage and the one that has most of its words."""
    agreement: float
    """Share of the passages with fewer of its words that are also less similar by vectors; ties count half.
    Vectors that know nothing of words have 0.5."""
    language: str
    """The most frequent language of the sample, by Snowball's name; of equal ones the first by name."""
    overlap: float = 0.0
    """Mean share of rare words of two passages of different documents, 0 to 1: how much they have in common,
    whatever the encoder."""


def sample_key(text: str) -> str:
    """Return what orders documents by id, and passages by `ID:INDEX`, for the sample; equal in every store."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def vector_statistics(sample: Sequence[SampledPassage]) -> VectorStatistics | None:
    """Compare the passages of a sample; None when all are of one document, or all cosines are equal.

    Cost: quadratic in the sample; 128 passages took 30 to 50 ms of a busy processor.

    Args:
        sample: By `sample_key`.
    """
    import numpy as np

    numbers = {one.document_id: n for n, one in enumerate(sample)}
    documents = np.array([numbers[one.document_id] for one in sample])
    apart = documents[:, None] != documents[None, :]
    if not apart.any():
        return None
    vectors = np.array([one.vector for one in sample], dtype=np.float64)
    cosines = _products(vectors)
    words = _products(_term_matrix([one.terms for one in sample]))
    overlap = math.fsum(words[apart]) / int(apart.sum())
    words = np.where(apart, words, -1.0)
    nearest = words.argmax(axis=1)
    # The nearest shares a word, and others are less near: else nothing tells which passage is related.
    less = apart & (words < words.max(axis=1, keepdims=True))
    rows = np.flatnonzero(less.any(axis=1))
    unrelated = math.fsum(cosines[apart]) / int(apart.sum())
    spread = math.sqrt(math.fsum((cosines[apart] - unrelated) ** 2) / int(apart.sum()))
    if not spread:
        return None
    related, agreement = unrelated, 0.5
    if len(rows):
        found = cosines[rows, nearest[rows]]
        related = math.fsum(found) / len(rows)
        others, own, less = cosines[rows], found[:, None], less[rows]
        below = np.where(less, (others < own) + 0.5 * (others == own), 0.0).sum(axis=1)
        agreement = math.fsum(below / less.sum(axis=1)) / len(rows)
    languages = Counter(one.language for one in sample)
    return VectorStatistics(
        passages=len(sample),
        judged=len(rows),
        unrelated=round(unrelated, _DIGITS),
        spread=round(spread, _DIGITS),
        related=round(related, _DIGITS),
        agreement=round(agreement, _DIGITS),
        language=max(sorted(languages), key=languages.__getitem__),
        overlap=round(overlap, _DIGITS + 1),
    )


def _term_matrix(sample: Sequence[Mapping[Any, int]]) -> NDArray[Any]:
    """Return the BM25 weights of terms, a row of length 1 a passage; terms that only one has are left out."""
    import numpy as np

    df = Counter(term for terms in sample for term in terms)
    columns = {term: n for n, term in enumerate(term for term, n in df.items() if n > 1)}
    matrix = np.zeros((len(sample), len(columns)))
    for row, terms in enumerate(sample):
        for term, tf in terms.items():
            if term in columns:
                matrix[row, columns[term]] = tf / (tf + K1) * idf(len(sample), df[term])
    # Whole numbers, so that the order of the columns, which differs between stores, changes no sum.
    matrix = np.rint(matrix * 2.0**12)
    lengths = np.sqrt((matrix**2).sum(axis=1, keepdims=True))
    matrix /= np.maximum(lengths, 1.0)
    return matrix


def _products(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the inner product of each pair of rows, of length 1, exactly for rows rounded to 2**-20."""
    import numpy as np

    whole = np.rint(rows * _STEPS)
    products: NDArray[Any] = (whole @ whole.T) / (_STEPS * _STEPS)
    return products
