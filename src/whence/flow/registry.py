"""Processor types by name: the built-in ones, and those that other distributions add.

Every type is an entry point of the group `whence.processors`: its name is the type, its value a subclass of
`Processor`. Those that every installation has are listed here in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint

from whence.flow.definition import did_you_mean
from whence.processors.base import Processor
from whence.schema.errors import ConfigError
from whence.schema.plugins import load_entry_point, load_plugin, plugin_names

GROUP = "whence.processors"
#: Noun for a plug-in of this group in errors.
_KIND = "processor type"

#: Class of every built-in type, in the form of an entry point.
BUILT_IN: Mapping[str, str] = {
    "document-rag": "whence.processors.document_rag:DocumentRagProcessor",
    "embedding": "whence.processors.embedding:EmbeddingProcessor",
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
    """

    def __init__(self, extra: Mapping[str, type[Processor]] | None = None) -> None:
        self._extra = dict(extra or {})

    def names(self) -> list[str]:
        """Return all types in order of name; nothing is imported."""
        return sorted({*self._extra, *BUILT_IN, *plugin_names(GROUP)})

    def get(self, name: str) -> type[Processor]:
        """Return the class of a type.

        Raises:
            ConfigError: The type is unknown, two distributions offer it, or it cannot be loaded.
        """
        if name in self._extra:
            return self._extra[name]
        found: type[Processor] | None
        if name in BUILT_IN:
            point = EntryPoint(name, BUILT_IN[name], GROUP)
            found = load_entry_point(point, _KIND, Processor)
        else:
            found = load_plugin(GROUP, name, what=_KIND, base=Processor)
        if found is None:
            names = self.names()
            raise ConfigError(
                f"unknown processor type {name!r}{did_you_mean(name, names)}",
                hint=f"the types are {', '.join(names)}",
            )
        return found
