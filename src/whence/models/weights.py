"""The weights of the local models, and the layout of the files with them.

All are BERT encoders of 384 dimensions with 6 or 12 layers. `w8.bin` is derived from the published weights
once, on the user's machine, and is the same byte for byte on every machine: linear layers as int8 with one
scale per column, word embeddings as float16 or as published in 4 bits, all else as float32. Of all-MiniLM-L6-v2
(Apache-2.0) the published file, `model.safetensors`, is kept as well. The ONNX graphs shipped with Whence hold
no weights; they point into these files by offset, and are read from the package, never copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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

#: Word embeddings in 4 bits have one scale for so many components.
BLOCK = 32
#: Names of the word embeddings in 4 bits: two components a byte, the first in the low half, each plus 8; and
#: their scales.
PACKED_WORDS, WORD_SCALES = "words.packed", "words.scale"


class Shape(NamedTuple):
    """What differs between the networks."""

    layers: int
    vocabulary: int
    packed: bool = False
    """Whether the word embeddings have 4 bits."""


#: Tensors in `w8.bin` start at multiples of this, so that vector instructions may load them.
ALIGNMENT = 64


def write_w8(source: Mapping[str, NDArray[Any]], layers: int, target: Path) -> None:
    """Derive the int8 weights from the published ones; needs about 150 MB of memory and 0.3 s.

    Only elementwise operations that IEEE 754 rounds exactly are used, so that the bytes are equal on every
    machine.

    Args:
        source: Published tensors, by the names of BERT in `transformers`; linear maps as (outputs, inputs).
        layers: Number of layers.
        target: File to write.
    """
    with target.open("wb") as file:
        for tensor in _w8_tensors(source, layers):
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            file.write(tensor.tobytes())


def _w8_tensors(source: Mapping[str, NDArray[Any]], layers: int) -> list[NDArray[Any]]:
    """Return the tensors of `w8.bin` in the order of the file, as `tools/build_graphs.py` names them."""
    import numpy as np

    tensors: list[NDArray[Any]] = (
        [source[PACKED_WORDS], source[WORD_SCALES]]
        if PACKED_WORDS in source
        else [source["embeddings.word_embeddings.weight"].astype(np.float16)]
    )
    tensors += [
        # All tokens have type 0, so that its row can be added to the positions.
        source["embeddings.position_embeddings.weight"]
        + source["embeddings.token_type_embeddings.weight"][0],
        source["embeddings.LayerNorm.weight"],
        source["embeddings.LayerNorm.bias"],
    ]
    # Attention scores are divided by the root of a head's width; folded into the queries here.
    shrink = np.float32((DIMENSION // HEADS) ** -0.5)
    for layer in range(layers):
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
