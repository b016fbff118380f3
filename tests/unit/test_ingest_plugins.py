"""Document loaders of other packages, offered through entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from whence.ingest import loader_registry
from whence.ingest.blocks import ParsedDocument
from whence.ingest.chunking import Chunker
from whence.ingest.document_builder import build_document
from whence.ingest.documents import KnownSources, load_documents
from whence.ingest.load_results import LoadedDocument, Unchanged
from whence.ingest.loader_registry import GROUP, loaders_by_suffix
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema import plugins
from whence.schema.errors import ConfigError


def load_recipe(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a heading, then one ingredient a line."""
    title, *ingredients = data.decode().splitlines()
    text = TextBuilder()
    text.add_heading(1, title)
    with text.block():
        for ingredient in ingredients:
            with text.item():
                text.add_paragraph(ingredient)
    return build_document(file, text.text, text.blocks, title=title, places=text.places)


RECIPES = Loader(name="recipe", suffixes=(".recipe",), parse_file=load_recipe, is_binary=True)
MORE_RECIPES = Loader(name="other recipe", suffixes=(".recipe",), parse_file=load_recipe)
OWN_MARKDOWN = Loader(name="own Markdown", suffixes=(".md",), parse_file=load_recipe)


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    loaders_by_suffix.cache_clear()
    yield
    loaders_by_suffix.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, **offered: str) -> None:
    """Offer attributes of this module as entry points."""
    points = [EntryPoint(name, f"{__name__}:{value}", GROUP) for name, value in offered.items()]

    def entry_points(*, group: str, name: str = "") -> list[EntryPoint]:
        assert group == GROUP
        return [point for point in points if name in ("", point.name)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_a_plugin_loads_files_of_its_suffix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file is loaded by the plug-in for its suffix, even if its first bytes are those of another format."""
    install(monkeypatch, recipes="RECIPES")
    (tmp_path / "tea.recipe").write_text("GIF89a tea\nwater\nleaves\n")

    (loaded,) = load_documents([tmp_path], chunker=Chunker(words))  # type: ignore[arg-type]

    assert isinstance(loaded, LoadedDocument)
    assert (loaded.kind, loaded.draft.title) == ("recipe", "GIF89a tea")
    assert [chunk.content for chunk in loaded.draft.chunks] == ["GIF89a tea\n\n- water\n- leaves"]


def test_another_version_of_a_plugin_loads_known_files_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The version of a loader is part of the digest of a source."""
    install(monkeypatch, recipes="RECIPES")
    (tmp_path / "tea.recipe").write_text("tea\nwater\n")
    stored: dict[str, str] = {}

    def results() -> list[object]:
        loaders_by_suffix.cache_clear()
        known = KnownSources(lookup=lambda _ids: lambda: stored)
        found = list(load_documents([tmp_path], chunker=Chunker(words), known=known))  # type: ignore[arg-type]
        for each in found:
            if isinstance(each, LoadedDocument):
                stored[each.draft.document_id] = each.draft.source_digest
        return [type(each) for each in found]

    assert results() == [LoadedDocument]
    assert results() == [Unchanged]
    monkeypatch.setattr(
        f"{__name__}.RECIPES",
        Loader(name="recipe", suffixes=(".recipe",), parse_file=load_recipe, version="2"),
    )
    assert results() == [LoadedDocument]


@pytest.mark.parametrize(
    ("offered", "named"),
    [
        ({"own-markdown": "OWN_MARKDOWN"}, r"built-in loader for Markdown.*'own-markdown'.*\.md"),
        ({"a": "RECIPES", "b": "MORE_RECIPES"}, r"plug-in 'a'.*plug-in 'b'.*\.recipe"),
        ({"strange": "words"}, "'strange'.*not a Loader"),
        ({"missing": "nothing"}, "'missing'.*cannot be loaded"),
    ],
)
def test_conflicting_and_broken_plugins_are_named(
    monkeypatch: pytest.MonkeyPatch, offered: dict[str, str], named: str
) -> None:
    """Two loaders of one suffix, and objects that are not loaders, are configuration errors."""
    install(monkeypatch, **offered)

    with pytest.raises(ConfigError, match=named):
        loaders_by_suffix()


def test_each_module_of_the_package_declares_its_loaders() -> None:
    """All built-in formats are found by their modules."""
    suffixes = loaders_by_suffix().keys()

    assert {".md", ".txt", ".rst", ".jsonl", ".html", ".pdf", ".docx", ".py", ".sql"} <= suffixes
    assert loader_registry.loader_for(
        SourceFile(path="a.cs", document_id="a.cs", suffix=".cs")
    ).name == ("C#")
