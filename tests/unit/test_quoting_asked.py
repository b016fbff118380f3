"""What is read from a question."""

from __future__ import annotations

import time

import pytest

from whence.quoting.asked import read_question

_LENGTH = 20_000
#: Texts that make an expression with two overlapping repetitions take the square of their length.
HOSTILE = ("a", "_a", "a_", "aB", "A", "1.", "a.b", "-", "`a", "Foo ", '"')


@pytest.mark.parametrize("part", HOSTILE)
def test_reading_a_question_is_linear_in_its_length(part: str) -> None:
    """A text of four times the length takes at most about four times as long; quadratic reading takes 16."""

    def seconds(length: int) -> float:
        text = part * (length // len(part)) + "-"
        spent = []
        for _ in range(3):
            started = time.process_time()
            read_question(text)
            spent.append(time.process_time() - started)
        return min(spent)

    assert seconds(4 * _LENGTH) < 10 * seconds(_LENGTH) + 0.02


def test_names_of_code_are_symbols_whole() -> None:
    """Settings, functions, options and dotted names are read as written, without what surrounds them."""
    asked = read_question(
        "Do MAX_SIZE, __init__, --flag, foo.bar::baz, fooBar and my-long-name differ?"
    )

    assert asked.symbols == (
        "max_size", "__init__", "--flag", "foo.bar::baz", "foobar", "my-long-name",
    )  # fmt: skip
