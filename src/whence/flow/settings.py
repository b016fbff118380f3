"""The settings of one call.

A value comes from the first of these that has one: option, environment, `.env` in the working folder,
`whence.toml` there, `whence.toml` in the home, default. Every value knows its origin. Keys and passwords
never appear in `repr`, `str` or `describe`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

from whence.flow.definition import did_you_mean
from whence.flow.setting_values import (
    MASK,
    is_on,
    mask_url,
    parse_decimal,
    parse_duration,
    parse_limits,
    parse_object,
    parse_whole,
)
from whence.flow.settings_files import DOTENV_NAME, TOML_NAME, read_dotenv, read_toml
from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from whence.ingest.limited_process import Limits

Origin = Literal["option", "environment", ".env", "whence.toml", "home", "default"]
"""Source of a value; `home` is `whence.toml` in the home."""

_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
_WHOLE = re.compile(r"[0-9]{1,9}\Z")


class Setting(NamedTuple):
    """One row of the table of settings."""

    name: str
    """Name in `whence.toml`; as an option, with `-` for `_`."""
    variable: str
    meaning: str
    """Description for the reference."""
    default: str = ""
    schemes: tuple[str, ...] = ()
    """Schemes of a setting that is an address."""
    plugins: str = ""
    """Entry-point group whose plug-ins have schemes of their own."""
    secret: bool = False
    """True for a key that must never be shown."""
    is_list: bool = False
    """True for several values: an array in `whence.toml`, elsewhere with commas between them."""
    most: int = 0
    """Largest value of a setting that is a whole number from 1; 0 for text."""
    choices: tuple[str, ...] = ()
    """The values of a setting that has only these."""


#: Every setting, in the order of the reference.
SETTINGS: Final = (
    Setting(
        "home",
        "WHENCE_HOME",
        "Folder of the embedded database and of local models; the user's data folder by default. Several"
        " processes may use one home at once.",
    ),
    Setting(
        "database_url",
        "WHENCE_DATABASE_URL",
        "A PostgreSQL 16+ with pgvector in place of the embedded one.",
        schemes=("postgresql", "postgres"),
        plugins="whence.stores",
    ),
    Setting(
        "broker",
        "WHENCE_BROKER",
        "`memory://` runs flows in this process; `pulsar://HOST:PORT` or `pulsar+ssl://` is a broker.",
        "memory://",
        schemes=("memory", "pulsar", "pulsar+ssl"),
        plugins="whence.transports",
    ),
    Setting(
        "embedder",
        "WHENCE_EMBEDDER",
        "`auto`, `local`, an encoder of `whence models list`, `onnx:FOLDER`, `openai:MODEL` of any server that speaks"
        " OpenAI's API, `ollama:MODEL`, `cohere:MODEL`, or `NAME:MODEL` of a plug-in. `auto` is `local`, or an installed"
        " multilingual encoder for a new collection whose first documents are not in English.",
        "auto",
    ),
    Setting(
        "writer",
        "WHENCE_WRITER",
        "`extractive`, `openai:MODEL` of any server that speaks OpenAI's API, `ollama:MODEL`, or `NAME:MODEL` of a"
        " plug-in.",
        "extractive",
    ),
    Setting(
        "reranker",
        "WHENCE_RERANKER",
        "`auto` (an installed cross-encoder, else the local reranker), `none`, `http:MODEL` of a rerank server,"
        " `onnx:FOLDER`, the name or folder of a flashrank model, or `NAME:MODEL` of a plug-in.",
        "auto",
    ),
    Setting(
        "token_vectors",
        "WHENCE_TOKEN_VECTORS",
        "`on` keeps the token vectors of documents that are indexed, about 3 kB a chunk, for the local"
        " reranker; with `off` it reads their texts, which takes longer.",
        "on",
    ),
    Setting(
        "keep_versions",
        "WHENCE_KEEP_VERSIONS",
        "How long documents that were replaced or removed are kept for `whence ask --as-of`: `30d`, `12h` or `4w`;"
        " `0` keeps none. Erased ones are never kept.",
        "30d",
    ),
    Setting(
        "document_timeout",
        "WHENCE_DOCUMENT_TIMEOUT",
        "Seconds in which one document must be read; one that takes longer fails, and the others go on.",
        "30",
        most=86_400,
    ),
    Setting(
        "document_memory",
        "WHENCE_DOCUMENT_MEMORY",
        "Memory for reading one document: `1GB`, `512MB`; at least `128MB`.",
        "1GB",
    ),
    Setting(
        "document_output",
        "WHENCE_DOCUMENT_OUTPUT",
        "Most text, with its structure, that is taken from one document: `64MB`, `512KB`.",
        "64MB",
    ),
    Setting(
        "ocr_languages",
        "WHENCE_OCR_LANGUAGES",
        "Languages of tesseract in which pictures and pages of PDF without text are read, such as `deu+eng`; `auto` for"
        " those that are installed, `off` to read none.",
        "auto",
    ),
    Setting(
        "sparql_timeout",
        "WHENCE_SPARQL_TIMEOUT",
        "Seconds that a query of `whence explain --sparql` may take.",
        "10",
        most=86_400,
    ),
    Setting(
        "sparql_memory",
        "WHENCE_SPARQL_MEMORY",
        "Memory that such a query may take: `512MB`, `2GB`; at least `128MB`.",
        "512MB",
    ),
    Setting("collection", "WHENCE_COLLECTION", "Collection that commands work on.", "default"),
    Setting("models", "WHENCE_MODELS", "Folder of local models in place of the usual ones."),
    Setting(
        "audit",
        "WHENCE_AUDIT",
        "File that one line of JSON is appended to for each operation: who asked what, with which rights;"
        " `stderr` for standard error. Nothing is logged when it is not set.",
    ),
    Setting(
        "trace_dir",
        "WHENCE_TRACE_DIR",
        "Folder in which each search, question, expansion and fetch leaves a JSON file of what ran.",
    ),
    Setting(
        "integrity",
        "WHENCE_INTEGRITY",
        "Folder with the key that signs the chain of traces, the keys it trusts and its newest entry; `integrity` in"
        " the home by default. Processes that record into one database name one folder.",
    ),
    Setting(
        "keep",
        "WHENCE_KEEP",
        "How long traces are kept, such as `90d`, `12h` or `52w`; for ever when it is not set. Recorders remove older"
        " ones every hour; `whence traces prune` does it at once.",
    ),
    *(
        setting
        for role in ("writer", "embedder", "reranker")
        for setting in (
            Setting(
                f"{role}_url",
                f"WHENCE_{role.upper()}_URL",
                f"Address of the server of the {role}.",
                schemes=("http", "https"),
            ),
            Setting(
                f"{role}_api_key",
                f"WHENCE_{role.upper()}_API_KEY",
                f"Key for the server of the {role}; sent to no other.",
                secret=True,
            ),
        )
    ),
    Setting(
        "tokens",
        "WHENCE_TOKENS",
        "File with the tokens of `whence serve` and their rights, which `whence tokens` writes; `tokens.toml` in the home"
        " by default.",
    ),
    Setting(
        "public_url",
        "WHENCE_PUBLIC_URL",
        "Address at which callers reach `whence serve`, such as that of a proxy; the `Host` of each request by default.",
        schemes=("http", "https"),
    ),
    Setting(
        "oidc_issuer",
        "WHENCE_OIDC_ISSUER",
        "Issuer whose JSON Web Tokens `whence serve` accepts, exactly as it calls itself in them.",
    ),
    Setting(
        "oidc_audience", "WHENCE_OIDC_AUDIENCE", "Audience that these tokens must be made for."
    ),
    Setting(
        "oidc_groups_claim",
        "WHENCE_OIDC_GROUPS_CLAIM",
        "Claim with the groups of the reader, which become access tags; of a claim inside another, the names joined by"
        " dots, such as `realm_access.roles`.",
        "groups",
    ),
    Setting(
        "oidc_mapping",
        "WHENCE_OIDC_MAPPING",
        "TOML file with what each group grants; without it, its name as an access tag and nothing else.",
    ),
    Setting(
        "oidc_jwks",
        "WHENCE_OIDC_JWKS",
        "File with the public keys of the issuer (a JSON Web Key Set); fetched from the issuer by default.",
    ),
    Setting(
        "oidc_clock_skew",
        "WHENCE_OIDC_CLOCK_SKEW",
        "Seconds by which the clocks of issuer and server may differ, 0 to 600.",
        "60",
    ),
    Setting(
        "oidc_scopes",
        "WHENCE_OIDC_SCOPES",
        "Scopes, separated by spaces, that clients are told to ask the issuer for.",
    ),
    Setting(
        "oidc_client_id",
        "WHENCE_OIDC_CLIENT_ID",
        "Name of the page of `whence serve` at the issuer, for readers who sign in there; the audience by default.",
    ),
    Setting(
        "oidc_client_secret",
        "WHENCE_OIDC_CLIENT_SECRET",
        "Its secret, for an issuer that gives it one.",
        secret=True,
    ),
    Setting(
        "openai_api_key",
        "OPENAI_API_KEY",
        "Key for OpenAI's API or the server at `OPENAI_BASE_URL`, when writer or embedder have no key of their own.",
        secret=True,
    ),
    Setting(
        "openai_base_url",
        "OPENAI_BASE_URL",
        "Its address, `/v1` included, when writer or embedder have no address of their own.",
        schemes=("http", "https"),
    ),
    Setting("cohere_api_key", "COHERE_API_KEY", "Key for Cohere's API.", secret=True),
    Setting(
        "cohere_base_url",
        "COHERE_BASE_URL",
        "Its root; `/v2/embed` is appended.",
        schemes=("http", "https"),
    ),
    Setting(
        "ollama_host",
        "OLLAMA_HOST",
        "Host and port of Ollama for `ollama:MODEL`; `localhost:11434` by default.",
    ),
    Setting(
        "model_timeout",
        "WHENCE_MODEL_TIMEOUT",
        "Seconds after which a request to a model server is given up, all its attempts included; 27 by default."
        " The deadline of the question may end it earlier.",
        most=3600,
    ),
    Setting(
        "embedder_max_tokens",
        "WHENCE_EMBEDDER_MAX_TOKENS",
        "Tokens of a text that the server of the embedder reads; asked or measured at first use by default. Longer"
        " documents are split.",
        most=1_000_000,
    ),
    Setting(
        "embedder_batch",
        "WHENCE_EMBEDDER_BATCH",
        "Most texts in one request for vectors; 64 by default (Cohere: 96), and what TEI says of itself.",
        most=10_000,
    ),
    Setting(
        "reranker_batch",
        "WHENCE_RERANKER_BATCH",
        "Most documents in one request to a rerank server; 100 by default, and what TEI says of itself.",
        most=10_000,
    ),
    Setting(
        "model_concurrency",
        "WHENCE_MODEL_CONCURRENCY",
        "Most requests to one model server at the same time; 4 by default.",
        most=1000,
    ),
    Setting(
        "writer_window",
        "WHENCE_WRITER_WINDOW",
        "Tokens that the writer's model reads and writes together; asked of its server by default. Passages that do not"
        " fit are dropped as `over_budget`.",
        most=100_000_000,
    ),
    Setting(
        "writer_max_tokens",
        "WHENCE_WRITER_MAX_TOKENS",
        "Most tokens that the writer's model may write; the limit of its server by default.",
        most=1_000_000,
    ),
    Setting(
        "writer_temperature",
        "WHENCE_WRITER_TEMPERATURE",
        "Temperature of the writer's model, 0 to 2.",
        "0",
    ),
    Setting(
        "writer_seed",
        "WHENCE_WRITER_SEED",
        "Seed of the writer's model, a whole number, for servers that take one.",
    ),
    Setting(
        "writer_extra",
        "WHENCE_WRITER_EXTRA",
        "More fields of each request to the writer's server, as an object of JSON.",
    ),
    Setting(
        "rewriter",
        "WHENCE_REWRITER",
        "Model that completes follow-up questions and names what to search for, written as `writer` is; the writer by"
        " default.",
    ),
    Setting(
        "concepts",
        "WHENCE_CONCEPTS",
        "Whether a language model names phrases to search for beside the question, which costs a call before each search:"
        " `on`, `off`, or `auto`, which leaves it out.",
        "auto",
        choices=("auto", "on", "off"),
    ),
    Setting(
        "answer_language",
        "WHENCE_ANSWER_LANGUAGE",
        "Language in which a language model answers, such as `German`; that of the question by default.",
    ),
    Setting(
        "answer_instructions",
        "WHENCE_ANSWER_INSTRUCTIONS",
        "What a language model is told beside the rules of answering, such as the tone and the length.",
    ),
    Setting(
        "local_only_labels",
        "WHENCE_LOCAL_ONLY_LABELS",
        "Labels and ACL tags whose documents leave this machine with no question: their passages are not given to a"
        " language model on another machine, and are dropped as `local_only`. Embedder and reranker must be local then.",
        is_list=True,
    ),
    Setting(
        "answer_cache",
        "WHENCE_ANSWER_CACHE",
        "Whether a question that was asked before is answered with its recorded answer: `on`, or `off`. It must have the"
        " same words, options, rights, day, models, prompts and version of the collection.",
        "off",
        choices=("on", "off"),
    ),
    Setting(
        "prices",
        "WHENCE_PRICES",
        'File with prices of models (TOML): `currency`, and for each a table `[models."NAME"]` with `input` and'
        " `output`, for a million tokens; answers and metrics then have what they cost.",
    ),
    Setting(
        "prompts",
        "WHENCE_PROMPTS",
        "Folder of templates in place of the shipped ones: `document-prompt.toml`, `extract-concepts.toml`,"
        " `complete-question.toml` and `search-again.toml`, each with `system` and `prompt`; traces have the digest of each.",
    ),
)
#: Beginnings of the variables that are read elsewhere and may stand in `.env`, too.
_OTHER_VARIABLES: Final = ("WHENCE_", "OTEL_", "QDRANT_")
_BY_NAME: Final[Mapping[str, Setting]] = {one.name: one for one in SETTINGS}

T = TypeVar("T")


class _Value(Generic[T]):
    """Attribute of `Settings` with the value of the setting of its name."""

    def __set_name__(self, owner: type[Settings], name: str) -> None:
        self._name = name

    def __get__(self, settings: Settings, owner: type[Settings]) -> T:
        value = settings.get(self._name)
        whole = _BY_NAME[self._name].most and value
        return cast("T", int(value) if whole and value else value)


class ResolvedSetting(NamedTuple):
    """One setting as it may be shown."""

    name: str
    variable: str
    value: str
    origin: Origin


class Settings:
    """The settings of one call; made by `load`.

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
            check_name(name, "the settings")
        defaults = {one.name: one.default for one in SETTINGS if one.default}
        self._values = {**defaults, **{name: value for name, value in values.items() if value}}
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
            options: Values given by the caller, by name; None and empty ones count as not given.
            environ: The environment; the process's own when None.
            folder: Where `.env` and `whence.toml` are looked for; the working folder when None.

        Raises:
            ConfigError: A file cannot be read or holds an unknown key, an option is unknown, or a value is
                malformed.
        """
        environ = os.environ if environ is None else environ
        given = {name: str(value) for name, value in (options or {}).items() if value}
        for name in given:
            check_name(name, "the options")
        folder = folder or Path.cwd()
        dotenv = read_dotenv(folder / DOTENV_NAME)
        variables = {one.name: one.variable for one in SETTINGS}
        sources: list[tuple[Origin, Mapping[str, str]]] = [
            ("option", given),
            ("environment", {name: environ.get(one, "") for name, one in variables.items()}),
            (".env", {name: dotenv.get(one, "") for name, one in variables.items()}),
            ("whence.toml", _read_toml(folder / TOML_NAME)),
        ]
        home = cls(*_first_values(sources)).home
        in_home = _read_toml(home / TOML_NAME)
        if "home" in in_home:
            raise ConfigError(f"{home / TOML_NAME} names another home", hint="remove that line")
        return cls(*_first_values([*sources, ("home", in_home)]))

    database_url = _Value["str | None"]()
    broker = _Value[str]()
    embedder = _Value[str]()
    writer = _Value[str]()
    reranker = _Value[str]()
    collection = _Value[str]()
    embedder_url = _Value["str | None"]()
    embedder_api_key = _Value["str | None"]()
    reranker_url = _Value["str | None"]()
    reranker_api_key = _Value["str | None"]()
    writer_url = _Value["str | None"]()
    writer_api_key = _Value["str | None"]()
    openai_api_key = _Value["str | None"]()
    openai_base_url = _Value["str | None"]()
    cohere_api_key = _Value["str | None"]()
    cohere_base_url = _Value["str | None"]()
    ollama_host = _Value["str | None"]()
    sparql_timeout = _Value[int]()
    model_timeout = _Value["int | None"]()
    embedder_max_tokens = _Value["int | None"]()
    embedder_batch = _Value["int | None"]()
    reranker_batch = _Value["int | None"]()
    model_concurrency = _Value["int | None"]()
    writer_window = _Value["int | None"]()
    writer_max_tokens = _Value["int | None"]()
    answer_cache = _Value[Literal["on", "off"]]()
    concepts = _Value[Literal["auto", "on", "off"]]()

    @property
    def home(self) -> Path:
        """Folder of the embedded database and of locks, absolute."""
        if chosen := self._path("home"):
            return chosen
        from platformdirs import user_data_path

        return user_data_path("whence", appauthor=False)

    @property
    def models(self) -> Path | None:
        """Folder of the local models, absolute; None for the usual places."""
        return self._path("models")

    @property
    def prompts(self) -> Path | None:
        """Folder of templates, absolute; None for the shipped ones."""
        return self._path("prompts")

    @property
    def writer_temperature(self) -> float:
        """Temperature of the writer's model."""
        return parse_decimal("writer_temperature", str(self.get("writer_temperature")), 2.0)

    @property
    def writer_seed(self) -> int | None:
        """Seed of the writer's model."""
        return parse_whole("writer_seed", given) if (given := self.get("writer_seed")) else None

    @property
    def writer_extra(self) -> dict[str, Any]:
        """More fields of each request to the writer's server."""
        return parse_object("writer_extra", given) if (given := self.get("writer_extra")) else {}

    @property
    def prices(self) -> Path | None:
        """File with prices of models, absolute; None when no price is known."""
        return self._path("prices")

    @property
    def local_only_labels(self) -> frozenset[str]:
        """Labels and ACL tags whose documents are sent to no other machine."""
        given = (self.get("local_only_labels") or "").split(",")
        return frozenset(filter(None, map(str.strip, given)))

    @property
    def token_vectors(self) -> bool:
        """Whether token vectors of documents are kept."""
        return is_on("token_vectors", str(self.get("token_vectors")))

    @property
    def keep_versions(self) -> timedelta:
        """Time for which former versions of documents are kept; zero for none."""
        return parse_duration("keep_versions", str(self.get("keep_versions")))

    @property
    def document_limits(self) -> Limits:
        """Limits of reading one document."""
        return parse_limits(self.get)

    @property
    def trace_dir(self) -> Path | None:
        """Folder of pipeline traces, absolute; None when none are written."""
        return self._path("trace_dir")

    @property
    def integrity(self) -> Path:
        """Folder with the key and the head of the chain of traces, absolute."""
        return self._path("integrity") or self.home / "integrity"

    @property
    def tokens(self) -> Path:
        """File with the tokens of the gateway, absolute."""
        return self._path("tokens") or self.home / "tokens.toml"

    @property
    def keep(self) -> timedelta | None:
        """How long traces are kept; None for ever."""
        chosen = self.get("keep")
        return (parse_duration("keep", chosen) or None) if chosen else None

    @property
    def audit(self) -> str | None:
        """Absolute path of the audit log, or `stderr`; None when nothing is logged."""
        chosen = self.get("audit")
        return chosen if chosen in (None, "stderr") else str(self._path("audit"))

    def get(self, name: str) -> str | None:
        """Return the value of a setting as it was given, or its default; None when it is not set."""
        return self._values.get(name)

    def _path(self, name: str) -> Path | None:
        """Return a path that was given, absolute; None when it is not set."""
        chosen = self.get(name)
        return Path(chosen).expanduser().absolute() if chosen else None

    def origin(self, name: str) -> Origin:
        """Return the source of a setting."""
        return self._origins.get(name, "default")

    def replace(self, **options: str) -> Settings:
        """Return settings in which these came by option."""
        origins: dict[str, Origin] = {**self._origins, **dict.fromkeys(options, "option")}
        return Settings({**self._values, **options}, origins)

    def describe(self) -> list[ResolvedSetting]:
        """Return every setting with its origin, secrets masked, in the order of the reference."""
        values = {**self._values, "home": str(self.home)}
        found = []
        for one in SETTINGS:
            value = values.get(one.name, "")
            if value and one.secret:
                value = MASK
            elif value and (one.schemes or "://" in value):
                value = mask_url(value)
            found.append(ResolvedSetting(one.name, one.variable, value, self.origin(one.name)))
        return found

    def __repr__(self) -> str:
        fields = ", ".join(f"{line.name}={line.value!r}" for line in self.describe() if line.value)
        return f"Settings({fields})"


def export_dotenv(file: Path) -> None:
    """Put variables of a `.env` file that are no settings, such as `WHENCE_LOG`, into the environment.

    What the environment has already stays.
    """
    settings = {one.variable for one in SETTINGS}
    for name, value in read_dotenv(file).items():
        if name.startswith(_OTHER_VARIABLES) and name not in settings:
            os.environ.setdefault(name, value)


def _first_values(
    sources: Iterable[tuple[Origin, Mapping[str, str]]],
) -> tuple[dict[str, str], dict[str, Origin]]:
    """Return each setting's first value that is not empty, and its origin."""
    values: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    for origin, given in sources:
        for name, value in given.items():
            if value and name not in values:
                values[name], origins[name] = value, origin
    return values, origins


def check_name(name: str, where: str) -> None:
    """Refuse a name that is no setting."""
    if name not in _BY_NAME:
        names = tuple(_BY_NAME)
        raise ConfigError(
            f"unknown setting {name!r} in {where}{did_you_mean(name, names)}",
            hint=f"the settings are {', '.join(names)}",
        )


def _check_value(name: str, value: str, origin: Origin) -> None:
    if "\0" in value:
        raise ConfigError(f"the setting {name} ({origin}) holds a NUL character")
    # A search takes several, separated by commas.
    if name == "collection" and not all(map(_COLLECTION.match, value.split(","))):
        raise ConfigError(
            f"{value!r} is not a valid collection name ({origin})",
            hint="use 1 to 63 of a-z, 0-9, _ and -, starting with a letter or digit",
        )
    setting = _BY_NAME[name]
    if setting.most and not (_WHOLE.match(value) and 1 <= int(value) <= setting.most):
        raise ConfigError(
            f"{name} ({origin}) must be a whole number from 1 to {setting.most}, not {value!r}",
            hint=f"correct {_written(setting, origin)}",
        )
    if setting.choices and value not in setting.choices:
        raise ConfigError(
            f"{name} ({origin}) must be {' or '.join(setting.choices)}, not {value!r}",
            hint=f"correct {_written(setting, origin)}",
        )
    schemes = setting.schemes
    scheme, mark, _ = value.partition("://")
    if setting.plugins and scheme not in schemes:
        # Reading entry points takes longer than all other checks.
        from whence.schema.plugins import plugin_names

        schemes += plugin_names(setting.plugins)
    if schemes and not (mark and scheme in schemes):
        raise ConfigError(
            f"the setting {name} ({origin}) must start with"
            f" {' or '.join(f'{one}://' for one in schemes)}:"
            f" {mask_url(value) if mark else MASK}",
            hint=f"correct {_written(setting, origin)}",
        )


def _written(setting: Setting, origin: Origin) -> str:
    """Return the name of a setting as the caller wrote it."""
    names = {
        "option": f"--{setting.name.replace('_', '-')}",
        "whence.toml": f"{setting.name} in whence.toml",
        "home": f"{setting.name} in whence.toml of the home",
        ".env": f"{setting.variable} in .env",
    }
    return names.get(origin, setting.variable)


def _read_toml(file: Path) -> dict[str, str]:
    """Return the settings of a `whence.toml` as text."""
    values = {}
    for name, value in read_toml(file).items():
        check_name(name, str(file))
        values[name] = _as_text(name, value, file)
    return values


def _as_text(name: str, value: object, file: Path) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case str() | int() | float():
            return str(value)
        case dict() if name == "writer_extra":
            return json.dumps(value, default=str)
        case list() if _BY_NAME[name].is_list and all(isinstance(one, str) for one in value):
            return ",".join(value)
    wanted = "a list of texts" if _BY_NAME[name].is_list else "one text or number"
    raise ConfigError(f"{name} in {file} must be {wanted}", hint=f'write {name} = "..."')
