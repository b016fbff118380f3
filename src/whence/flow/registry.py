"""Processor types by name: ours, and those that other distributions add.

Ours are imported when a flow first names them. Others come through the entry-point group
`whence.processors`: the entry point's name is the type, its value a subclass of `Processor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from whence.flow.definition import nearest
from whence.processors.base import Processor
from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ("BUILT_IN", "GROUP", "Registry")

GROUP = "whence.processors"

#: Where our own processors live, by type.
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
    """Finds the class behind a processor type.

    Args:
        extra: Classes by type that need no entry point; they go before all others.
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
        found = {point.name for point in self._points()}
        return sorted({*self._extra, *BUILT_IN, *found})

    def get(self, name: str) -> type[Processor]:
        """Return the class of a type.

        Raises:
            ConfigError: No such type, two distributions offer it, or its distribution is broken.
        """
        if name in self._extra:
            return self._extra[name]
        if name in BUILT_IN:
            module, _, attribute = BUILT_IN[name].partition(":")
            cls: type[Processor] = getattr(import_module(module), attribute)
            return cls
        points = [point for point in self._points() if point.name == name]
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
        return _load(points[0])

    def _points(self) -> tuple[EntryPoint, ...]:
        if self._plug_ins is None:
            # Costs as much as reading a flow, and most flows name no processor of somebody else.
            from importlib.metadata import entry_points

            self._plug_ins = tuple(entry_points(group=GROUP))
        return self._plug_ins


def _load(point: EntryPoint) -> type[Processor]:
    try:
        loaded: Any = point.load()
    except Exception as error:
        # Importing foreign code can fail in any way; whose code it is is what helps.
        raise ConfigError(
            f"processor type {point.name!r} of {_owner(point)} cannot be loaded:"
            f" {type(error).__name__}: {error}",
            hint=f"reinstall or remove {_owner(point)}",
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Processor)):
        raise ConfigError(
            f"processor type {point.name!r} of {_owner(point)} is {point.value},"
            " which is no subclass of whence.processors.base.Processor",
            hint=f"reinstall or remove {_owner(point)}",
        )
    return loaded


def _owner(point: EntryPoint) -> str:
    return f"distribution {point.dist.name!r}" if point.dist else f"entry point {point.value!r}"
