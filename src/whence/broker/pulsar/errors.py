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
_CREDENTIALS = (ConfigError, "check WHENCE_PULSAR_TOKEN and the rights of its role")
_ADDRESS = (ConfigError, "use pulsar://host:port and full topic names")
_UNKNOWN = (Unavailable, "check that the broker runs and that the address is right")
_NO_CONNECTION = (
    "check that the broker runs, that the address is right and, where a broker asks for them, "
    "the credentials: WHENCE_PULSAR_TOKEN"
)
#: Error class and hint of a result code.
_MEANINGS: dict[Result, tuple[type[WhenceError], str]] = {
    Result.MessageTooBig: (BadInput, "send it in several messages"),
    Result.IncompatibleSchema: (
        BadInput,
        "fields may only be added, with a default; anything else is a new message type",
    ),
    Result.AuthenticationError: _CREDENTIALS,
    Result.AuthorizationError: _CREDENTIALS,
    Result.ErrorGettingAuthenticationData: _CREDENTIALS,
    Result.InvalidUrl: _ADDRESS,
    Result.InvalidTopicName: _ADDRESS,
    Result.InvalidConfiguration: _ADDRESS,
    Result.TopicNotFound: (
        Unavailable,
        "create the namespace (WHENCE_PULSAR_NAMESPACE) or allow new topics in it",
    ),
    Result.ConsumerBusy: (
        Unavailable,
        "the group is taken, or its members share in another mode; choose another",
    ),
    # The client library retries a refused connection, for any reason, until its timeout.
    Result.Timeout: (Unavailable, _NO_CONNECTION),
}
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
    kind, hint = _MEANINGS.get(result, _UNKNOWN)
    return kind(text, hint=hint)
