"""Arguments of a question: their checks, and the types of its callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from whence.schema.errors import BadInput
from whence.schema.terms import Triple

_MAX_TIMEOUT_S = 86_400.0

ChunkCallback = Callable[[str, bool], Awaitable[None]]
"""Takes a piece of text and whether it is the last."""
ExplainCallback = Callable[[tuple[Triple, ...], str], Awaitable[None]]
"""Takes the triples of a stage and the IRI of the stage."""
SaveAnswerCallback = Callable[[str, str], Awaitable[None]]
"""Takes the IRI under which the answer is kept, and its text."""


def check_question(query: object, *, max_bytes: int | None = None) -> str:
    """Return a question that can be asked.

    Raises:
        BadInput: It is no text, blank, contains NUL or a lone surrogate, or is longer than `max_bytes`.
    """
    if not isinstance(query, str):
        raise BadInput(f"a question is a text, not a {type(query).__name__}")
    if not query.strip():
        raise BadInput("the question is blank", hint="ask something")
    if "\0" in query:
        raise BadInput("the question holds a NUL character", hint="remove it")
    try:
        size = len(query.encode())
    except UnicodeEncodeError as error:
        raise BadInput(
            "the question is not valid UTF-8", hint="send it encoded as UTF-8"
        ) from error
    if max_bytes is not None and size > max_bytes:
        raise BadInput(
            f"the question has {size} bytes; at most {max_bytes} are taken", hint="ask it shorter"
        )
    return query


def check_limits(doc_limit: int, fetch_limit: int) -> None:
    """Check both limits.

    Raises:
        BadInput: `doc_limit` is below 1 or `fetch_limit` below 0.
    """
    if doc_limit < 1:
        raise BadInput(f"doc_limit must be at least 1, not {doc_limit}")
    if fetch_limit < 0:
        raise BadInput(f"fetch_limit must be at least 0, not {fetch_limit}")


def check_timeout(timeout_s: float) -> None:
    """Check the time for a question.

    Raises:
        BadInput: It is not above 0 and at most a day.
    """
    if not 0.0 < timeout_s <= _MAX_TIMEOUT_S:
        raise BadInput(
            f"the time for a question must be above 0 and at most {_MAX_TIMEOUT_S:g} s, not {timeout_s:g}",
            hint="120 s are the default",
        )
