"""The audit log: who asked what, with which rights, and how much came of it. Off unless a setting names it.

One line of JSON for each operation, written when it ends, also when it fails. A line holds the question and the
names of things, never the text of a document. It fails closed: where the log cannot be opened nothing is done,
and where a line cannot be written nothing is given out.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from whence.schema.access import Access
from whence.schema.errors import Unavailable, WhenceError

__all__ = ("STDERR", "AuditEntry", "AuditLog", "Audited", "audited")

P = ParamSpec("P")
T = TypeVar("T")

#: Written to in place of a file.
STDERR: Final = "stderr"
#: Questions and rights are nobody's business but the owner's.
_MODE: Final = 0o600
_DESCRIPTOR_OF_STDERR: Final = 2
#: Arguments that say what was asked, by their names in the log; what is empty is left out.
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("query", "question"),
    "collection": ("collection",),
    "snapshot": ("snapshot",),
    "set": ("set_name",),
    "snapshot_source": ("snapshot_source",),
    "filters": ("filters",),
    "answer_id": ("answer_id",),
}
#: Arguments that name things: files, nodes, chunks, documents.
_ITEMS: Final = ("paths", "bundles", "nodes", "seeds", "graph", "item", "document_id")


class AuditEntry:
    """A line that is not written yet.

    Args:
        facts: What is known at the beginning.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts: dict[str, Any] = dict(facts)

    def note(self, *, results: int, answer_id: str | None = None) -> None:
        """Note what came of the operation."""
        self.facts["results"] = results
        if answer_id is not None:
            self.facts["answer_id"] = answer_id


class AuditLog:
    """Appends lines to a file, made with mode 600 where there is none, or to standard error.

    Each line is one write to the end of the file, so that several processes may share it. The file is opened
    for each operation: it may be moved away at any time.

    Args:
        target: Path of the file, or `stderr`.
        now: Gives the time, with its zone.
        monotonic: Clock for durations, in seconds.
    """

    def __init__(
        self,
        target: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._target = target
        self._now = now
        self._monotonic = monotonic

    @contextmanager
    def entry(self, operation: str, facts: Mapping[str, Any]) -> Iterator[AuditEntry]:
        """Log what takes place within a block.

        Args:
            operation: Its name.
            facts: What was asked.

        Raises:
            Unavailable: The log cannot be opened, and the block is not entered; or the line cannot be written.
        """
        time_of_it = self._now().astimezone(UTC).isoformat()
        entry = AuditEntry({"time": time_of_it, "operation": operation, "uid": _uid(), **facts})
        with self._opened() as descriptor:
            began = self._monotonic()
            try:
                yield entry
            except BaseException as error:
                entry.facts["error"] = _code(error)
                raise
            finally:
                entry.facts["duration_ms"] = round((self._monotonic() - began) * 1e3, 3)
                self._write(descriptor, entry.facts)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._target == STDERR:
            yield _DESCRIPTOR_OF_STDERR
            return
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(Path(self._target), flags, _MODE)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, facts: Mapping[str, Any]) -> None:
        # Only ASCII: a question cannot forge a line, and half of a character cannot stop one.
        line = (json.dumps(facts, default=str) + "\n").encode()
        if descriptor == _DESCRIPTOR_OF_STDERR:
            sys.stderr.write(line.decode())
            sys.stderr.flush()
            return
        try:
            written = os.write(descriptor, line)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        if written < len(line):
            raise self._unwritable("there is no room for a whole line")

    def _unwritable(self, why: str) -> Unavailable:
        return Unavailable(
            f"the audit log {self._target} cannot be written: {why}",
            hint="make room or correct WHENCE_AUDIT; without its log nothing is given out",
        )


def _uid() -> int | None:
    """Give the account that asks; None where accounts have no numbers."""
    return os.getuid() if hasattr(os, "getuid") else None


def _code(error: BaseException) -> str:
    """Name an error; its message could tell more than the log may hold."""
    if isinstance(error, WhenceError):
        return error.code
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


class Audited(Protocol):
    """What has methods that are logged."""

    @property
    def audit_log(self) -> AuditLog | None:
        """Where to; None when nothing is logged."""
        ...


S = TypeVar("S", bound=Audited)
_Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def audited(
    operation: str,
    count: Callable[[Any], int] | None = None,
    answer_id: Callable[[Any], str] | None = None,
) -> Callable[[_Method[S, P, T]], _Method[S, P, T]]:
    """Log each call of a method: what was asked is read off its arguments, by their names.

    Args:
        operation: Name in the log.
        count: Gives the number of results; 1 when left out.
        answer_id: Gives the id of the answer that was made; none was when left out.
    """

    def wrap(method: _Method[S, P, T]) -> _Method[S, P, T]:
        signature = inspect.signature(method)

        @wraps(method)
        async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            log = self.audit_log
            if log is None:
                return await method(self, *args, **kwargs)
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            with log.entry(operation, _asked(bound.arguments)) as entry:
                result = await method(*bound.args, **bound.kwargs)
                entry.note(
                    results=1 if count is None else count(result),
                    answer_id=None if answer_id is None else answer_id(result),
                )
            return result

        return call

    return wrap


def _asked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Give what the arguments of a call say; what can be read only once is replaced by a list."""
    facts = {
        field: arguments[name]
        for field, names in _ASKED.items()
        for name in names
        if arguments.get(name)
    }
    items: list[str] = []
    for name in _ITEMS:
        value = arguments.get(name)
        if isinstance(value, Iterable) and not isinstance(value, str):
            value = arguments[name] = list(value)
            items += [str(getattr(one, "id", one)) for one in value]
        elif value is not None:
            items.append(str(value))
    if items:
        facts["items"] = items
    return {**facts, "rights": _rights(arguments.get("access"))}


def _rights(access: object) -> dict[str, Any] | None:
    """Give a reader's rights; None for what only the owner does."""
    if not isinstance(access, Access):
        return None
    return {
        "acl": sorted(access.acl_tags),
        "labels": sorted(access.labels),
        "clearance": access.clearance,
    }
