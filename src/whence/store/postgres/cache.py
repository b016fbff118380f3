"""The one cache of the store: values derived from a version of a collection, bounded by bytes.

Its keys contain the version that a value was derived from, so nothing in it becomes stale: after a write the
keys are others, and the old values are evicted. Rights are never taken from it. Every ranking ends with a
statement that applies the reader's rights and checks the version, see `collection_version`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

#: Bytes of a key and its bookkeeping, about.
_ENTRY_BYTES = 300


class ByteCache:
    """A mapping that evicts what was used least recently.

    Args:
        max_bytes: Size of all values and keys, at most.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Any:
        """Return a value, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: Any, size: int = 0) -> None:
        """Store a value of `size` bytes, unless it is larger than the whole cache."""
        self.drop(key)
        size += _ENTRY_BYTES
        if size > self._max_bytes:
            return
        self._values[key] = (value, size)
        self.size += size
        while self.size > self._max_bytes:
            self.drop(next(iter(self._values)))

    def drop(self, key: Hashable) -> None:
        """Remove a value if it is there."""
        found = self._values.pop(key, None)
        if found is not None:
            self.size -= found[1]
