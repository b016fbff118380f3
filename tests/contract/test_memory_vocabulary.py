"""The store in memory knows the words of its chunks as every store does."""

from __future__ import annotations

import pytest

from whence.store.memory.store import MemoryStore
from whence.testing.vocabulary_suite import VocabularySuite


class TestMemoryVocabulary(VocabularySuite):
    """All behaviours, in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
