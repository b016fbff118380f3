"""Token codes: signs of the mean of two neighbours, and scores that depend on one passage alone."""

from __future__ import annotations

import numpy as np
import pytest

from whence.models.token_codes import (
    cosines,
    late_interaction,
    nearest_tokens,
    token_codes,
    token_weights,
)


def tokens(length: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, length, 384)).astype(np.float32)


@pytest.mark.parametrize("length", [2, 3, 4, 7, 8])
def test_a_code_has_the_signs_of_pairs(length: int) -> None:
    """The first and last token are left out; the last of an odd number stands alone."""
    given = tokens(length)
    words = given[0, 1:-1]
    unit = words / np.linalg.norm(words, axis=1, keepdims=True) if len(words) else words
    pairs = [unit[n : n + 2].sum(axis=0) for n in range(0, len(unit), 2)]
    expected = b"".join(np.packbits(pair > 0).tobytes() for pair in pairs)

    assert token_codes(given) == [expected]


def test_a_score_does_not_depend_on_other_passages() -> None:
    """Scores are equal bit for bit in any company; an empty query or passage has 0."""
    query, weights = tokens(9)[0], np.arange(1, 10, dtype=np.float32)
    codes = [code for n in range(2, 120) for code in token_codes(tokens(n % 70 + 1, seed=n))]
    alone = [late_interaction(query, weights, [code])[0] for code in codes]

    assert late_interaction(query, weights, codes) == alone
    assert late_interaction(query, weights, [b"", codes[0]])[0] == 0.0
    assert late_interaction(query[:0], weights[:0], codes[:2]) == [0.0, 0.0]


def test_texts_together_are_as_near_as_each_alone() -> None:
    """The best cosines of a text do not depend on the other texts; a text without tokens has none."""
    question, *texts = (
        one / np.linalg.norm(one, axis=1, keepdims=True)
        for one in (tokens(length, seed=length)[0] for length in (5, 4, 1, 30))
    )
    texts.insert(1, question[:0])
    texts.append(question[:0])
    for text, best in zip(texts, nearest_tokens(question, texts), strict=True):
        alone = cosines(question, text).max(axis=1).tolist() if len(text) else None
        assert (None if best is None else best.tolist()) == alone
    assert nearest_tokens(question[:0], texts) == [None] * 5
    assert nearest_tokens(question, texts[1:2]) == [None]


def test_a_passage_with_the_words_of_the_query_is_first() -> None:
    """The weights count: a passage with the heavier word is before one with the lighter word."""
    given = tokens(4)[0]
    light, heavy = (np.stack([given[0], word, word, given[3]])[None] for word in given[1:3])
    codes = [*token_codes(light), *token_codes(heavy)]
    first, second = late_interaction(given[1:3], np.array([1, 4], dtype=np.float32), codes)

    assert 0.0 < first < second <= 1.0


def test_rare_words_weigh_more() -> None:
    """Weights grow with the place in the vocabulary; symbols have the least."""
    weights = token_weights([100, 1996, 2500, 30_000], 1995).tolist()

    assert weights[0] == weights[1] == 0.5
    assert weights[1] < weights[2] < weights[3]
