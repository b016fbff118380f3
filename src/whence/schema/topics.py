"""Topic names: full Pulsar names, the same on every transport.

A short name such as `embedding.request` stands for `persistent://public/default/whence.embedding.request`.
"""

from __future__ import annotations

import re

from whence.schema.errors import ConfigError

DEFAULT_NAMESPACE = "public/default"
#: Group that keeps dead letters until they are replayed or dropped.
DEAD_LETTER_GROUP = "dead-letters"
_PREFIX = "whence."
_SHORT = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*\Z")
_FULL = re.compile(r"(?:non-)?persistent://[^/]+/[^/]+/[^/]+\Z")


def full_topic(name: str, *, namespace: str = DEFAULT_NAMESPACE, persistent: bool = True) -> str:
    """Return the full name of a topic; a full name is returned as it is, other text raises `ConfigError`."""
    if _FULL.match(name):
        return name
    if not _SHORT.match(name):
        raise ConfigError(
            f"{name!r} is not a topic name",
            hint="use lower-case words joined by dots, e.g. embedding.request",
        )
    scheme = "persistent" if persistent else "non-persistent"
    return f"{scheme}://{namespace}/{_PREFIX}{name}"


def short_topic(topic: str) -> str:
    """Return the short name of a full topic, for people."""
    return topic.rsplit("/", 1)[-1].removeprefix(_PREFIX)


def retry_topic(topic: str, group: str) -> str:
    """Return the topic on which a group's retries wait."""
    return f"{topic}.{group}.retry"


def dead_letter_topic(topic: str) -> str:
    """Return the dead-letter topic of a topic."""
    return f"{topic}.dlq"


def cancel_topic(topic: str) -> str:
    """Return the control topic of a topic: cancellations and pings."""
    return f"{topic}.cancel"
