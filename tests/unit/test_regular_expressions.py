"""No text makes a regular expression of the source take more than linear time."""

from __future__ import annotations

import re

import pytest
from tests.support.regular_expressions import Expression, expressions, slow_text

from whence.schema.filters import parse_filter_options

#: Patterns that are made when they are needed, and why they are bounded.
MADE_LATER = {
    # The author of a suite runs it himself, on addresses of passages.
    "evaluation/validation/checks.py: re.search(pattern, one.source_url or '')",
    "evaluation/validation/suite_file.py: re.compile(pattern)",
    # One of two constants.
    (
        "ingest/front_matter.py: re.compile('(?m)^(?:---|\\\\.\\\\.\\\\.)[ \\\\t]*$' if fence == '---'"
        " else '(?m)^\\\\+\\\\+\\\\+[ \\\\t]*$')"
    ),
    # Escaped words with one character between them.
    "ingest/markdown_inline.py: re.compile(pattern)",
    # The escaped special tokens of a tokenizer.
    "models/local_embedder.py: re.compile('|'.join(map(re.escape, special)) or '(?!)')",
    # The escaped name of a file, and an ending of bounded length.
    "models/hub.py: re.compile(re.escape(graph) + '[._]data(?:[_-]?\\\\d{1,5})?\\\\Z')",
    # Words of a list of ours, at the beginning of a line.
    "text/replies.py: re.match(head, line, re.IGNORECASE)",
}


def test_regular_expressions_are_linear() -> None:
    """Texts made from each pattern of the source take time in proportion to their size."""
    found, unknown = expressions()

    assert len(found) > 200
    assert set(unknown) == MADE_LATER
    slow = {one.place: text for one in found if (text := slow_text(one))}
    assert not slow


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+\Z", "match"),
        (r"\s+\Z", "search"),
        (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", "match"),
        (r"(?:<!--.*?-->\s*)*<html", "match"),
    ],
)
def test_slow_expressions_are_found(pattern: str, method: str) -> None:
    """The check finds exponential and quadratic patterns."""
    expression = Expression("here", pattern, int(re.DOTALL), frozenset([method]))

    assert slow_text(expression)


def test_a_long_number_is_a_filter() -> None:
    """A value of many digits and a letter is compared as text."""
    text = "1" * 20_000 + "x"

    assert parse_filter_options([f"size={text}"]) == {"size": text}
