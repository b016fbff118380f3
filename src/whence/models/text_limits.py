"""How much of a text an embedding server reads: what it says of itself, else what a measurement shows.

Many servers read the beginning of a long text and ignore the rest without a word. The measurement sends two
texts with one beginning and different ends: while their vectors differ, the server reads beyond the beginning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from whence.models.api_client import ApiClient
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TextLimit(NamedTuple):
    """What one server reads of a text."""

    tokens: int
    """Tokens, special ones included."""
    cuts: bool = False
    """Whether it ignores the rest of a longer text; else it refuses the text."""
    batch: int | None = None
    """Most texts of one request, when the server says so."""


class EmbeddingReply(NamedTuple):
    """An answer to a request for vectors."""

    rows: NDArray[np.float32]
    """Unit vectors, one a text."""
    tokens: int
    """Tokens that were read in all; 0 when the server does not say."""


#: Used where a server's vectors do not depend on the text, so that nothing can be measured.
DEFAULT: Final = TextLimit(256)
#: The longest window that is used without being told; longer chunks are not found any better.
_WINDOW: Final = 512
#: Words up to which reading is measured; above the window, because tokens of chunks are estimated.
_MEASURED: Final = 640
_LEAST: Final = 32
#: Part of a measured limit that is used when no count of tokens shows whether a text was cut.
_SHARE_UNCOUNTED: Final = 0.75
#: Largest 1 - cosine of vectors of one text; half precision errs by less, other ends differ by more.
_SAME: Final = 1e-5
# One token each in the vocabularies of common models, and never less than one.
_BEGINNING: Final = [
    "time",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "world",
    "life",
    "hand",
    "part",
]
_ENDS: Final = (
    ["river", "mountain", "forest", "stone", "water"],
    ["money", "bank", "price", "market", "tax"],
)


async def find_limit(
    client: ApiClient, model: str, embed: Callable[[list[str]], Awaitable[EmbeddingReply]]
) -> TextLimit:
    """Return what a server reads of a text; up to four requests, or ten where nothing is said or counted.

    Args:
        client: The server.
        model: Name of the model on it.
        embed: Embeds texts as they are.

    Raises:
        Unavailable: The server does not answer.
    """
    info = await client.ask("/info")  # Text Embeddings Inference
    tokens = _positive(info, "max_input_length")
    if tokens:
        cuts = info.get("auto_truncate") is not False
        return TextLimit(tokens, cuts, _positive(info, "max_client_batch_size"))
    listed = await client.ask("/v1/models")  # vLLM, which refuses longer texts
    entries = listed.get("data") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            tokens = _positive(entry, "max_model_len")
            if tokens:
                return TextLimit(tokens)
    return await _measure(embed)


def _positive(found: Any, name: str) -> int | None:
    value = found.get(name) if isinstance(found, dict) else None
    return value if type(value) is int and value > 0 else None


async def _measure(embed: Callable[[list[str]], Awaitable[EmbeddingReply]]) -> TextLimit:
    words = len(_pair(_MEASURED)[0].split())
    cuts = False

    async def reads(first: int) -> tuple[bool, int]:
        """Return whether it reads beyond the first words, and the tokens that it counts of one text."""
        nonlocal cuts
        try:
            rows, tokens = await embed(_pair(first))
        except BadInput:
            return False, 0
        differ = float(1.0 - rows[0] @ rows[1]) > _SAME
        cuts = cuts or not differ
        return differ, tokens // 2

    more, counted = await reads(_MEASURED)
    if more:
        return TextLimit(_WINDOW)
    if cuts and _LEAST <= counted < words and (await reads(counted // 2))[0]:
        return TextLimit(counted, cuts=True)
    least, most = _LEAST // 2, _MEASURED
    if not (await reads(least))[0]:
        return DEFAULT
    while most - least > _LEAST // 2:
        middle = (least + most) // 2
        more, _ = await reads(middle)
        least, most = (middle, most) if more else (least, middle)
    return TextLimit(max(_LEAST // 2, int(least * _SHARE_UNCOUNTED)), cuts)


def _pair(words: int) -> list[str]:
    """Return two texts that share their first words and differ in a third as many words after these."""
    beginning = [_BEGINNING[place % len(_BEGINNING)] for place in range(words)]
    return [
        " ".join(beginning + [end[place % len(end)] for place in range(words // 3 + 1)])
        for end in _ENDS
    ]
