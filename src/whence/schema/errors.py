"""Errors: what happened to which id, what to do, and whether a retry can help.

Every error of Whence derives from `WhenceError`. It crosses the broker as an `ErrorReply`, from which
`error_from_reply` makes the same class again.
"""

from __future__ import annotations

from typing import ClassVar

from whence.schema.message import Message


class ErrorReply(Message, frozen=True, kw_only=True):
    """An error, sent in place of a reply."""

    TYPE: ClassVar[str] = "error.v1"

    code: str
    """Stable identifier, e.g. `not_found`; the `code` of one error class."""
    message: str
    """What happened to which id, one line."""
    hint: str = ""
    """What to do, one line; may be empty."""
    retryable: bool = False
    """True when the same request may succeed later."""
    retry_after_s: float | None = None
    """Seconds to wait before trying again, when known; at least 0."""


_BY_CODE: dict[str, type[WhenceError]] = {}


class WhenceError(Exception):
    """Base class of all errors; see `ErrorReply` for the arguments. Without a hint it has that of its class."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    #: Exit status of the command line.
    exit_code: ClassVar[int] = 4
    default_hint: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        _BY_CODE.setdefault(cls.code, cls)

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.retry_after_s = retry_after_s
        self.attempts = 1
        """Attempts made before it was raised, 1 or more; not sent over the broker."""

    def to_reply(self) -> ErrorReply:
        """Return the message that carries this error."""
        return ErrorReply(
            code=self.code,
            message=self.message,
            hint=self.hint,
            retryable=self.retryable,
            retry_after_s=self.retry_after_s,
        )


class BadInput(WhenceError, ValueError):
    """The request is invalid; nothing was changed."""

    code = "bad_input"
    exit_code = 2


class ConfigError(BadInput):
    """A setting, flow file or parameter is invalid."""

    code = "bad_config"


def missing_extra(extra: str, what: str) -> ConfigError:
    """Return the error for an optional dependency that is not installed.

    Args:
        extra: Extra of the distribution that brings it, e.g. `code`.
        what: What needs it, e.g. `reading Rust`.
    """
    return ConfigError(f"{what} needs an optional package: pip install 'whence[{extra}]'")


class ModelMismatch(BadInput):
    """A vector was made with another model, precision or dimension than its collection."""

    code = "model_mismatch"
    exit_code = 4
    default_hint = "make vectors of an encoder that is here: whence reembed --embedder NAME"


class HomeTooNew(BadInput):
    """The data were written by a newer version of Whence."""

    code = "home_too_new"
    default_hint = "install the newer version again, or choose another home with --home"


class NotFound(WhenceError, LookupError):
    """The item does not exist or is not visible to this access; the two are reported alike."""

    code = "not_found"
    exit_code = 3


class Unavailable(WhenceError):
    """A required service does not answer."""

    code = "unavailable"
    retryable = True


class ServerFailed(Unavailable):
    """A server of models does not answer, or gives no usable answer."""

    code = "server_failed"


class ServerRefused(Unavailable):
    """A server refuses for a reason that stays; another attempt would get the same answer."""

    code = "server_refused"
    retryable = False


class PromptTooLong(ServerRefused):
    """A prompt does not fit the window of the model."""

    code = "prompt_too_long"
    default_hint = "give fewer passages (--doc-limit), or serve the model with a larger window"


class ModelMissing(WhenceError):
    """The files of a model are missing or damaged."""

    code = "model_missing"
    default_hint = "run `whence models install`"


class DiskFull(Unavailable):
    """No space is left on the device of the data; committed data are kept."""

    code = "disk_full"
    retryable = False
    default_hint = "free some space or move the home (--home), then run the same command again"


class DeadlineExceeded(WhenceError):
    """The request exceeded its deadline."""

    code = "deadline_exceeded"
    default_hint = "allow more time, or ask for fewer candidates"


class Overloaded(WhenceError):
    """A queue is full; the request was not accepted."""

    code = "overloaded"
    retryable = True
    default_hint = "try again later, or run more copies of the processor"


class CodecError(WhenceError):
    """Bytes cannot be decoded as the message type they name; a retry cannot help."""

    code = "undecodable"
    exit_code = 2


class InternalError(WhenceError):
    """A defect in Whence, named after the exception that it caused."""

    code = "internal"


def error_text(error: BaseException) -> str:
    """Return the message of an exception on one line, or the name of its class when it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def error_from_reply(reply: ErrorReply) -> WhenceError:
    """Return the error that a reply carries; an unknown code becomes `InternalError`."""
    cls = _BY_CODE.get(reply.code, InternalError)
    return cls(reply.message, hint=reply.hint, retry_after_s=reply.retry_after_s)
