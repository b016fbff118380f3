"""Settings become models of our own or of entry points, and the stub models keep the protocols."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whence.models.factory import (
    MissingReranker,
    ModelSettings,
    make_embedder,
    make_reranker,
    make_writer,
)
from whence.models.installed import find_model, model_folders
from whence.models.protocols import WriteRequest
from whence.quoting.extractive_writer import NOTHING_FOUND, ExtractiveWriter
from whence.schema import plugins
from whence.schema.errors import ConfigError, ModelMissing, Unavailable
from whence.schema.prompt import PromptResult, Quote
from whence.testing.stub_models import (
    EchoWriter,
    HashEmbedder,
    OverlapReranker,
)


@pytest.mark.parametrize(
    ("setting", "name", "precision"),
    [
        ("local:float32", "all-MiniLM-L6-v2", "float32"),
        ("local:w8", "all-MiniLM-L6-v2", "w8"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small", "float32"),
        ("cohere:embed-english-v3.0", "cohere:embed-english-v3.0", "float32"),
    ],
)
def test_embedders_know_their_model_without_loading(
    setting: str, name: str, precision: str, tmp_path: Path
) -> None:
    """The identity of the vectors is known at once, even if no model is installed."""
    model = make_embedder(setting, ModelSettings(models=tmp_path)).model

    assert (model.name, model.precision) == (name, precision)
    assert model.dimension > 0


async def test_a_missing_model_is_an_error_only_when_used(tmp_path: Path) -> None:
    """Without the local model everything that needs no vectors still works."""
    embedder = make_embedder("local", ModelSettings(models=tmp_path))

    with pytest.raises(ModelMissing, match="not installed") as raised:
        await embedder.embed(["text"])
    assert str(tmp_path) in raised.value.message
    assert raised.value.hint == "run `whence models install`"
    await embedder.aclose()


@pytest.mark.parametrize(
    ("setting", "near"),
    [("lokal", "local"), ("local:float23", "local:float32"), ("openai:", "openai:MODEL"), ("", "")],
)
def test_unknown_embedders_name_the_nearest(setting: str, near: str) -> None:
    """The error suggests the nearest valid name and lists all others."""
    with pytest.raises(ConfigError, match="WHENCE_EMBEDDER") as raised:
        make_embedder(setting)

    assert (f"did you mean {near}?" if near else "one of") in raised.value.hint
    assert "cohere:MODEL" in raised.value.hint


@pytest.mark.parametrize("setting", ["extractiv", "cohere:x", "openai:"])
def test_unknown_writers_are_refused(setting: str) -> None:
    """A writer is `extractive` or `openai:MODEL`."""
    with pytest.raises(ConfigError, match="WHENCE_WRITER"):
        make_writer(setting)


def test_rerankers(tmp_path: Path) -> None:
    """`none` and an absent local model give a reason, a wrong name an error, a known one a reranker."""
    settings = ModelSettings(models=tmp_path)

    for absent, reason in (("none", "WHENCE_RERANKER=none"), ("auto", "whence models install")):
        with pytest.raises(ModelMissing, match=reason):
            assert make_reranker(absent, settings).model
    known = make_reranker("ms-marco-MiniLM-L-12-v2", settings)
    assert known.model == "flashrank:ms-marco-MiniLM-L-12-v2"
    with pytest.raises(ConfigError, match="WHENCE_RERANKER") as raised:
        make_reranker("ms-marco-MiniLM-L12-v2", settings)
    assert "did you mean ms-marco-MiniLM-L-12-v2?" in raised.value.hint


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ModelSettings]]:
    """Install a package with the models `mine` of every kind; the fixture lists the calls of its factory."""
    calls: list[tuple[str, ModelSettings]] = []

    def factory(model: str, settings: ModelSettings) -> Any:
        calls.append((model, settings))
        return HashEmbedder(name=f"mine:{model}")

    groups = ("whence.embedders", "whence.rerankers", "whence.writers")
    points = [EntryPoint("mine", "package:factory", group) for group in groups]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [one for one in points if one.group == group and name in (None, one.name)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: factory)
    return calls


def test_an_entry_point_makes_any_kind_of_model(plug_ins: list[Any]) -> None:
    """Its factory gets the part of the setting after the colon, and the settings."""
    settings = ModelSettings(threads=2)

    assert make_embedder("mine:small:v2", settings).model.name == "mine:small:v2"
    assert make_reranker("mine:cross", settings) is not None
    assert make_writer("mine", settings) is not None
    assert plug_ins == [("small:v2", settings), ("cross", settings), ("", settings)]


@pytest.mark.parametrize("make", [make_embedder, make_reranker, make_writer])
def test_unknown_models_list_the_entry_points(plug_ins: list[Any], make: Any) -> None:
    """An unknown name is an error that lists our own models and those of other packages."""
    with pytest.raises(ConfigError, match="unknown") as raised:
        make("nine:small")

    assert "mine:MODEL" in raised.value.hint
    assert plug_ins == []


def test_built_in_models_take_precedence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package cannot replace a built-in model."""
    monkeypatch.setattr("whence.models.factory.load_plugin", lambda *_: pytest.fail("asked"))
    settings = ModelSettings(models=tmp_path)

    make_embedder("local", settings)
    make_embedder("openai:m", settings)
    make_writer("openai:m", settings)
    assert isinstance(make_reranker("none"), MissingReranker)


def test_settings_never_show_keys() -> None:
    """Keys stay out of the representation."""
    settings = ModelSettings(openai_api_key="sk-1", cohere_api_key="co-2")

    assert "sk-1" not in repr(settings) + str(settings)
    assert "co-2" not in repr(settings) + str(settings)


def test_only_the_chosen_folder_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`WHENCE_MODELS` is the only place when set; else the home comes first."""
    monkeypatch.setenv("WHENCE_MODELS", str(tmp_path))
    assert model_folders(Path("home")) == (tmp_path,)
    monkeypatch.delenv("WHENCE_MODELS")
    assert model_folders(Path("home"))[0] == Path("home/models")
    assert len(model_folders(Path("home"))) == 3
    with pytest.raises(ModelMissing, match="no-such-model"):
        find_model("no-such-model", Path("home"))


@given(st.lists(st.text(max_size=30), max_size=6))
async def test_stub_vectors_are_unit_and_independent(texts: list[str]) -> None:
    """A stub's vector has length 1 and does not depend on the other texts."""
    embedder = HashEmbedder(16)
    vectors = await embedder.embed(texts)

    assert vectors.shape == (len(texts), 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    for text, row in zip(texts, vectors, strict=True):
        assert np.array_equal((await embedder.embed([text]))[0], row)


async def test_stub_similarity() -> None:
    """Texts that share words are nearer than texts that share none."""
    query, near, far = await HashEmbedder(256).embed(["red apple pie", "apple pie", "blue moon"])

    assert query @ near > query @ far
    scores = await OverlapReranker().score("red apple pie", ["apple pie", "blue moon", ""])
    assert scores == [2 / 3, 0.0, 0.0]


async def test_stubs_raise_their_error() -> None:
    """A stub model with an error raises it in every call."""
    with pytest.raises(Unavailable):
        await HashEmbedder(error=Unavailable("down")).embed(["text"])
    with pytest.raises(ModelMissing):
        await OverlapReranker(error=ModelMissing("gone")).score("query", ["text"])


async def written(writer: ExtractiveWriter | EchoWriter, request: WriteRequest) -> PromptResult:
    pieces = [piece async for piece in writer.write(request)]
    result = pieces[-1].result
    assert result is not None
    assert "".join(piece.text for piece in pieces) == result.text
    return result


async def test_echo_writer_quotes_first_lines() -> None:
    """The echo is the question and the first lines, with matching markers and quotes."""
    request = WriteRequest(template_id="document-prompt", query="Q?", documents=("a\nb", "", "c"))
    result = await written(EchoWriter(), request)

    assert result.text == "Q? a [1] c [3]"
    assert result.quotes == (Quote(1, "a"), Quote(3, "c"))


async def test_extractive_concepts_are_the_question() -> None:
    """Without a language model the only concept is the question itself."""
    result = await written(
        ExtractiveWriter(HashEmbedder()),
        WriteRequest(template_id="extract-concepts", query="What is a loan?"),
    )

    assert (result.text, result.language_model) == ("What is a loan?", False)


@pytest.mark.parametrize("documents", [(), ("",), ("# Heading only",), ("   ", "...")])
async def test_extractive_without_sentences(documents: tuple[str, ...]) -> None:
    """Without a sentence to quote the answer is the constant text."""
    request = WriteRequest(template_id="document-prompt", query="Who?", documents=documents)
    result = await written(ExtractiveWriter(HashEmbedder()), request)

    assert (result.text, result.quotes) == (NOTHING_FOUND, ())


async def test_extractive_works_without_the_embedder() -> None:
    """An embedder that fails leaves ranking by words, without an error."""
    request = WriteRequest(
        template_id="document-prompt",
        query="Who founded the library?",
        documents=("The library was founded by Helene Brandt.",),
    )
    result = await written(ExtractiveWriter(HashEmbedder(error=Unavailable("down"))), request)

    assert result.text == "The library was founded by Helene Brandt. [1]"


async def test_extractive_removes_markers_of_documents() -> None:
    """A document's own `[12]` is not a citation; nothing else of a span is changed."""
    document = "The library was founded in 1887 [12] by Brandt"
    request = WriteRequest(
        template_id="document-prompt", query="When was the library founded?", documents=(document,)
    )
    result = await written(ExtractiveWriter(None), request)

    assert result.text == "The library was founded in 1887 (12) by Brandt [1]"
    assert result.quotes[0].text == document


WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "red",
            "fox.",
            "jumps!",
            "over",
            "[3]",
            "**lazy**",
            "dogs",
            "-",
            "#",
            "Who?",
            "3.5",
            "\n\n",
        ]
    )
)


@given(st.lists(WORDS.map(" ".join), max_size=4), WORDS.map(" ".join))
@example(documents=["the the the"], query="")  # a passage without terms
async def test_extractive_quotes_are_always_verbatim(documents: list[str], query: str) -> None:
    """For any question and documents, quotes occur in their documents and markers refer to them."""
    request = WriteRequest(template_id="document-prompt", query=query, documents=tuple(documents))
    result = await written(ExtractiveWriter(HashEmbedder()), request)

    for quote in result.quotes:
        assert quote.text in documents[quote.marker - 1]
        assert f"[{quote.marker}]" in (result.text or "")
    assert bool(result.quotes) == (result.text != NOTHING_FOUND)
