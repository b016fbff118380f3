"""Write the ONNX graphs of the local models; the weights stay in data files that the graphs refer to.

The bytes depend on nothing but this file and `whence.models.weights`: a test builds the graphs again and
compares.

Two arithmetics:

- `fp32` reads `model.safetensors` and computes as the published model does, in standard operators.
- `w8` reads `w8.bin`. Every linear map multiplies 8 bit integers: the weights with one scale per column, the
  input with one scale per token, `q = round(x / s) + 128, s = max|x| / 127`. A scale per tensor would make the
  vector of a text depend on the texts that happen to be computed with it. `MatMulIntegerToFloat` is ONNX
  Runtime's own.

Usage: python tools/build_graphs.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper

from whence.models.encoders import ENCODERS
from whence.models.weights import (
    ALIGNMENT,
    BLOCK,
    DIMENSION,
    HEADS,
    INTERMEDIATE,
    LAYERS,
    POSITIONS,
    VOCABULARY,
    Shape,
)

GRAPHS = Path(__file__).resolve().parent.parent / "src" / "whence" / "models" / "graphs"

_OPSET = 20
#: Operators of ONNX Runtime itself.
_RUNTIME = "com.microsoft"
_IR_VERSION = 9
_NORM_EPSILON = 1e-12
#: Terms of each sum of the probe.
_PROBE = 8
_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}


class Graph:
    """Collects nodes and constants; every call returns the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        number = len(self.nodes)
        outputs = [f"v{number}" if count == 1 else f"v{number}_{i}" for i in range(count)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), outputs, name=f"n{number}", **attributes)
        )
        return outputs

    def constant(self, value: Any, dtype: str) -> str:
        """Add a small constant, once per value."""
        array = np.asarray(value, dtype=dtype, order="C")
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(
                helper.make_tensor(
                    name,
                    helper.np_dtype_to_tensor_dtype(array.dtype),
                    array.shape,
                    array.tobytes(),
                    raw=True,
                )
            )
        return self._constants[key]

    def external(self, file: str, place: TensorPlace) -> str:
        """Add a tensor that lies in a data file beside the graph."""
        if not any(tensor.name == place.name for tensor in self.initializers):
            tensor = TensorProto()
            tensor.name = place.name
            tensor.data_type = _TYPES[place.dtype]
            tensor.dims.extend(place.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", file),
                ("offset", str(place.offset)),
                ("length", str(place.length)),
            ):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
            self.initializers.append(tensor)
        return place.name

    def model(self, name: str, outputs: dict[str, list[str | int]]) -> bytes:
        """Return the serialised model: `input_ids`, int64 (batch, length), to float outputs of these shapes."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
            [
                helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
                for output, shape in outputs.items()
            ],
            self.initializers,
        )
        model = helper.make_model(
            graph,
            producer_name="whence",
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_RUNTIME, 1)],
        )
        return bytes(model.SerializeToString(deterministic=True))


class Arithmetic(Protocol):
    """How the encoder's parts are computed; values are (tokens, width) matrices."""

    layers: int

    def embed(self, graph: Graph, ids: str, positions: str) -> str:
        """Return the first hidden state from flat token ids and position numbers."""

    def norm(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Normalise each row."""

    def linear(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Apply a linear map of a layer: `attention_out`, `inner` or `out`."""

    def attention(self, graph: Graph, value: str, layer: int, shape: str) -> str:
        """Attend; `shape` is (batch, length)."""


_FLAT = (-1, DIMENSION)
_HEAD = DIMENSION // HEADS


def _norm(graph: Graph, value: str, weight: str, bias: str) -> str:
    return graph.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=_NORM_EPSILON)


def _heads(graph: Graph, packed: str, shape: str) -> list[str]:
    """Return query, key and content, each (batch, heads, length, head), of rows that hold all three."""
    packed = graph.op("Reshape", packed, _with_width(graph, shape, 3, HEADS, _HEAD))
    turned = graph.op("Transpose", packed, perm=[2, 0, 3, 1, 4])
    return [graph.op("Gather", turned, graph.constant(part, "int64"), axis=0) for part in range(3)]


def _attend(graph: Graph, query: str, key: str, content: str) -> str:
    """Return softmax(query key') content, as rows.

    The softmax is written out, because the runtime's own adds in an order that depends on the processor: its
    last bits differ between AVX2 and AVX-512. These operators give the same bits on both.
    """
    scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
    last = graph.constant([-1], "int64")
    scores = graph.op("Sub", scores, graph.op("ReduceMax", scores, last, keepdims=1))
    weights = graph.op("Exp", scores)
    total = graph.op("ReduceSum", weights, last, keepdims=1)
    mixed = graph.op("Div", graph.op("MatMul", weights, content), total)
    turned = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.op("Reshape", turned, graph.constant(_FLAT, "int64"))


def _with_width(graph: Graph, shape: str, *sizes: int) -> str:
    """Append axes to a shape."""
    return graph.op("Concat", shape, graph.constant(sizes, "int64"), axis=0)


class TensorPlace(NamedTuple):
    """Place of a tensor in a data file."""

    name: str
    dtype: str
    """numpy's name of the element type."""
    shape: tuple[int, ...]
    offset: int
    length: int
    """Bytes."""


def w8_places(shape: Shape) -> dict[str, TensorPlace]:
    """Return the places of all tensors in `w8.bin`, in the order of the file."""
    words: list[tuple[str, str, tuple[int, ...]]] = [
        ("words", "float16", (shape.vocabulary, DIMENSION))
    ]
    if shape.packed:
        words = [
            ("words", "uint8", (shape.vocabulary, DIMENSION // 2)),
            ("words.scale", "float32", (shape.vocabulary, DIMENSION // BLOCK)),
        ]
    shapes = [
        *words,
        ("positions", "float32", (POSITIONS, DIMENSION)),
        ("norm.weight", "float32", (DIMENSION,)),
        ("norm.bias", "float32", (DIMENSION,)),
    ]
    linear_maps = (
        ("qkv", DIMENSION, 3 * DIMENSION),
        ("attention_out", DIMENSION, DIMENSION),
        ("inner", DIMENSION, INTERMEDIATE),
        ("out", INTERMEDIATE, DIMENSION),
    )
    for layer in range(shape.layers):
        for name, inputs, outputs in linear_maps:
            shapes.append((f"layer{layer}.{name}.weight", "int8", (inputs, outputs)))
            shapes.append((f"layer{layer}.{name}.scale", "float32", (outputs,)))
            shapes.append((f"layer{layer}.{name}.bias", "float32", (outputs,)))
        for norm in ("attention_norm", "norm"):
            shapes.append((f"layer{layer}.{norm}.weight", "float32", (DIMENSION,)))
            shapes.append((f"layer{layer}.{norm}.bias", "float32", (DIMENSION,)))
    places = {}
    offset = 0
    for name, dtype, sizes in shapes:
        place = tensor_place(name, dtype, sizes, offset)
        places[name] = place
        offset += -(-place.length // ALIGNMENT) * ALIGNMENT
    return places


def tensor_place(name: str, dtype: str, shape: tuple[int, ...], offset: int) -> TensorPlace:
    """Return the place of a tensor that starts at an offset."""
    width = {"int8": 1, "uint8": 1, "float16": 2, "float32": 4}[dtype]
    return TensorPlace(name, dtype, shape, offset, width * math.prod(shape))


#: Bytes before the data of the published file.
_HEADER_BYTES = 8 + 11408


def _layer_shapes(layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    prefix = f"encoder.layer.{layer}."
    d, inner = DIMENSION, INTERMEDIATE
    for part in ("attention.self.query", "attention.self.key", "attention.self.value"):
        yield from _linear_shapes(prefix + part, d, d)
    yield from _linear_shapes(prefix + "attention.output.dense", d, d)
    yield from _norm_shapes(prefix + "attention.output.LayerNorm")
    yield from _linear_shapes(prefix + "intermediate.dense", inner, d)
    yield from _linear_shapes(prefix + "output.dense", d, inner)
    yield from _norm_shapes(prefix + "output.LayerNorm")


def _linear_shapes(name: str, outputs: int, inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.bias", (outputs,)
    yield f"{name}.weight", (outputs, inputs)


def _norm_shapes(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.bias", (DIMENSION,)
    yield f"{name}.weight", (DIMENSION,)


def safetensors_places() -> dict[str, TensorPlace]:
    """Return the places of all float tensors in `model.safetensors`.

    The published file holds one int64 tensor of 512 position numbers, then the float32 tensors in order of
    name; the digest of the file is checked, so that its layout is known.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.position_embeddings.weight": (POSITIONS, DIMENSION),
        "embeddings.token_type_embeddings.weight": (2, DIMENSION),
        "embeddings.word_embeddings.weight": (VOCABULARY, DIMENSION),
    }
    shapes.update(_norm_shapes("embeddings.LayerNorm"))
    shapes.update(_linear_shapes("pooler.dense", DIMENSION, DIMENSION))
    for layer in range(LAYERS):
        shapes.update(_layer_shapes(layer))
    places = {}
    offset = _HEADER_BYTES + POSITIONS * 8
    for name in sorted(shapes):
        place = tensor_place(name, "float32", shapes[name], offset)
        places[name] = place
        offset += place.length
    return places


class Float32:
    """The published weights of all-MiniLM-L6-v2 in place."""

    layers = LAYERS

    def __init__(self) -> None:
        self._places = safetensors_places()

    def _weight(self, graph: Graph, name: str) -> str:
        return graph.external("model.safetensors", self._places[name])

    def _norm(self, graph: Graph, value: str, name: str) -> str:
        weight, bias = (self._weight(graph, f"{name}.{kind}") for kind in ("weight", "bias"))
        return _norm(graph, value, weight, bias)

    def embed(self, graph: Graph, ids: str, positions: str) -> str:
        """Add word, position and type-0 embeddings."""
        tables = (
            ("word", ids),
            ("token_type", graph.constant(0, "int64")),
            ("position", positions),
        )
        words, types, places = (
            graph.op("Gather", self._weight(graph, f"embeddings.{name}_embeddings.weight"), rows)
            for name, rows in tables
        )
        total = graph.op("Add", graph.op("Add", words, types), places)
        return self._norm(graph, total, "embeddings.LayerNorm")

    def norm(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Normalise with the layer's weights."""
        part = {"attention_norm": "attention.output.LayerNorm", "norm": "output.LayerNorm"}[name]
        return self._norm(graph, value, f"encoder.layer.{layer}.{part}")

    def linear(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Multiply; transposing and packing are folded when the session is made."""
        prefix = f"encoder.layer.{layer}."
        parts = {
            "qkv": [f"attention.self.{part}" for part in ("query", "key", "value")],
            "attention_out": ["attention.output.dense"],
            "inner": ["intermediate.dense"],
            "out": ["output.dense"],
        }[name]
        weights = [
            graph.op("Transpose", self._weight(graph, f"{prefix}{part}.weight"), perm=[1, 0])
            for part in parts
        ]
        biases = [self._weight(graph, f"{prefix}{part}.bias") for part in parts]
        weight = graph.op("Concat", *weights, axis=1) if len(parts) > 1 else weights[0]
        bias = graph.op("Concat", *biases, axis=0) if len(parts) > 1 else biases[0]
        return graph.op("Add", graph.op("MatMul", value, weight), bias)

    def attention(self, graph: Graph, value: str, layer: int, shape: str) -> str:
        """Attend, with the query divided by the root of a head's width."""
        query, key, content = _heads(graph, self.linear(graph, value, layer, "qkv"), shape)
        query = graph.op("Mul", query, graph.constant(_HEAD**-0.5, "float32"))
        return _attend(graph, query, key, content)


class Int8:
    """The derived weights, 8 bit products."""

    def __init__(self, shape: Shape) -> None:
        self.layers = shape.layers
        self._packed = shape.packed
        self._places = w8_places(shape)

    def _weight(self, graph: Graph, name: str) -> str:
        return graph.external("w8.bin", self._places[name])

    def _norm(self, graph: Graph, value: str, name: str) -> str:
        weight, bias = (self._weight(graph, f"{name}.{kind}") for kind in ("weight", "bias"))
        return _norm(graph, value, weight, bias)

    def embed(self, graph: Graph, ids: str, positions: str) -> str:
        """Add word embeddings and what position and type add."""
        table = self._weight(graph, "words")
        if self._packed:
            words = graph.op(
                "GatherBlockQuantized",
                table,
                ids,
                self._weight(graph, "words.scale"),
                domain=_RUNTIME,
                block_size=BLOCK,
                gather_axis=0,
                quantize_axis=1,
            )
        else:
            words = graph.op("Gather", table, ids)
        places = graph.op("Gather", self._weight(graph, "positions"), positions)
        if not self._packed:
            words = graph.op("Cast", words, to=TensorProto.FLOAT)
        return self._norm(graph, graph.op("Add", words, places), "norm")

    def norm(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Normalise with the layer's weights."""
        return self._norm(graph, value, f"layer{layer}.{name}")

    def linear(self, graph: Graph, value: str, layer: int, name: str) -> str:
        """Multiply and add the bias."""
        product = self._product(graph, value, f"layer{layer}.{name}")
        return graph.op("Add", product, self._weight(graph, f"layer{layer}.{name}.bias"))

    def _product(self, graph: Graph, value: str, name: str) -> str:
        """Quantise each row, multiply integers, scale back."""
        highest = graph.op(
            "ReduceMax", graph.op("Abs", value), graph.constant([-1], "int64"), keepdims=1
        )
        scale = graph.op("Mul", _below(graph, highest, 1e-12), graph.constant(1 / 127, "float32"))
        rows = graph.op("Shape", value, start=0, end=1)
        quantised = graph.op(
            "QuantizeLinear",
            value,
            graph.op("Squeeze", scale, graph.constant([1], "int64")),
            graph.op("Expand", graph.constant([128], "uint8"), rows),
            axis=0,
        )
        product = graph.op(
            "MatMulIntegerToFloat",
            quantised,
            self._weight(graph, f"{name}.weight"),
            graph.constant(1, "float32"),
            self._weight(graph, f"{name}.scale"),
            graph.constant(128, "uint8"),
            domain=_RUNTIME,
        )
        return graph.op("Mul", product, scale)

    def attention(self, graph: Graph, value: str, layer: int, shape: str) -> str:
        """Attend; the division by the root of a head's width is folded into the weights."""
        packed = self.linear(graph, value, layer, "qkv")
        return _attend(graph, *_heads(graph, packed, shape))


def encoder(graph: Graph, arithmetic: Arithmetic, ids: str, positions: str) -> str:
    """Add the encoder.

    Args:
        graph: Graph to add to.
        arithmetic: Weights and how to multiply with them.
        ids: Token ids, int64 (batch, length).
        positions: Position numbers, int64, (length,).

    Returns:
        Token vectors, (batch, length, 384).
    """
    shape = graph.op("Shape", ids)
    value = graph.op(
        "Reshape", arithmetic.embed(graph, ids, positions), graph.constant(_FLAT, "int64")
    )
    for layer in range(arithmetic.layers):
        mixed = arithmetic.attention(graph, value, layer, shape)
        attended = arithmetic.linear(graph, mixed, layer, "attention_out")
        value = arithmetic.norm(graph, graph.op("Add", attended, value), layer, "attention_norm")
        inner = graph.op("Gelu", arithmetic.linear(graph, value, layer, "inner"))
        outer = arithmetic.linear(graph, inner, layer, "out")
        value = arithmetic.norm(graph, graph.op("Add", outer, value), layer, "norm")
    return graph.op("Reshape", value, _with_width(graph, shape, DIMENSION))


def _below(graph: Graph, value: str, floor: float) -> str:
    """Raise small values to a floor, so that nothing is divided by zero."""
    return graph.op("Max", value, graph.constant(floor, "float32"))


def _unit(graph: Graph, value: str) -> str:
    """Divide vectors along the last axis by their length."""
    length = graph.op("ReduceL2", value, graph.constant([-1], "int64"), keepdims=1)
    return graph.op("Div", value, _below(graph, length, 1e-12))


def sentence_graph(arithmetic: Arithmetic, *, pooling: str = "mean") -> bytes:
    """Return the embedder: token ids (batch, length), all real, to unit vectors (batch, 384).

    The second output, `tokens`, are the token vectors (batch, length, 384) that the first one is made of: their
    mean, or the first of them (`cls`). There is no mask: texts of one batch have equal length, so that nothing
    is padded.
    """
    graph = Graph()
    length = graph.op("Squeeze", graph.op("Shape", "input_ids", start=1, end=2))
    positions = graph.op("Range", graph.constant(0, "int64"), length, graph.constant(1, "int64"))
    tokens = encoder(graph, arithmetic, "input_ids", positions)
    if pooling == "cls":
        whole = graph.op("Gather", tokens, graph.constant(0, "int64"), axis=1)
    else:
        whole = _sum(graph, tokens, length)
    for name, value in (("vector", _unit(graph, whole)), ("tokens", tokens)):
        graph.nodes.append(helper.make_node("Identity", [value], [name], name=name))
    shapes: dict[str, list[str | int]] = {
        "vector": ["batch", DIMENSION],
        "tokens": ["batch", "length", DIMENSION],
    }
    return graph.model("sentence", shapes)


def _sum(graph: Graph, tokens: str, length: str) -> str:
    """Add the token vectors; dividing by their number would change no direction.

    It is a product with ones: the runtime's own mean adds in another order for a single text.
    """
    ones = graph.op(
        "Expand",
        graph.constant([1.0], "float32"),
        graph.op(
            "Concat",
            graph.constant([1], "int64"),
            graph.op("Unsqueeze", length, graph.constant([0], "int64")),
            axis=0,
        ),
    )
    return graph.op("Squeeze", graph.op("MatMul", ones, tokens), graph.constant([1], "int64"))


def probe_graph() -> bytes:
    """Return a product of 8 bit integers whose sums of pairs need 17 bits; `int8_is_exact` runs it."""
    weights = np.full((_PROBE, _PROBE), 127, dtype=np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, _PROBE])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, _PROBE])],
        [helper.make_tensor("w", TensorProto.INT8, weights.shape, weights.tobytes(), raw=True)],
    )
    model = helper.make_model(
        graph,
        producer_name="whence",
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    return bytes(model.SerializeToString(deterministic=True))


def graphs() -> dict[str, bytes]:
    """Return the graphs by file name."""
    return {
        "int8-probe.onnx": probe_graph(),
        "minilm-fp32.onnx": sentence_graph(Float32()),
    } | {one.graph: sentence_graph(Int8(one.shape), pooling=one.pooling) for one in ENCODERS}


def main() -> int:
    """Write the graphs and print their sizes."""
    GRAPHS.mkdir(exist_ok=True)
    for name, data in graphs().items():
        (GRAPHS / name).write_bytes(data)
        sys.stdout.write(f"{name}: {len(data)} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
