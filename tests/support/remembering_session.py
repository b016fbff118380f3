"""Keeps what the shipped model computes of a text, for processes that are forked one after the other."""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.models.onnx_sessions import Session
from whence.models.weights import DIMENSION


class _SharedRows:
    """Arrays of float32 by key, in memory that forked processes share: one run at a time, any of its threads.

    When the memory is full, what is added is not kept.
    """

    def __init__(self) -> None:
        self._values = np.frombuffer(mmap.mmap(-1, 256 << 20), np.float32)
        self._index = np.frombuffer(mmap.mmap(-1, 1 << 20), np.uint64).reshape(-1, 2)
        self._used = np.frombuffer(mmap.mmap(-1, 16), np.uint64)
        self._starts: dict[int, int] = {}
        self._lock = threading.Lock()

    def get(self, key: int, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
        """Return what was added with a key by this or a former run."""
        with self._lock:
            rows, known = int(self._used[0]), len(self._starts)
            self._starts.update(self._index[known:rows].tolist())
            start = self._starts.get(key)
        end = 0 if start is None else start + int(np.prod(shape))
        return None if start is None else self._values[start:end].reshape(shape)

    def add(self, key: int, row: NDArray[np.float32]) -> None:
        """Keep an array; the key must be new."""
        with self._lock:
            rows, start = self._used.tolist()
            if rows < len(self._index) and start + row.size <= self._values.size:
                self._values[start : start + row.size] = row.ravel()
                self._index[rows] = key, start
                self._used[:] = rows + 1, start + row.size


class RememberingSession:
    """A session of the shipped model that computes each text once for this process and its forks.

    Batches have texts of one length, and what is computed of a text does not depend on the others; tests of the
    model show both.

    Args:
        session: The session that computes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows = _SharedRows()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, names: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
        """See `Session.run`."""
        ids = inputs["input_ids"]
        found = [
            [self._rows.get(self._key(name, row), self._shape(name, row)) for name in names]
            for row in ids
        ]
        missing = [place for place, rows in enumerate(found) if any(row is None for row in rows)]
        if missing:
            computed = self._session.run(names, {"input_ids": ids[missing]})
            for place, rows in zip(missing, zip(*computed, strict=True), strict=True):
                for name, former, row in zip(names, found[place], rows, strict=True):
                    if former is None:
                        self._rows.add(self._key(name, ids[place]), row)
                found[place] = list(rows)
        return [np.stack(rows) for rows in zip(*found, strict=True)]

    @staticmethod
    def _shape(name: str, ids: NDArray[np.int64]) -> tuple[int, ...]:
        return (DIMENSION,) if name == "vector" else (len(ids), DIMENSION)

    @staticmethod
    def _key(name: str, ids: NDArray[np.int64]) -> int:
        digest = hashlib.blake2b(name.encode() + ids.tobytes(), digest_size=8).digest()
        return int.from_bytes(digest)
