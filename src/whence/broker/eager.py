"""First steps taken at once: up to where a piece of work waits for something.

Waking a task that waits for a message takes a turn of the event loop, and waking its caller another one. So a
worker's first step is taken within `publish`, as eager tasks of Python 3.12 take theirs. What waits for
nothing, as most of what stands between two models does, is answered in the same turn, and nobody has to watch
its time; all else is gone on with by the worker's own task, and who has published waits no longer than he wants
to.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Final

__all__ = ("DONE", "Starter", "first_step", "rest")

Work = Coroutine[Any, Any, object]

#: Says that a first step was the last one.
DONE: Final = object()


def first_step(work: Work) -> Any:
    """Take the first step of some work in the task at hand.

    Returns:
        What it waits for, to be given to `rest`; `DONE` when it is done.

    Raises:
        BaseException: Whatever the work raises.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return DONE
    _mark(waits_for, waiting=False)
    return waits_for


@coroutine
def rest(
    work: Work, waits_for: Any, error: BaseException | None = None
) -> Generator[Any, Any, None]:
    """Go on with work whose first step was taken.

    Args:
        work: The work.
        waits_for: What it waits for.
        error: Thrown into the work in place of waiting.
    """
    try:
        while True:
            if error is not None:
                waits_for, error = work.throw(error), None
            try:
                _mark(waits_for, waiting=True)
                yield waits_for
            except BaseException as raised:  # noqa: BLE001 - the work's to handle
                error = raised
            else:
                yield from work
                return
    except StopIteration:
        return


def _mark(waits_for: Any, *, waiting: bool) -> None:
    """Tell a future whether it is on its way to a task that begins to wait for it, as `await` and tasks do."""
    if getattr(waits_for, "_asyncio_future_blocking", None) is not None:
        waits_for._asyncio_future_blocking = waiting  # noqa: SLF001 - what makes something a future


class Starter:
    """Takes first steps in the name of a task, while that waits for work.

    Tasks are changed as asyncio tells makers of tasks to do it (`asyncio.tasks._enter_task`, "Extending").
    Within the work `asyncio.current_task` is that task and context variables are its own, from the first step
    on: limits of time and scopes hold on to the task that goes on with it.

    Args:
        task: Waits for work, one piece at a time.
        context: The context that the task was made with.
    """

    __slots__ = ("_context", "_failure", "_task", "_waits_for", "_work")

    def __init__(self, task: asyncio.Task[Any], context: Context) -> None:
        self._task = task
        self._context = context
        self._work: Work | None = None
        self._waits_for: Any = None
        self._failure: BaseException | None = None

    @property
    def begun(self) -> bool:
        """True while there is work that `go_on` has to end."""
        return self._work is not None

    def begin(self, work: Work) -> bool:
        """Take the first step of some work; False when `go_on` has to end it. Raises nothing of the work's."""
        loop = asyncio.get_running_loop()
        caller = asyncio.current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, self._task)
        try:
            waits_for = self._context.run(first_step, work)
        except BaseException as error:  # noqa: BLE001 - raised in the task
            waits_for, self._failure = None, error
        finally:
            _leave_task(loop, self._task)
            if caller is not None:
                _enter_task(loop, caller)
        if waits_for is DONE:
            return True
        self._work, self._waits_for = work, waits_for
        return False

    async def go_on(self, *, cancelled: bool = False) -> None:
        """End the work that was begun, in the task.

        Args:
            cancelled: The task was cancelled before it came to wait for what its work waits for.
        """
        work, waits_for, failure = self._work, self._waits_for, self._failure
        assert work is not None, "nothing was begun"
        self._work = self._waits_for = self._failure = None
        if failure is not None:
            raise failure
        # As tasks do: cancel what it waits for; where that cannot be, the work is told itself.
        told = cancelled and (waits_for is None or not waits_for.cancel())
        await rest(work, waits_for, asyncio.CancelledError() if told else None)
