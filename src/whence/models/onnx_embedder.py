"""An embedder from a folder: any ONNX model in the layout of sentence-transformers.

Each text is computed alone, several at the same time. So a vector never depends on other texts, also with
graphs that scale whole batches to 8 bit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from whence.models.onnx_folder import OnnxFolder, Recipe
from whence.models.onnx_sessions import Session, Workers, open_session, typed_inputs
from whence.schema.embedding import EmbeddingModel, Purpose

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

#: Special tokens that every caller leaves room for.
_SPECIAL: Final = 2
#: Output with the vector of the whole text.
_WHOLE: Final = "sentence_embedding"
_TOKENS: Final = ("last_hidden_state", "token_embeddings")


class _Known(NamedTuple):
    """What the files say, and the tokenizer for counting."""

    folder: OnnxFolder
    recipe: Recipe
    model: EmbeddingModel
    counter: Tokenizer


class _Loaded(NamedTuple):
    """What computes a vector."""

    session: Session
    tokenizer: Tokenizer
    recipe: Recipe
    types: Mapping[str, str]
    """Type of each input."""
    output: str
    prompt_tokens: Mapping[str, int]
    """Tokens before the text itself, by purpose; 0 where they are pooled as well."""


class OnnxEmbedder:
    """Embeds with the model of a folder; nothing is read before it is needed.

    Args:
        what: Folder, graph, or name of an installed model; see `OnnxFolder`.
        home: The home whose `models` folder is searched for a name.
        models: The only folder to search, when set.
        threads: Texts computed at the same time; None for one per usable core.
    """

    def __init__(
        self,
        what: str,
        *,
        home: Path | None = None,
        models: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self._what = what
        self._home, self._models = home, models
        self._workers = Workers(threads, "embed")
        self._known: _Known | None = None
        self._loaded: _Loaded | None = None
        self._loading = threading.RLock()

    @property
    def model(self) -> EmbeddingModel:
        """Identity of the vectors: name of the folder, and digest of all files that decide a vector."""
        return self._read().model

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads; what its prompt takes is left out."""
        known = self._read()
        prompt = known.recipe.prompts.get("document", "")
        taken = len(known.counter.encode(prompt).ids) - _SPECIAL
        return known.recipe.max_tokens - max(0, taken)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """See `Embedder.embed`; a query and a document have the prompts that the folder states."""
        import numpy as np

        known = self._loaded
        loaded = known if known is not None else await self._workers.run(self._load)
        order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
        rows = await self._workers.map(lambda row: _vector(loaded, texts[row], purpose), order)
        vectors = np.zeros((len(texts), self.model.dimension), dtype=np.float32)
        for row, vector in zip(order, rows, strict=True):
            if vector.shape != vectors.shape[1:]:
                raise self._read().folder.fault(
                    f"its vectors have the length {len(vector)}, its files say {vectors.shape[1]}",
                    "correct 1_Pooling/config.json or config.json",
                )
            vectors[row] = vector
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Embedder.count_tokens`."""
        known = self._read()
        lower = [text.lower() for text in texts] if known.recipe.lower else list(texts)
        encodings = known.counter.encode_batch_fast(lower, add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    async def aclose(self) -> None:
        """Free the threads and the model; the next use loads it again."""
        self._known = self._loaded = None
        await self._workers.aclose()

    def load(self) -> EmbeddingModel:
        """Load the model and compute one vector, so that what is missing is known; return its identity."""
        self._load()
        return self.model

    def _read(self) -> _Known:
        """Read the files but the weights, once; hash the weights."""
        with self._loading:
            if self._known is None:
                folder = OnnxFolder(self._what, self._home, self._models)
                recipe = folder.recipe()
                model = EmbeddingModel(
                    name=f"onnx:{folder.name}",
                    revision=folder.digest()[:12],
                    precision="",
                    dimension=recipe.dimension or self._load_of(folder, recipe)[1],
                )
                self._known = _Known(folder, recipe, model, folder.tokenizer())
            return self._known

    def _load(self) -> _Loaded:
        """Load the model once; concurrent callers wait."""
        with self._loading:
            if self._loaded is None:
                known = self._read()
                self._loaded = self._load_of(known.folder, known.recipe)[0]
            return self._loaded

    def _load_of(self, folder: OnnxFolder, recipe: Recipe) -> tuple[_Loaded, int]:
        """Return the loaded model and the length of its vectors."""
        session = open_session(folder.graph)
        tokenizer = folder.tokenizer()
        tokenizer.enable_truncation(recipe.max_tokens)
        prompts = {} if recipe.pools_prompt else recipe.prompts
        loaded = _Loaded(
            session=session,
            tokenizer=tokenizer,
            recipe=recipe,
            types={one.name: one.type for one in session.get_inputs()},
            output=_output(folder, session, recipe),
            # A prompt ends before the last special token.
            prompt_tokens={
                purpose: len(tokenizer.encode(prompt).ids) - 1
                for purpose, prompt in prompts.items()
                if prompt
            },
        )
        unknown = loaded.types.keys() - _inputs(loaded, [0]).keys()
        if unknown:
            raise folder.fault(
                f"its graph wants the input {min(unknown)}, which no tokenizer makes",
                "export the encoder alone, for feature extraction",
            )
        return loaded, len(_vector(loaded, "a text", "document"))


def _output(folder: OnnxFolder, session: Session, recipe: Recipe) -> str:
    """Return the output of a graph to use: the vector of the text, else those of its tokens."""
    ranks = {one.name: len(one.shape or ()) for one in session.get_outputs()}
    if _WHOLE in ranks:
        return _WHOLE
    if recipe.others:
        raise folder.fault(
            f"modules.json asks for {', '.join(recipe.others)}, which its graph does not compute",
            "export a graph with the output `sentence_embedding`",
        )
    tokens: list[str] = [name for name in _TOKENS if name in ranks]
    tokens += [name for name, rank in ranks.items() if rank == 3]
    if tokens and recipe.poolings:
        return tokens[0]
    if tokens:
        raise folder.fault(
            "1_Pooling/config.json is missing, so how to pool its token vectors is not known",
            "copy that file from the model, or export a graph with the output `sentence_embedding`",
        )
    return next(iter(ranks))


def _inputs(loaded: _Loaded, ids: Sequence[int]) -> dict[str, Any]:
    """Return the inputs of a graph for the tokens of one text."""
    count = len(ids)
    values = {
        "input_ids": ids,
        "attention_mask": [1] * count,
        "token_type_ids": [0] * count,
        "position_ids": range(count),
    }
    return typed_inputs(loaded.types, values)


def _vector(loaded: _Loaded, text: str, purpose: Purpose) -> NDArray[np.float32]:
    """Return the unit vector of one text."""
    import numpy as np

    whole = loaded.recipe.prompts.get(purpose, "") + text
    ids = loaded.tokenizer.encode(whole.lower() if loaded.recipe.lower else whole).ids
    (output,) = loaded.session.run([loaded.output], _inputs(loaded, ids))
    found = output[0].astype(np.float64)
    if found.ndim == 2:
        tokens = found[min(loaded.prompt_tokens.get(purpose, 0), len(found) - 1) :]
        found = np.concatenate([_pool(tokens, found[0], way) for way in loaded.recipe.poolings])
    unit: NDArray[np.float32] = (found / max(np.linalg.norm(found), 1e-12)).astype(np.float32)
    return unit


def _pool(tokens: NDArray[Any], first: NDArray[Any], way: str) -> NDArray[Any]:
    """Join the vectors of tokens as sentence-transformers does: `mean`, `cls`, `max`, and so on."""
    import numpy as np

    if way == "cls":
        return first
    if way == "max":
        return np.asarray(tokens.max(axis=0))
    if way == "lasttoken":
        return np.asarray(tokens[-1])
    weights = np.ones(len(tokens))
    if way == "weightedmean":
        weights = np.arange(1.0, len(tokens) + 1.0)
    divisor = np.sqrt(len(tokens)) if way == "mean_sqrt_len_tokens" else weights.sum()
    return np.asarray(weights @ tokens / divisor)
