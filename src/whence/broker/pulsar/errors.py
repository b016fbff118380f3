"""Translate the result codes of the client library to our errors."""

from __future__ import annotations

from pulsar import Result
from pulsar.asyncio import PulsarException

from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable, WhenceError

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
    """Return whether the producer or consumer is closed, so that a new one is needed."""
    return error.error() in _GONE


def is_taken(error: WhenceError) -> bool:
    """Return whether a group could not be joined because of its other consumers."""
    cause = error.__cause__
    return isinstance(cause, PulsarException) and cause.error() == Result.ConsumerBusy


def translate(error: PulsarException, action: str, url: str) -> WhenceError:
    """Return our error for an error of the client library; raise it `from` that.

    Args:
        error: What the client library raised.
        action: Attempted operation and its topic, e.g. `publish to persistent://...`.
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
        # The client library retries a refused connection, for any reason, until its timeout.
        return Unavailable(
            text,
            hint="check that the broker runs, that the address is right and, where a broker asks for them, "
            "the credentials: WHENCE_PULSAR_TOKEN",
        )
    return Unavailable(text, hint="check that the broker runs and that the address is right")
