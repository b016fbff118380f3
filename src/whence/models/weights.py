"""The weights that the local models share, and the layout of the two files with them.

The weights are those of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0), a BERT encoder of six layers
and 384 dimensions. `model.safetensors` is the published file; `w8.bin` is derived from it once, on the user's
machine, and is the same byte for byte on every machine: linear layers as int8 with one scale per column,
word embeddings as float16, all else as float32. The ONNX graphs shipped with Whence hold no weights; they point
into these two files by offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBEDDER_NAME = "all-MiniLM-L6-v2"
RERANKER_NAME = "whence-minilm-maxsim"

#: Digests of the published files, equal to those of the model hub at revision 1110a243.
SAFETENSORS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
#: Digest of what `write_w8` makes of them.
W8_SHA256 = "8f22b36b413cf2f9d136773acace28b3d86bfd2c34a31eef9aa752ea9d8d2ced"
#: Revision of the local embedding model.
WEIGHTS_REVISION = SAFETENSORS_SHA256[:12]

# Shape of the network, from its published `config.json`.
LAYERS = 6
DIMENSION = 384
HEADS = 12
INTERMEDIATE = 1536
POSITIONS = 512
VOCABULARY = 30522
#: Tokens of a text that the model was trained to read, from its `sentence_bert_config.json`.
MAX_TOKENS = 256

_SAFETENSORS_HEADER_BYTES = 8 + 11408
#: Tensors in `w8.bin` start at multiples of this, so that vector instructions may load them.
_ALIGNMENT = 64


class TensorPlace(NamedTuple):
    """Place of a tensor in a data file."""

    name: str
    dtype: str
    """numpy's name of the element type."""
    shape: tuple[int, ...]
    offset: int
    length: int
    """Bytes."""


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
    offset = _SAFETENSORS_HEADER_BYTES + POSITIONS * 8
    for name in sorted(shapes):
        place = _place(name, "float32", shapes[name], offset)
        places[name] = place
        offset += place.length
    return places


def linears(layer: int) -> dict[str, tuple[int, int]]:
    """Return the linear maps of a layer as they are packed in `w8.bin`: name to (inputs, outputs)."""
    prefix = f"layer{layer}."
    return {
        prefix + "qkv": (DIMENSION, 3 * DIMENSION),
        prefix + "attention_out": (DIMENSION, DIMENSION),
        prefix + "inner": (DIMENSION, INTERMEDIATE),
        prefix + "out": (INTERMEDIATE, DIMENSION),
    }


def w8_places() -> dict[str, TensorPlace]:
    """Return the places of all tensors in `w8.bin`, in the order of the file."""
    shapes: list[tuple[str, str, tuple[int, ...]]] = [
        ("words", "float16", (VOCABULARY, DIMENSION)),
        ("positions", "float32", (POSITIONS, DIMENSION)),
        ("norm.weight", "float32", (DIMENSION,)),
        ("norm.bias", "float32", (DIMENSION,)),
    ]
    for layer in range(LAYERS):
        for name, (inputs, outputs) in linears(layer).items():
            shapes.append((f"{name}.weight", "int8", (inputs, outputs)))
            shapes.append((f"{name}.scale", "float32", (outputs,)))
            shapes.append((f"{name}.bias", "float32", (outputs,)))
        for norm in ("attention_norm", "norm"):
            shapes.append((f"layer{layer}.{norm}.weight", "float32", (DIMENSION,)))
            shapes.append((f"layer{layer}.{norm}.bias", "float32", (DIMENSION,)))
    places = {}
    offset = 0
    for name, dtype, shape in shapes:
        place = _place(name, dtype, shape, offset)
        places[name] = place
        offset += -(-place.length // _ALIGNMENT) * _ALIGNMENT
    return places


def _place(name: str, dtype: str, shape: tuple[int, ...], offset: int) -> TensorPlace:
    length = {"int8": 1, "float16": 2, "float32": 4}[dtype]
    for size in shape:
        length *= size
    return TensorPlace(name, dtype, shape, offset, length)


def write_w8(safetensors: Path, target: Path) -> None:
    """Derive the int8 weights from the published ones; needs about 150 MB of memory and 0.3 s.

    Only elementwise operations that IEEE 754 rounds exactly are used, so that the bytes are equal on every
    machine.
    """
    import numpy as np

    data = np.memmap(safetensors, dtype=np.uint8, mode="r")
    _check_header(data)
    source = {
        name: data[place.offset : place.offset + place.length].view(np.float32).reshape(place.shape)
        for name, place in safetensors_places().items()
    }
    tensors = _w8_tensors(source)
    with target.open("wb") as file:
        for name, place in w8_places().items():
            tensor = np.asarray(tensors[name], dtype=np.dtype(place.dtype), order="C")
            if tensor.shape != place.shape:
                raise ValueError(f"{name} has shape {tensor.shape}, not {place.shape}")
            file.write(b"\0" * (place.offset - file.tell()))
            file.write(tensor.tobytes())


def _check_header(data: NDArray[np.uint8]) -> None:
    end = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(data[8:end].tobytes()) if end < data.size else {}
    for name, place in safetensors_places().items():
        start, stop = header.get(name, {}).get("data_offsets", (0, 0))
        if (end + start, stop - start) != (place.offset, place.length):
            raise ValueError(f"tensor {name} is not where the published weights have it")


def _w8_tensors(source: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    import numpy as np

    tensors: dict[str, NDArray[Any]] = {
        "words": source["embeddings.word_embeddings.weight"].astype(np.float16),
        # All tokens have type 0, so that its row can be added here.
        "positions": source["embeddings.position_embeddings.weight"]
        + source["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": source["embeddings.LayerNorm.weight"],
        "norm.bias": source["embeddings.LayerNorm.bias"],
    }
    # Attention scores are divided by the root of a head's width; folded into the queries here.
    shrink = np.float32((DIMENSION // HEADS) ** -0.5)
    for layer in range(LAYERS):
        old, new = f"encoder.layer.{layer}.", f"layer{layer}."
        parts = [f"{old}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([source[f"{part}.weight"] for part in parts])
        bias = np.concatenate([source[f"{part}.bias"] for part in parts])
        _add_linear(tensors, new + "qkv", weight, bias)
        tensors[new + "qkv.scale"][:DIMENSION] *= shrink
        tensors[new + "qkv.bias"][:DIMENSION] *= shrink
        for name, part in (
            ("attention_out", "attention.output.dense"),
            ("inner", "intermediate.dense"),
            ("out", "output.dense"),
        ):
            weight, bias = source[f"{old}{part}.weight"], source[f"{old}{part}.bias"]
            _add_linear(tensors, new + name, weight, bias)
        for name, part in (
            ("attention_norm", "attention.output.LayerNorm"),
            ("norm", "output.LayerNorm"),
        ):
            for kind in ("weight", "bias"):
                tensors[f"{new}{name}.{kind}"] = source[f"{old}{part}.{kind}"]
    return tensors


def _add_linear(
    tensors: dict[str, NDArray[Any]],
    name: str,
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
) -> None:
    """Add a map y = W x + b as int8 with one scale per output: scale = max|w| / 127, round half to even."""
    import numpy as np

    scale = np.abs(weight).max(axis=1) / np.float32(127)
    quantised = np.rint(weight / scale[:, None]).clip(-127, 127).astype(np.int8)
    tensors[f"{name}.weight"] = quantised.T
    tensors[f"{name}.scale"] = scale
    tensors[f"{name}.bias"] = bias.copy()
