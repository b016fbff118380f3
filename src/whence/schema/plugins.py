"""Plug-ins: objects that other distributions offer through entry points.

One group a kind: `whence.loaders`, `whence.stores`, `whence.transports`, `whence.embedders`,
`whence.rerankers`, `whence.writers`, `whence.processors`. The module that
opens a kind documents what its entry points must be.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from whence.schema.errors import ConfigError


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of the installed plug-ins of a group, sorted."""
    return tuple(sorted({one.name for one in entry_points(group=group)}))


def load_plugin(group: str, name: str) -> Any:
    """Import a plug-in and return its object; None when no distribution offers one of this name.

    Raises:
        ConfigError: Several distributions offer it, or it cannot be imported.
    """
    found = tuple(entry_points(group=group, name=name))
    if not found:
        return None
    if len(found) > 1:
        owners = ", ".join(sorted(_distribution(one) for one in found))
        raise ConfigError(
            f"{name!r} is offered by several packages: {owners}",
            hint=f"uninstall all but one of them (entry-point group {group})",
        )
    try:
        return found[0].load()
    except Exception as error:
        raise ConfigError(
            f"the plug-in {name!r} of {_distribution(found[0])} cannot be loaded: {error}",
            hint=f"it is the entry point {found[0].value} in group {group}",
        ) from error


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
