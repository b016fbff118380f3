"""Names of hosts in requests: the local ones, and the one that a request names."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

#: Names of the local host.
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def host_name(host: str) -> str:
    """Return the name in a `Host` header, without the port; empty when it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
