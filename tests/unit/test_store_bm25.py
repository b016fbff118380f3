"""The formula of the lexical leg."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.search import MAX_QUERY_WORDS
from whence.store.bm25 import (
    FLOOR_TERMS,
    K1,
    MAX_COUNT,
    B,
    idf,
    impact,
    impacts,
    mean_length,
    query_weights,
    share,
)
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.term_counts import count_terms, parse_lexical_query
from whence.text.analysis import document_terms

_chunks = st.integers(0, 10**8)
_tf = st.integers(1, 10**5)
_length = st.integers(0, 10**5)
_mean = st.floats(1.0, 1e4)


@st.composite
def _queries(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int], int]:
    chunks = draw(st.integers(1, 10**7))
    counts = draw(st.dictionaries(st.text(max_size=3), st.integers(1, 1000), max_size=40))
    df = {term: draw(st.integers(0, chunks)) for term in counts if draw(st.booleans())}
    return counts, df, chunks


@given(_chunks, st.data())
def test_idf_is_positive_and_falls(chunks: int, data: st.DataObject) -> None:
    """A rarer term weighs more, and every weight is positive."""
    df = data.draw(st.integers(0, chunks))

    assert idf(chunks, df) > 0
    assert idf(chunks, 0) == pytest.approx(math.log(2 * chunks + 2))
    assert idf(chunks, df) <= idf(chunks, 0)
    assert df == 0 or idf(chunks, df) < idf(chunks, df - 1)


@given(_tf, _length, _mean)
def test_impact_is_the_formula_rounded_down(tf: int, length: int, mean: float) -> None:
    """Rounding takes less than a step of 2**-24, and the result fits a float32 exactly."""
    value = impact(tf, length, mean)
    tf, length = min(tf, MAX_COUNT), min(length, MAX_COUNT)
    plain = tf / (tf + K1 * (1 - B + B * length / mean))

    assert 0 <= plain - value < 2**-24
    assert 0 <= value < 1
    assert float(np.float32(value)) == value


@given(_tf, _length, _mean)
def test_impact_grows_with_tf_and_falls_with_length(tf: int, length: int, mean: float) -> None:
    """More occurrences never lower an impact, a longer text never raises it."""
    value = impact(tf, length, mean)

    assert impact(tf + 1, length, mean) >= value
    assert impact(tf, length + 1, mean) <= value


@given(st.lists(st.tuples(_tf, _length), max_size=30), _mean)
def test_arrays_and_numbers_have_equal_bits(pairs: list[tuple[int, int]], mean: float) -> None:
    """Impacts of arrays equal those of single chunks, also where counts are clipped."""
    table = np.minimum(np.array(pairs, dtype=np.int64).reshape(-1, 2), MAX_COUNT)
    counts = table.astype(np.uint16)

    assert impacts(counts[:, 0], counts[:, 1], mean).tolist() == [
        impact(tf, length, mean) for tf, length in pairs
    ]


@given(_queries(), st.data())
def test_the_share_is_below_one(
    query: tuple[dict[str, int], dict[str, int], int], data: st.DataObject
) -> None:
    """For any query and match S is below its bound; order changes no bit."""
    weights, _ = query_weights(*query)
    counts = {term: data.draw(_tf) for term in weights}
    length, mean = data.draw(_length), data.draw(_mean)
    products = [weight * impact(counts[term], length, mean) for term, weight in weights.items()]

    assert sum(weights.values()) <= 1
    assert 0 <= share(weights, counts, length, mean) < 1
    assert share(weights, counts, length, mean) == sum(products) == math.fsum(products)
    assert sum(products) == sum(reversed(products))


@given(_queries(), st.booleans())
def test_the_bound_counts_repeats_and_unseen_words(
    query: tuple[dict[str, int], dict[str, int], int], one_word: bool
) -> None:
    """B adds idf for each repeat of a word in the query, unknown ones at i0, with a minimum of six terms.

    For a single word, or a single term, it is one. A term of the floor is worth i0 from 401 chunks on, in one
    chunk ln 3 less, and in between in between.
    """
    counts, df, chunks = query
    every = [idf(chunks, df.get(term, 0)) for term, n in counts.items() for _ in range(n)]
    less = math.log(3) * max(0, 401 - chunks) / 400 if chunks else 0

    weights, per_share = query_weights(counts, df, chunks, one_word=one_word)
    floor_terms = 1 if one_word or len(counts) == 1 else min(FLOOR_TERMS, len(counts) + 1)
    bound = max(math.fsum(every), floor_terms * (math.log(2 * chunks + 2) - less))

    assert per_share == pytest.approx(bound / math.fsum(every) if counts else 1)
    assert weights == pytest.approx(
        {t: n * idf(chunks, df[t]) / bound for t, n in counts.items() if df.get(t, 0) > 0},
        abs=2**-28,
    )


def test_a_known_score() -> None:
    """Three chunks, two words: numbers computed by hand."""
    # N = 3, df(red) = 1: ln(1 + 2.5 / 1.5); i0 = ln 8, for the word that no chunk has; the floor of 3 terms is
    # lower than the sum; the chunk of mean length has norm 1.2.
    weights, _ = query_weights({"red": 1, "unseen": 1}, {"red": 1}, 3)
    value = share(weights, {"red": 2}, 5, 5.0)

    bound = math.log(8 / 3) + math.log(8)
    assert value == pytest.approx(math.log(8 / 3) * 2 / 3.2 / bound, abs=1e-7)


def test_a_mean_length_is_one_at_least() -> None:
    """The mean length is at least 1, also for chunks of stop words or no chunks."""
    assert (mean_length(0, 0), mean_length(0, 5), mean_length(10, 4)) == (1.0, 1.0, 2.5)


def test_stop_words_do_not_count_in_the_length() -> None:
    """Stop words match, and do not make a chunk longer."""
    words = count_terms("the red and the blue", "english")

    assert words.counts == {"the": 2, "red": 1, "and": 1, "blue": 1}
    assert words.length == 2


def test_a_query_is_truncated_after_1024_distinct_words() -> None:
    """The first 1024 distinct words count with all their repeats, later ones do not."""
    text = " ".join(f"word{n}" for n in range(5000)) + " word0 word4999"
    counts, _ = parse_lexical_query(text, ("english",)).resolve({})

    assert len(counts) == MAX_QUERY_WORDS
    assert counts["word0"] == 2
    assert "word4999" not in counts


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\x01"), max_size=2000))
def test_stored_terms_fit_an_index(term: str) -> None:
    """The key of any word fits a B-tree row, and only equal words share one."""
    key = term_key(term)

    assert len(key.encode()) <= 2000
    assert term_key(term + "x") != key
    assert len(term) > 500 or key == term


@given(_queries())
def test_coverage_never_exceeds_the_query(
    query: tuple[dict[str, int], dict[str, int], int],
) -> None:
    """Share times factor is S / B: at most 1 even when every impact were 1, and never below the share."""
    weights, factor = query_weights(*query)

    assert factor >= 1.0
    assert sum(weights.values()) * factor <= 1.0 + 1e-6


@pytest.mark.parametrize(
    "content", ["café\u200dx net.core_v2", "b", "\u0301 日本語 カナ", "absent", ""]
)
def test_terms_of_the_content_are_counted_once(content: str) -> None:
    """A text has the same terms whether those of its passage are taken apart or not, in it or not."""
    for text in (f"a b\nb\n{content}\nafter", f"Title\n{content}", "Title\nonly"):
        words = count_terms(text, "english", content)

        assert words.counts == count_terms(text, "english").counts
        assert list(words.content) == document_terms(content, "english")
