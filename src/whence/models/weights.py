"""The weights that the local models share, and the layout of the two files with them.

The weights are those of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0), a BERT encoder of six layers
and 384 dimensions. `model.safetensors` is the published file; `w8.bin` is derived from it once, on the user's
machine, and is the same byte for byte on every machine: linear layers as int8 with one scale per column,
word embeddings as float16, all else as float32. The ONNX graphs shipped with Whence hold no weights; they point
into these two files by offset.
"""

from __future__ import annotations

import json
import math
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


def w8_places() -> dict[str, TensorPlace]:
    """Return the places of all tensors in `w8.bin`, in the order of the file."""
    shapes: list[tuple[str, str, tuple[int, ...]]] = [
        ("words", "float16", (VOCABULARY, DIMENSION)),
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
    for layer in range(LAYERS):
        for name, inputs, outputs in linear_maps:
            shapes.append((f"layer{layer}.{name}.weight", "int8", (inputs, outputs)))
            shapes.append((f"layer{layer}.{name}.scale", "float32", (outputs,)))
            shapes.append((f"layer{layer}.{name}.bias", "float32", (outputs,)))
        for norm in ("attention_norm", "norm"):
            shapes.append((f"layer{layer}.{norm}.weight", "float32", (DIMENSION,)))
            shapes.append((f"layer{layer}.{norm}.bias", "float32", (DIMENSION,)))
    places = {}
    offset = 0
    for name, dtype, shape in shapes:
        place = tensor_place(name, dtype, shape, offset)
        places[name] = place
        offset += -(-place.length // _ALIGNMENT) * _ALIGNMENT
    return places


def tensor_place(name: str, dtype: str, shape: tuple[int, ...], offset: int) -> TensorPlace:
    """Return the place of a tensor that starts at an offset."""
    width = {"int8": 1, "float16": 2, "float32": 4}[dtype]
    return TensorPlace(name, dtype, shape, offset, width * math.prod(shape))


def write_w8(safetensors: Path, target: Path) -> None:
    """Derive the int8 weights from the published ones; needs about 150 MB of memory and 0.3 s.

    Only elementwise operations that IEEE 754 rounds exactly are used, so that the bytes are equal on every
    machine.
    """
    import numpy as np

    tensors = _w8_tensors(_read_safetensors(safetensors))
    with target.open("wb") as file:
        for name, place in w8_places().items():
            tensor = np.asarray(tensors[name], dtype=np.dtype(place.dtype), order="C")
            if tensor.shape != place.shape:
                raise ValueError(f"{name} has shape {tensor.shape}, not {place.shape}")
            file.write(b"\0" * (place.offset - file.tell()))
            file.write(tensor.tobytes())


def _read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the float tensors of a file by name.

    The format is the length of a JSON header (8 bytes, little-endian), the header, then the data
    (https://github.com/huggingface/safetensors).
    """
    import numpy as np

    data = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header: dict[str, Any] = json.loads(data[8:start].tobytes())
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            values = data[start + first : start + end].view(np.float32)
            tensors[name] = values.reshape(entry["shape"])
    return tensors


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
