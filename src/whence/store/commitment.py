"""Commitments to traces: one digest for a whole trace, which can be verified of its parts.

A trace is cut into leaves: its fields, those of its answer, and its triples by subject. Each leaf has a salt
of its own, so its hash reveals nothing; the digest is the SHA-256 of all hashes, sorted. Hashes without a leaf
fill their number up to a power of two. A reader who may see some leaves only gets these and the hashes of the
others, which verify the digest and do not tell a hidden leaf from none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256, shake_256
from typing import NamedTuple

import msgspec

from whence.schema.integrity import ChainEntry, EntryKind

#: Length of salts, in bytes: as many as cannot be guessed.
SALT_BYTES = 16
_HASH_BYTES = 32
#: Least number of hashes of a trace.
_LEAST_HASHES = 256
_VERSION = "whence-chain-1"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_events = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()


_subjects = msgspec.json.Decoder(list[str])
_text = msgspec.json.Decoder(str)


class Leaf(NamedTuple):
    """A part of a trace that is shown or hidden as a whole."""

    name: str
    """`answer/text`, `events/2`, ...; for triples `events/2/triples`."""
    text: bytes
    """The name in a line, then the content as JSON; of triples one a line, `NUMBER [s,p,o,kind,g]`."""
    subject: str = ""
    """IRI of the subject, of a leaf of triples."""


def read_leaves(packed: bytes, body: bytes, recorded_at: str) -> list[Leaf]:
    """Cut a trace into leaves. Cost: linear in its triples.

    Args:
        packed: The record as JSON, with triples as columns.
        body: The same as it is stored.
        recorded_at: When it was recorded, ISO 8601 in UTC.
    """
    fields = _fields.decode(packed)
    events = _events.decode(fields.pop("events"))
    answer = fields.pop("answer", msgspec.Raw(b"null"))
    leaves = [
        _leaf("recorded_at", _encoder.encode(recorded_at)),
        _leaf("body", sha256(body).hexdigest().encode()),
        *(_leaf(name, bytes(raw)) for name, raw in fields.items()),
    ]
    if bytes(answer) == b"null":
        leaves.append(_leaf("answer", b"null"))
    else:
        parts = _fields.decode(answer).items()
        leaves += (_leaf(f"answer/{name}", bytes(raw)) for name, raw in parts)
    for place, event in enumerate(events):
        leaves += _event_leaves(f"events/{place}", event)
    return leaves


def _leaf(name: str, content: bytes, subject: str = "") -> Leaf:
    return Leaf(name, b"%b\n%b" % (name.encode(), content), subject)


def _event_leaves(name: str, event: dict[str, msgspec.Raw]) -> Iterator[Leaf]:
    columns = _fields.decode(event.pop("columns"))
    yield _leaf(name, _encoder.encode(event))
    stage = _text.decode(event["explain_id"])
    groups: dict[str, list[bytes]] = defaultdict(list)
    rows = zip(*(_raws.decode(columns[name]) for name in "spotg"), strict=True)
    for number, (subject, row) in enumerate(zip(_subjects.decode(columns["s"]), rows, strict=True)):
        line = b"%d [%b,%b,%b,%b,%b]" % (number, *row)
        # A stage names all its candidates: each of its triples is hidden or shown for itself.
        if subject == stage:
            yield _leaf(f"{name}/triples", line, subject)
        else:
            groups[subject].append(line)
    for subject, lines in groups.items():
        yield _leaf(f"{name}/triples", b"\n".join(lines), subject)


def leaf_salts(leaves: list[Leaf], salt: bytes) -> list[bytes]:
    """Return the salts of all leaves, 16 bytes each; none tells another one or the salt of the trace."""
    stream = shake_256(b"leaves" + salt).digest(SALT_BYTES * len(leaves))
    return [stream[n : n + SALT_BYTES] for n in range(0, len(stream), SALT_BYTES)]


def leaf_hashes(leaves: list[Leaf], salt: bytes) -> list[bytes]:
    """Return the hashes of all leaves in order, then those that fill up."""
    pairs = zip(leaf_salts(leaves, salt), leaves, strict=True)
    hashes = [sha256(own + leaf.text).digest() for own, leaf in pairs]
    missing = max(_LEAST_HASHES, 1 << (len(hashes) - 1).bit_length()) - len(hashes)
    stream = shake_256(b"filling" + salt).digest(_HASH_BYTES * missing)
    return hashes + [stream[n : n + _HASH_BYTES] for n in range(0, len(stream), _HASH_BYTES)]


def digest_of(hashes: list[bytes]) -> bytes:
    """Return the commitment to a trace, 32 bytes."""
    return sha256(b"".join(sorted(hashes))).digest()


def commit(packed: bytes, body: bytes, recorded_at: str, salt: bytes) -> bytes:
    """Return the commitment to a trace; arguments as for `read_leaves`."""
    return digest_of(leaf_hashes(read_leaves(packed, body, recorded_at), salt))


def entry_hash(
    number: int, kind: EntryKind, answer_id: str, digest: bytes, written_at: str, previous: bytes
) -> bytes:
    """Return the hash of an entry: SHA-256 of its fields as a JSON list, digests hexadecimal."""
    fields = [_VERSION, number, kind, answer_id, digest.hex(), written_at, previous.hex()]
    return sha256(_encoder.encode(fields)).digest()


def expected_hash(entry: ChainEntry) -> bytes:
    """Return the hash that an entry should have."""
    return entry_hash(
        entry.number, entry.kind, entry.answer_id, entry.digest, entry.written_at, entry.previous
    )
