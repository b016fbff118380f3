"""Files with settings: `.env` and `whence.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from whence.schema.errors import ConfigError, NotFound

TOML_NAME: Final = "whence.toml"
DOTENV_NAME: Final = ".env"


def read_toml(file: Path) -> Mapping[str, Any]:
    """Return what a `whence.toml` holds; nothing when there is no such file.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    return _parse(file, _text_of(file))


def read_dotenv(file: Path) -> dict[str, str]:
    """Return the variables of a `.env` file; empty when there is no such file.

    References such as `${NAME}` stay as they are written.

    Raises:
        ConfigError: It cannot be read.
    """
    text = _text_of(file)
    if not text:
        return {}
    # Loaded only where there is a file: most folders have none.
    from io import StringIO

    from dotenv import dotenv_values

    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value}


def write_value(file: Path, name: str, value: str | list[str] | None) -> None:
    """Write one setting into a `whence.toml`, or remove it with None; comments and order stay.

    The file is replaced in one step and can be read by its owner alone, since settings may be keys.

    Raises:
        ConfigError: The file cannot be read or written.
        NotFound: The setting to remove is not in it.
    """
    import tomlkit

    text = _text_of(file)
    _parse(file, text)
    document = tomlkit.parse(text)
    if value is None and name not in document:
        raise NotFound(f"{name} is not set in {file}")
    if value is None:
        del document[name]
    else:
        document[name] = value
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(tomlkit.dumps(document))
        fresh.replace(file)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise ConfigError(
            f"cannot write {file}: {error.strerror or error}",
            hint="choose a folder that you may write, with --home or WHENCE_HOME",
        ) from error


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8", hint="save the file as UTF-8") from error


def _parse(file: Path, text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{file} is not valid TOML: {error}", hint="correct that line, or remove the file"
        ) from error
