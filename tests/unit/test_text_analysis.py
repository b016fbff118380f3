"""The analyzer yields the same terms for documents and queries, for any text and language."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from whence.text.analysis import (
    added_terms,
    document_terms,
    field_length,
    is_stop_term,
    parse_query,
)
from whence.text.normalization import LANGUAGES, QUESTION_WORDS
from whence.text.values import find_values

PIECES = [
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
ascii_texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def query_terms(text: str, languages: tuple[str, ...] = ("english",)) -> list[str]:
    return [term for word in parse_query(text, languages)[0] for term in dict.fromkeys(word.terms)]


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
        ("the .NET runtime", ["the", ".net", "net", "runtim"]),
        ("wait...then", ["wait", "then"]),
        ("字", ["字"]),
        ("\uff21\uff22\uff23", ["abc"]),
        ("this is", ["this", "is"]),
        ("Donau\u00addampf zero\u200bwidth", ["donaudampf", "zerowidth"]),
        (
            "\u0627\u0644\u0645\u064f\u062f\u0650\u064a\u0631",
            ["\u0627\u0644\u0645\u062f\u064a\u0631"],
        ),
        ("\u092a\u0930\u093f\u0923\u093e\u092e", ["\u092a\u0930\u093f\u0923\u093e\u092e"]),
        ("\u304c\u30ac", ["\u304c\u30ac"]),
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
        ("Which license does it name?", ["licens", "name"]),
        ("What is it?", ["what"]),
        ("where is the WHERE clause", ["where", "claus"]),
        ("C", ["c"]),
        ("?!", []),
    ],
)
def test_stop_terms_are_dropped_unless_nothing_else_is_left(
    query: str, expected: list[str]
) -> None:
    """Stop words and words that only ask never empty a query; in capitals they are names."""
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
def test_an_identifier_is_a_single_word(query: str, is_one: bool) -> None:
    """An identifier with all its parts is a single word, also beside stop words."""
    assert parse_query(query)[1] == is_one


def test_a_query_is_stemmed_in_every_language_of_the_collection() -> None:
    """A document of any of the languages can be found."""
    terms = query_terms("Häuser", ("english", "german"))

    assert set(document_terms("Haus", "german")) <= set(terms)


@given(st.text(max_size=200), st.sampled_from(sorted(LANGUAGES)))
@example("S", "porter")
def test_any_text_can_be_analyzed_and_found(text: str, language: str) -> None:
    """A text's own words as a query always meet the document, in every language and script."""
    terms = document_terms(text, language) + added_terms(text, language)
    wanted = query_terms(text, (language,))

    assert set(wanted) <= set(terms)
    assert bool(wanted) == bool(terms)
    assert all(term and "\0" not in term for term in terms)


@given(st.lists(st.sampled_from(["how", "How", "the", "a", "HOW", "index", "Size"]), max_size=6))
def test_a_query_keeps_all_terms_but_those_without_a_topic(words: list[str]) -> None:
    """Stop words go first, then words that ask; of any other the query keeps each repeat."""
    topic = [one.lower() for one in words if one in ("HOW", "index", "Size")]
    asking = [one.lower() for one in words if one in ("how", "How")]

    assert query_terms(" ".join(words)) == (topic or asking or [one.lower() for one in words])


@given(st.one_of(ascii_texts, st.text(max_size=200)))
def test_a_query_keeps_all_terms_but_stop_terms(text: str) -> None:
    """Without words that ask and values, a query keeps the terms that are no stop terms, in order."""
    assume(not find_values(text))
    terms = document_terms(text)
    assume(QUESTION_WORDS.isdisjoint(terms))

    kept = [one for one in terms if not is_stop_term(one)]
    assert Counter(query_terms(text)) <= Counter(terms)
    assert set(query_terms(text)) == set(kept or terms)


@given(st.one_of(ascii_texts, st.text(max_size=60), st.text("aA1_.#+: \u00e9\u4e00", max_size=40)))
@example("a.C# C# C++ C+++ _C# 1C# C#x C++1 a::b#C++ F#. c++)")
@example("C\n# C_# \u212b C#")
def test_ascii_text_has_the_terms_of_unicode_text(text: str) -> None:
    """The fast path for ASCII yields the terms of the general one."""
    assert document_terms(f"{text} \u00e9") == [*document_terms(text), "e"]


@given(ascii_texts)
def test_field_length_leaves_stop_terms_out(text: str) -> None:
    """The length counts each occurrence of a term that is not a stop term."""
    terms = document_terms(text)

    assert field_length(Counter(terms)) == sum(not is_stop_term(term) for term in terms)


@pytest.mark.parametrize(
    ("question", "language", "expected"),
    [
        ("Wie lange ist die Probezeit?", "german", ["probezeit"]),
        ("Wie lange ist die Probezeit?", "english", ["probezeit"]),
        (
            "\u9001\u6599\u306f\u3044\u304f\u3089\u3067\u3059\u304b\uff1f",
            "japanese",
            ["\u9001\u6599"],
        ),
        ("mit license", "english", ["mit", "licens"]),
    ],
)
def test_words_that_ask_are_dropped_in_every_language(
    question: str, language: str, expected: list[str]
) -> None:
    """Words without a topic are left out in the language of the question, also where no document has it."""
    assert query_terms(question, (language,)) == expected


@pytest.mark.parametrize(
    ("written", "asked", "language"),
    [
        ("repaired on 2026-02-03", "3 February 2026", "english"),
        ("on February 3rd, 2026", "03.02.2026", "english"),
        ("am 3. Februar 2026", "2026-02-03", "german"),
        ("2026\u5e742\u67083\u65e5", "3 February 2026", "japanese"),
        ("1,250,000 euro", "1250000", "english"),
        ("\u4e88\u7b97\u306f1,250,000\u5186\u3067\u3059", "1250000", "japanese"),
        ("\u5e74\u53611,980\u5143", "1980", "chinese"),
        ("\u7ea63,5\u516c\u65a4", "3.5", "chinese"),
        ("1250000 euro", "1 250 000", "english"),
        ("1.250.000,50", "1,250,000.50", "german"),
        ("12,50,000", "1250000", "english"),
        ("3,5 %", "3.5", "german"),
        ("second quarter of 2023", "2Q23", "english"),
        ("fiscal 2023", "FY2023", "english"),
        (
            "\u0663 \u0641\u0628\u0631\u0627\u064a\u0631 \u0662\u0660\u0662\u0666",
            "2026-02-03",
            "arabic",
        ),
    ],
)
def test_values_meet_in_every_writing(written: str, asked: str, language: str) -> None:
    """Each required word of a date, period or number is a term of a text that writes it in another way."""
    terms = {*document_terms(written, language), *added_terms(written, language)}
    words, _ = parse_query(asked, (language,))

    assert {word.terms[0] for word in words if word.required} <= terms
