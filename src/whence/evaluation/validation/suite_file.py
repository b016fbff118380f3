"""Validation suites in YAML or JSON, read strictly: an unknown key is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from whence.evaluation.files import parse_data, read_text, to_struct
from whence.evaluation.searcher import Passage
from whence.evaluation.suite import MIN_QUERY, Query, Suite
from whence.schema.errors import ConfigError, NotFound

#: Documents of the example handbook that the shipped suite asks about; a collection with all of them is it.
SHIPPED_DOCUMENTS = (
    "incidents/2025-02-harbour-outage.md",
    "people/annual-leave.md",
    "products/barge.md",
    "products/keel-battery.md",
    "releases/harbour-4.2.md",
    "security/passwords.md",
    "travel/hotel-limits.md",
    "travel/travel-policy.md",
)

_LONGEST_PATTERN = 1000
_HINT = "correct the suite"

Text = Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]


class TestQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query and what it should find."""

    # Keeps pytest from taking it for tests of its own.
    __test__ = False

    text: str = msgspec.field(name="query_text")
    expected_topics: Annotated[list[Text], msgspec.Meta(min_length=1)] | None = None
    min_results: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    source_url_pattern: str | None = None


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
#: At most a day: more is a mistake.
Milliseconds = Annotated[float, msgspec.Meta(ge=0.0, le=86_400_000.0)]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a validation: the key `limits` of a suite. Latencies are in milliseconds."""

    threshold: Share = 0.5
    """Score that the best result of a query must reach."""
    min_pass: Share = 0.8
    """Share of the queries that must pass."""
    max_p95_ms: Milliseconds = 3000.0
    """The 95th percentile must be below this: of single searches, in a sequence, and under load."""
    max_mean_ms: Milliseconds = 2000.0
    """The mean over the queries must be below this."""
    max_query_ms: Milliseconds = 5000.0
    """A query that takes longer fails."""
    max_errors: Share = 0.0
    """Share of the searches in a sequence or under load that may fail or be incomplete."""
    max_changed: Share = 0.0
    """Share of them that may have other results than before; more than 0 while documents are indexed."""
    max_slowdown: Annotated[float, msgspec.Meta(ge=1.0, le=1e6)] = 2.0
    """Several searches in a row of a sequence may take this many times as long as before."""
    slowdown_ms: Milliseconds = 100.0
    """Smaller differences are no slow-down: a tenth of a second is the most that a person perceives as
    immediate (Miller, "Response time in man-computer conversational transactions", 1968)."""
    unique_sections: bool = False
    """True when no two results of a query may have the same section path."""


class ValidationSuite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queries of one validation, in order, and its limits."""

    queries: Annotated[list[TestQuery], msgspec.Meta(min_length=1)]
    limits: Thresholds = Thresholds()

    @property
    def suite(self) -> Suite:
        """The queries as they are asked."""
        queries = msgspec.convert(self.queries, list[Query], from_attributes=True)
        return Suite(queries=queries)


def load_suite(path: Path) -> ValidationSuite:
    """Read a suite; `.yaml` and `.yml` are YAML, other files are JSON.

    Raises:
        ConfigError: A key is missing, unknown, of another type or out of range, a list is empty, or a
            pattern is not a regular expression; the key is named.
        BadInput: The file cannot be read.
    """
    return parse_suite(read_text(path), str(path))


def parse_suite(text: str, source: str) -> ValidationSuite:
    """Read a suite from its text; otherwise as `load_suite`."""
    suite = to_struct(parse_data(text, source, hint=_HINT), ValidationSuite, source, hint=_HINT)
    for number, query in enumerate(suite.queries):
        _check_pattern(f"{source}: queries[{number}].source_url_pattern", query.source_url_pattern)
    return suite


def _check_pattern(where: str, pattern: str | None) -> None:
    if pattern is None:
        return
    if len(pattern) > _LONGEST_PATTERN:
        raise ConfigError(f"{where} has more than {_LONGEST_PATTERN} characters")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{where} is not a regular expression: {error}",
            hint="escape special characters with \\",
        ) from error


def shipped_suite() -> ValidationSuite:
    """Return the suite for the example handbook."""
    file = resources.files("whence.evaluation.validation") / "suites" / "handbook.yaml"
    return parse_suite(file.read_bytes().decode(), "handbook.yaml")


#: Queries of a generated suite, at least.
MIN_QUERIES = 5
_WINDOW = 12
_WORD = re.compile(r"\w+")


def generate_suite(sections: Sequence[Passage], count: int = 10) -> ValidationSuite:
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
        found.setdefault(query.text.casefold(), query)
    if not found:
        raise NotFound(
            "the collection has nothing to ask about that these rights may see",
            hint="index something into it, or give --acl, --label or --clearance",
        )
    queries = list(found.values())
    # In a collection of a few words, queries are repeated.
    repeats = -(-MIN_QUERIES // len(queries))
    return ValidationSuite(queries=(queries * repeats)[: max(len(queries), MIN_QUERIES)])


def _by_heading(sections: Sequence[Passage]) -> Iterator[TestQuery]:
    for section in sections:
        path = list(dict.fromkeys(_words(section.section_path or "")))
        if not path:
            continue
        body = _words(_below_heading(section))
        text = " ".join([*path[:_WINDOW], *body[: max(0, _WINDOW - len(path))]])
        topic = " ".join(_words(section.heading or "")[:_WINDOW]) or text
        if len(text) >= MIN_QUERY:
            yield _query(text, section, topic)


def _by_text(sections: Sequence[Passage]) -> Iterator[TestQuery]:
    for section in sections:
        words = _words(section.text)
        for start in range(0, len(words), _WINDOW):
            text = " ".join(words[start : start + _WINDOW])
            if len(text) >= MIN_QUERY:
                yield _query(text, section, None)


def _query(text: str, section: Passage, topic: str | None) -> TestQuery:
    return TestQuery(
        text=text,
        expected_topics=None if topic is None else [topic],
        min_results=1,
        source_url_pattern=f"^{re.escape(section.source_url)}$" if section.source_url else None,
    )


def _below_heading(section: Passage) -> str:
    first, _, rest = section.text.partition("\n")
    return rest if set(_words(first)) == set(_words(section.heading or "")) else section.text


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
