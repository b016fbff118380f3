"""Generates a suite from the headings of a collection: a search for a section must find it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from whence.evaluation.searcher import MIN_QUERY
from whence.evaluation.validation.suite import TestQuery, ValidationSuite
from whence.evaluation.validation.target import Section
from whence.schema.errors import NotFound

#: Queries of a generated suite, at least.
MIN_QUERIES = 5
_WINDOW = 12
_WORD = re.compile(r"\w+")


def generate_suite(sections: Sequence[Section], count: int = 10) -> ValidationSuite:
    """Return a suite of at least `MIN_QUERIES` and at most `count` queries.

    A query has twelve words: the section's path and the beginning of its text, since a heading such as
    `Introduction` occurs in many places. If there are too few sections, their texts make more queries.

    Raises:
        NotFound: There is no text to make queries from.
    """
    found: dict[str, TestQuery] = {}
    for query in (*_by_heading(sections), *_by_text(sections)):
        if len(found) >= count or (len(found) >= MIN_QUERIES and query.expected_topics is None):
            break
        found.setdefault(query.query_text.casefold(), query)
    if not found:
        raise NotFound(
            "the collection has nothing to ask about that these rights may see",
            hint="index something into it, or give --acl, --label or --clearance",
        )
    queries = list(found.values())
    # In a collection of a few words, queries are repeated.
    repeats = -(-MIN_QUERIES // len(queries))
    return ValidationSuite(queries=(queries * repeats)[: max(len(queries), MIN_QUERIES)])


def _by_heading(sections: Sequence[Section]) -> Iterator[TestQuery]:
    for section in sections:
        path = list(dict.fromkeys(_words(section.section_path)))
        if not path:
            continue
        body = _words(_below_heading(section))
        text = " ".join([*path[:_WINDOW], *body[: max(0, _WINDOW - len(path))]])
        topic = " ".join(_words(section.heading)[:_WINDOW]) or text
        if len(text) >= MIN_QUERY:
            yield _query(text, section, topic)


def _by_text(sections: Sequence[Section]) -> Iterator[TestQuery]:
    for section in sections:
        words = _words(section.text)
        for start in range(0, len(words), _WINDOW):
            text = " ".join(words[start : start + _WINDOW])
            if len(text) >= MIN_QUERY:
                yield _query(text, section, None)


def _query(text: str, section: Section, topic: str | None) -> TestQuery:
    return TestQuery(
        query_text=text,
        expected_topics=None if topic is None else [topic],
        min_results=1,
        source_url_pattern=f"^{re.escape(section.source_url)}$" if section.source_url else None,
    )


def _below_heading(section: Section) -> str:
    first, _, rest = section.text.partition("\n")
    return rest if set(_words(first)) == set(_words(section.heading)) else section.text


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
