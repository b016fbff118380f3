"""The process in which a checkout is made into a bundle: a job in, the files that it works on and a report out.

`whence.code.bundler.limited` starts it, and kills it when a file takes too long. Messages are msgpack.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from whence.code.bundler.builder import BundleReport, bundle_folder
from whence.ingest.limited_process import (
    connect,
    data_bytes,
    limit_memory,
    limit_processor_time,
    receive_message,
    send_message,
)
from whence.schema.access import DocumentTags
from whence.schema.errors import ErrorReply, InternalError, WhenceError

#: More memory, in bytes, and processor time, in seconds, than any process takes.
_ANY_MEMORY = 2**60
_ANY_TIME = 2.0**30


class BundleJob(msgspec.Struct, frozen=True, kw_only=True):
    """A folder to bundle; paths are bytes, since names need not be UTF-8."""

    folder: bytes
    target: bytes
    repo: str | None
    tags: DocumentTags
    left_out: dict[str, str]


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The file that is worked on next; empty for work on all of them."""

    file: str


class OutOfMemory(msgspec.Struct, frozen=True, tag="memory"):
    """The file that is worked on takes more memory than the limit."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The bundle is written."""

    report: BundleReport


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """There is no bundle."""

    error: ErrorReply


Message = Began | OutOfMemory | Done | Failed


def main() -> None:
    """Make the bundle of one job."""
    connection, limits = connect()
    limit_memory(_ANY_MEMORY)

    def begin(file: str) -> None:
        limit_memory(data_bytes() + limits.memory if file else _ANY_MEMORY)
        limit_processor_time(limits.seconds if file else _ANY_TIME)
        send_message(connection, msgspec.msgpack.encode(Began(file)))

    with suppress(EOFError, ConnectionError):
        job = msgspec.msgpack.decode(receive_message(connection), type=BundleJob)
        message: Message
        try:
            report = bundle_folder(
                os.fsdecode(job.folder),
                os.fsdecode(job.target),
                repo=job.repo,
                tags=job.tags,
                left_out=job.left_out,
                on_file=begin,
            )
            message = Done(report)
        except MemoryError:
            message = OutOfMemory()
        except WhenceError as error:
            message = Failed(error.to_reply())
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again on the other side
            message = Failed(InternalError(f"{type(error).__name__}: {error}").to_reply())
        limit_memory(_ANY_MEMORY)
        send_message(connection, msgspec.msgpack.encode(message))


if __name__ == "__main__":
    main()
