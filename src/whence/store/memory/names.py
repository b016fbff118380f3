"""Names of passages and symbols in memory, by definition rather than by index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.memory.search import MemoryPart, StoredDocument
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


class MemoryNames(MemoryPart):
    """Implements `SupportsLinks` and `SupportsSymbols`; every call takes time linear in the collection."""

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """See `SupportsSymbols`."""
        check_limit(limit)
        found = self._collections.get(collection)
        named: dict[tuple[str, str], SymbolMatch] = {}
        for chunk in found.visible(access, filters) if found else ():
            document_id, heading = chunk.text.document_id, chunk.text.metadata["heading"]
            if not is_symbol_heading(heading, chunk.document.draft.title, document_id):
                continue
            fit = symbol_fit(name, heading)
            if fit is not None:
                match = SymbolMatch(chunk.text.chunk_id, document_id, fit)
                named.setdefault((document_id, heading), match)
        return best_matches(named.values(), limit)

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """See `SupportsLinks`."""
        found = self._collections.get(collection)
        if found is None:
            return None
        documents = found.visible_documents(access)
        linked = {
            ref
            for sides in _graph(documents).values()
            if sides.are_rare() and sides.mentions
            for ref in (*sides.titled_passages, *sides.mentions)
        }
        chunks = sum(len(one.chunks) for one in documents)
        return LinkStatistics(chunks=chunks, linked=len(linked), documents=len(documents))

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """See `SupportsLinks`."""
        graph = _graph(self._find(collection).visible_documents(access))
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


def _graph(documents: Sequence[StoredDocument]) -> dict[str, _Sides]:
    """Return both sides of every title of some documents."""
    graph: defaultdict[str, _Sides] = defaultdict(_Sides)
    passages: list[tuple[PassageRef, tuple[str, ...]]] = []
    for document in documents:
        titled = passage_titles(document.draft, DEFAULT_LANGUAGES[0])
        for chunk, passage in zip(document.chunks, titled, strict=True):
            ref = PassageRef(chunk.text.chunk_id, chunk.text.document_id)
            passages.append((ref, passage.terms))
            for title in passage.titles:
                graph[title].titled_passages.append(ref)
    finder = MentionFinder(graph)
    for ref, terms in passages:
        for title in finder.find(terms):
            titled_by = (bearer.document_id for bearer in graph[title].titled_passages)
            if ref.document_id not in titled_by:
                graph[title].mentions.append(ref)
    return dict(graph)
