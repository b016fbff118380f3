"""What every store must do, as tests: subclass `StoreSuite` and provide a `store` fixture.

```python
class TestMyStore(StoreSuite):
    @pytest.fixture
    async def store(self):
        async with open_my_store() as store:
            yield store
```

Needs pytest, pytest-asyncio in auto mode and hypothesis.
"""

from __future__ import annotations

import pytest

# Before the suites are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    "whence.testing.change_log_suite",
    "whence.testing.store_document_suite",
    "whence.testing.store_erasure_suite",
    "whence.testing.store_renaming_suite",
    "whence.testing.store_reader_suite",
    "whence.testing.store_search_suite",
    "whence.testing.store_source_suite",
    "whence.testing.store_text_suite",
    "whence.testing.store_trace_suite",
    "whence.testing.vectors_suite",
)

from whence.testing.change_log_suite import ChangeLogSuite  # noqa: E402
from whence.testing.store_document_suite import DocumentSuite  # noqa: E402
from whence.testing.store_erasure_suite import ErasureSuite  # noqa: E402
from whence.testing.store_reader_suite import ReaderSuite  # noqa: E402
from whence.testing.store_renaming_suite import RenamingSuite  # noqa: E402
from whence.testing.store_search_suite import SearchSuite  # noqa: E402
from whence.testing.store_source_suite import SourceSuite  # noqa: E402
from whence.testing.store_text_suite import DocumentTextSuite, TokenCodeSuite  # noqa: E402
from whence.testing.store_trace_suite import TraceSuite  # noqa: E402
from whence.testing.vectors_suite import VectorSuite  # noqa: E402


class StoreSuite(
    DocumentSuite,
    ErasureSuite,
    DocumentTextSuite,
    TokenCodeSuite,
    SearchSuite,
    RenamingSuite,
    SourceSuite,
    VectorSuite,
    ChangeLogSuite,
    TraceSuite,
    ReaderSuite,
):
    """Behaviours of a store; a subclass provides the `store` fixture."""
