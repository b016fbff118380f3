"""Make a bundle in another process, with limits of time and memory for each file.

In: a folder. Out: its report. A file beyond a limit becomes a failure of the report, and the folder is analysed
again without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from whence.code.bundler.builder import BundleReport, draft_path
from whence.code.bundler.bundle_process import Began, BundleJob, Done, Failed, Message
from whence.ingest.limited_process import LimitedProcess, Limits, receive_message, send_message
from whence.schema.access import DocumentTags
from whence.schema.errors import InternalError, error_from_reply

#: Seconds in which a process that closed its connection ends.
_GRACE_S = 2.0


def bundle_within_limits(
    folder: Path, target: Path, *, limits: Limits, repo: str | None, tags: DocumentTags
) -> BundleReport:
    """Write the bundle of a folder, see `whence.code.bundler.builder.bundle_folder`.

    Cost: that of one analysis for each file beyond a limit, and of a last one without them.

    Raises:
        BadInput: The folder cannot be bundled, or the archive cannot be written.
        InternalError: The process cannot be started, or ends while it works on no single file.
    """
    limits = msgspec.structs.replace(limits, then="it is left out")
    left_out: dict[str, str] = {}
    while True:
        job = BundleJob(
            folder=os.fsencode(folder),
            target=os.fsencode(target),
            repo=repo,
            tags=tags,
            left_out=left_out,
        )
        try:
            process = LimitedProcess("whence.code.bundler.bundle_process", limits)
        except OSError as error:
            raise InternalError(f"no process can be started to read code: {error}") from error
        try:
            found = _Run(process, limits).run(job)
        finally:
            process.end()
            draft_path(target, process.pid).unlink(missing_ok=True)
        if isinstance(found, BundleReport):
            return found
        left_out |= found


class _Run:
    def __init__(self, process: LimitedProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._file = ""

    def run(self, job: BundleJob) -> BundleReport | Mapping[str, str]:
        """Return the report, or the file that exceeded a limit with the reason."""
        connection = self._process.connection
        decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
        try:
            self._process.wait_until_ready()
            connection.settimeout(None)
            send_message(connection, msgspec.msgpack.encode(job))
            while True:
                connection.settimeout(self._limits.seconds if self._file else None)
                message = decoder.decode(receive_message(connection))
                if isinstance(message, Began):
                    self._file = message.file
                elif isinstance(message, Done):
                    return message.report
                elif isinstance(message, Failed):
                    raise error_from_reply(message.error)
                else:
                    return self._exceeded(self._limits.too_much_memory)
        except TimeoutError:
            return self._exceeded(self._limits.too_slow)
        except (EOFError, OSError):
            return self._exceeded(self._limits.ended(self._process.wait(_GRACE_S)))

    def _exceeded(self, reason: str) -> Mapping[str, str]:
        if not self._file:
            raise InternalError(f"the process that reads code failed: {reason}")
        return {self._file: reason}
