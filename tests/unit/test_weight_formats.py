"""Published weights are read as they were written; other files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from tests.support.weights import e5s1_file, four_bits, small_network
from tokenizers import Tokenizer

from whence.models.weight_formats import E5S1, read_e5s1, read_onnx
from whence.models.weights import PACKED_WORDS, WORD_SCALES

PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)]
PIECES += [("\u2581Buch", -3.0), ("\u2581\u00e9t\u00e9", -4.0), ("<mask>", 0.0)]
TENSORS = small_network(len(PIECES), layers=1)


@pytest.fixture
def content(tmp_path: Path) -> E5S1:
    path = tmp_path / "weights.bin"
    path.write_bytes(e5s1_file(TENSORS, PIECES, 1))
    return read_e5s1(path)


def test_four_bits_become_the_values_that_they_stand_for(content: E5S1) -> None:
    """A linear map is (outputs, inputs) in float32, exactly."""
    for name, bert in (
        ("l0.q.w", "encoder.layer.0.attention.self.query.weight"),
        ("l0.ao.w", "encoder.layer.0.attention.output.dense.weight"),
        ("l0.fi.w", "encoder.layer.0.intermediate.dense.weight"),
        ("l0.fo.w", "encoder.layer.0.output.dense.weight"),
    ):
        assert np.array_equal(content.tensors[bert], four_bits(TENSORS[name])[1]), name
    assert content.layers == 1


def test_other_tensors_are_copied(content: E5S1) -> None:
    """Norms, biases, positions and types have 32 bits."""
    for name, bert in (
        ("emb.pos", "embeddings.position_embeddings.weight"),
        ("emb.type", "embeddings.token_type_embeddings.weight"),
        ("emb.ln.b", "embeddings.LayerNorm.bias"),
        ("l0.oln.w", "encoder.layer.0.output.LayerNorm.weight"),
        ("l0.fi.b", "encoder.layer.0.intermediate.dense.bias"),
    ):
        assert np.array_equal(content.tensors[bert], TENSORS[name]), name


def test_word_embeddings_stay_packed(content: E5S1) -> None:
    """Two neighbours share a byte, the first in its low half, and each 32 have a scale."""
    packed, scales = content.tensors[PACKED_WORDS], content.tensors[WORD_SCALES]
    steps = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(PIECES), 384)
    values = (steps.astype(np.float32) - 8) * np.repeat(scales, 32, axis=1)

    assert np.array_equal(values, four_bits(TENSORS["emb.word"])[1])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Buch", ["<s>", "\u2581Buch", "</s>"]),
        (" Buch  Buch ", ["<s>", "\u2581Buch", "\u2581Buch", "\u2581", "</s>"]),
        ("e\u0301te\u0301", ["<s>", "\u2581\u00e9t\u00e9", "</s>"]),
        ("\uff22uch\u00a0x", ["<s>", "\u2581Buch", "\u2581", "<unk>", "</s>"]),
        ("", ["<s>", "</s>"]),
    ],
)
def test_the_tokenizer_is_that_of_xlm_r(content: E5S1, text: str, tokens: list[str]) -> None:
    """Characters are normalised, spaces joined, and the best pieces taken."""
    encoding = Tokenizer.from_str(json.dumps(content.tokenizer)).encode(text)

    ids = [[piece for piece, _ in PIECES].index(one) for one in tokens]
    assert encoding.ids == ids


@pytest.mark.parametrize("place", [0, 4, 8, 40])
def test_other_forms_are_refused(tmp_path: Path, place: int) -> None:
    """Another magic, version, width or block is not taken for the known ones."""
    data = bytearray(e5s1_file(TENSORS, PIECES, 1))
    data[place] += 1
    path = tmp_path / "weights.bin"
    path.write_bytes(data)

    with pytest.raises(ValueError, match="known form"):
        read_e5s1(path)


@pytest.mark.parametrize("size", [3, 40, 60, 400, 5000])
def test_a_cut_file_is_refused(tmp_path: Path, size: int) -> None:
    """A file that ends early raises no other error."""
    path = tmp_path / "weights.bin"
    path.write_bytes(e5s1_file(TENSORS, PIECES, 1)[:size])

    with pytest.raises(ValueError):  # noqa: PT011 - numpy has its own words
        read_e5s1(path)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A graph with a table, a linear map that the exporter named `onnx::MatMul_7`, and an integer."""
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = {"embeddings.word_embeddings.weight": table, "onnx::MatMul_7": weight}
    arrays["ids"] = np.arange(2, dtype=np.int64)
    nodes = [
        helper.make_node("Gather", ["embeddings.word_embeddings.weight", "ids"], ["x"]),
        helper.make_node(
            "MatMul", ["x", "onnx::MatMul_7"], ["y"], name="/encoder/layer.0/output/dense/MatMul"
        ),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    initializers = [numpy_helper.from_array(value, name) for name, value in arrays.items()]
    path = tmp_path / "model.onnx"
    save(helper.make_model(helper.make_graph(nodes, "g", [], [output], initializers)), path)
    return path


def test_a_linear_map_gets_the_name_of_its_node(graph: Path) -> None:
    """The exporter stores it transposed; integers are left out."""
    tensors = read_onnx(graph)

    assert set(tensors) == {
        "embeddings.word_embeddings.weight",
        "encoder.layer.0.output.dense.weight",
    }
    weight = tensors["encoder.layer.0.output.dense.weight"]
    assert np.array_equal(weight, np.arange(12, dtype=np.float32).reshape(3, 4).T)


def test_a_damaged_graph_is_refused(graph: Path, tmp_path: Path) -> None:
    """A cut file, and one that is no protobuf, are errors of the value."""
    other = tmp_path / "other.onnx"
    for content in (graph.read_bytes()[:-30], b"\xff" * 64, b"\x0f"):
        other.write_bytes(content)
        with pytest.raises(ValueError, match=r"cut|damaged|no ONNX graph"):
            read_onnx(other)
