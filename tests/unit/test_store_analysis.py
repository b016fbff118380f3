"""The analyzer: what documents and queries have in common."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whence.text.analysis import (
    LANGUAGES,
    document_terms,
    is_single_word,
    is_stop_term,
    query_terms,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Running runs", ["run", "run"]),
        ("parseHTTPResponse", ["parsehttpresponse", "pars", "http", "respons"]),
        ("net.core_v2", ["net.core_v2", "net", "core", "v", "2"]),
        ("v2.9.1", ["v2.9.1", "2.9.1", "v", "2", "9", "1"]),
        ("2.9.1.txt", ["2.9.1.txt", "2.9.1", "2", "9", "1", "txt"]),
        ("2.9.1", ["2.9.1", "2", "9", "1"]),
        ("größe2.5", ["grosse2.5", "2.5", "grosse", "2", "5"]),
        ("std::vector", ["std::vector", "std", "vector"]),
        ("proc_GetShipment", ["proc_getshipment", "proc", "get", "shipment"]),
        ("C# and C++", ["c#", "and", "c++"]),
        ("naïve Größe", ["naiv", "grosse"]),
        ("日本語", ["日本", "本語"]),
        ("字", ["字"]),
        ("\uff21\uff22\uff23", ["abc"]),
        ("this is", ["this", "is"]),
        ("…!?", []),
        ("", []),
    ],
)
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    """Words are folded and stemmed, identifiers kept and split, scripts without spaces paired."""
    assert document_terms(text) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("the house", ["hous"]),
        ("to be or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("C", ["c"]),
        ("?!", []),
    ],
)
def test_weak_terms_leave_a_query_only_when_something_stays(
    query: str, expected: list[str]
) -> None:
    """Stop words never empty a query."""
    assert query_terms(query) == expected


@pytest.mark.parametrize(
    ("query", "is_one"),
    [
        ("OrderService", True),
        (" net.core_v2? ", True),
        ("the C#", True),
        ("force-with-lease", False),
        ("order service", False),
        ("日本語の検索", False),
        ("", False),
    ],
)
def test_an_identifier_is_one_word(query: str, is_one: bool) -> None:
    """It is, with all its parts, and beside stop words."""
    assert is_single_word(query) == is_one


def test_a_query_is_stemmed_in_every_language_of_the_collection() -> None:
    """A document of any of the languages can be found."""
    terms = query_terms("Häuser", ("english", "german"))

    assert set(document_terms("Haus", "german")) <= set(terms)


@given(st.text(max_size=200), st.sampled_from(sorted(LANGUAGES)))
@example("S", "porter")
def test_any_text_can_be_analyzed_and_found(text: str, language: str) -> None:
    """A text's own words as a query always meet the document, in every language and script."""
    terms = document_terms(text, language)
    wanted = query_terms(text, (language,))

    assert set(wanted) <= set(terms)
    assert bool(wanted) == bool(terms)
    assert all(term and "\0" not in term for term in terms)


@given(st.text(max_size=50))
def test_no_strong_term_is_lost(text: str) -> None:
    """A query keeps every strong term with its repeats."""
    strong = [term for term in document_terms(text) if not is_stop_term(term)]

    assert query_terms(text) == (strong or document_terms(text))
