"""Settings: which source wins, what is refused, and that secrets stay secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.flow.settings import FILE_NAME, SETTINGS, Settings, mask_url
from whence.schema.errors import ConfigError


def load(folder: Path, toml: str = "", **sources: dict[str, str]) -> Settings:
    if toml:
        (folder / FILE_NAME).write_text(toml, "utf-8")
    return Settings.load(
        options=sources.get("options"), environ=sources.get("environ", {}), folder=folder
    )


def test_settings_have_defaults(tmp_path: Path) -> None:
    """Without options, environment and file every setting has its documented default."""
    settings = load(tmp_path)

    assert settings.broker == "memory://"
    assert (settings.embedder, settings.writer, settings.reranker) == (
        "local",
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
        ("home = 1", "home in .* must be a string"),
        ("home =", "is not valid TOML"),
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
    (tmp_path / FILE_NAME).write_bytes(b'home = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
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


def test_describe_lists_every_variable() -> None:
    """The doctor's list is complete and in the order of the reference."""
    lines = Settings({}).describe()

    assert [line.variable for line in lines] == [one.variable for one in SETTINGS]
    assert Settings({}).replace(reranker="none").describe()[5].origin == "option"
