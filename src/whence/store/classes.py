"""Classes of rights: each combination of tags in use has a number, and a reader has a set of numbers.

The rows of `sec_class` never change, so a resolved class stays true. A class that is made after a reader's
rights were resolved is not among them: what is new is hidden, never shown by mistake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.store.checks import is_text
from whence.store.driver import Connection

__all__ = ("ALLOWED", "access_values", "intern_classes")

#: The visibility rule over a row of `sec_class`; takes `access_values` as $1, $2 and $3.
ALLOWED = (
    "(s.acl = '{}' OR s.acl && $1::text[]) AND s.labels <@ $2::text[] AND s.clearance <= $3::int"
)


def access_values(access: Access) -> tuple[list[str], list[str], int]:
    """Give the parameters of `ALLOWED`; tags that no document can have are left out."""
    return _storable(access.acl_tags), _storable(access.labels), access.clearance


def _storable(tags: Iterable[str]) -> list[str]:
    return sorted(filter(is_text, tags))


async def intern_classes(
    connection: Connection, tags: Iterable[DocumentTags]
) -> dict[DocumentTags, int]:
    """Give the number of each combination of tags, making those that are new.

    Must run outside of a larger transaction: two writers that each wait for the other's new class would
    be a deadlock. A class that is never used does no harm.
    """
    wanted = {_digest(one): one for one in tags}
    numbers = await _numbers(connection, list(wanted))
    new = sorted(digest for digest in wanted if digest not in numbers)
    if new:
        await connection.executemany(
            "INSERT INTO sec_class (digest, acl, labels, clearance) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (digest) DO NOTHING",
            [(d, wanted[d].acl, wanted[d].labels, wanted[d].clearance) for d in new],
        )
        numbers |= await _numbers(connection, new)
    return {one: numbers[digest] for digest, one in wanted.items()}


async def _numbers(connection: Connection, digests: list[bytes]) -> dict[bytes, int]:
    rows = await connection.fetch(
        "SELECT digest, id FROM sec_class WHERE digest = ANY($1::bytea[])", digests
    )
    return {row["digest"]: row["id"] for row in rows}


def _digest(tags: DocumentTags) -> bytes:
    """Give the key of a class; the tags are sorted and unique by construction."""
    canonical = msgspec.json.encode([tags.acl, tags.labels, tags.clearance])
    return hashlib.sha256(canonical).digest()
