"""The reranker: flashrank's own `Ranker` on a folder or a model of its hub, with its sharp edges covered.

- flashrank asks its hub for every folder it does not find; here the folder is checked first, and a model that
  is fetched is fetched with a time limit and appears only when complete.
- Its constructor sets up logging for the whole process and opens a session that takes all cores: not used.
- Pairs are scored one by one, several at the same time. Nothing is padded, so that a score depends on the pair
  alone, bit for bit; batches of mixed lengths were measured slower, and take four times the memory.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from whence.models.manifest import MANIFEST, check_files
from whence.models.model_folders import find_model, model_places
from whence.models.onnx_sessions import Workers, open_session
from whence.models.weights import RERANKER_NAME
from whence.schema.errors import ConfigError, ModelMissing, Unavailable

__all__ = ("FlashrankReranker", "hub_models")

_TOKENIZER_FILES: Final = (
    "config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
_HUB_TIMEOUT_S: Final = 20.0


def hub_models() -> tuple[str, ...]:
    """Return the names of the models that flashrank can fetch and that score pairs."""
    from flashrank.Config import listwise_rankers, model_file_map

    return tuple(sorted(set(model_file_map) - set(listwise_rankers)))


class FlashrankReranker:
    """Scores with a flashrank model. Nothing is loaded or fetched before the first score.

    Args:
        name_or_folder: Name of the model of ours, of one of flashrank's, or a folder with such a model.
        home: The home whose `models` folder is looked into.
        models: The only folder to look into, when set.
        threads: Groups scored at the same time; None for one per usable core.
        max_tokens: Longest pair of query and passage in tokens; the longer of the two is cut.
    """

    def __init__(
        self,
        name_or_folder: str | Path = RERANKER_NAME,
        home: Path | None = None,
        *,
        models: Path | None = None,
        threads: int | None = None,
        max_tokens: int = 512,
    ) -> None:
        self._wanted = str(name_or_folder)
        self._home = home
        self._models = models
        self._max_tokens = max_tokens
        self._workers = Workers(threads, "rerank")
        self._loading = threading.Lock()
        self._ranker: Any = None

    @property
    def model(self) -> str:
        """Name for the trace."""
        return f"flashrank:{Path(self._wanted).name}"

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document, 0 to 1, in the order given.

        Cost: one pass of the model per document, quadratic in tokens of attention only.

        Raises:
            ModelMissing: The model's files are absent or damaged.
            Unavailable: The model had to be fetched from flashrank's hub and could not be.
        """
        if not documents:
            return []
        ranker = self._ranker or await self._workers.run(self._load)
        # Longest first, so that no thread ends with a long one alone.
        order = sorted(range(len(documents)), key=lambda row: (-len(documents[row]), row))
        scores = [0.0] * len(documents)
        results = await self._workers.map(lambda row: _score(ranker, query, documents[row]), order)
        for row, score in zip(order, results, strict=True):
            scores[row] = score
        return scores

    async def aclose(self) -> None:
        """Free the threads and the model; using it again loads it again."""
        self._ranker = None
        await self._workers.aclose()

    def _load(self) -> Any:
        """Load once, whoever asks first; the others wait."""
        with self._loading:
            if self._ranker is None:
                folder = self._folder()
                file = _model_file(folder)
                self._ranker = _construct(folder, file, self._max_tokens)
            return self._ranker

    def _folder(self) -> Path:
        """Find the model's folder; only a model that is flashrank's may come from its hub."""
        path = Path(self._wanted).expanduser()
        if path.is_dir():
            return path.resolve()
        if self._wanted == RERANKER_NAME:
            return find_model(self._wanted, self._home, self._models)
        if self._wanted not in hub_models():
            raise ConfigError(
                f"there is no reranker model or folder {self._wanted!r}",
                hint="one of " + ", ".join((RERANKER_NAME, *hub_models())) + ", or a folder",
            )
        places = model_places(self._home, self._models)
        for place in places:
            if (place / self._wanted).is_dir():
                return place / self._wanted
        return _fetch(self._wanted, places[0])


def _model_file(folder: Path) -> str:
    """Return the name of the model in a folder after checking that all files are there."""
    from flashrank.Config import model_file_map

    if (folder / MANIFEST).is_file():
        check_files(folder)
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


def _construct(folder: Path, file: str, max_tokens: int) -> Any:
    """Make flashrank's ranker without its constructor.

    That asks the hub for what it does not find, sets up logging for the whole process, and opens a session that
    takes all cores, which would be a third of the time that loading takes.
    """
    from flashrank.Ranker import Ranker

    ranker: Any = Ranker.__new__(Ranker)
    ranker.logger = logging.getLogger("flashrank")
    ranker.llm_model = None
    ranker.model_dir = folder
    try:
        ranker.tokenizer = ranker._get_tokenizer(max_tokens)  # noqa: SLF001 - its own constructor's step
    except Exception as error:  # the libraries below raise what they like
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelMissing(f"the reranker in {folder} cannot be loaded: {first_line}") from error
    ranker.session = open_session(folder / file)
    return ranker


def _score(ranker: Any, query: str, text: str) -> float:
    """Score one pair; flashrank sorts and changes what it is given, so it is given copies."""
    from flashrank.Ranker import RerankRequest

    result = ranker.rerank(RerankRequest(query=query, passages=[{"text": text}]))
    return min(1.0, max(0.0, float(result[0]["score"])))


def _fetch(name: str, place: Path) -> Path:
    """Fetch a model from flashrank's hub."""
    import httpx
    from flashrank.Config import model_url

    place.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=place))
    url = model_url.format(name)
    try:
        archive = staging / "model.zip"
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=_HUB_TIMEOUT_S) as response,
            archive.open("wb") as file,
        ):
            response.raise_for_status()
            for block in response.iter_bytes(1 << 20):
                file.write(block)
        with zipfile.ZipFile(archive) as members:
            members.extractall(staging)
        (staging / name).rename(place / name)
    except (httpx.HTTPError, zipfile.BadZipFile, OSError) as error:
        reason = re.sub(r"\s+", " ", str(error)) or type(error).__name__
        raise Unavailable(
            f"the reranker model {name} could not be fetched from flashrank's hub: {reason}",
            hint=f"set WHENCE_RERANKER to a local folder, to {RERANKER_NAME}, or to none",
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return place / name
