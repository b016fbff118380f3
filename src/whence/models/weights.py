"""The weights that the local models share, and the layout of the two files with them.

The weights are those of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0), a BERT encoder of six layers
and 384 dimensions. `model.safetensors` is the published file; `w8.bin` is derived from it once, on the user's
machine, and is the same byte for byte on every machine: linear layers as int8 with one scale per column,
word embeddings as float16, all else as float32. The ONNX graphs shipped with Whence hold no weights; they point
into these two files by offset, and are read from the package, never copied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBEDDER_NAME = "all-MiniLM-L6-v2"
#: The local reranker, which compares token vectors of the embedder; it has no files of its own.
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
ALIGNMENT = 64


def write_w8(safetensors: Path, target: Path) -> None:
    """Derive the int8 weights from the published ones; needs about 150 MB of memory and 0.3 s.

    Only elementwise operations that IEEE 754 rounds exactly are used, so that the bytes are equal on every
    machine.
    """
    tensors = _w8_tensors(_read_safetensors(safetensors))
    with target.open("wb") as file:
        for tensor in tensors:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
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


def _w8_tensors(source: dict[str, NDArray[np.float32]]) -> list[NDArray[Any]]:
    """Return the tensors of `w8.bin` in the order of the file, as `tools/build_graphs.py` names them."""
    import numpy as np

    tensors: list[NDArray[Any]] = [
        source["embeddings.word_embeddings.weight"].astype(np.float16),
        # All tokens have type 0, so that its row can be added to the positions.
        source["embeddings.position_embeddings.weight"]
        + source["embeddings.token_type_embeddings.weight"][0],
        source["embeddings.LayerNorm.weight"],
        source["embeddings.LayerNorm.bias"],
    ]
    # Attention scores are divided by the root of a head's width; folded into the queries here.
    shrink = np.float32((DIMENSION // HEADS) ** -0.5)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        parts = [f"{prefix}attention.self.{part}" for part in ("query", "key", "value")]
        weight, scale, bias = _quantised(
            np.concatenate([source[f"{part}.weight"] for part in parts]),
            np.concatenate([source[f"{part}.bias"] for part in parts]),
        )
        scale[:DIMENSION] *= shrink
        bias[:DIMENSION] *= shrink
        tensors += [weight, scale, bias]
        for part in ("attention.output.dense", "intermediate.dense", "output.dense"):
            name = prefix + part
            tensors += _quantised(source[f"{name}.weight"], source[f"{name}.bias"])
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors += [source[f"{prefix}{part}.weight"], source[f"{prefix}{part}.bias"]]
    return tensors


def _quantised(
    weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    """Return a map y = W x + b as int8 weights with one scale per output, the scales, and b.

    The scale is max|w| / 127; weights are rounded half to even.
    """
    import numpy as np

    scale = np.abs(weight).max(axis=1) / np.float32(127)
    rounded = np.rint(weight / scale[:, None]).clip(-127, 127).astype(np.int8)
    return rounded.T, scale, bias
