"""The store in memory knows names as every store does."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.passages_suite import PassagesSuite


class TestMemoryNames(PassagesSuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
