"""The store in memory keeps to the rules of every store."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
