"""The lexical leg of the store in memory keeps to the rules of every store."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.lexical_suite import LexicalSuite


class TestMemoryLexical(LexicalSuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
