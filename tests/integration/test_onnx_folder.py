"""Embedders and rerankers from ONNX folders: vectors as the files say, identity, and what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cross_encoder import write_cross_encoder
from tests.support.onnx_folder import minilm_folder, table_folder, write_json

from whence.models.factory import ModelSettings, make_embedder, make_reranker
from whence.models.local_embedder import LocalEmbedder
from whence.models.onnx_embedder import OnnxEmbedder
from whence.schema.errors import ConfigError, ModelMissing

WORDS = ["query", ":", "passage", "red", "green", "blue", "x"]
TEXTS = ["Books are lent for 28 days.", "", "a " * 400, "Où est la bibliothèque ?"]
IDS = {word: place for place, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}


@pytest.mark.models
async def test_a_folder_computes_what_the_local_embedder_does(tmp_path: Path) -> None:
    """The same weights in the layout of sentence-transformers give the same vectors and counts."""
    embedder = make_embedder(f"onnx:{minilm_folder(tmp_path / 'mini')}", ModelSettings())
    local = LocalEmbedder(precision="float32")
    vectors, expected = await embedder.embed(TEXTS), await local.embed(TEXTS)
    alone = await embedder.embed(TEXTS[:1])

    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_array_equal(alone[0], vectors[0])
    assert embedder.count_tokens(TEXTS) == local.count_tokens(TEXTS)
    assert (embedder.max_tokens, embedder.model.dimension) == (256, 384)
    assert embedder.model.name == "onnx:mini"
    await embedder.aclose()
    await local.aclose()


def rows(table: np.ndarray[Any, Any], *words: str) -> np.ndarray[Any, Any]:
    """Return what the graph gives for the tokens of a text."""
    ids = [IDS[word] for word in ("[CLS]", *words, "[SEP]")]
    return table[ids] + np.arange(1, len(ids) + 1)[:, None]


def unit(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(vector / np.linalg.norm(vector))


POOLINGS = {
    "cls_token": lambda x: x[0],
    "mean_tokens": lambda x: x.mean(axis=0),
    "max_tokens": lambda x: x.max(axis=0),
    "mean_sqrt_len_tokens": lambda x: x.sum(axis=0) / np.sqrt(len(x)),
    "weightedmean_tokens": lambda x: np.average(x, axis=0, weights=range(1, len(x) + 1)),
    "lasttoken": lambda x: x[-1],
}


@pytest.mark.parametrize("mode", POOLINGS)
async def test_pooling_is_that_of_the_folder(tmp_path: Path, mode: str) -> None:
    """Each way of pooling gives what sentence-transformers computes; padding is never seen."""
    table = table_folder(tmp_path / "tiny", WORDS, {f"pooling_mode_{mode}": True})
    embedder = OnnxEmbedder(str(tmp_path / "tiny"))
    (vector,) = await embedder.embed(["red green blue"])
    await embedder.aclose()

    expected = POOLINGS[mode](rows(table, "red", "green", "blue"))  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(vector, unit(expected), atol=1e-6)


async def test_prompts_lower_case_and_joined_poolings(tmp_path: Path) -> None:
    """Queries and documents have their prompts, and two ways of pooling are joined in order."""
    table = table_folder(
        tmp_path / "tiny",
        WORDS,
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "include_prompt": False},
        sentence_bert_config={"max_seq_length": 12, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"query": "query: ", "document": "passage: "}},
    )
    embedder = OnnxEmbedder(str(tmp_path / "tiny"))
    (query,), (document,) = await embedder.embed(["RED"]), await embedder.embed(["RED"], "document")
    limit = embedder.max_tokens
    await embedder.aclose()

    for vector, prompt in ((query, "query"), (document, "passage")):
        tokens = rows(table, prompt, ":", "red")
        # Without `[CLS]` and the two tokens of the prompt.
        expected = np.concatenate([tokens[0], tokens[3:].mean(axis=0)])
        np.testing.assert_allclose(vector, unit(expected), atol=1e-6)
    assert limit == 12 - 2
    assert embedder.count_tokens(["RED", "red green x"]) == [1, 3]


async def test_another_model_under_the_same_name_is_another_model(tmp_path: Path) -> None:
    """Name and digest are the identity: weights, pooling and prompts change it; other files do not."""
    mean = {"pooling_mode_mean_tokens": True}
    table_folder(tmp_path / "one" / "m", WORDS, mean)
    base = OnnxEmbedder(str(tmp_path / "one" / "m")).model
    assert (base.name, len(base.revision)) == ("onnx:m", 12)
    assert OnnxEmbedder(str(tmp_path / "one" / "m" / "onnx" / "model.onnx")).model == base

    def changed(name: str, **contents: Any) -> bool:
        place = tmp_path / name / "m"
        shutil.copytree(tmp_path / "one" / "m", place)
        write_json(place, **contents)
        (place / "README.md").write_text(name)
        return OnnxEmbedder(str(place)).model != base

    assert not changed("same")
    assert changed("prompt", config_sentence_transformers={"prompts": {"query": "red "}})
    assert changed("pooling", **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    table_folder(tmp_path / "other" / "m", [*WORDS, "y"], mean)
    assert OnnxEmbedder(str(tmp_path / "other" / "m")).model != base


@pytest.mark.models
def test_weights_beside_the_graph_are_in_the_digest(tmp_path: Path) -> None:
    """A changed byte of external weights is another model."""
    folder = minilm_folder(tmp_path / "mini")
    before = OnnxEmbedder(str(folder)).model
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.unlink()
    weights.write_bytes(data)

    assert OnnxEmbedder(str(folder)).model != before


def _without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without("tokenizer.json"), "tokenizer.json is missing"),
        (_without("1_Pooling/config.json"), "1_Pooling/config.json is missing"),
        (_without("sentence_bert_config.json"), "how many tokens it reads"),
        (_without("onnx/model.onnx"), "must have one .onnx file; found none"),
        (lambda one: write_json(one, **{"1_Pooling__config": {"pooling_mode": "sum"}}), "'sum'"),
        (lambda one: write_json(one, modules=[{"type": "a.Dense"}]), "Dense"),
        (lambda one: (one / "modules.json").write_text("[" * 9), "not readable JSON"),
        (lambda one: (one / "onnx" / "model.onnx").write_bytes(b"no graph"), "cannot be loaded"),
        (lambda one: write_json(one, **{"1_Pooling__config": {
            "word_embedding_dimension": 5, "pooling_mode_cls_token": True}}), "have the length 4"),
    ],
)  # fmt: skip
async def test_a_missing_piece_is_named(tmp_path: Path, change: Any, said: str) -> None:
    """What a folder lacks is an error that names the file and what to do."""
    table_folder(tmp_path / "tiny", WORDS, {"pooling_mode_mean_tokens": True})
    change(tmp_path / "tiny")
    with pytest.raises(ModelMissing) as raised:
        await OnnxEmbedder(str(tmp_path / "tiny")).embed(["red"])

    assert said in raised.value.message
    assert raised.value.hint


async def test_a_reranker_of_a_folder(tmp_path: Path) -> None:
    """A cross-encoder needs graph, tokenizer and length; its digest is known after the first score."""
    folder = write_cross_encoder(tmp_path / "ranker", ["annual", "leave"])
    settings = ModelSettings()
    theirs: Any = make_reranker(str(folder), settings)
    expected = await theirs.score("annual leave", ["leave", "annual leave", "none"])
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    (folder / "special_tokens_map.json").unlink()
    ours: Any = make_reranker(f"onnx:{folder}", settings)

    assert await ours.score("annual leave", ["leave", "annual leave", "none"]) == expected
    assert (ours.model, theirs.model) == ("onnx:ranker", "flashrank:ranker")
    assert len(ours.revision) == 12
    assert make_reranker(f"onnx:{folder}/onnx/model.onnx", settings).model == "onnx:ranker"
    for one in (ours, theirs):
        await one.aclose()


async def test_an_absent_folder_is_a_wrong_setting(tmp_path: Path) -> None:
    """The error names what was looked for."""
    for make in (make_embedder, make_reranker):
        model: Any = make(f"onnx:{tmp_path}/none", ModelSettings(models=tmp_path))
        with pytest.raises(ConfigError, match="none"):
            await (model.embed(["x"]) if make is make_embedder else model.score("q", ["x"]))


async def test_an_embedder_is_no_reranker(tmp_path: Path) -> None:
    """A graph without one or two labels is refused."""
    table_folder(tmp_path / "tiny", WORDS, {"pooling_mode_mean_tokens": True})
    config = {"max_position_embeddings": 20}
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelMissing, match="is no reranker"):
        await make_reranker(f"onnx:{tmp_path}/tiny", ModelSettings()).score("q", ["x"])
