"""Idempotency: the answer of a ledger to a claim, and the recorded effects of a message."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

EffectKind = Literal["added", "updated", "tagged"]


class ClaimState(StrEnum):
    """What a claim found."""

    CLAIMED = "claimed"
    """The caller has the message now."""
    BUSY = "busy"
    """Another worker has the message."""
    DONE = "done"
    """It was done before."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim."""

    state: ClaimState
    """Whether the caller may go on."""
    deaths: int = 0
    """Earlier claims that expired without a result."""
    retry_after_s: float = 0.0
    """Seconds until the other claim expires, when it is busy."""


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """What one message does to documents; kept in the transaction that does it.

    A message that is delivered again, because its worker died before it could reply, finds them and reports the
    same outcomes.
    """

    message_id: str
    """Id of the message, the same over redeliveries."""
    outcomes: Mapping[str, EffectKind]
    """By document id; `tagged` when only the rights changed."""
