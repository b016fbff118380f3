"""The local embedder: all-MiniLM-L6-v2 on ONNX Runtime.

Texts of equal length in tokens are computed together, and nothing is padded. So the vector of a text cannot
depend on the other texts of the call, bit for bit, and no time is spent on padding.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from whence.models.installed import check_files, find_model
from whence.models.onnx_sessions import Session, Workers, int8_is_exact, open_session
from whence.models.token_counts import TokenCounts
from whence.models.weights import DIMENSION, EMBEDDER_NAME, MAX_TOKENS, WEIGHTS_REVISION
from whence.schema.embedding import EmbeddingModel, Purpose
from whence.schema.errors import ModelMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

Precision = Literal["auto", "w8", "float32"]

_GRAPHS: Final = {"w8": "minilm-w8.onnx", "float32": "minilm-fp32.onnx"}
#: Tokens computed in one run: enough to amortise its fixed cost, few enough to stay in the cache. With 512 the
#: whole took up to 6 % more CPU time (1 MiB of second-level cache).
_BATCH_TOKENS: Final = 256
_BATCH_TEXTS: Final = 16
#: Texts tokenized at a time; the tokenizer uses all cores.
_TOKENIZE_TEXTS: Final = 1024


class _Loaded(NamedTuple):
    session: Session
    tokenizer: Tokenizer


class _Batch(NamedTuple):
    rows: list[int]
    ids: list[list[int]]


class LocalEmbedder:
    """Embeds on this machine; the model is loaded for the first text.

    Args:
        folder: Folder of the installed model; None to search for it on first use.
        home: The home whose `models` folder is searched then.
        models: The only folder to search, when set.
        precision: `w8` for 8 bit weights, `float32` for the published ones; `auto` for `w8` where the
            processor computes it fast and exactly, else `float32`.
        threads: Texts computed at the same time; None for one per usable core.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        home: Path | None = None,
        models: Path | None = None,
        precision: Precision = "auto",
        threads: int | None = None,
    ) -> None:
        if precision == "auto":
            precision = "w8" if int8_is_exact() else "float32"
        self._folder, self._home, self._models = folder, home, models
        self._model = EmbeddingModel(
            name=EMBEDDER_NAME,
            revision=WEIGHTS_REVISION,
            precision=precision,
            dimension=DIMENSION,
        )
        self._workers = Workers(threads, "embed")
        self._loaded: _Loaded | None = None
        self._counter: TokenCounts | None = None
        self._loading = threading.Lock()

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors; known without loading anything."""
        return self._model

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads, the two special ones included."""
        return MAX_TOKENS

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`; purposes do not differ."""
        loaded = self._loaded
        if loaded is None and texts:
            loaded = await self._workers.run(self._load)
        import numpy as np

        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if loaded is None:
            return vectors
        tokens: list[list[int]] = []
        for start in range(0, len(texts), _TOKENIZE_TEXTS):
            part = list(texts[start : start + _TOKENIZE_TEXTS])
            encodings = await self._workers.run(
                lambda part=part: loaded.tokenizer.encode_batch_fast(part)  # type: ignore[misc]
            )
            tokens.extend(encoding.ids for encoding in encodings)
        batches = list(_batches(tokens))

        def compute(batch: _Batch) -> NDArray[np.float32]:
            ids = np.array(batch.ids, dtype=np.int64)
            computed: NDArray[np.float32] = loaded.session.run(None, {"input_ids": ids})[0]
            return computed

        for batch, rows in zip(batches, await self._workers.map(compute, batches), strict=True):
            vectors[batch.rows] = rows
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder.count_tokens`."""
        with self._loading:
            if self._counter is None:
                self._counter = TokenCounts(_read_tokenizer(self._find()))
            counter = self._counter
        return counter.count(texts)

    async def aclose(self) -> None:
        """Free the threads and the model; the next use loads it again."""
        self._loaded = self._counter = None
        await self._workers.aclose()

    def _load(self) -> _Loaded:
        """Load the model once; concurrent callers wait."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._read()
            return self._loaded

    def _read(self) -> _Loaded:
        folder = self._find()
        # In parallel: opening the session takes longest, and runs outside of Python.
        with ThreadPoolExecutor(1) as pool:
            session = pool.submit(open_session, folder / _GRAPHS[self._model.precision])
            tokenizer = _read_tokenizer(folder)
            tokenizer.enable_truncation(MAX_TOKENS)
            return _Loaded(session.result(), tokenizer)

    def _find(self) -> Path:
        """Return the folder of the model after a check of its files."""
        folder = self._folder or find_model(EMBEDDER_NAME, self._home, self._models)
        check_files(folder)
        return folder


def _read_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer of a model without truncation and padding, which the file asks for."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer: Tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelMissing(f"the tokenizer {path} cannot be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[_Batch]:
    """Yield batches of texts of equal length, longest first, so that the threads end at about the same time."""
    order = sorted(range(len(tokens)), key=lambda row: (-len(tokens[row]), row))
    start = 0
    while start < len(order):
        length = len(tokens[order[start]])
        most = min(_BATCH_TEXTS, max(1, _BATCH_TOKENS // length))
        end = start + 1
        while end < min(start + most, len(order)) and len(tokens[order[end]]) == length:
            end += 1
        rows = order[start:end]
        yield _Batch(rows, [list(tokens[row]) for row in rows])
        start = end
