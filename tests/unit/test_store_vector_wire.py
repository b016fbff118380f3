"""Vectors as they are sent: in the layout of pgvector, number for number."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whence.store.vectors.wire import _received, _sent

_NUMBERS = st.lists(st.floats(width=32, allow_nan=False), max_size=50)


@given(_NUMBERS)
def test_a_vector_comes_back_as_it_was_sent(numbers: list[float]) -> None:
    """Its numbers are big endian behind their count and two bytes that are 0, and none is changed."""
    vector = np.array(numbers, np.float32)
    sent = _sent(vector)

    assert sent == struct.pack(f">HH{len(numbers)}f", len(numbers), 0, *numbers)
    assert _received(sent).tobytes() == vector.tobytes()
