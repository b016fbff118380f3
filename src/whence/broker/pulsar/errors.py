"""From the client library's result codes to errors of ours."""

from __future__ import annotations

from pulsar import Result
from pulsar.asyncio import PulsarException

from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable, WhenceError

__all__ = ("is_gone", "is_taken", "translate")

_FULL = {
    Result.ProducerQueueIsFull,
    Result.MemoryBufferIsFull,
    Result.ProducerBlockedQuotaExceededError,
    Result.ProducerBlockedQuotaExceededException,
    Result.TooManyLookupRequestException,
}
_CREDENTIALS = {
    Result.AuthenticationError,
    Result.AuthorizationError,
    Result.ErrorGettingAuthenticationData,
}
_CONFIG = {Result.InvalidUrl, Result.InvalidTopicName, Result.InvalidConfiguration}
_GONE = {Result.AlreadyClosed, Result.ProducerFenced, Result.ProducerNotInitialized}


def is_gone(error: PulsarException) -> bool:
    """Tell whether the producer or consumer is closed for good, so that a new one is needed."""
    return error.error() in _GONE


def is_taken(error: WhenceError) -> bool:
    """Tell whether a group could not be joined because of who is in it."""
    cause = error.__cause__
    return isinstance(cause, PulsarException) and cause.error() == Result.ConsumerBusy


def translate(error: PulsarException, action: str, url: str) -> WhenceError:
    """Give the error of ours; raise it `from` the driver's.

    Args:
        error: What the client library raised.
        action: What was tried, on which topic, e.g. `publish to persistent://...`.
        url: Address without credentials.
    """
    result = error.error()
    text = f"cannot {action} at {url}: {error}"
    if result in _FULL:
        return Overloaded(text, retry_after_s=0.5)
    if result == Result.MessageTooBig:
        return BadInput(text, hint="send it in several messages")
    if result == Result.IncompatibleSchema:
        return BadInput(
            text,
            hint="fields may only be added, with a default; anything else is a new message type",
        )
    if result in _CREDENTIALS:
        return ConfigError(text, hint="check WHENCE_PULSAR_TOKEN and the rights of its role")
    if result in _CONFIG:
        return ConfigError(text, hint="use pulsar://host:port and full topic names")
    if result == Result.TopicNotFound:
        return Unavailable(
            text, hint="create the namespace (WHENCE_PULSAR_NAMESPACE) or allow new topics in it"
        )
    if result == Result.ConsumerBusy:
        return Unavailable(
            text, hint="the group is taken, or its members share in another mode; choose another"
        )
    if result == Result.Timeout:
        # The client library tries again when a connection is refused, whatever for, until its time is up.
        return Unavailable(
            text,
            hint="check that the broker runs, that the address is right and, where a broker asks for them, "
            "the credentials: WHENCE_PULSAR_TOKEN",
        )
    return Unavailable(text, hint="check that the broker runs and that the address is right")
