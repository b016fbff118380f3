"""What a check of stored traces found."""

from __future__ import annotations

from typing import Literal

import msgspec

EntryKind = Literal["record", "rewrite", "erase", "prune"]
"""What a change of a trace was: recorded, replaced, without the words of a document, or removed by age."""


class Fault(msgspec.Struct, frozen=True):
    """One thing that is not as Whence left it."""

    answer_id: str
    """The answer whose trace it is about; empty for the chain as a whole."""
    what: str
    """A sentence."""


class Integrity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether traces are as Whence left them."""

    traces: int
    """Number of traces that were checked."""
    ok: bool
    """Whether there are no faults."""
    faults: tuple[Fault, ...] = ()
    """In the order of the chain."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked, and why."""


class RemovedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """What became of old traces."""

    removed: int
    """Traces that were removed, or would be."""
    faulty: int = 0
    """Traces that were kept because they are not as they were recorded."""
    changes: int = 0
    """Entries of change logs that were removed with them, or would be: of documents before the time."""


class ChainEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the chain: what became of a trace, and when."""

    number: int
    """From 1, without gaps."""
    kind: EntryKind
    """What happened to the trace."""
    answer_id: str
    """Answer of the trace."""
    digest: bytes
    """Commitment to the trace, 32 bytes; empty when it was removed, or when it had faults before."""
    written_at: str
    """ISO 8601 in UTC."""
    previous: bytes
    """Hash of the entry before, 32 bytes; empty for the first."""
    hash: bytes
    """SHA-256 of the fields above."""
    signature: bytes = b""
    """Ed25519 signature of the hash, 64 bytes; empty when the recorder had no key."""


class TraceProof(msgspec.Struct, frozen=True, kw_only=True):
    """A stored trace with all that verifies it."""

    packed: bytes
    """The record as JSON, with triples as columns."""
    body: bytes
    """The same as it is stored."""
    recorded_at: str
    """ISO 8601 in UTC."""
    salt: bytes
    """Without it nothing can be told from hashes."""
    entries: tuple[ChainEntry, ...]
    """Those of the answer, in order."""
    head: ChainEntry
    """The newest entry of the chain."""
    public_keys: tuple[str, ...]
    """Trusted ones, hexadecimal."""
