"""Queries of several callers, computed together while they wait for a thread.

A thread that is free takes the query that waits longest and others of its length in tokens. So no query waits
for others, nothing is padded, and a vector does not depend on what is computed with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, NamedTuple

from whence.models.onnx_sessions import Session, Workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Most queries of one run. 16 of 12 tokens take half the time that they take one by one.
_MOST: Final = 16


class _Query(NamedTuple):
    session: Session
    ids: Sequence[int]
    vector: Future[NDArray[np.float32]]


class QueryQueue:
    """Computes single texts in worker threads; safe to call from several event loops.

    Each query is one job of the threads, as any other work is, and a job computes more than its own query. So
    queries and long calls take turns.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._waiting: list[_Query] = []
        self._lock = threading.Lock()

    async def compute(self, session: Session, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the vector of one text, float32, shape (384,).

        Args:
            session: A graph with `input_ids` and `vector`.
            ids: Tokens, special ones included.
        """
        query = _Query(session, ids, Future())
        with self._lock:
            self._waiting.append(query)
        self._workers.submit(self._compute_next)
        return await asyncio.wrap_future(query.vector)

    def cancel(self) -> None:
        """Cancel what waits; for threads that end before they came to it."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.vector.cancel()

    def _compute_next(self) -> None:
        # A query that its caller has given up is left out.
        queries = [one for one in self._take() if one.vector.set_running_or_notify_cancel()]
        if not queries:
            return
        import numpy as np

        ids = np.array([one.ids for one in queries], dtype=np.int64)
        try:
            (vectors,) = queries[0].session.run(["vector"], {"input_ids": ids})
        except Exception as error:  # noqa: BLE001 - each caller gets it
            for one in queries:
                one.vector.set_exception(error)
            return
        for one, vector in zip(queries, vectors, strict=True):
            one.vector.set_result(vector)

    def _take(self) -> list[_Query]:
        """Take the query that waits longest and those of its length; nothing when another job took all."""
        with self._lock:
            if not self._waiting:
                return []
            first = self._waiting[0]
            alike = [
                one
                for one in self._waiting
                if one.session is first.session and len(one.ids) == len(first.ids)
            ][:_MOST]
            taken = {id(one) for one in alike}
            self._waiting = [one for one in self._waiting if id(one) not in taken]
        return alike
