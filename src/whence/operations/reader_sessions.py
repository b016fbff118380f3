"""Sessions of readers who signed in; HTTP alone has them, and nothing of them is in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from whence.operations.operation import Operation
from whence.store.reader_records import ReaderSession

if TYPE_CHECKING:
    from whence.operations.session import Session


class BeginReaderSession(Operation[None], frozen=True):
    """Store the session of a reader who signed in."""

    NAME: ClassVar[str] = "begin reader session"
    audited: ClassVar[bool] = False

    session: ReaderSession
    """The session."""

    async def run(self, session: Session) -> None:
        """Store it."""
        await (await session.store()).put_session(self.session)


class FindReaderSession(Operation[ReaderSession | None], frozen=True):
    """Find a session that has not ended."""

    NAME: ClassVar[str] = "find reader session"
    audited: ClassVar[bool] = False

    digest: str
    """SHA-256 of its id, hexadecimal."""

    async def run(self, session: Session) -> ReaderSession | None:
        """Return it, or None."""
        return await (await session.store()).reader_session(self.digest)


class EndReaderSession(Operation[None], frozen=True):
    """End a session."""

    NAME: ClassVar[str] = "end reader session"
    audited: ClassVar[bool] = False

    digest: str
    """SHA-256 of its id, hexadecimal."""

    async def run(self, session: Session) -> None:
        """Remove it."""
        await (await session.store()).end_session(self.digest)
