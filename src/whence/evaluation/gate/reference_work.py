"""The floor of a machine: the time of a fixed work, which is the unit of latencies.

Milliseconds of another machine, or of the same one while it does other work, cannot be compared. So the work is
done after every search, and the latency of a search is divided by the mean time of the work beside it: after
the searches before and after it, too. A machine that is slow or busy changes both by about the same factor.
On two cores, from nearly idle to seven waiting processes, medians of 64 warm latencies changed by a factor of
2.8 and, in units of the floor, by 1.2; those of first latencies by 3.4 and 1.4.

With a model of another machine a latency is mostly waiting, which no work here can measure, so it stays in
milliseconds.

The parts of the work are those of a search: messages in Python, products of matrices as in a model, and
statements for the database, which read no table. Nothing of it is code of Whence but the loan of a connection,
so a change of Whence does not change the unit. `_NAME` changes with the work; floors of different names are not
compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence

from whence.evaluation import measures

_NAME = "reference-1"
#: A message of the size of a search's, encoded and decoded this many times.
_ROWS = [{"id": number, "text": "word " * 20, "numbers": [0.5] * 20} for number in range(40)]
_MESSAGES = 3
_STATEMENTS = 2
#: Pairs of matrices that are multiplied before and after the statements: as many operations as a batch of 128
#: vectors and a layer of a small model, but too small for the library to use more than one thread.
_SHAPE = (288, 64, 64)
#: Searches before and after one whose works count for it.
_BESIDE = 1


class ReferenceWork:
    """The fixed work: about 5 ms on a current core.

    Args:
        statement: Has the database answer a fixed statement; None for a store without one.
    """

    def __init__(self, statement: Callable[[], Awaitable[object]] | None) -> None:
        import numpy as np

        self.name = _NAME if statement else f"{_NAME} without database"
        self._statement = statement
        self._matrices = np.ones(_SHAPE, dtype=np.float32)

    async def __call__(self) -> float:
        """Do the work once and return its milliseconds."""
        started = time.perf_counter()
        for _ in range(_MESSAGES):
            json.loads(json.dumps(_ROWS))
        self._matrices @ self._matrices
        if self._statement is not None:
            for _ in range(_STATEMENTS):
                await self._statement()
        self._matrices @ self._matrices
        return (time.perf_counter() - started) * 1e3


def relative_latencies(latencies_ms: Sequence[float], works_ms: Sequence[float]) -> list[float]:
    """Return latencies in units of the floor; `works_ms` has the time of the work after each search.

    >>> in_floors([10.0, 20.0, 30.0], [5.0, 5.0, 11.0])
    [2.0, 2.857142857142857, 3.75]
    """
    return [
        latency / measures.mean(works_ms[max(0, at - _BESIDE) : at + _BESIDE + 1])
        for at, latency in enumerate(latencies_ms)
    ]
