"""How large a bundle and its parts may be."""

from __future__ import annotations

import msgspec

__all__ = ("BundleLimits",)

_MIB = 1024 * 1024


class BundleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds against archives made to exhaust memory or disk; all sizes in bytes, unpacked."""

    max_members: int = 200_000
    """Files in the bundle."""
    max_total_bytes: int = 16 * 1024 * _MIB
    """All files together."""
    max_item_bytes: int = 16 * _MIB
    """One node, one list of dependencies, one line, one SQL body: what is held in memory at a time."""
    max_ratio: int = 250
    """Unpacked size over packed size of one file. Source code packs 3 to 30 times; deflate's end is 1,032
    (zlib's technical notes), which only runs of one byte come near."""
    ratio_from_bytes: int = 4 * _MIB
    """Files smaller than this may pack as well as they like."""
