"""The time and outcome of each operation of a session, as Prometheus metrics.

Requests over HTTP are counted by the gateway, which also sees what never becomes an operation: pages, wrong
paths, requests without rights, and those that are refused because they would wait too long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import Histogram

from whence.flow.telemetry.metrics import SECONDS_BUCKETS

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from whence.operations.operation import Call, Operation
    from whence.operations.session import Session

R = TypeVar("R")

_SECONDS = "whence_operation_seconds"
#: Description of every metric of operations by name.
OPERATION_METRICS = {
    _SECONDS: "Time of an operation, on whichever surface it was asked for, in seconds, by operation and outcome.",
}


class OperationMetrics:
    """A middleware; `outcome` is `done`, or the class of the error that ended the operation.

    Args:
        registry: Has the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            _SECONDS,
            OPERATION_METRICS[_SECONDS],
            ("operation", "outcome"),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    def around(self, operation: Operation[R], call: Call[R]) -> Call[R]:
        """Return a call that is timed."""

        async def timed(session: Session) -> R:
            started, outcome = time.perf_counter(), "done"
            try:
                return await call(session)
            except BaseException as error:
                outcome = type(error).__name__
                raise
            finally:
                spent = time.perf_counter() - started
                self._seconds.labels(operation.NAME, outcome).observe(spent)

        return timed
