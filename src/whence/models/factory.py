"""From a setting such as `openai:gpt-4o-mini` to the model that it names.

Other packages add models through the entry-point groups `whence.embedders`, `whence.rerankers` and
`whence.writers`. The name of an entry point is the part of a setting before the colon, its value a factory
`(model: str, settings: ModelSettings) -> Embedder` (or `Reranker`, `Writer`) that loads nothing yet; `model` is
the part after the colon.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from whence.models.encoders import ENCODERS, MINILM, Encoder, find_encoder
from whence.models.endpoints import endpoint_of
from whence.models.installed import ONNX_RERANKER, find_model, installed_models
from whence.models.protocols import Embedder, Reranker, Writer
from whence.models.weights import EMBEDDER_NAME, RERANKER_NAME
from whence.schema.errors import ConfigError, ModelMissing
from whence.schema.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from whence.models.local_embedder import LocalEmbedder, Precision

_PRECISIONS: Final[dict[str, Precision]] = {
    "auto": "w8",
    "local": "w8",
    "local:w8": "w8",
    "local:float32": "float32",
}


#: Names of OpenAI's API, which differ in the address.
_OPENAI: Final = ("openai", "ollama")


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Folders of local models, and keys and addresses of services."""

    home: Path | None = None
    """The home whose `models` folder is searched."""
    models: Path | None = None
    """The only folder of models, when set."""
    threads: int | None = None
    """Threads of a local model; None for one per usable core."""
    embedder_url: str | None = None
    embedder_api_key: str | None = None
    reranker_url: str | None = None
    reranker_api_key: str | None = None
    writer_url: str | None = None
    writer_api_key: str | None = None
    openai_api_key: str | None = None
    openai_base_url: str | None = None
    cohere_api_key: str | None = None
    cohere_base_url: str | None = None
    ollama_host: str | None = None
    model_timeout: int | None = None
    """Seconds for a request with all its attempts; None for the default."""
    embedder_max_tokens: int | None = None
    """Tokens that the server of the embedder reads; None to ask or measure."""
    embedder_batch: int | None = None
    """Most texts in one request for vectors; None for the default."""
    reranker_batch: int | None = None
    """Most documents in one request to a rerank server; None for the default."""
    model_concurrency: int | None = None
    """Most requests to one server at the same time; None for the default."""
    writer_max_tokens: int | None = None
    """Most tokens of a text; None for the server's own limit."""
    writer_temperature: float = 0.0
    writer_seed: int | None = None
    writer_extra: dict[str, Any] = {}
    """More fields of each request to the writer."""
    writer_window: int | None = None
    """Tokens that the writer's model reads and writes together; None to ask its server."""

    def __repr__(self) -> str:
        return f"ModelSettings(home={self.home!r}, models={self.models!r})"


class MissingReranker:
    """A reranker that is switched off or not installed: every use fails with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def model(self) -> str:
        """Fail."""
        raise self._error()

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Fail."""
        raise self._error()

    async def aclose(self) -> None:
        """Do nothing."""

    def _error(self) -> ModelMissing:
        # A new exception each time: one that is raised twice accumulates tracebacks.
        return ModelMissing(f"there is no reranker: {self._reason}")


def _from_plugin(kind: str, setting: str, settings: ModelSettings, own: Sequence[str]) -> Any:
    """Return the model of a plug-in; `kind` is `embedder`, `reranker` or `writer`."""
    group = f"whence.{kind}s"
    name, _, model = setting.partition(":")
    factory = load_plugin(group, name)
    if factory is not None:
        return factory(model, settings)
    valid = (*own, *(f"{one}:MODEL" for one in plugin_names(group)))
    near = get_close_matches(setting, valid, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(
        f"unknown {kind} {setting!r} (WHENCE_{kind.upper()})",
        hint=f"{meant}one of " + ", ".join(valid),
    )


def encoder_of(setting: str) -> Encoder | None:
    """Return the encoder of the table that a setting of the embedder names; None for any other embedder."""
    return MINILM if setting in _PRECISIONS else find_encoder(setting)


def make_embedder(setting: str, settings: ModelSettings | None = None) -> Embedder:
    """Return the embedder that a setting names; nothing is loaded or requested yet.

    Args:
        setting: `auto`, `local` or `local:w8` (8 bit weights, equal results on all processors),
            `local:float32`, the name of an encoder of `encoders.ENCODERS`, `onnx:FOLDER`, `openai:MODEL`,
            `ollama:MODEL`, `cohere:MODEL`, or `NAME:MODEL` of an entry point.
        settings: Folders, keys and addresses.
    """
    settings = settings or ModelSettings()
    name, _, model = setting.partition(":")
    encoder = encoder_of(setting)
    if encoder is MINILM:
        from whence.models.local_embedder import LocalEmbedder

        return LocalEmbedder(
            home=settings.home,
            models=settings.models,
            precision=_PRECISIONS.get(setting, "w8"),
            threads=settings.threads,
        )
    if encoder is not None:
        from whence.models.local_embedder import EncoderEmbedder

        return EncoderEmbedder(
            encoder, home=settings.home, models=settings.models, threads=settings.threads
        )
    if name == "onnx" and model:
        from whence.models.onnx_embedder import OnnxEmbedder

        return OnnxEmbedder(
            model, home=settings.home, models=settings.models, threads=settings.threads
        )
    if name in _OPENAI and model:
        from whence.models.openai import OpenAIEmbedder

        endpoint = endpoint_of("embedder", name, settings)
        return OpenAIEmbedder(
            model, endpoint, settings.embedder_max_tokens, settings.embedder_batch
        )
    if name == "cohere" and model:
        from whence.models.api_embedder import CohereEmbedder

        endpoint = endpoint_of("embedder", name, settings)
        return CohereEmbedder(
            model, endpoint, settings.embedder_max_tokens, settings.embedder_batch
        )
    names = [one.name for one in ENCODERS]
    own = (*_PRECISIONS, *names, "onnx:FOLDER", "openai:MODEL", "ollama:MODEL", "cohere:MODEL")
    embedder: Embedder = _from_plugin("embedder", setting, settings, own)
    return embedder


def make_reranker(
    setting: str, settings: ModelSettings | None = None, embedder: Embedder | None = None
) -> Reranker:
    """Return the reranker that a setting names; nothing is loaded yet.

    `none`, and `auto` without an installed one, is a reranker that fails with the reason when it is used.

    Args:
        setting: `auto` (an installed cross-encoder, else the local reranker), `none`, `whence-minilm-maxsim`,
            the name of a flashrank model, a folder with one, `onnx:FOLDER`, `http:MODEL`, or `NAME:MODEL` of an
            entry point.
        settings: Folders, keys and addresses.
        embedder: The local embedder, when there is one; the local reranker uses its weights.
    """
    settings = settings or ModelSettings()
    if setting == "none":
        return MissingReranker("reranking is switched off (WHENCE_RERANKER=none)")
    if setting == "auto" and (installed := installed_models(settings.home, settings.models)):
        folder, kind = installed[0]
        setting = f"onnx:{folder}" if kind == ONNX_RERANKER else str(folder)
    if setting in ("auto", RERANKER_NAME):
        try:
            find_model(EMBEDDER_NAME, settings.home, settings.models)
        except ModelMissing as error:
            if setting == "auto":
                return MissingReranker(f"{error.message}; {error.hint}")
            raise
        return _local_reranker(settings, embedder)
    name, _, model = setting.partition(":")
    if name == "http" and model:
        from whence.models.http_reranker import HttpReranker

        return HttpReranker(
            model, endpoint_of("reranker", "http", settings), settings.reranker_batch
        )
    from whence.models.cross_encoders import hub_models
    from whence.models.flashrank_reranker import FlashrankReranker

    names = [
        f"onnx:{folder.name}" if kind == ONNX_RERANKER else folder.name
        for folder, kind in installed_models(settings.home, settings.models)
    ]
    if name == "onnx" and model:
        return FlashrankReranker(
            model, settings.home, models=settings.models, threads=settings.threads, kind="onnx"
        )
    own = ("auto", "none", RERANKER_NAME, "onnx:FOLDER", "http:MODEL", *names, *hub_models())
    if setting not in own and not Path(setting).expanduser().is_dir():
        reranker: Reranker = _from_plugin("reranker", setting, settings, (*own, "a folder"))
        return reranker
    return FlashrankReranker(
        setting, settings.home, models=settings.models, threads=settings.threads
    )


def _local_reranker(settings: ModelSettings, embedder: Embedder | None) -> Reranker:
    from whence.models.late_interaction import LateInteractionReranker
    from whence.models.local_embedder import LocalEmbedder

    if isinstance(embedder, LocalEmbedder):
        return LateInteractionReranker(embedder)
    own = LocalEmbedder(home=settings.home, models=settings.models, threads=settings.threads)
    return LateInteractionReranker(own, owned=True)


def make_token_reader(settings: ModelSettings, embedder: Embedder) -> LocalEmbedder | None:
    """Return what reads the words of short texts: all-MiniLM-L6-v2, also beside another encoder of English.

    None beside any other embedder, whose texts may have another language, and where it is not installed.
    """
    from whence.models.local_embedder import EncoderEmbedder, LocalEmbedder

    if isinstance(embedder, LocalEmbedder):
        return embedder
    if not isinstance(embedder, EncoderEmbedder) or embedder.encoder.languages != MINILM.languages:
        return None
    try:
        find_model(EMBEDDER_NAME, settings.home, settings.models)
    except ModelMissing:
        return None
    return LocalEmbedder(home=settings.home, models=settings.models, threads=settings.threads)


def leaves_out_reranker(
    reranker: str, embedder: str, home: Path | None = None, models: Path | None = None
) -> bool:
    """Return whether `auto` means no reranker: the local one reads English, the encoder serves more."""
    encoder = encoder_of(embedder)
    if reranker != "auto" or encoder is None or encoder.languages == MINILM.languages:
        return False
    return not installed_models(home, models)


def is_local_reranker(setting: str) -> bool:
    """Return whether a setting names the local reranker, installed or not."""
    return setting in ("auto", RERANKER_NAME)


def make_writer(setting: str, settings: ModelSettings | None = None) -> Writer:
    """Return the language model that a setting names.

    Args:
        setting: `openai:MODEL`, `ollama:MODEL`, or `NAME:MODEL` of an entry point.
        settings: Keys and addresses.
    """
    settings = settings or ModelSettings()
    name, _, model = setting.partition(":")
    if name in _OPENAI and model:
        from whence.models.openai import OWN_FIELDS, OpenAIWriter, WriterOptions

        if taken := sorted(OWN_FIELDS & settings.writer_extra.keys()):
            raise ConfigError(
                f"writer_extra must not have {', '.join(taken)}",
                hint="these fields of a request are made of the question and its passages",
            )
        options = WriterOptions(
            max_tokens=settings.writer_max_tokens,
            temperature=settings.writer_temperature,
            seed=settings.writer_seed,
            extra=settings.writer_extra,
            window=settings.writer_window,
        )
        return OpenAIWriter(model, endpoint_of("writer", name, settings), options)
    own = ("extractive", "openai:MODEL", "ollama:MODEL")
    writer: Writer = _from_plugin("writer", setting, settings, own)
    return writer
