"""Processor types by name: the built-in ones, and those that other distributions add.

Every type is an entry point of the group `whence.processors`: its name is the type, its value a subclass of
`Processor`. Those of Whence are listed here in the same form: reading the metadata of installed distributions
takes 35 ms, which most flows need not spend.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from whence.flow.definition import nearest
from whence.processors.base import Processor
from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "whence.processors"

#: Class of every built-in type, in the form of an entry point.
BUILT_IN: Mapping[str, str] = {
    "code-rag": "whence.processors.code_rag:CodeRagProcessor",
    "document-rag": "whence.processors.document_rag:DocumentRagProcessor",
    "embedding": "whence.processors.embedding:EmbeddingProcessor",
    "graph-expander": "whence.processors.graph_expander:GraphExpanderProcessor",
    "ingest": "whence.processors.ingest:IngestProcessor",
    "prompt": "whence.processors.prompt:PromptProcessor",
    "recorder": "whence.processors.recorder:RecorderProcessor",
    "reranker": "whence.processors.reranker:RerankerProcessor",
    "search": "whence.processors.search:SearchProcessor",
    "text-fetcher": "whence.processors.text_fetcher:TextFetcherProcessor",
}


class Registry:
    """Finds the class of a processor type; a class is imported when a flow first names it.

    Args:
        extra: Classes by type that need no entry point; they take precedence.
        plug_ins: Entry points to use instead of the installed ones.
    """

    def __init__(
        self,
        extra: Mapping[str, type[Processor]] | None = None,
        *,
        plug_ins: tuple[EntryPoint, ...] | None = None,
    ) -> None:
        self._extra = dict(extra or {})
        self._plug_ins = plug_ins

    def names(self) -> list[str]:
        """Return all types in order of name; nothing is imported."""
        return sorted({*self._extra, *BUILT_IN, *(point.name for point in self._installed())})

    def get(self, name: str) -> type[Processor]:
        """Return the class of a type.

        Raises:
            ConfigError: The type is unknown, two distributions offer it, or it cannot be loaded.
        """
        if name in self._extra:
            return self._extra[name]
        if name in BUILT_IN:
            return _load(name, BUILT_IN[name], "distribution 'whence'")
        points = [point for point in self._installed() if point.name == name]
        if not points:
            names = self.names()
            raise ConfigError(
                f"unknown processor type {name!r}{nearest(name, names)}",
                hint=f"the types are {', '.join(names)}",
            )
        if len(points) > 1:
            owners = " and ".join(sorted(_owner(point) for point in points))
            raise ConfigError(
                f"processor type {name!r} is offered by {owners}", hint="uninstall one of them"
            )
        return _load(name, points[0].value, _owner(points[0]))

    def _installed(self) -> tuple[EntryPoint, ...]:
        if self._plug_ins is None:
            from importlib.metadata import entry_points

            self._plug_ins = tuple(entry_points(group=GROUP))
        return self._plug_ins


def _load(name: str, target: str, owner: str) -> type[Processor]:
    """Import `module:attribute`."""
    hint = f"reinstall or remove {owner}"
    module, _, attribute = target.partition(":")
    try:
        loaded: Any = attrgetter(attribute)(import_module(module))
    except Exception as error:
        # Importing the code of others can fail in any way.
        raise ConfigError(
            f"processor type {name!r} of {owner} cannot be loaded: {type(error).__name__}: {error}",
            hint=hint,
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Processor)):
        raise ConfigError(
            f"processor type {name!r} of {owner}: {target} is not a subclass of"
            " whence.processors.base.Processor",
            hint=hint,
        )
    return loaded


def _owner(point: EntryPoint) -> str:
    return f"distribution {point.dist.name!r}" if point.dist else f"entry point {point.value!r}"
