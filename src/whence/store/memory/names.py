"""Names of passages and symbols in memory, by definition rather than by index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.chunk_ids import chunk_key
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.memory.search import MemoryCollection, find
from whence.store.protocols import EmbeddedDocument
from whence.store.symbol_names import SymbolMatch, best_matches, is_symbol_heading, symbol_fit
from whence.store.term_counts import DEFAULT_LANGUAGES
from whence.store.title_mentions import MAX_MENTIONS, MAX_TITLED, MentionFinder, passage_titles
from whence.store.validation import check_limit
from whence.text.analysis import document_terms


class _Sides(msgspec.Struct):
    """The passages that have a title and those that mention it."""

    titled_passages: list[PassageRef] = []
    mentions: list[PassageRef] = []

    def are_rare(self) -> bool:
        """Return whether the title links anything and is rare enough."""
        return 0 < len(self.titled_passages) <= MAX_TITLED and len(self.mentions) <= MAX_MENTIONS


class MemoryNames:
    """Implements `SupportsLinks` and `SupportsSymbols`; every call takes time linear in the collection.

    Args:
        collections: By name, shared with the other parts of the store.
    """

    def __init__(self, collections: dict[str, MemoryCollection]) -> None:
        self._collections = collections

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """See `SupportsSymbols`."""
        check_limit(limit)
        found = self._collections.get(collection)
        if found is None:
            return []
        kept = found.filtered(access, filters)
        named: dict[tuple[str, str], SymbolMatch] = {}
        for document in found.documents.values():
            draft = document.draft
            if not access.allows(draft.tags):
                continue
            for index, chunk in enumerate(draft.chunks):
                if not is_symbol_heading(chunk.heading, draft.title, draft.document_id):
                    continue
                fit = symbol_fit(name, chunk.heading)
                key = chunk_key(collection, draft.document_id, index)
                if fit is not None and (kept is None or key in kept):
                    one = SymbolMatch(key, draft.document_id, fit)
                    named.setdefault((draft.document_id, chunk.heading), one)
        return best_matches(named.values(), limit)

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """See `SupportsLinks`."""
        found = self._collections.get(collection)
        if found is None:
            return None
        documents = [one for one in found.documents.values() if access.allows(one.draft.tags)]
        linked = {
            ref
            for sides in _graph(collection, documents).values()
            if sides.are_rare() and sides.mentions
            for ref in (*sides.titled_passages, *sides.mentions)
        }
        chunks = sum(len(one.draft.chunks) for one in documents)
        return LinkStatistics(chunks=chunks, linked=len(linked), documents=len(documents))

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """See `SupportsLinks`."""
        found = find(self._collections, collection)
        visible = [one for one in found.documents.values() if access.allows(one.draft.tags)]
        graph = _graph(collection, visible)
        terms = document_terms(query_text, DEFAULT_LANGUAGES[0])[:MAX_QUERY_WORDS]
        asked = MentionFinder(graph).find(terms)
        wanted = frozenset(chunk_ids)
        return [
            LinkTitle(
                name=name,
                titled_passages=tuple(sorted(sides.titled_passages)),
                mentions=tuple(sorted(sides.mentions)),
                in_query=name in asked,
            )
            for name, sides in sorted(graph.items())
            if sides.are_rare()
            and (
                name in asked
                or any(ref.chunk_id in wanted for ref in (*sides.titled_passages, *sides.mentions))
            )
        ]


def _graph(collection: str, documents: Sequence[EmbeddedDocument]) -> dict[str, _Sides]:
    """Return both sides of every title of some documents."""
    passages = list(_passages(collection, documents))
    graph: defaultdict[str, _Sides] = defaultdict(_Sides)
    for ref, borne, _ in passages:
        for name in borne:
            graph[name].titled_passages.append(ref)
    finder = MentionFinder(graph)
    for ref, _, terms in passages:
        for name in finder.find(terms):
            if all(bearer.document_id != ref.document_id for bearer in graph[name].titled_passages):
                graph[name].mentions.append(ref)
    return dict(graph)


def _passages(
    collection: str, documents: Sequence[EmbeddedDocument]
) -> Iterator[tuple[PassageRef, tuple[str, ...], tuple[str, ...]]]:
    """Yield each passage with the names that it bears and the terms of its text."""
    for document in documents:
        draft = document.draft
        for index, passage in enumerate(passage_titles(draft, DEFAULT_LANGUAGES[0])):
            key = chunk_key(collection, draft.document_id, index)
            yield PassageRef(key, draft.document_id), passage.titles, passage.terms
