"""Limits on the size of a bundle and its members."""

from __future__ import annotations

import msgspec

_MIB = 1024 * 1024


class BundleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits against archives made to exhaust memory or disk; sizes in bytes, unpacked."""

    max_members: int = 200_000
    max_total_bytes: int = 16 * 1024 * _MIB
    max_item_bytes: int = 16 * _MIB
    """One node, list of dependencies, line or SQL body; one of these is in memory at a time."""
    max_ratio: int = 250
    """Unpacked size over packed size of one file. Source code has 3 to 30; the maximum of deflate is 1,032
    (zlib technical notes)."""
    ratio_from_bytes: int = 4 * _MIB
    """The ratio of smaller files is not limited."""
