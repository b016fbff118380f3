"""Validation suites in YAML or JSON, read strictly: an unknown key is an error."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from whence.evaluation.files import parse_data, read_text, to_struct
from whence.schema.errors import ConfigError

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

    query_text: str
    expected_topics: Annotated[list[Text], msgspec.Meta(min_length=1)] | None = None
    """Words that must all occur in the results; None when nothing is said about it."""
    min_results: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    source_url_pattern: str | None = None
    """Regular expression that some result's address must match, anywhere in it."""


class ValidationSuite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queries of one validation, in order."""

    queries: Annotated[list[TestQuery], msgspec.Meta(min_length=1)]


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
    return parse_suite(file.read_text("utf-8"), "handbook.yaml")
