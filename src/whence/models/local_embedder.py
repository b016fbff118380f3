"""Encoders with a graph of ours on ONNX Runtime; the local embedder is the one of all-MiniLM-L6-v2.

Texts of equal length in tokens are computed together, and nothing is padded. So the vector of a text cannot
depend on the other texts of the call, bit for bit, and no time is spent on padding.
"""

from __future__ import annotations

import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from whence.models.encoders import MINILM, Encoder
from whence.models.installed import check_files, find_model, shipped_graph
from whence.models.onnx_folder import TOKENIZER
from whence.models.onnx_sessions import Session, Workers, open_session
from whence.models.query_queue import QueryQueue
from whence.models.weights import DIMENSION
from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.errors import ModelMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from whence.models.word_vectors import WordVectors

T = TypeVar("T")

#: ASCII that the tokenizer neither removes nor splits in another way.
_PLAIN = re.compile(r"[ -~\t\n\r]*")
#: Where the tokenizer divides any text.
_SPACE = re.compile(r"[ \t\n\r]+")
#: Of ASCII: in lower case, marks as spaces.
_LOWER_WORDS = str.maketrans(
    dict.fromkeys(string.punctuation, " ") | {one: one.lower() for one in string.ascii_uppercase}
)
_WITHOUT_MARKS = str.maketrans("", "", string.punctuation)
#: Cached words, some 110 bytes each; with a quarter of them, prose took a quarter more time.
_CACHE_WORDS = 1 << 15
#: Longest word worth caching.
_MAX_CACHED = 32


def _plain_words(text: str) -> tuple[list[str], int]:
    """Return the words of a plain text, and the number of its marks, each of which is a token."""
    marks = len(text) - len(text.translate(_WITHOUT_MARKS))
    return text.translate(_LOWER_WORDS).split(), marks


class TokenCounts:
    """Counts tokens, with a cache of words for tokenizers of BERT; safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from tokenizers.models import WordPiece

        self._tokenizer = tokenizer
        self._by_word = isinstance(tokenizer.model, WordPiece)
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._special = re.compile("|".join(map(re.escape, special)) or "(?!)")
        self._cache: dict[str, int] = {}

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens."""
        words = [self._words(text) for text in texts]
        counts = self._of_words(set().union(*[some[0] for some in words if some is not None]))
        whole = iter(self._whole([t for t, some in zip(texts, words, strict=True) if some is None]))
        return [
            next(whole) if some is None else sum(map(counts.__getitem__, some[0])) + some[1]
            for some in words
        ]

    def _words(self, text: str) -> tuple[list[str], int] | None:
        """Return the words of a text and the number of its marks; None where only the tokenizer can count.

        Of a text that is not plain, what stands between spaces and is not plain is a word.
        """
        if not self._by_word or self._special.search(text):
            return None
        if _PLAIN.fullmatch(text) is not None:
            return _plain_words(text)
        others: list[str] = []
        plain: list[str] = []
        for run in _SPACE.split(text):
            (plain if _PLAIN.fullmatch(run) else others).append(run)
        words, marks = _plain_words(" ".join(plain))
        return words + others, marks

    def _of_words(self, words: set[str]) -> dict[str, int]:
        cached = self._cache
        new = list(words.difference(cached))
        if not new:
            return cached
        encoding = self._tokenizer.encode(new, is_pretokenized=True, add_special_tokens=False)
        tokens = Counter(encoding.word_ids)
        fresh = {word: tokens[place] for place, word in enumerate(new)}
        short = {word: count for word, count in fresh.items() if len(word) <= _MAX_CACHED}
        # Replaced and never shrunk: another thread may be reading the former dictionary.
        if len(cached) + len(short) > _CACHE_WORDS:
            self._cache = dict(list(short.items())[:_CACHE_WORDS])
        else:
            cached.update(short)
            if len(short) == len(fresh):
                return cached
        return {word: cached[word] for word in words if word not in fresh} | fresh

    def _whole(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]


Precision = Literal["w8", "float32"]

_WEIGHTS: Final[dict[Precision, str]] = {"w8": "w8.bin", "float32": "model.safetensors"}
_FLOAT32_GRAPH: Final = "minilm-fp32.onnx"
#: Tokens computed in one run: enough to amortise its fixed cost, few enough to stay in the cache. With 512 the
#: whole took up to 6 % more CPU time (1 MiB of second-level cache).
_BATCH_TOKENS: Final = 256
_BATCH_TEXTS: Final = 16
#: Texts tokenized at a time; the tokenizer uses all cores.
_TOKENIZE_TEXTS: Final = 1024
#: Longest text, in characters, that is computed as a query.
_SHORT_TEXT: Final = 1000


class _Loaded(NamedTuple):
    session: Session
    tokenizer: Tokenizer


class EncoderEmbedder:
    """Embeds with an encoder of the table; the model is loaded for the first text.

    Args:
        encoder: Which one.
        home: The home whose `models` folder is searched.
        models: The only folder to search, when set.
        precision: `w8` for 8 bit weights, which every processor multiplies exactly, so that machines of
            different kinds may share a home; `float32` for the published ones of all-MiniLM-L6-v2.
        threads: Texts computed at the same time; None for one per usable core.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        home: Path | None = None,
        models: Path | None = None,
        precision: Precision = "w8",
        threads: int | None = None,
    ) -> None:
        self.encoder = encoder
        self._home, self._models = home, models
        self._model = EmbeddingModel(
            name=encoder.name,
            revision=encoder.revision,
            precision=precision,
            dimension=DIMENSION,
        )
        self._precision = precision
        self._workers = Workers(threads, "embed")
        self._queries = QueryQueue(self._workers)
        self._loaded: _Loaded | None = None
        self._counter: TokenCounts | None = None
        self._loading = threading.Lock()

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; known without loading anything."""
        return self._model

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded is not None

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads, special ones included; what its prompt takes is left out."""
        return self.encoder.window - self.encoder.prompt_tokens

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`; the prompt of the purpose stands before each text."""
        query, document = self.encoder.query_prompt, self.encoder.document_prompt
        prompt = query if purpose == "query" else document
        return (await self._compute([prompt + text for text in texts], None))[0]

    async def _compute(
        self, texts: Sequence[str], encode: Callable[[NDArray[np.float32]], list[T]] | None
    ) -> tuple[NDArray[np.float32], list[T]]:
        """Return vectors and, with a function for the token vectors of several texts, its result for each."""
        loaded = self._loaded
        if loaded is None and texts:
            loaded = await self._workers.run(self._load)
        import numpy as np

        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if loaded is None:
            return vectors, []
        if len(texts) == 1 and encode is None and len(texts[0]) <= _SHORT_TEXT:
            # Tokenizing it takes a tenth of the time that waiting for another thread may.
            ids = loaded.tokenizer.encode(texts[0]).ids
            vectors[0] = await self._queries.compute(loaded.session, ids)
            return vectors, []
        tokens: list[list[int]] = []
        for start in range(0, len(texts), _TOKENIZE_TEXTS):
            part = list(texts[start : start + _TOKENIZE_TEXTS])
            encodings = await self._workers.run(
                lambda part=part: loaded.tokenizer.encode_batch_fast(part)  # type: ignore[misc]
            )
            tokens.extend(encoding.ids for encoding in encodings)
        batches = list(_batches(tokens))

        def compute(rows: list[int]) -> tuple[NDArray[np.float32], list[T]]:
            ids = np.array([tokens[row] for row in rows], dtype=np.int64)
            names = ["vector", "tokens"] if encode else ["vector"]
            outputs = loaded.session.run(names, {"input_ids": ids})
            return outputs[0], encode(outputs[1]) if encode else []

        made: dict[int, T] = {}
        results = await self._workers.map(compute, batches)
        for rows, (values, encoded) in zip(batches, results, strict=True):
            vectors[rows] = values
            made.update(zip(rows, encoded, strict=False))
        return vectors, [made[row] for row in sorted(made)]

    async def embed_tokens(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the vectors of texts, and of each the unit vectors of its tokens.

        All have the prompt of queries, so that questions are compared with texts alike. Its tokens and the
        special ones are left out.
        """
        from whence.models.token_codes import unit_tokens

        prompt, skipped = self.encoder.query_prompt, self.encoder.prompt_tokens
        return await self._compute(
            [prompt + text for text in texts],
            lambda tokens: list(unit_tokens(tokens)[:, skipped:]),
        )

    async def split_query(self, text: str) -> tuple[list[int], list[tuple[str, list[int]]]]:
        """Return the token ids of a text as `embed_tokens` has them, and of each word those of its tokens."""
        loaded = await self._workers.run(self._load)
        whole = self.encoder.query_prompt + text
        encoding = loaded.tokenizer.encode(whole)
        first = 1 + self.encoder.prompt_tokens
        places: dict[int | None, list[int]] = {}
        for place, word in enumerate(encoding.word_ids[first:-1]):
            places.setdefault(word, []).append(place)
        offsets = encoding.offsets[first:-1]
        words = [
            (whole[offsets[own[0]][0] : offsets[own[-1]][1]].strip(), own)
            for own in places.values()
        ]
        return encoding.ids[first:-1], words

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder.count_tokens`."""
        with self._loading:
            if self._counter is None:
                folder = find_model(self.encoder.name, self._home, self._models)
                check_files(folder, hashed=(TOKENIZER,))
                self._counter = TokenCounts(_read_tokenizer(folder))
            counter = self._counter
        return counter.count(texts)

    async def aclose(self) -> None:
        """Free the threads and the model; the next use loads it again."""
        self._loaded = self._counter = None
        await self._workers.aclose()
        self._queries.cancel()

    def _load(self) -> _Loaded:
        """Load the model once; concurrent callers wait."""
        with self._loading:
            if self._loaded is None:
                folder = find_model(self.encoder.name, self._home, self._models)
                # In parallel: opening the session takes longest, and runs outside of Python.
                with ThreadPoolExecutor(2) as pool:
                    whole = self._precision == "float32"
                    graph = _FLOAT32_GRAPH if whole else self.encoder.graph
                    weights = _WEIGHTS[self._precision]
                    # A damaged file with its old time of change would answer wrongly.
                    checked = pool.submit(check_files, folder, hashed=(weights, TOKENIZER))
                    session = pool.submit(open_session, shipped_graph(graph), folder)
                    checked.result()
                    tokenizer = _read_tokenizer(folder)
                    tokenizer.enable_truncation(self.encoder.window)
                    self._loaded = _Loaded(session.result(), tokenizer)
            return self._loaded


class LocalEmbedder(EncoderEmbedder):
    """Embeds with all-MiniLM-L6-v2, and gives the vectors of tokens, which the local reranker reads.

    Args:
        home: The home whose `models` folder is searched.
        models: The only folder to search, when set.
        precision: `w8` or `float32`; see `EncoderEmbedder`.
        threads: Texts computed at the same time; None for one per usable core.
    """

    def __init__(
        self,
        *,
        home: Path | None = None,
        models: Path | None = None,
        precision: Precision = "w8",
        threads: int | None = None,
    ) -> None:
        super().__init__(MINILM, home=home, models=models, precision=precision, threads=threads)
        self._words: WordVectors | None = None

    async def embed_coded(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[bytes]]:
        """Return the vectors and the token codes of texts; see `CodingEmbedder.embed_coded`."""
        from whence.models.token_codes import token_codes

        return await self._compute(texts, token_codes)

    async def compare_words(
        self, questions: Sequence[str], texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[list[float]]]:
        """Return how near texts are to questions by their words alone, see `WordVectors.compare`.

        The vectors, one row a text, are zero.
        """
        loaded = await self._workers.run(self._load)
        import numpy as np

        def compare() -> list[list[float]]:
            encodings = loaded.tokenizer.encode_batch_fast([*questions, *texts])
            ids = [one.ids[1:-1] for one in encodings]
            count = len(questions)
            return self._word_vectors().compare(ids[:count], ids[count:])

        return np.zeros((len(texts), 1), dtype=np.float32), await self._workers.run(compare)

    def _word_vectors(self) -> WordVectors:
        from whence.models.word_vectors import WordVectors

        if self._words is None:
            folder = find_model(self.encoder.name, self._home, self._models)
            # With 8 bit weights the file was read whole when the model was loaded.
            check_files(folder, hashed=(_WEIGHTS["w8"],) if self._precision == "float32" else ())
            self._words = WordVectors(folder / _WEIGHTS["w8"])
        return self._words

    async def aclose(self) -> None:
        """See `EncoderEmbedder.aclose`."""
        self._words = None
        await super().aclose()

    async def read_query(self, text: str) -> tuple[list[int], NDArray[np.float32]]:
        """Return the token ids of a text and their vectors, without the special ones."""
        loaded = await self._workers.run(self._load)
        import numpy as np

        ids: list[int] = loaded.tokenizer.encode(text).ids
        inputs = {"input_ids": np.array([ids], dtype=np.int64)}
        (tokens,) = await self._workers.run(lambda: loaded.session.run(["tokens"], inputs))
        return ids[1:-1], tokens[0, 1:-1]


def _read_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer of a model without truncation and padding, which the file asks for."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    try:
        tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelMissing(f"the tokenizer {path} cannot be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield rows of texts of equal length, longest first, so that the threads end at about the same time."""
    order = sorted(range(len(tokens)), key=lambda row: (-len(tokens[row]), row))
    for length, group in groupby(order, key=lambda row: len(tokens[row])):
        rows = list(group)
        most = min(_BATCH_TEXTS, max(1, _BATCH_TOKENS // length))
        for start in range(0, len(rows), most):
            yield rows[start : start + most]
