"""Settings: which source wins, what is refused, and that secrets stay secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.flow.setting_values import mask_url
from whence.flow.settings import SETTINGS, Settings, export_dotenv
from whence.flow.settings_files import DOTENV_NAME, TOML_NAME, write_value
from whence.ingest.limited_process import Limits
from whence.schema.errors import ConfigError, NotFound


def load(folder: Path, toml: str = "", **sources: dict[str, str]) -> Settings:
    if toml:
        (folder / TOML_NAME).write_text(toml, "utf-8")
    return Settings.load(
        options=sources.get("options"), environ=sources.get("environ", {}), folder=folder
    )


def test_settings_have_defaults(tmp_path: Path) -> None:
    """Without options, environment and file every setting has its documented default."""
    settings = load(tmp_path)

    assert settings.broker == "memory://"
    assert (settings.embedder, settings.writer, settings.reranker) == (
        "auto",
        "extractive",
        "auto",
    )
    assert settings.collection == "default"
    assert settings.database_url is None
    assert settings.home.name == "whence"
    assert settings.home.is_absolute()
    assert {line.origin for line in settings.describe()} == {"default"}


def test_option_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    """The nearest source wins, and each value knows where it came from."""
    toml = 'collection = "file"\nwriter = "openai:file"\nembedder = "openai:file"\n'
    environ = {"WHENCE_COLLECTION": "environment", "WHENCE_WRITER": "openai:environment"}

    settings = load(tmp_path, toml, environ=environ, options={"collection": "option"})

    assert (settings.collection, settings.origin("collection")) == ("option", "option")
    assert (settings.writer, settings.origin("writer")) == ("openai:environment", "environment")
    assert (settings.embedder, settings.origin("embedder")) == ("openai:file", "whence.toml")
    assert (settings.reranker, settings.origin("reranker")) == ("auto", "default")


def test_each_file_is_behind_the_environment(tmp_path: Path) -> None:
    """`.env` comes after the environment, `whence.toml` of the folder next, that of the home last."""
    home = tmp_path / "home"
    home.mkdir()
    names = ["collection", "writer", "embedder", "reranker"]
    (home / TOML_NAME).write_text("".join(f'{name} = "openai:4"\n' for name in names[1:]))
    (tmp_path / DOTENV_NAME).write_text(
        "# comment\nexport WHENCE_COLLECTION=dotenv\nWHENCE_WRITER='openai:${HOME}'\nWHENCE_HOME=\n"
    )
    toml = 'collection = "toml"\nwriter = "openai:3"\nembedder = "openai:3"\nmodel_timeout = 7'

    settings = load(
        tmp_path, toml, environ={"WHENCE_COLLECTION": "first", "WHENCE_HOME": str(home)}
    )

    assert [(settings.get(name), settings.origin(name)) for name in names] == [
        ("first", "environment"),
        ("openai:${HOME}", ".env"),
        ("openai:3", "whence.toml"),
        ("openai:4", "home"),
    ]
    assert settings.model_timeout == 7


def test_a_home_names_no_other_home(tmp_path: Path) -> None:
    """`whence.toml` in the home cannot move the home."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / TOML_NAME).write_text('home = "/elsewhere"')

    with pytest.raises(ConfigError, match="names another home"):
        load(tmp_path, environ={"WHENCE_HOME": str(tmp_path / "home")})


def test_other_variables_of_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that are no settings reach the environment when Whence reads them and it lacks them."""
    monkeypatch.setenv("WHENCE_DEBUG", "")
    monkeypatch.setenv("WHENCE_LOG", "info")
    monkeypatch.delenv("WHENCE_METRICS", raising=False)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.delenv("WHENCE_WRITER", raising=False)
    file = tmp_path / DOTENV_NAME
    file.write_text("WHENCE_LOG=debug\nWHENCE_METRICS=:1\nLD_PRELOAD=x\nWHENCE_WRITER=openai:m\n")

    export_dotenv(file)
    found = {name: os.environ.pop(name, None) for name in ("WHENCE_METRICS",)}

    assert found == {"WHENCE_METRICS": ":1"}
    assert os.environ["WHENCE_LOG"] == "info"
    assert not {"LD_PRELOAD", "WHENCE_WRITER"} & set(os.environ)


def test_writing_keeps_the_rest_of_a_file(tmp_path: Path) -> None:
    """Comments and order of `whence.toml` stay, and others may not read it."""
    file = tmp_path / "home" / TOML_NAME
    write_value(file, "writer", "openai:a")
    file.write_text("# Why.\n" + file.read_text() + 'broker = "memory://"  # here\n')
    write_value(file, "writer", "openai:b")
    write_value(file, "collection", "c")

    assert file.read_text() == (
        '# Why.\nwriter = "openai:b"\nbroker = "memory://"  # here\ncollection = "c"\n'
    )
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == [TOML_NAME]

    write_value(file, "writer", None)

    assert "writer" not in file.read_text()
    with pytest.raises(NotFound, match="writer is not set"):
        write_value(file, "writer", None)


def test_an_empty_value_counts_as_not_given(tmp_path: Path) -> None:
    """An empty variable or option does not hide the sources behind it."""
    settings = load(
        tmp_path,
        'collection = "file"',
        environ={"WHENCE_COLLECTION": ""},
        options={"collection": ""},
    )

    assert settings.collection == "file"


def test_folders_are_absolute(tmp_path: Path) -> None:
    """A home given relative to the working folder stays the same when the process moves."""
    settings = load(tmp_path, environ={"WHENCE_HOME": "here", "WHENCE_MODELS": "~/models"})

    assert settings.home == Path.cwd() / "here"
    assert settings.models == Path.home() / "models"


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('colection = "x"', "did you mean 'collection'"),
        ('[database]\nurl = "x"', "did you mean 'database_url'"),
        ('home = ["a"]', "home in .* must be one text or number"),
        ('home = {a = "b"}', "home in .* must be one text or number"),
        ("home = 2027-01-02", "home in .* must be one text or number"),
        ("home =", "is not valid TOML"),
        (f"home = {'1' * 5000}", "is not valid TOML"),
        ('broker = "kafka://x"', "must start with memory:// or pulsar://"),
        ('database_url = "mysql://x"', "postgresql://"),
        ('collection = "No Such"', "not a valid collection name"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, toml: str, words: str) -> None:
    """`whence.toml` is checked: keys, types and forms."""
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, toml)


def test_an_error_names_the_source_of_the_value(tmp_path: Path) -> None:
    """The hint names the option, the variable or the key of the file."""
    hints = []
    ways: tuple[dict[str, Any], ...] = (
        {"options": {"broker": "foo"}},
        {"environ": {"WHENCE_BROKER": "foo"}},
        {"toml": 'broker = "foo"'},
    )
    for way in ways:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, **way)
        hints.append(caught.value.hint)
    assert hints == ["correct --broker", "correct WHENCE_BROKER", "correct broker in whence.toml"]


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A file that is not UTF-8, or a folder of that name, is a configuration error."""
    (tmp_path / TOML_NAME).write_bytes(b'home = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path)
    (tmp_path / TOML_NAME).unlink()
    (tmp_path / TOML_NAME).mkdir()
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path)


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    """An unknown option is refused by name."""
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        load(tmp_path, options={"colour": "red"})


_WORD = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABC0123456789", min_size=6, max_size=20)


@given(secret=_WORD.map("S3cret{}".format))
def test_no_secret_is_ever_shown(secret: str) -> None:
    """Keys, passwords and tokens are in no representation of the settings, nor in their errors."""
    settings = Settings(
        {
            "openai_api_key": secret,
            "cohere_api_key": secret,
            "database_url": f"postgresql://user:{secret}@host/db?password={secret}",
            "broker": f"pulsar://:{secret}@host:6650",
            "openai_base_url": f"https://{secret}@host/v1",
        }
    )

    shown = repr(settings) + str(settings) + str(settings.describe())
    assert secret not in shown
    assert "host:6650" in shown
    for bad in (f"mysql://user:{secret}@host", f"user:{secret}@host", f"mysql://[{secret}"):
        with pytest.raises(ConfigError) as caught:
            Settings({"database_url": bad})
        assert secret not in str(caught.value) + caught.value.hint


def test_addresses_without_secrets_are_shown_as_they_are() -> None:
    """Masking leaves a plain address readable."""
    for url in ("memory://", "pulsar://host:6650", "postgresql://host:5432/db", "https://h/v1"):
        assert mask_url(url) == url


def test_limits_of_documents_are_seconds_and_sizes() -> None:
    """Sizes have units of powers of 1024; a size without a unit, or too small to read anything, is refused."""
    settings = Settings(
        {"document_timeout": "5", "document_memory": "512MB", "document_output": "64 kb"}
    )
    limits = settings.document_limits
    assert (limits.seconds, limits.memory, limits.output) == (5, 2**29, 2**16)
    assert Settings({}).document_limits == Limits()
    for bad in ("64", "127MB", "2 TB", "-1GB", "1.5GB", "9999999GB"):
        with pytest.raises(ConfigError, match="document_memory must be a size"):
            _ = Settings({"document_memory": bad}).document_limits


def test_describe_lists_every_variable() -> None:
    """The doctor's list is complete and in the order of the reference."""
    lines = Settings({}).describe()

    assert [line.variable for line in lines] == [one.variable for one in SETTINGS]
    assert Settings({}).replace(reranker="none").describe()[5].origin == "option"
