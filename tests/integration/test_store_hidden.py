"""On PostgreSQL hidden documents change nothing of what a reader gets."""

from __future__ import annotations

import pytest

from whence.store.postgres.store import PostgresStore
from whence.testing.hidden_suite import HiddenSuite

pytestmark = pytest.mark.postgres


class TestPostgresHidden(HiddenSuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store
