"""The settings of one call: option, environment, `whence.toml` in the working folder, default, in this order.

Every value knows where it came from. Keys and passwords never appear in `repr`, `str` or `describe`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from whence.flow.definition import nearest
from whence.schema.errors import ConfigError

__all__ = (
    "FILE_NAME",
    "MEANINGS",
    "VARIABLES",
    "Origin",
    "ResolvedSetting",
    "Settings",
    "mask_url",
)

FILE_NAME: Final = "whence.toml"

Origin = Literal["option", "environment", "whence.toml", "default"]

#: Environment variable of every setting, by its name in options and in `whence.toml`.
VARIABLES: Final[Mapping[str, str]] = {
    "home": "WHENCE_HOME",
    "database_url": "WHENCE_DATABASE_URL",
    "broker": "WHENCE_BROKER",
    "embedder": "WHENCE_EMBEDDER",
    "writer": "WHENCE_WRITER",
    "reranker": "WHENCE_RERANKER",
    "collection": "WHENCE_COLLECTION",
    "models": "WHENCE_MODELS",
    "audit": "WHENCE_AUDIT",
    "openai_api_key": "OPENAI_API_KEY",
    "openai_base_url": "OPENAI_BASE_URL",
    "cohere_api_key": "COHERE_API_KEY",
    "cohere_base_url": "COHERE_BASE_URL",
}

#: What every setting is for.
MEANINGS: Final[Mapping[str, str]] = {
    "home": "Folder of the embedded database and of local models; the user's data folder by default. Several"
    " processes may use one home at once.",
    "database_url": "A PostgreSQL 16+ with pgvector in place of the embedded one.",
    "broker": "`memory://` runs flows in this process; `pulsar://HOST:PORT` or `pulsar+ssl://` is a broker.",
    "embedder": "`local`, `openai:MODEL` or `cohere:MODEL`.",
    "writer": "`extractive`, or `openai:MODEL` of any server that speaks OpenAI's API.",
    "reranker": "`auto`, `none`, or the name or folder of a flashrank model.",
    "collection": "Collection that commands work on.",
    "models": "Folder of local models in place of the usual ones.",
    "audit": "File that one line of JSON is appended to for each operation: who asked what, with which rights;"
    " `stderr` for standard error. Nothing is logged when it is not set.",
    "openai_api_key": "Key for OpenAI's API or a server that speaks it.",
    "openai_base_url": "Its address, `/v1` included.",
    "cohere_api_key": "Key for Cohere's API.",
    "cohere_base_url": "Its root; `/v2/embed` is appended.",
}

#: An empty default means: not set. The default of `home` is the user's data folder.
_DEFAULTS: Final[Mapping[str, str]] = {
    "broker": "memory://",
    "embedder": "local",
    "writer": "extractive",
    "reranker": "auto",
    "collection": "default",
}
_SECRETS: Final = frozenset({"openai_api_key", "cohere_api_key"})
_URLS: Final = frozenset({"database_url", "broker", "openai_base_url", "cohere_base_url"})
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "database_url": ("postgresql", "postgres"),
    "broker": ("memory", "pulsar", "pulsar+ssl"),
    "openai_base_url": ("http", "https"),
    "cohere_base_url": ("http", "https"),
}
_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
_MASK: Final = "***"


class ResolvedSetting(NamedTuple):
    """One setting as it may be shown."""

    name: str
    """Name in `whence.toml`."""
    variable: str
    """Environment variable."""
    value: str
    """The value, secrets masked; empty when it is not set."""
    origin: Origin
    """Where the value came from."""


class Settings:
    """All settings with their origins; made by `load`.

    Args:
        values: Value by name; a name left out is not set.
        origins: Origin by name; `default` when left out.

    Raises:
        ConfigError: A name is unknown, or a value is malformed.
    """

    __slots__ = ("_origins", "_values")

    def __init__(
        self, values: Mapping[str, str], origins: Mapping[str, Origin] | None = None
    ) -> None:
        for name in values:
            _check_name(name, "the settings")
        self._values = {**_DEFAULTS, **{name: value for name, value in values.items() if value}}
        self._origins = dict(origins or {})
        for name, value in self._values.items():
            _check_value(name, value, self.origin(name))

    @classmethod
    def load(
        cls,
        *,
        options: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Settings:
        """Collect the settings.

        Args:
            options: Values given by the caller, by the names of `VARIABLES`; None and empty ones
                count as not given.
            environ: The environment; the process's own when None.
            folder: Where `whence.toml` is looked for; the working folder when None.

        Raises:
            ConfigError: `whence.toml` cannot be read or holds an unknown key or a value that is not a
                string, an option is unknown, or a value is malformed.
        """
        environ = os.environ if environ is None else environ
        given = {name: str(value) for name, value in (options or {}).items() if value}
        sources: tuple[tuple[Origin, Callable[[str], str]], ...] = (
            ("option", lambda name: given.get(name, "")),
            ("environment", lambda name: environ.get(VARIABLES[name], "")),
            ("whence.toml", lambda name: in_file.get(name, "")),
        )
        for name in given:
            _check_name(name, "the options")
        in_file = _read_file((folder or Path.cwd()) / FILE_NAME)
        values: dict[str, str] = {}
        origins: dict[str, Origin] = {}
        for name in VARIABLES:
            for origin, find in sources:
                value = find(name)
                if value:
                    values[name], origins[name] = value, origin
                    break
        return cls(values, origins)

    @property
    def home(self) -> Path:
        """Folder of the embedded database and of locks, absolute."""
        chosen = self._values.get("home")
        if chosen:
            return Path(chosen).expanduser().absolute()
        from platformdirs import user_data_path

        return user_data_path("whence", appauthor=False)

    @property
    def database_url(self) -> str | None:
        """Address of a PostgreSQL server, credentials included; None for the embedded one."""
        return self._values.get("database_url")

    @property
    def broker(self) -> str:
        """Address of the broker, credentials included; `memory://` for this process."""
        return self._values["broker"]

    @property
    def embedder(self) -> str:
        """`local`, `openai:MODEL` or `cohere:MODEL`."""
        return self._values["embedder"]

    @property
    def writer(self) -> str:
        """`extractive` or `openai:MODEL`."""
        return self._values["writer"]

    @property
    def reranker(self) -> str:
        """`auto`, `none`, or a flashrank model name or folder."""
        return self._values["reranker"]

    @property
    def collection(self) -> str:
        """Collection to work on when none is named."""
        return self._values["collection"]

    @property
    def models(self) -> Path | None:
        """Folder of the local models, absolute; None for the usual places."""
        chosen = self._values.get("models")
        return Path(chosen).expanduser().absolute() if chosen else None

    @property
    def audit(self) -> str | None:
        """Absolute path of the audit log, or `stderr`; None when nothing is logged."""
        chosen = self._values.get("audit")
        if chosen is None or chosen == "stderr":
            return chosen
        return str(Path(chosen).expanduser().absolute())

    @property
    def openai_api_key(self) -> str | None:
        """Key for an OpenAI-compatible service."""
        return self._values.get("openai_api_key")

    @property
    def openai_base_url(self) -> str | None:
        """Address of an OpenAI-compatible service, `/v1` included."""
        return self._values.get("openai_base_url")

    @property
    def cohere_api_key(self) -> str | None:
        """Key for Cohere's API."""
        return self._values.get("cohere_api_key")

    @property
    def cohere_base_url(self) -> str | None:
        """Root address of Cohere's API."""
        return self._values.get("cohere_base_url")

    def origin(self, name: str) -> Origin:
        """Tell where a setting came from."""
        return self._origins.get(name, "default")

    def replace(self, **options: str) -> Settings:
        """Return settings in which these came by option.

        Raises:
            ConfigError: As for `load`.
        """
        origins: dict[str, Origin] = {**self._origins, **dict.fromkeys(options, "option")}
        return Settings({**self._values, **options}, origins)

    def describe(self) -> list[ResolvedSetting]:
        """Return every setting with its origin, secrets masked, in the order of the reference."""
        shown = {name: _masked(name, value) for name, value in self._values.items()}
        shown["home"] = str(self.home)
        return [
            ResolvedSetting(name, variable, shown.get(name, ""), self.origin(name))
            for name, variable in VARIABLES.items()
        ]

    def __repr__(self) -> str:
        fields = ", ".join(f"{line.name}={line.value!r}" for line in self.describe() if line.value)
        return f"Settings({fields})"


def mask_url(url: str) -> str:
    """Return an address without its credentials: user, password and query values are masked."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _MASK
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{_MASK}@{host}" if "@" in parts.netloc else host
    query = re.sub(r"=[^&]*", f"={_MASK}", parts.query)
    masked = urlunsplit((parts.scheme, netloc, parts.path, query, ""))
    # urlunsplit drops the slashes of an address without a host.
    return f"{parts.scheme}://" if masked == f"{parts.scheme}:" else masked


def _masked(name: str, value: str) -> str:
    if name in _SECRETS:
        return _MASK
    return mask_url(value) if name in _URLS else value


def _check_name(name: str, what: str) -> None:
    if name not in VARIABLES:
        names = tuple(VARIABLES)
        raise ConfigError(
            f"unknown setting {name!r} in {what}{nearest(name, names)}",
            hint=f"the settings are {', '.join(names)}",
        )


def _check_value(name: str, value: str, origin: Origin) -> None:
    if "\0" in value:
        raise ConfigError(f"the setting {name} ({origin}) holds a NUL character")
    if name == "collection" and not _COLLECTION.match(value):
        raise ConfigError(
            f"{value!r} is no name for a collection ({origin})",
            hint="use 1 to 63 of a-z, 0-9, _ and -, starting with a letter or digit",
        )
    schemes = _SCHEMES.get(name)
    if schemes is None:
        return
    scheme, mark, _ = value.partition("://")
    if name == "database_url" and scheme not in schemes:
        # Reading entry points takes longer than all other checks.
        from whence.store.open import store_schemes

        schemes = store_schemes()
    if not mark or scheme not in schemes:
        raise ConfigError(
            f"the setting {name} ({origin}) is no address that starts with"
            f" {' or '.join(f'{one}://' for one in schemes)}: {mask_url(value) if mark else _MASK}",
            hint=f"correct {_named(name, origin)}",
        )


def _named(name: str, origin: Origin) -> str:
    """Name a setting as whoever gave it wrote it."""
    if origin == "option":
        return f"--{name.replace('_', '-')}"
    return f"{name} in whence.toml" if origin == "whence.toml" else VARIABLES[name]


def _read_file(file: Path) -> dict[str, str]:
    try:
        data = tomllib.loads(file.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8", hint="save the file as UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{file} is not valid TOML: {error}", hint="correct that line, or remove the file"
        ) from error
    for name, value in data.items():
        _check_name(name, str(file))
        if not isinstance(value, str):
            raise ConfigError(
                f"{name} in {file} must be a string", hint=f'write {name} = "..." in quotes'
            )
    return data
