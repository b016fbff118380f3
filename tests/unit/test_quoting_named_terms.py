"""What a question names, and where it occurs."""

from __future__ import annotations

import re

import pytest

from whence.quoting.named_terms import NamedTerm, named_terms, nearest_term


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("default of CONN_POOL_WARMUP?", ["CONN_POOL_WARMUP"]),
        ("How do I call foo_bar()?", ["foo_bar"]),
        ("What does --max-requests do?", ["--max-requests"]),
        ("Is ConnectionPool thread safe?", ["ConnectionPool"]),
        ("core.pushTimeoutSeconds", ["core.pushTimeoutSeconds"]),
        ("What is `os.environ.take` for?", ["os.environ.take"]),
        ("default of fetch-retry-jitter-window", ["fetch-retry-jitter-window"]),
        ("What does the retry option do?", []),
        ("Is it state-of-the-art?", []),
        ("What is ERR-1042?", ["ERR-1042"]),
        ("What did it acquire in FY2023, 2Q23 or FY2023Q1?", []),
        ("Was verdient der Geschäftsführer der GmbH bei der IT-Abteilung?", []),
        ("Was ist z.B. ein Beleg?", []),
        ("What new features were added in Django 9.3?", ["9.3"]),
        ("What changed in Fastify 8?", []),
        ("Are the removed 8 files back?", []),
        ("How do I deploy with Gunicorn?", []),
        ("Does it support LDAP logins?", []),
        ("Bis wann muss ich die Quittung einreichen?", []),
        ("Does it use all CPUs?", []),
        ("Does it speak HTTP/3 or http/2?", ["HTTP/3"]),
        ("In which release was HTTP/2 switched on?", ["HTTP/2"]),
        ("Is users/1 or 1/2 of API/v1 there?", []),
        # Ordinary words may have synonyms; a capital begins a sentence, or every word of a title.
        ("How do I remove a holiday?", []),
        ("Deleting a holiday", []),
        ("It fails. Retrying helps?", []),
        ("Deploy An Application Quickly", []),
        ("a well-known re-queue", []),
        ("Can I take 12 days after 9.5 hours?", []),
        ("How many days are 3 weeks?", []),
        ("", []),
    ],
)
def test_identifiers_and_releases_are_named(question: str, named: list[str]) -> None:
    """Of words that the documents lack an answer must be about identifiers in code form and releases only."""
    words = re.sub(r"[?`()/]", " ", question).split()
    absent = [word for word in words if word not in ("Django", "Fastify", "HTTP", "API")]
    assert [one.text for one in named_terms(question, absent)] == named


def test_a_term_that_the_documents_have_is_not_named() -> None:
    """What the index has is not looked for; a version belongs to the name before it, if one stands there."""
    assert named_terms("default of CONN_MAX_AGE", []) == []
    assert named_terms("what Crate 5.2 is", []) == []
    term = NamedTerm("5.2", "version", "Crate")
    assert named_terms("new in Crate 5.2", ["5.2"]) == [term]
    assert named_terms("new in Crate version 5.2", ["5.2"]) == [term]
    assert named_terms("what is new in 5.2", ["5.2"]) == []


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        (NamedTerm("ConnectionPool", "identifier"), "use redis.connectionpool here", True),
        (NamedTerm("autoreload", "identifier"), "the auto-reload option", True),
        (NamedTerm("9.3", "version", "X"), "since 9.3.1", True),
        (NamedTerm("9.3", "version", "X"), "v9.3", True),
        (NamedTerm("9.3", "version", "X"), "19.3 and 9.31", False),
        (NamedTerm("9.3", "version", "X"), "notes-9.3.md", True),
        (NamedTerm("HTTP/3", "identifier"), "speaks http3", True),
    ],
)
def test_versions_are_found_as_the_beginning_of_longer_ones(
    term: NamedTerm, text: str, found: bool
) -> None:
    """An identifier is found in any case and in a longer one; a version is no part of another number."""
    assert term.occurs_in(text) is found


def test_the_nearest_term_has_parts_in_common() -> None:
    """The nearest identifier shares a word, or there is none; of versions it is the greatest of the product."""
    texts = ["CONN_MAX_AGE and DATA_UPLOAD_SIZE", "X 4.2, then x 5.10 and X 5.9 on Y 7.1"]
    assert nearest_term(NamedTerm("CONN_MIN_AGE", "identifier"), texts) == "CONN_MAX_AGE"
    assert nearest_term(NamedTerm("zebra_finch", "identifier"), texts) == ""
    assert nearest_term(NamedTerm("9.3", "version", "X"), texts) == "5.10"
    assert nearest_term(NamedTerm("9.3", "version", "Z"), texts) == ""
