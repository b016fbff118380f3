"""The reranker: cross-encoders of flashrank, from its hub or a folder, and any other one from an ONNX folder.

flashrank's own `Ranker` asks its hub for every folder that it does not find, configures logging for the whole
process and opens a session on all cores. So its models are loaded here, and scored as it scores them. Pairs are
scored one by one, several at the same time. Nothing is padded: a score depends on the pair alone, bit for bit.
Batches of mixed lengths were slower and took four times the memory.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from whence.models.cross_encoders import hub_models, install_cross_encoder
from whence.models.installed import MANIFEST, check_files, file_sha256, model_folders
from whence.models.onnx_folder import OnnxFolder
from whence.models.onnx_sessions import Session, Workers, open_session, typed_inputs
from whence.schema.errors import ConfigError, ModelMissing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENIZER_FILES: Final = (
    "config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
_HUB_TIMEOUT_S: Final = 20.0
#: Longest pair of query and passage in tokens; the longer of the two is truncated.
_MAX_TOKENS: Final = 512


class FlashrankReranker:
    """Scores with a flashrank model, which is loaded or fetched for the first score.

    Args:
        name_or_folder: Name of the installed model or of one of flashrank's, or a folder with a model.
        home: The home whose `models` folder is searched.
        models: The only folder to search, when set.
        threads: Pairs scored at the same time; None for one per usable core.
        kind: `flashrank`, or `onnx` for a folder that need not have flashrank's layout.
    """

    def __init__(
        self,
        name_or_folder: str | Path,
        home: Path | None = None,
        *,
        models: Path | None = None,
        threads: int | None = None,
        kind: Literal["flashrank", "onnx"] = "flashrank",
    ) -> None:
        self._name = str(name_or_folder)
        self._kind = kind
        self._home = home
        self._models = models
        self._workers = Workers(threads, "rerank")
        self._loading = threading.Lock()
        self._encoder: _CrossEncoder | None = None
        #: Digest of the model's graph with its weights, or of all that decides a score in an ONNX folder; empty
        #: until it is loaded.
        self.revision = ""

    @property
    def model(self) -> str:
        """Name for the trace."""
        path = Path(self._name)
        named = path.name
        if path.suffix == ".onnx":
            named = next(one.name for one in path.absolute().parents if one.name != "onnx")
        return f"{self._kind}:{named}"

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """See `Reranker.score`; `Unavailable` when the model must be fetched and cannot be."""
        if not documents:
            return []
        loaded = self._encoder
        encoder = loaded if loaded is not None else await self._workers.run(self._load)

        def score_row(row: int) -> float:
            return encoder.score(query, documents[row])

        # Longest first, so that the threads end at about the same time.
        order = sorted(range(len(documents)), key=lambda row: (-len(documents[row]), row))
        scores = [0.0] * len(documents)
        results = await self._workers.map(score_row, order)
        for row, score in zip(order, results, strict=True):
            scores[row] = score
        return scores

    async def aclose(self) -> None:
        """Free the threads and the model; the next use loads it again."""
        self._encoder = None
        await self._workers.aclose()

    def _load(self) -> _CrossEncoder:
        """Load the model once; concurrent callers wait."""
        with self._loading:
            if self._encoder is None and self._kind == "onnx":
                files = OnnxFolder(self._name, self._home, self._models)
                self._encoder = load_onnx_cross_encoder(files)
                self.revision = files.digest()[:12]
            elif self._encoder is None:
                folder = self._folder()
                self._encoder = load_cross_encoder(folder)
                self.revision = file_sha256(folder / model_file(folder))[:12]
            return self._encoder

    def _folder(self) -> Path:
        """Return the folder of the model; a model of flashrank's hub is fetched when it is missing."""
        path = Path(self._name).expanduser()
        if path.is_dir():
            return path.resolve()
        folders = model_folders(self._home, self._models)
        for folder in folders:
            if (folder / self._name).is_dir():
                return folder / self._name
        if self._name not in hub_models():
            raise ConfigError(
                f"there is no reranker model or folder {self._name!r}",
                hint="one of " + ", ".join(hub_models()) + ", or a folder",
            )
        install_cross_encoder(self._name, folders[0])
        return folders[0] / self._name


class _CrossEncoder:
    """A tokenizer and a session, used as flashrank's `Ranker` uses them."""

    def __init__(self, graph: Path, tokenizer: Tokenizer) -> None:
        self._graph, self._tokenizer = graph, tokenizer
        self._session: Session = open_session(graph)
        self._types = {one.name: one.type for one in self._session.get_inputs()}

    def score(self, query: str, text: str) -> float:
        """Return the relevance of a text, 0 to 1: the sigmoid of one logit or the softmax of two."""
        import numpy as np

        encoding = self._tokenizer.encode(query, text)
        inputs = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        logits = self._session.run(None, typed_inputs(self._types, inputs))[0]
        if logits.ndim != 2 or logits.shape[1] > 2:
            raise ModelMissing(
                f"the model {self._graph} is no reranker: it gives {logits.shape} for one pair",
                hint="choose a cross-encoder with one or two labels",
            )
        if logits.shape[1] == 1:
            scores = 1 / (1 + np.exp(-logits.flatten()))
        else:
            powers = np.exp(logits)
            scores = powers[:, 1] / np.sum(powers, axis=1)
        return min(1.0, max(0.0, float(scores[0])))


def load_cross_encoder(folder: Path) -> _CrossEncoder:
    """Load a model from its folder.

    Raises:
        ModelMissing: A file is absent or damaged, or cannot be loaded.
    """
    graph = model_file(folder)
    try:
        tokenizer = _read_tokenizer(folder)
    except Exception as error:  # the libraries raise plain exceptions of many kinds
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelMissing(f"the reranker in {folder} cannot be loaded: {first_line}") from error
    return _CrossEncoder(folder / graph, tokenizer)


def load_onnx_cross_encoder(files: OnnxFolder) -> _CrossEncoder:
    """Load a model from a folder that need not have flashrank's layout.

    Raises:
        ModelMissing: A file is absent or damaged, or cannot be loaded.
    """
    tokenizer = files.tokenizer()
    tokenizer.enable_truncation(max_length=files.max_tokens())
    return _CrossEncoder(files.graph, tokenizer)


def _read_tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import AddedToken, Tokenizer

    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    special = json.loads((folder / "special_tokens_map.json").read_text(encoding="utf-8"))
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=min(settings["model_max_length"], _MAX_TOKENS))
    tokenizer.add_special_tokens(
        [AddedToken(**token) if isinstance(token, dict) else token for token in special.values()]
    )
    return tokenizer


def model_file(folder: Path) -> str:
    """Return the name of the graph in a folder, after a check that the folder is complete."""
    from flashrank.Config import model_file_map

    if (folder / MANIFEST).is_file():
        check_files(folder, rehash=True)
    for name in _TOKENIZER_FILES:
        if not (folder / name).is_file():
            raise ModelMissing(f"the reranker in {folder} is incomplete: {name} is missing")
    known = model_file_map.get(folder.name)
    if known and (folder / known).is_file():
        return str(known)
    graphs = sorted(path.name for path in folder.glob("*.onnx"))
    if len(graphs) != 1:
        found = ", ".join(graphs) or "none"
        raise ModelMissing(f"the reranker in {folder} must have one .onnx file; found {found}")
    return graphs[0]
