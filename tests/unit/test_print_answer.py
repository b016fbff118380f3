"""What `whence ask` prints of an answer."""

from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from whence.schema.document_rag import Answer
from whence.surfaces.cli.ask import print_answer
from whence.testing.samples import sample


def test_citations_are_in_the_order_of_the_text() -> None:
    """A marker has one line, that of its first quote; lines are in the order in which markers come."""
    answer = sample(Answer)
    quote = replace(
        answer.citations[0],
        source_url="",
        outdated="",
        added=False,
        document_date=None,
        changed=None,
    )
    quotes = [(2, "First"), (1, "Second"), (3, "Third"), (2, "Fourth")]
    cited = tuple(replace(quote, marker=marker, heading=heading) for marker, heading in quotes)
    out = io.StringIO()

    print_answer(replace(answer, citations=cited), Console(file=out, width=200))

    lines = [line.split() for line in out.getvalue().splitlines() if line.startswith("  [")]
    printed = [(line[0], line[-1]) for line in lines]
    assert printed == [("[2]", "First"), ("[1]", "Second"), ("[3]", "Third")]
