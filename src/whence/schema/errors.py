"""Errors that say what happened, to which id, what to do, and whether trying again can help.

Every error that leaves a package of ours derives from `WhenceError`. An error crosses the broker as an
`ErrorReply`; `raise_from_reply` turns it back into the same class on the other side.
"""

from __future__ import annotations

from typing import ClassVar

from whence.schema.message import Message

__all__ = (
    "BadInput",
    "CodecError",
    "ConfigError",
    "DeadlineExceeded",
    "DiskFull",
    "ErrorReply",
    "HomeTooNew",
    "InternalError",
    "ModelMismatch",
    "ModelMissing",
    "NotFound",
    "Overloaded",
    "Unavailable",
    "WhenceError",
    "error_from_reply",
)


class ErrorReply(Message, frozen=True, kw_only=True):
    """A failure as it travels in place of a reply."""

    TYPE: ClassVar[str] = "error.v1"

    code: str
    """Stable machine word, e.g. `not_found`; equal to the `code` of one error class."""
    message: str
    """One line for people: what happened, to which id."""
    hint: str = ""
    """One line: what to do about it. May be empty."""
    retryable: bool = False
    """True when the same request may succeed later without any change."""
    retry_after_s: float | None = None
    """Seconds to wait before trying again, when known; at least 0."""


class WhenceError(Exception):
    """Something failed inside Whence.

    Args:
        message: One line: what happened, to which id.
        hint: One line: what to do about it; the class's own hint when empty.
        retry_after_s: Seconds to wait before a retry can help, when known.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    #: Exit status of the command line, see the table in the CLI reference.
    exit_code: ClassVar[int] = 4
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.retry_after_s = retry_after_s
        self.attempts = 1
        """Tries that whoever raised it made itself, at least 1; stays on this side of the broker."""

    def to_reply(self) -> ErrorReply:
        """Give the form in which this error crosses the broker."""
        return ErrorReply(
            code=self.code,
            message=self.message,
            hint=self.hint,
            retryable=self.retryable,
            retry_after_s=self.retry_after_s,
        )


class BadInput(WhenceError, ValueError):
    """The caller gave something that can never work; nothing was changed."""

    code = "bad_input"
    exit_code = 2


class ConfigError(BadInput):
    """A setting, flow file or parameter is wrong."""

    code = "bad_config"


class ModelMismatch(BadInput):
    """A vector comes from another model, precision or dimension than its collection's."""

    code = "model_mismatch"
    default_hint = (
        "use the collection's own model (WHENCE_EMBEDDER), or index into a new collection"
    )


class HomeTooNew(BadInput):
    """The data were written by a newer version of Whence than this one."""

    code = "home_too_new"
    default_hint = "install the newer version again, or choose another home with --home"


class NotFound(WhenceError, LookupError):
    """It does not exist, or this access may not see it; the two cannot be told apart."""

    code = "not_found"
    exit_code = 3


class Unavailable(WhenceError):
    """A service that is needed does not answer now."""

    code = "unavailable"
    retryable = True


class ModelMissing(WhenceError):
    """A model's files are absent or damaged."""

    code = "model_missing"
    default_hint = "run `whence models install`"


class DiskFull(Unavailable):
    """No space is left where the data live; what was committed stays."""

    code = "disk_full"
    retryable = False
    default_hint = "free some space or move the home (--home), then run the same command again"


class DeadlineExceeded(WhenceError):
    """The time allowed for the whole request ran out."""

    code = "deadline_exceeded"
    default_hint = "allow more time, or ask for fewer candidates"


class Overloaded(WhenceError):
    """A queue is full; the work was not accepted."""

    code = "overloaded"
    retryable = True
    default_hint = "try again later, or run more copies of the processor"


class CodecError(WhenceError):
    """Bytes that are not the message they claim to be; trying again cannot help."""

    code = "undecodable"
    exit_code = 2


class InternalError(WhenceError):
    """A fault of our own, named after the exception that caused it."""

    code = "internal"


_BY_CODE: dict[str, type[WhenceError]] = {
    cls.code: cls
    for cls in (
        InternalError,
        BadInput,
        ConfigError,
        ModelMismatch,
        HomeTooNew,
        NotFound,
        Unavailable,
        ModelMissing,
        DiskFull,
        DeadlineExceeded,
        Overloaded,
        CodecError,
    )
}


def error_from_reply(reply: ErrorReply) -> WhenceError:
    """Rebuild the error a reply stands for; an unknown code becomes `InternalError`."""
    cls = _BY_CODE.get(reply.code, InternalError)
    return cls(reply.message, hint=reply.hint, retry_after_s=reply.retry_after_s)
