"""From a setting such as `openai:gpt-4o-mini` to the model it names."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from whence.models.model_folders import find_model
from whence.models.protocols import Embedder, Reranker, Writer
from whence.models.weights import RERANKER_NAME
from whence.schema.errors import ConfigError, ModelMissing

if TYPE_CHECKING:
    from whence.models.local_embedder import Precision

__all__ = ("RerankerChoice", "ServiceSettings", "make_embedder", "make_reranker", "make_writer")

_PRECISIONS: Final[dict[str, Precision]] = {
    "local": "auto",
    "local:w8": "w8",
    "local:float32": "float32",
}
_EMBEDDERS = (*_PRECISIONS, "openai:MODEL", "cohere:MODEL")
_WRITERS = ("extractive", "openai:MODEL")


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where models lie and how services are reached; read from settings elsewhere."""

    home: Path | None = None
    """The home whose `models` folder is looked into."""
    models: Path | None = None
    """The only folder of models, when set."""
    threads: int | None = None
    """Threads of a local model; None for one per usable core."""
    openai_api_key: str | None = None
    openai_base_url: str | None = None
    """With `/v1`; None for OpenAI itself."""
    cohere_api_key: str | None = None
    cohere_base_url: str | None = None
    """The root; None for Cohere itself."""

    def __repr__(self) -> str:
        return f"ServiceSettings(home={self.home!r}, models={self.models!r})"


class RerankerChoice(NamedTuple):
    """A reranker, or why there is none."""

    reranker: Reranker | None
    reason: str
    """One line for people; empty when there is a reranker."""


def make_embedder(setting: str, settings: ServiceSettings | None = None) -> Embedder:
    """Make the embedder that a setting names.

    Nothing is loaded, looked for or asked yet: a search that needs no vectors works without any.

    Args:
        setting: `local` (8 bit where the processor is made for it, else float32), `local:w8`,
            `local:float32`, `openai:MODEL` or `cohere:MODEL`.
        settings: Places, keys and addresses.

    Raises:
        ConfigError: The setting is none of these.
    """
    settings = settings or ServiceSettings()
    kind, _, name = setting.partition(":")
    if setting in _PRECISIONS:
        from whence.models.local_embedder import LocalEmbedder

        return LocalEmbedder(
            home=settings.home,
            models=settings.models,
            precision=_PRECISIONS[setting],
            threads=settings.threads,
        )
    if kind == "openai" and name:
        from whence.models.openai import OPENAI_URL, OpenAIEmbedder

        url = settings.openai_base_url or OPENAI_URL
        return OpenAIEmbedder(name, key=settings.openai_api_key, base_url=url)
    if kind == "cohere" and name:
        from whence.models.cohere import COHERE_URL, CohereEmbedder

        url = settings.cohere_base_url or COHERE_URL
        return CohereEmbedder(name, key=settings.cohere_api_key, base_url=url)
    raise _unknown("embedder", "WHENCE_EMBEDDER", setting, _EMBEDDERS)


def make_reranker(setting: str, settings: ServiceSettings | None = None) -> RerankerChoice:
    """Make the reranker that a setting names, or say why there is none; nothing is loaded yet.

    Args:
        setting: `auto` (the local one when it is installed), `none`, the name of a flashrank model, or a
            folder with one.
        settings: Places.

    Raises:
        ConfigError: The setting is none of these.
    """
    settings = settings or ServiceSettings()
    if setting == "none":
        return RerankerChoice(None, "reranking is switched off (WHENCE_RERANKER=none)")
    name = RERANKER_NAME if setting == "auto" else setting
    if name == RERANKER_NAME:
        try:
            find_model(name, settings.home, settings.models)
        except ModelMissing as error:
            if setting == "auto":
                return RerankerChoice(None, f"{error.message}; {error.hint}")
            raise
    elif not Path(name).expanduser().is_dir():
        from whence.models.flashrank_reranker import hub_models

        known = ("auto", "none", RERANKER_NAME, *hub_models())
        if name not in known:
            raise _unknown("reranker", "WHENCE_RERANKER", setting, (*known, "a folder"))
    from whence.models.flashrank_reranker import FlashrankReranker

    reranker = FlashrankReranker(
        name, settings.home, models=settings.models, threads=settings.threads
    )
    return RerankerChoice(reranker, "")


def make_writer(
    setting: str, embedder: Embedder | None = None, settings: ServiceSettings | None = None
) -> Writer:
    """Make the writer that a setting names.

    Args:
        setting: `extractive` or `openai:MODEL`.
        embedder: Used by `extractive` to compare sentences.
        settings: Keys and addresses.

    Raises:
        ConfigError: The setting is none of these.
    """
    settings = settings or ServiceSettings()
    kind, _, name = setting.partition(":")
    if setting == "extractive":
        from whence.models.extractive_writer import ExtractiveWriter

        return ExtractiveWriter(embedder)
    if kind == "openai" and name:
        from whence.models.openai import OPENAI_URL, OpenAIWriter

        url = settings.openai_base_url or OPENAI_URL
        return OpenAIWriter(name, key=settings.openai_api_key, base_url=url)
    raise _unknown("writer", "WHENCE_WRITER", setting, _WRITERS)


def _unknown(what: str, variable: str, setting: str, valid: tuple[str, ...]) -> ConfigError:
    near = get_close_matches(setting, valid, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}? " if near else ""
    return ConfigError(
        f"{setting!r} is no {what} ({variable})", hint=f"{meant}one of " + ", ".join(valid)
    )
