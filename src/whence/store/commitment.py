"""Commitments to traces: one digest for a whole trace, which can be verified of its parts.

A trace is cut into leaves: its fields, those of its answer, and its triples by subject. Each leaf has a salt
of its own, so its hash reveals nothing; the digest is the SHA-256 of all hashes, sorted. Hashes without a leaf
fill their number up to a power of two. A reader who may see some leaves only gets these and the hashes of the
others, which verify the digest and do not tell a hidden leaf from none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from whence.schema.integrity import ChainEntry, EntryKind

#: Length of salts, in bytes: as many as cannot be guessed.
SALT_BYTES = 16
#: Least number of hashes of a trace.
_LEAST_HASHES = 256
_VERSION = "whence-chain-1"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_events = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()


class _Iri(msgspec.Struct, gc=False):
    iri: str


class _Subject(msgspec.Struct, gc=False):
    s: _Iri


_subjects = msgspec.json.Decoder(list[_Subject])
_text = msgspec.json.Decoder(str)


class Leaf(NamedTuple):
    """A part of a trace that is shown or hidden as a whole."""

    name: str
    """`answer/text`, `events/2`, ...; for triples `events/2/triples`."""
    text: bytes
    """The name in a line, then the content as JSON; of triples one a line, after its number in the stage."""
    subject: str = ""
    """IRI of the subject, of a leaf of triples."""


def read_leaves(wire: bytes, body: bytes, recorded_at: str) -> list[Leaf]:
    """Cut a trace into leaves. Cost: linear in its triples.

    Args:
        wire: The record as JSON.
        body: The same as it is stored.
        recorded_at: When it was recorded, ISO 8601 in UTC.
    """
    fields = _fields.decode(wire)
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
    triples = event.pop("triples")
    yield _leaf(name, _encoder.encode(event))
    stage = _text.decode(event["explain_id"])
    groups: dict[str, list[bytes]] = defaultdict(list)
    pairs = zip(_subjects.decode(triples), _raws.decode(triples), strict=True)
    for number, (one, raw) in enumerate(pairs):
        line = b"%d %b" % (number, raw)
        subject = one.s.iri
        # A stage names all its candidates: each of its triples is hidden or shown for itself.
        if subject == stage:
            yield _leaf(f"{name}/triples", line, subject)
        else:
            groups[subject].append(line)
    for subject, lines in groups.items():
        yield _leaf(f"{name}/triples", b"\n".join(lines), subject)


def leaf_salt(salt: bytes, place: int) -> bytes:
    """Return the salt of the leaf at a place, 16 bytes; it does not tell the salt of the trace."""
    return sha256(salt + place.to_bytes(4, "big")).digest()[:SALT_BYTES]


def leaf_hashes(leaves: list[Leaf], salt: bytes) -> list[bytes]:
    """Return the hashes of all leaves in order, then those that fill up."""
    hashes = [
        sha256(leaf_salt(salt, place) + leaf.text).digest() for place, leaf in enumerate(leaves)
    ]
    full = max(_LEAST_HASHES, 1 << (len(hashes) - 1).bit_length())
    return hashes + [sha256(leaf_salt(salt, n)).digest() for n in range(len(hashes), full)]


def digest_of(hashes: list[bytes]) -> bytes:
    """Return the commitment to a trace, 32 bytes."""
    return sha256(b"".join(sorted(hashes))).digest()


def commit(wire: bytes, body: bytes, recorded_at: str, salt: bytes) -> bytes:
    """Return the commitment to a trace; arguments as for `read_leaves`."""
    return digest_of(leaf_hashes(read_leaves(wire, body, recorded_at), salt))


def entry_hash(
    number: int, kind: EntryKind, answer_id: str, digest: bytes, written_at: str, previous: bytes
) -> bytes:
    """Return the hash of an entry: SHA-256 of its fields as a JSON list, digests hexadecimal."""
    fields = [_VERSION, number, kind, answer_id, digest.hex(), written_at, previous.hex()]
    return sha256(_encoder.encode(fields)).digest()


def hash_again(entry: ChainEntry) -> bytes:
    """Return the hash that an entry should have."""
    return entry_hash(
        entry.number, entry.kind, entry.answer_id, entry.digest, entry.written_at, entry.previous
    )
