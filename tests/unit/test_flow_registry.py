"""Processor types by name, ours and those of other distributions."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint

import pytest

from whence.flow.registry import Registry
from whence.processors.base import Processor
from whence.schema import plugins
from whence.schema.errors import ConfigError


class Mine(Processor):
    type_name = "mine"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Values of the entry points `theirs` that other distributions offer."""
    values: list[str] = []

    def entry_points(*, group: str, name: str = "theirs") -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for value in values if name == "theirs"]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    return values


@pytest.mark.parametrize("name", Registry().names())
def test_every_built_in_type_has_its_name(name: str) -> None:
    """The path of a built-in type leads to a processor class of the same name."""
    cls = Registry().get(name)

    assert issubclass(cls, Processor)
    assert cls.type_name == name
    assert cls.summary


def test_a_given_class_takes_precedence() -> None:
    """A class passed to the registry replaces a built-in one of the same name."""
    assert Registry({"embedding": Mine}).get("embedding") is Mine


def test_an_entry_point_adds_a_type(offered: list[str]) -> None:
    """A distribution adds a type through its entry point."""
    offered.append("whence.processors.base:Processor")
    registry = Registry()

    assert registry.get("theirs") is import_module("whence.processors.base").Processor
    assert "theirs" in registry.names()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("whence.no_such_module:X", "ModuleNotFoundError"),
        ("whence.processors.base:Missing", "AttributeError"),
        ("whence.processors.base:NoParameters", "not a subclass"),
        ("json:dumps", "not a subclass"),
    ],
)
def test_a_broken_plug_in_names_its_distribution(
    offered: list[str], target: str, words: str
) -> None:
    """An invalid plug-in is a configuration error that names its distribution."""
    offered.append(target)

    with pytest.raises(ConfigError, match=words) as caught:
        Registry().get("theirs")
    assert target in caught.value.message


def test_two_plug_ins_of_one_name_are_refused(offered: list[str]) -> None:
    """The order of installation decides nothing: two plug-ins of one name are an error."""
    offered += ["a:B", "c:D"]

    with pytest.raises(ConfigError, match="offered by entry point 'a:B' and entry point 'c:D'"):
        Registry().get("theirs")


def test_an_unknown_type_gets_the_nearest_name(offered: list[str]) -> None:
    """The error names the nearest type, plug-ins included, and all of them in the hint."""
    offered.append("a:B")

    with pytest.raises(ConfigError, match="did you mean 'embedding'") as caught:
        Registry().get("embeding")
    assert "theirs" in caught.value.hint
