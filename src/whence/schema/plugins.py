"""Plug-ins: objects that distributions offer through entry points, Whence's own optional packages among them.

One group a kind: `whence.loaders`, `whence.stores`, `whence.transports`, `whence.embedders`,
`whence.rerankers`, `whence.writers`, `whence.sources`, `whence.processors`, `whence.resources`,
`whence.commands`, `whence.tools`, `whence.operations`. The module that opens a kind documents what its entry
points must be.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, distribution, entry_points
from typing import Any

from whence.schema.errors import ConfigError


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of the installed plug-ins of a group, sorted."""
    return tuple(sorted({one.name for one in entry_points(group=group)}))


def load_plugin(
    group: str, name: str, *, what: str = "the plug-in", base: type | None = None
) -> Any:
    """Import a plug-in and return its object; None when no distribution offers one of this name.

    One of Whence itself takes precedence over others of its name.

    Args:
        group: Entry-point group.
        name: Name of the entry point.
        what: Noun for the plug-in in errors.
        base: Class that the object must be a subclass of.

    Raises:
        ConfigError: Several distributions offer it, it cannot be imported, or it is not such a class.
    """
    found = tuple(_own_points().select(group=group, name=name)) or tuple(
        entry_points(group=group, name=name)
    )
    if not found:
        return None
    if len(found) > 1:
        owners = " and ".join(sorted(_owner(one) for one in found))
        raise ConfigError(f"{what} {name!r} is offered by {owners}", hint="uninstall one of them")
    return load_entry_point(found[0], what, base)


def load_entry_point(point: EntryPoint, what: str, base: type | None = None) -> Any:
    """Import the object of an entry point; arguments and errors as for `load_plugin`."""
    owner = _owner(point)
    hint = f"reinstall or remove {owner}"
    try:
        loaded = point.load()
    except Exception as error:
        # Importing the code of others can fail in any way.
        raise ConfigError(
            f"{what} {point.name!r} of {owner} cannot be loaded: {type(error).__name__}: {error}",
            hint=hint,
        ) from error
    if base is not None and not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise ConfigError(
            f"{what} {point.name!r} of {owner}: {point.value} is not a subclass of"
            f" {base.__module__}.{base.__qualname__}",
            hint=hint,
        )
    return loaded


@cache
def _own_points() -> EntryPoints:
    """Return the entry points of Whence itself; reading those of all distributions takes 30 times as long."""
    return distribution("whence").entry_points


def _owner(point: EntryPoint) -> str:
    return f"distribution {point.dist.name!r}" if point.dist else f"entry point {point.value!r}"
