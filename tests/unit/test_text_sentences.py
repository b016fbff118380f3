"""Sentence splitting and the words that sentences are compared by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.answering.answer_check import check_answer
from whence.schema.passages import Passage
from whence.schema.prompt import Quote
from whence.text.overlap import content_terms, inverse_document_frequencies, overlap
from whence.text.sentences import split_sentences

MARKDOWN = st.lists(
    st.sampled_from(
        ["# A title", "Some words. More words!", "- an item", "1. first", "| a | b |", "|---|---|",
         "```", "code = 1", "> quoted", "", "=====", "---", "Dr. No paid 3.5 euros.", "ends here:",
         "\u4f60\u597d\u3002\u518d\u89c1\u3002", "  - nested. Twice.", "\t", "\r", "...", "a\u2028b. C"]
    )
    | st.text(max_size=20)
).map("\n".join)  # fmt: skip


def cut(text: str) -> list[str]:
    return [text[part.start : part.end] for part in split_sentences(text)]


@given(MARKDOWN)
def test_spans_are_ordered_disjoint_and_trimmed(text: str) -> None:
    """Spans do not overlap, and none is blank or has blanks at its ends."""
    end = 0
    for part in split_sentences(text):
        content = text[part.start : part.end]

        assert end <= part.start < part.end <= len(text)
        assert content == content.strip() != ""
        end = part.end


@given(st.lists(st.sampled_from(["Ships sail.", "Who knows?", "Nobody does!", "It ends here."])))
def test_plain_sentences_are_split(sentences: list[str]) -> None:
    """Sentences joined by blanks are returned unchanged."""
    assert cut(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith met Dr. Jones.", ["Mr. Smith met Dr. Jones."]),
        ("It costs 3.50 euros. Cheap.", ["It costs 3.50 euros.", "Cheap."]),
        ("Use tools, e.g. Hammers. Done.", ["Use tools, e.g. Hammers.", "Done."]),
        ("By J. R. Olsen. In 1931.", ["By J. R. Olsen.", "In 1931."]),
        ("So do I. Then we left.", ["So do I.", "Then we left."]),
        ("Open till 5 p.m. Then closed.", ["Open till 5 p.m.", "Then closed."]),
        ('He said "Stop." She went.', ['He said "Stop."', "She went."]),
        ("see fig. 3 and vol. 2", ["see fig. 3 and vol. 2"]),
        ("Wait... what? Yes.", ["Wait... what?", "Yes."]),
        ("one line\ngoes on. Next", ["one line\ngoes on.", "Next"]),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_ends_of_sentences(text: str, expected: list[str]) -> None:
    """Abbreviations, initials, decimals and line breaks end no sentence."""
    assert cut(text) == expected


def test_markdown_units_have_kinds_headings_and_leads() -> None:
    """Headings, items, tables and code are units with their heading and lead-in."""
    text = (
        "# Fees\n\nYou pay:\n- ten euros\n* or\n  twenty\n\n| Plan | Days |\n|---|---|\n"
        "| Gold | 30 |\n\n```sh\nrun it\n```\nTitle\n=====\nEnd"
    )
    found = [(text[p.start : p.end], p.kind, p.heading, p.lead) for p in split_sentences(text)]

    assert found == [
        ("Fees", "heading", "", ""),
        ("You pay:", "prose", "Fees", ""),
        ("ten euros", "item", "Fees", "You pay:"),
        ("or\n  twenty", "item", "Fees", "You pay:"),
        ("Plan | Days", "table", "Fees", ""),
        ("Gold | 30", "table", "Fees", "Plan | Days"),
        ("run it", "code", "Fees", "You pay:"),
        ("Title", "heading", "", ""),
        ("End", "prose", "Title", ""),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [("loans", "loan"), ("renewed", "renew"), ("booking", "book"), ("libraries", "library"),
     ("stopped", "stop"), ("lost", "lose"), ("Caf\u00e9s", "cafe"), ("pages", "page")],
)  # fmt: skip
def test_forms_of_a_word_match(one: str, other: str) -> None:
    """A question and a sentence match in spite of plural, tense, case and accents."""
    assert content_terms(one) == content_terms(other)


@given(st.text())
def test_terms_are_never_empty(text: str) -> None:
    """No term of any text is empty."""
    assert all(content_terms(text))


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_overlap_is_a_share(wanted: set[str], found: set[str]) -> None:
    """The overlap is in 0 to 1, and 1 exactly when all terms of the question occur."""
    weights = inverse_document_frequencies([wanted, found])
    share = overlap(wanted, found, weights, 1.0)

    assert 0.0 <= share <= 1.0
    assert (share == 1.0) == (bool(wanted) and wanted <= found)


def quotes_of(answer: str, documents: list[str]) -> tuple[Quote, ...]:
    passages = [Passage(chunk_id=str(n), text=text) for n, text in enumerate(documents)]
    return check_answer(answer, passages).quotes


def test_quotes_are_the_sentences_nearest_to_the_claims() -> None:
    """Each marker gets the sentence of its document that is nearest to the claim."""
    documents = [
        "Books are lent for 28 days. Maps stay here.",
        "The fine is 20 cents a day. It is capped at 10 euros.",
    ]
    answer = "You may keep books 28 days [1]. The fine is at most 10 euros. [2] Maps stay [1, 9]."

    assert quotes_of(answer, documents) == (
        Quote(1, "Books are lent for 28 days."),
        Quote(2, "It is capped at 10 euros."),
        Quote(1, "Maps stay here."),
    )


@given(st.text(st.sampled_from("ab .[]123,;\n")), st.lists(st.text(st.sampled_from("ab .\n"))))
def test_quotes_are_verbatim(answer: str, documents: list[str]) -> None:
    """For any text, a quote names an existing document and occurs in it."""
    for quote in quotes_of(answer, documents):
        assert quote.text
        assert quote.text in documents[quote.marker - 1]
