"""In the store in memory hidden documents change nothing of what a reader gets."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.hidden_suite import HiddenSuite


class TestMemoryHidden(HiddenSuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
