"""Finds the flow files that are part of Whence: `flows/` of the repository, or of the wheel."""

from __future__ import annotations

from pathlib import Path

from whence.flow.definition import nearest
from whence.schema.errors import ConfigError

_HERE = Path(__file__).parent


def shipped_folder() -> Path:
    """Return the folder of the shipped flows: in the wheel beside this module, else the repository's."""
    packaged = _HERE / "shipped"
    return packaged if packaged.is_dir() else _HERE.parents[2] / "flows"


def shipped_flows() -> tuple[str, ...]:
    """Return the names of the shipped flows in order."""
    return tuple(sorted(file.stem for file in shipped_folder().glob("*.yaml")))


def find_flow(name: str | Path) -> Path:
    """Return the file of a flow.

    Args:
        name: A path, or the name of a shipped flow. A name with a suffix or a folder is a path.

    Raises:
        ConfigError: The name is not a path, and no shipped flow has it.
    """
    path = Path(name)
    if path.suffix or len(path.parts) != 1:
        return path
    names = shipped_flows()
    if str(name) not in names:
        raise ConfigError(
            f"there is no shipped flow {str(name)!r}{nearest(str(name), names)}",
            hint=f"give the path of a YAML file, or one of {', '.join(names)}",
        )
    return shipped_folder() / f"{name}.yaml"
