"""The local reranker: every word of the query is compared with every word of a passage, by token vectors.

`LateInteractionReranker` scores passages by their token codes, `SpanReader` short texts by the vectors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import regex

from whence.models.encoders import MINILM
from whence.models.protocols import AskedWord, Reading
from whence.models.token_codes import (
    PLACES,
    cosines,
    late_interaction,
    nearest_tokens,
    token_weights,
    weighted_mean,
)
from whence.models.weights import RERANKER_NAME

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.models.local_embedder import EncoderEmbedder, LocalEmbedder

#: Share of the score in the final one; the rest is the score of retrieval. Chosen on any seven of eight
#: collections it is .2, and the eighth gains: see `docs/benchmarks.md`.
SHARE: Final = 0.2
#: Weight of the words that say little of what a question is about, such as `which` and `use`; log of their rank
#: and 1/2. What rarer words weigh more is their rarity.
_COMMON: Final = 4.0
_LEAST_RARITY: Final = 0.01
_LETTER: Final = regex.compile(r"\p{L}")
_LATIN: Final = regex.compile(r"\p{Latin}")
#: Two words of whatever meaning have this cosine.
_LEAST_NEARNESS: Final = 0.1


class LateInteractionReranker:
    """Scores passages by the token vectors of the local embedder, whose weights it shares.

    Args:
        embedder: Reads the query, and passages without a code.
        owned: Whether `aclose` closes the embedder.
    """

    model = RERANKER_NAME
    share = SHARE

    def __init__(self, embedder: LocalEmbedder, *, owned: bool = False) -> None:
        self._embedder = embedder
        self._owned = owned
        self.revision = embedder.model.revision

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """See `Reranker.score`."""
        return await self.score_coded(query, documents, [b""] * len(documents))

    async def score_coded(
        self, query: str, documents: Sequence[str], codes: Sequence[bytes]
    ) -> list[float]:
        """See `CodedReranker.score_coded`."""
        if not documents:
            return []
        ids, tokens = await self._embedder.read_query(query)
        unread = [place for place, code in enumerate(codes) if not code]
        _, read = await self._embedder.embed_coded([documents[place] for place in unread])
        known = dict(zip(unread, read, strict=True))
        whole = [known.get(place, code) for place, code in enumerate(codes)]
        return await asyncio.to_thread(
            late_interaction, tokens, token_weights(ids, MINILM.last_symbol), whole
        )

    async def aclose(self) -> None:
        """Close the embedder if it belongs to this reranker."""
        if self._owned:
            await self._embedder.aclose()


class SpanReader:
    """Compares short texts with questions by their token vectors, without codes; for the writer that quotes.

    Args:
        embedder: Gives the token vectors.
        multilingual: Reads texts in other languages than English; None where no such model is installed.
    """

    def __init__(
        self, embedder: EncoderEmbedder, multilingual: EncoderEmbedder | None = None
    ) -> None:
        self._embedder = embedder
        self._multilingual = multilingual

    def serving(self, language: str, text: str) -> SpanReader | None:
        """See `SpanReading.serving`: a model of English knows the pieces of words in Latin letters alone."""
        if language != "english" and self._multilingual is not None:
            return SpanReader(self._multilingual)
        if self.by_sentence:
            return self
        letters = _LETTER.findall(text)
        return self if 2 * len(_LATIN.findall(text)) >= len(letters) else None

    @property
    def by_sentence(self) -> bool:
        """See `SpanReading.by_sentence`."""
        return self._embedder.encoder.languages != MINILM.languages

    async def glance(self, questions: Sequence[str], texts: Sequence[str]) -> Reading | None:
        """See `SpanReading.glance`: words outside of sentences, by the local embedder alone."""
        from whence.models.local_embedder import LocalEmbedder

        if not isinstance(self._embedder, LocalEmbedder):
            return None
        vectors, near = await self._embedder.compare_words(questions, texts)
        return Reading(vectors, near, near, near)

    async def read(self, questions: Sequence[str], texts: Sequence[str]) -> Reading:
        """See `SpanReading.read`."""
        encoder = self._embedder.encoder
        vectors, tokens = await self._embedder.embed_tokens([*texts, *questions])
        count = len(texts)
        nearness, coverage, read = [], [], []
        for question, asked in zip(questions, tokens[count:], strict=True):
            ids, words = await self._embedder.split_query(question)
            weights = token_weights(ids, encoder.last_symbol)
            floor = encoder.token_floor
            best = [
                None if one is None else (one - floor) / (1 - floor)
                for one in nearest_tokens(asked, tokens[:count])
            ]
            nearness.append([0.0 if one is None else weighted_mean(one, weights) for one in best])
            asked_words = [_word(text, places, best, weights) for text, places in words]
            coverage.append(
                [
                    0.0 if one is None else _coverage(asked_words, place)
                    for place, one in enumerate(best)
                ]
            )
            read.append(asked_words)
        # The cosines of an encoder have a floor, too: those of E5 are between .7 and .95.
        alike = (cosines(vectors[count:], vectors[:count]) - encoder.token_floor) / (
            1 - encoder.token_floor
        )
        return Reading(vectors[:count], alike.tolist(), nearness, coverage, self.by_sentence, read)


def _word(
    text: str,
    places: list[int],
    best: Sequence[NDArray[np.float64] | None],
    weights: NDArray[np.float32],
) -> AskedWord:
    """Return a word of a question with its nearness to each text; a text without tokens has none.

    Args:
        text: The word.
        places: Of its tokens.
        best: Of each text the best cosine of each token of the question.
        weights: Those of the tokens of the question.
    """
    own = weights[places]
    near = [0.0 if one is None else weighted_mean(one[places], own) for one in best]
    return AskedWord(text, max(_LEAST_RARITY, float(own.max()) - _COMMON), near)


def _coverage(words: Sequence[AskedWord], place: int) -> float:
    """Return the harmonic mean of the nearness of words to one text, the rare ones weighted more, 0 to 1.

    One word that a text lacks lowers it as no other word can raise it again.
    """
    total = inverse = 0.0
    for one in words:
        total += one.rarity
        inverse += one.rarity / max(one.near[place], _LEAST_NEARNESS)
    return round(total / inverse, PLACES) if inverse else 0.0
