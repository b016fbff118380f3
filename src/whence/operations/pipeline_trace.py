"""The pipeline trace of an operation: one JSON document of what was asked, what ran and what came back.

Everything in `state_after` comes from the messages that the engine sent and received; what the caller asked for
stands beside it. A file is written when the operation ends, also when it fails, and appears whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from whence.answering.trace_recorder import Sources, iso_utc
from whence.operations.output_files import check_folder, write_text
from whence.operations.traced_client import TracedCall, calls_of_operation
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.codec import to_builtins
from whence.schema.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.operations.operation import Call, Operation
    from whence.operations.session import Session

logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Long parts of requests, which are left out: vectors, and texts for the reranker.
_LONG = ("vector", "vectors", "documents")
#: Arguments that name nodes of code; an iterator can be read only once.
_NODES = frozenset({"nodes", "seeds", "graph"})


class PipelineTracer:
    """Writes a trace of each search, question, expansion and fetch of an engine.

    Args:
        file: File that each operation replaces; None for none.
        folder: Folder in which each operation makes a file, made when it is missing; None for none.
        sources: Makes ids for names of files, and tells the time.

    Raises:
        BadInput: The file or the folder cannot be written.
    """

    def __init__(
        self,
        file: Path | None,
        folder: Path | None,
        sources: Sources = Sources(),  # noqa: B008 - immutable
    ) -> None:
        self._file, self._folder, self._sources = file, folder, sources
        check_folder(file)
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInput(
                    f"cannot make the folder of traces {folder}: {error.strerror}",
                    hint="correct WHENCE_TRACE_DIR",
                ) from error
            check_folder(folder / "trace.json")

    def around(self, operation: Operation[R], call: Call[R]) -> Call[R]:
        """Return a call that writes a trace, of an operation that has one."""
        if not operation.traced:
            return call

        async def traced(session: Session) -> R:
            calls: list[TracedCall] = []
            token = calls_of_operation.set(calls)
            at, started = self._sources.clock(), time.perf_counter()
            document = _asked(operation)
            document["generated_utc"] = iso_utc(at)
            try:
                result = await call(session)
            except BaseException as error:
                document |= _ended(operation, calls, None, started, error)
                try:
                    await self._write(operation.NAME, at, document)
                except WhenceError as unwritten:
                    logger.warning("%s", unwritten.message, extra={"action": "trace"})
                raise
            finally:
                calls_of_operation.reset(token)
            document |= _ended(operation, calls, result, started, None)
            await self._write(operation.NAME, at, document)
            return result

        return traced

    async def write_unasked(self, operation: Operation[Any], note: str) -> None:
        """Write the trace of what was not asked for a reason, with the reason as `note`."""
        at, started = self._sources.clock(), time.perf_counter()
        document = _asked(operation) | {"generated_utc": iso_utc(at)}
        document |= _ended(operation, [], None, started, None)
        await self._write(operation.NAME, at, document | {"note": note})

    async def _write(self, operation: str, at: datetime, document: Mapping[str, Any]) -> None:
        # The text of a refused question may not be valid Unicode.
        wire = json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=False)
        text = wire.encode("utf-8", "replace").decode() + "\n"
        files = [] if self._file is None else [self._file]
        if self._folder is not None:
            stamp = at.strftime("%Y%m%dT%H%M%S.%fZ")
            files.append(self._folder / f"{stamp}-{operation}-{self._sources.new_id()[:8]}.json")
        for file in files:
            await asyncio.to_thread(write_text, file, text)


def _asked(operation: Operation[Any]) -> dict[str, Any]:
    """Return what the caller asked for, in the caller's words."""
    arguments = msgspec.structs.asdict(operation)
    snapshot = arguments.get("snapshot")
    choice = SnapshotChoice.of(snapshot) if snapshot else None
    access = arguments.get("access")
    document = {
        "operation": operation.NAME,
        "question": arguments.get("query", arguments.get("question")),
        "search_mode": arguments.get("mode"),
        "collection": None if choice else arguments.get("collection"),
        "snapshot": choice.snapshot or None if choice else None,
        "snapshot_set": choice.set_name or None if choice else None,
        "snapshot_source": (choice.source or "primary") if choice and choice.set_name else None,
        "access": access.by_option() if isinstance(access, Access) else None,
    }
    return document | {name: arguments[name] for name in sorted(_NODES & arguments.keys())}


def _ended(
    operation: Operation[Any],
    calls: Sequence[TracedCall],
    result: Any,
    started: float,
    error: BaseException | None,
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "state_after": operation.state_after(calls, result),
        "calls": [_call(one) for one in calls],
        "duration_ms": round((time.perf_counter() - started) * 1e3, 3),
        "error": None,
    }
    if error is not None:
        known = isinstance(error, WhenceError)
        code = error.code if isinstance(error, WhenceError) else type(error).__name__
        document["error"] = {"code": code, "message": str(error) if known else ""}
    return document


def _call(call: TracedCall) -> dict[str, Any]:
    request = to_builtins(call.request)
    return {
        "interface": call.interface,
        "request": {key: value for key, value in request.items() if key not in _LONG},
        "replies": len(call.replies),
        "duration_ms": call.duration_ms,
        "error": call.error or None,
    }
