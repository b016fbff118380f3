"""Hints over HTTP and MCP: what only the command line has is left out."""

from __future__ import annotations

import pytest

from whence.operations.ask import Ask
from whence.operations.search import Search
from whence.schema.errors import BadInput, NotFound, PromptTooLong, ServerRefused, WhenceError
from whence.surfaces.http.failures import error_for
from whence.surfaces.http.request_hints import hint_of, request_hint


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        ("ask something", "ask something"),
        ("index something first; `whence collections` lists all", "index something first"),
        ("run whence reembed --embedder NAME", ""),
        ("set WHENCE_WRITER, or leave --deep out", "leave `deep` out"),
        ("repeat it, or set WHENCE_KEEP; it is slow", "repeat it; it is slow"),
        ("use whence://COLLECTION/DOCUMENT", "use whence://COLLECTION/DOCUMENT"),
        ("", ""),
    ],
)
def test_parts_of_a_hint_that_fit_a_request_are_kept(hint: str, wanted: str) -> None:
    """Commands, options and settings go with their part of the hint; options that are fields become these."""
    assert request_hint(hint) == wanted


@pytest.mark.parametrize("path", ["/v1/search", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "error",
    [PromptTooLong("too long"), NotFound("no answer", hint="`whence ask` prints the id")],
)
def test_no_error_names_the_command_line(path: str, error: WhenceError) -> None:
    """Both forms of error documents have the hint for requests."""
    text = str(error_for(path, error, 400))
    assert "whence " not in text
    assert "--" not in text


@pytest.mark.parametrize("blank", [" \u200b", "\u00ad\u2003", "\ufeff\u200d\u2066"])
def test_what_nobody_sees_is_blank(blank: str) -> None:
    """A question or query of invisible characters is refused as an empty one is, before anything starts."""
    for asked in (Ask(blank), Search(blank)):
        with pytest.raises(BadInput, match=r"blank|empty"):
            asked.check()
    Ask(f"{blank}?").check()


def test_a_fault_that_settings_mend_names_who_has_them() -> None:
    """Where a server's settings are at fault, a request that cannot change them is told whom to ask."""
    assert "runs this server" in hint_of(
        ServerRefused("wrong key", hint="set WHENCE_WRITER_API_KEY")
    )
    assert not hint_of(NotFound("no answer", hint="`whence ask` prints the id"))
