"""Cutting and counting the terms of a text, the quick way, gives what the analyzer's pattern finds."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from whence.text.analysis import (
    _terms,
    document_terms,
    field_length,
    is_stop_term,
    term_counts,
)

pieces = st.sampled_from(
    [
        *"aCxZ19_.:#+- \n",
        "::",
        "++",
        "C#",
        "C++",
        "F#",
        "the",
        "parseHTTPResponse",
        "net.core_v2",
        "x1",
    ]
)
ascii_texts = st.lists(pieces, max_size=25).map("".join)


@given(st.one_of(ascii_texts, st.text(max_size=60), st.text("aA1_.#+: \u00e9\u4e00", max_size=40)))
@example("a.C# C# C++ C+++ _C# 1C# C#x C++1 a::b#C++ F#. c++)")
@example("C\n# C_# \u212b C#")
def test_counts_are_those_of_the_list(text: str) -> None:
    """What is cut and counted the quick way is what the analyzer's pattern finds, for ASCII and all else."""
    terms = list(_terms(text, "english"))
    assert document_terms(text) == terms
    assert term_counts(text) == Counter(terms)


@given(ascii_texts)
def test_length_leaves_weak_terms_out(text: str) -> None:
    """The length counts each occurrence of a term that is not weak."""
    expected = sum(not is_stop_term(term) for term in document_terms(text))
    assert field_length(term_counts(text)) == expected
