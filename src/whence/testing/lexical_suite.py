"""What the lexical search of every store must do, as tests: subclass `LexicalSuite`, provide a `store` fixture.

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

import pytest

# Before the suites are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    "whence.testing.lexical_query_suite", "whence.testing.lexical_score_suite"
)

from whence.testing.lexical_query_suite import LexicalQuerySuite  # noqa: E402
from whence.testing.lexical_score_suite import LexicalScoreSuite  # noqa: E402


class LexicalSuite(LexicalScoreSuite, LexicalQuerySuite):
    """Behaviours of lexical search; a subclass provides the `store` fixture."""
