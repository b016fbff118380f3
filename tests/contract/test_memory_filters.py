"""The store in memory narrows by metadata as every store does."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.filter_suite import FilterSuite


class TestMemoryFilters(FilterSuite):
    """All behaviours of the suite."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        """Return an empty store."""
        return MemoryStore()
