"""How well a text answers a question, by the nearness of each word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from whence.models.encoders import MINILM, MULTILINGUAL, Encoder
from whence.models.late_interaction import SpanReader
from whence.models.local_embedder import LocalEmbedder

#: Cosine of each of two words of the question with the only word of each text.
TEXTS = {"has one word": (0.9, 0.1), "has a bit of both": (0.5, 0.5), "": (0.0, 0.0)}


class Tokens:
    """An embedder of texts whose nearness is known; the second word of a question has two tokens."""

    def __init__(self, encoder: Encoder = MINILM) -> None:
        self.encoder = encoder

    async def embed_tokens(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        question = np.eye(3, dtype=np.float32)[[0, 1, 1]]
        known = {
            text: np.array([[*near, 0.0]] if text else np.empty((0, 3)), dtype=np.float32)
            for text, near in TEXTS.items()
        }
        tokens = [known.get(text, question) for text in texts]
        return np.eye(len(texts), dtype=np.float32), tokens

    async def split_query(self, _text: str) -> tuple[list[int], list[tuple[str, list[int]]]]:
        return [9_000, 9_000, 9_000], [("one", [0]), ("two", [1, 2])]


async def test_a_word_that_is_missing_counts_more_than_one_that_is_near() -> None:
    """A text that lacks one of two words covers less than one half near to both, whatever tokens they have."""
    reading = await SpanReader(cast("LocalEmbedder", Tokens())).read(["question"], list(TEXTS))

    lacking, half, empty = reading.coverage[0]
    assert lacking == pytest.approx(2 / (1 / 0.9 + 1 / 0.1))
    assert half == pytest.approx(0.5)
    assert empty == 0.0
    assert reading.nearness[0][0] == pytest.approx((0.9 + 0.1 + 0.1) / 3)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Die Probezeit", True),
        ("\u9001\u6599\u306f", False),
        ("42", True),
        ("\u0433\u0434\u0435 a", False),
    ],
)
def test_a_reader_of_latin_letters_reads_no_other_script(text: str, read: bool) -> None:
    """A model of English finds all words of another script alike, so it does not read them."""
    reader = SpanReader(cast("LocalEmbedder", Tokens()))
    assert reader.serving("german", text) is (reader if read else None)


@pytest.mark.parametrize(("language", "multilingual"), [("english", False), ("german", True)])
async def test_another_language_is_read_by_the_model_of_many(
    language: str, multilingual: bool
) -> None:
    """Where it is installed, a model of many languages reads all of them but English."""
    own, other = Tokens(), Tokens(MULTILINGUAL)
    reader = SpanReader(cast("LocalEmbedder", own), cast("LocalEmbedder", other))

    serving = reader.serving(language, "Probe")

    assert serving
    assert (await serving.read(["a"], ["b"])).multilingual is multilingual
