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
        ("What is /quantum used for?", ["quantum"]),
        ("What does the videoembed directive do?", ["videoembed"]),
        ("What does the retry option do?", []),
        ("What new features were added in Django 9.3?", ["9.3"]),
        ("What changed in Fastify 8?", ["8"]),
        ("What does fastify 8 remove?", ["8"]),
        ("Are the removed 8 files back?", []),
        ("How do I deploy with Gunicorn?", ["Gunicorn"]),
        ("Does it support LDAP logins?", ["LDAP"]),
        ("Does it use all CPUs?", []),
        ("Does it speak HTTP/3 or http/2?", ["HTTP/3", "http/2"]),
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
def test_identifiers_releases_and_names_are_named(question: str, named: list[str]) -> None:
    """Of words that the documents lack an answer must be about identifiers, releases and names only."""
    words = re.sub(r"[?`()/]", " ", question).split()
    absent = [word for word in words if word not in ("Django", "Fastify", "HTTP", "API")]
    assert [one.text for one in named_terms(question, absent)] == named


def test_a_term_that_the_documents_have_is_not_named() -> None:
    """What the index has needs no search; a release is always looked for in passages."""
    assert named_terms("default of CONN_MAX_AGE", []) == []
    assert named_terms("what Django 5.2 is", []) == []
    assert named_terms("new in Django 5.2", []) == [NamedTerm("5.2", "version", "Django")]
    assert named_terms("new in Django version 5.2", []) == [NamedTerm("5.2", "version", "Django")]
    assert named_terms("what is new in 5.2", []) == [NamedTerm("5.2", "version")]
    product = "semantic-release"
    assert named_terms(f"what changed in {product} 38", []) == [NamedTerm("38", "version", product)]


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        (NamedTerm("ConnectionPool", "identifier"), "use redis.connectionpool here", True),
        (NamedTerm("autoreload", "identifier"), "the auto-reload option", True),
        (NamedTerm("9.3", "version", "X"), "since 9.3.1", True),
        (NamedTerm("9.3", "version", "X"), "v9.3", True),
        (NamedTerm("9.3", "version", "X"), "19.3 and 9.31", False),
        (NamedTerm("8", "version", "Fastify"), "added in fastify 8", True),
        (NamedTerm("8", "version", "Fastify"), "in v8.1", True),
        (NamedTerm("8", "version", "Fastify"), "8 plugins of fastify 18", False),
        (NamedTerm("9.3", "version", "X"), "X 9.1, 9.2 and 9.3", True),
        (NamedTerm("9.3", "version", "X"), "new in 9.3", True),
        (NamedTerm("9.3", "version", "X"), "# 9.3 (2024)", True),
        (NamedTerm("9.3", "version", "X"), "# 9.3 Release notes", True),
        (NamedTerm("9.3", "version", "X"), "9.3 brings a new parser.", True),
        (NamedTerm("9.3", "version", "X"), "## 9.3 Options of X", False),
        (NamedTerm("9.3", "version", "X"), "9.3.1 Options of X", False),
        (NamedTerm("9.3", "version", "X"), 'see "9.3. Options of X"', False),
        (NamedTerm("9.3", "version", "X"), "Guide > 9.3: What can fail", False),
        (NamedTerm("9.3", "version", "X"), "Releases > 9.3: What's new", True),
        (NamedTerm("9.3", "version", "X"), "| options | 9.3 Options |", False),
        (NamedTerm("9.3", "version", "X"), "notes-9.3.md", True),
        (NamedTerm("9.3", "version", "X"), "Y 9.3", False),
        (NamedTerm("9.3", "version", "X"), "Y3.6 9.3 (`y3`)", False),
        (NamedTerm("9.3", "version", "X"), "Y 9.1, 9.2 and 9.3", False),
        (NamedTerm("9.3", "version", "X"), "since Y3-9.3.", False),
        (NamedTerm("9.3", "version", "X"), "x-9.3", True),
        (NamedTerm("14", "version", "npm"), 'tap@"^14.10.8"', False),
        (NamedTerm("9.3", "version", ""), "Y 9.3", True),
        (NamedTerm("14", "version", "npm"), "nyc@14.1.1", False),
        (NamedTerm("14", "version", "npm"), "npm@14.1.1", True),
        (NamedTerm("14", "version", "npm"), "upgrade to v14", True),
        (NamedTerm("14", "version", "npm"), "in 14 days", False),
    ],
)
def test_versions_are_found_as_the_beginning_of_longer_ones(
    term: NamedTerm, text: str, found: bool
) -> None:
    """An identifier is found in any case and in a longer one; a version is no part of another number."""
    assert term.occurs_in(text) is found


def test_the_nearest_term_has_parts_in_common() -> None:
    """The nearest identifier shares a word, or there is none; of versions it is the greatest of the product."""
    texts = [
        "CONN_MAX_AGE and DATA_UPLOAD_SIZE",
        "X 4.2, then x 5.10 and X 5.9 on Y 7.1 > X\n9.3 Use",
    ]
    assert nearest_term(NamedTerm("CONN_MIN_AGE", "identifier"), texts) == "CONN_MAX_AGE"
    assert nearest_term(NamedTerm("zebra_finch", "identifier"), texts) == ""
    assert nearest_term(NamedTerm("9.3", "version", "X"), texts) == "5.10"
