"""The store in memory knows the names of symbols as every store does."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.symbols_suite import SymbolsSuite


class TestMemorySymbols(SymbolsSuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
