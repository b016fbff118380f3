"""What packages add to the operations: the entry-point group `whence.operations`.

The value of an entry point is called with the session and the arguments of its caller. Names in use: `code`
makes `Engine.code`, `search-snapshot` runs a search in a snapshot, `walk-outcome` explains why a walk over a
graph missed a node. Operations of other packages need no entry point: `Engine.run` runs any.
"""

from __future__ import annotations

from typing import Any

from whence.schema.errors import ConfigError
from whence.schema.plugins import load_plugin

GROUP = "whence.operations"


def operations_plugin(name: str) -> Any:
    """Return what is called under a name; `ConfigError` when no installed package offers it."""
    found = load_plugin(GROUP, name)
    if found is None:
        raise ConfigError(f"no installed package offers {name!r}", hint="install Whence again")
    return found
