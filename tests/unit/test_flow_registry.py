"""Processor types by name, ours and those of other distributions."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint

import pytest

from whence.flow.registry import BUILT_IN, Registry
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


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_type_is_there_under_its_own_name(name: str) -> None:
    """A built-in path leads to a processor class that calls itself by the same name."""
    cls = Registry().get(name)

    assert issubclass(cls, Processor)
    assert cls.type_name == name
    assert cls.summary


def test_a_class_given_goes_before_all_others() -> None:
    """A class handed to the registry replaces a built-in one of the same name."""
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
def test_a_broken_plug_in_names_its_owner(offered: list[str], target: str, words: str) -> None:
    """A plug-in that cannot be used is a configuration error that says whose it is."""
    offered.append(target)

    with pytest.raises(ConfigError, match=words) as caught:
        Registry().get("theirs")
    assert target in caught.value.message


def test_two_owners_of_one_type_are_refused(offered: list[str]) -> None:
    """No order of installation decides between two plug-ins of one name."""
    offered += ["a:B", "c:D"]

    with pytest.raises(ConfigError, match="offered by entry point 'a:B' and entry point 'c:D'"):
        Registry().get("theirs")


def test_an_unknown_type_gets_the_nearest_name(offered: list[str]) -> None:
    """The error names the nearest type, plug-ins included, and all of them in the hint."""
    offered.append("a:B")

    with pytest.raises(ConfigError, match="did you mean 'embedding'") as caught:
        Registry().get("embeding")
    assert "theirs" in caught.value.hint
