"""The audit log: one line of JSON for each operation with the question, the rights and the number of results.

Off unless the setting `audit` is set. A line is written when the operation ends, also when it fails. It
contains questions and names, never the text of a document. The log fails closed: when it cannot be opened the
operation does not start, and when a line cannot be written no result is returned.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from whence.ingest.remote_sources import shown_address
from whence.schema.access import Access, DocumentTags
from whence.schema.errors import Unavailable, WhenceError

if TYPE_CHECKING:
    from whence.operations.operation import Call, Operation
    from whence.operations.session import Session

R = TypeVar("R")

#: Target that means standard error instead of a file.
STDERR: Final = "stderr"
#: Only the owner may read questions and rights.
_MODE: Final = 0o600
_DESCRIPTOR_OF_STDERR: Final = 2
#: Arguments to log, by their names in the log; empty ones are left out.
_LOGGED: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("query", "question"),
    "collection": ("collection",),
    "snapshot": ("snapshot",),
    "set": ("set_name",),
    "snapshot_source": ("source",),
    "filters": ("filters",),
    "answer_id": ("answer_id",),
    "as_of": ("as_of",),
}
#: Arguments that name files, nodes, chunks, documents or compared answers.
_ITEMS: Final = (
    "paths", "bundles", "nodes", "seeds", "graph", "item", "document_id", "document_ids",
    "answer_a", "answer_b",
)  # fmt: skip


class AuditLog:
    """Appends lines to a file (created with mode 600) or to standard error.

    Each line is one append, so several processes can share the file. The file is opened for each operation, so
    it can be rotated at any time.

    Args:
        target: Path of the file, or `stderr`.
        now: Returns the time with its zone.
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

    def around(self, operation: Operation[R], call: Call[R]) -> Call[R]:
        """Return a call that is logged, of an operation that the log has."""
        if not operation.audited:
            return call

        async def logged(session: Session) -> R:
            arguments = {name: getattr(operation, name) for name in operation.__struct_fields__}
            with self.entry(operation.NAME, _logged_facts(arguments)) as entry:
                result = await call(session)
                entry["results"] = operation.count(result)
                if answer_id := operation.answer_of(result):
                    entry["answer_id"] = answer_id
            return result

        return logged

    @contextmanager
    def entry(self, operation: str, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Log the operation of a `with` block; yields the line, to add the outcome to.

        Args:
            operation: Name of the operation.
            facts: The logged arguments.
        """
        started_at = self._now().astimezone(UTC).isoformat()
        entry = {"time": started_at, "operation": operation, "uid": _uid(), **facts}
        with self._opened() as descriptor:
            started = self._monotonic()
            try:
                yield entry
            except BaseException as error:
                entry["error"] = _code(error)
                raise
            finally:
                entry["duration_ms"] = round((self._monotonic() - started) * 1e3, 3)
                self._write(descriptor, entry)

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
        # ASCII only: a question cannot forge a line, and a lone surrogate cannot prevent one.
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
            raise self._unwritable("no space for a whole line")

    def _unwritable(self, why: str) -> Unavailable:
        return Unavailable(
            f"the audit log {self._target} cannot be written: {why}",
            hint="free some space or correct WHENCE_AUDIT; no result is returned without its log line",
        )


def _uid() -> int | None:
    return os.getuid() if hasattr(os, "getuid") else None


def _code(error: BaseException) -> str:
    """Return the code of an error; its message may contain text of documents."""
    if isinstance(error, WhenceError):
        return error.code
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _logged_facts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the logged fields of a call; iterators among the arguments are replaced by lists."""
    for name in _ITEMS:
        value = arguments.get(name)
        if isinstance(value, Iterable) and not isinstance(value, str):
            arguments[name] = list(value)
    values = dict(_flattened(arguments.items()))
    facts = {
        field: values[name]
        for field, names in _LOGGED.items()
        for name in names
        if values.get(name)
    }
    items: list[str] = []
    for name in _ITEMS:
        value = values.get(name)
        if isinstance(value, list):
            items += [shown_address(str(getattr(one, "id", one))) for one in value]
        elif value is not None:
            items.append(str(value))
    if items:
        facts["items"] = items
    return {**facts, "rights": _rights(values.get("access"))}


def _flattened(arguments: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, value in arguments:
        if isinstance(value, msgspec.Struct) and not isinstance(value, Access | DocumentTags):
            yield from _flattened((key, getattr(value, key)) for key in value.__struct_fields__)
        else:
            yield name, value


def _rights(access: object) -> dict[str, Any] | None:
    return access.by_option() if isinstance(access, Access) else None
