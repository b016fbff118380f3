"""Names of passages and symbols in memory, by definition rather than by index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef, rare_titles_around
from whence.store.memory.search import MemoryPart, StoredDocument
from whence.store.symbol_names import SymbolMatch, best_matches, is_symbol_heading, symbol_fit
from whence.store.term_counts import DEFAULT_LANGUAGES
from whence.store.title_mentions import MentionFinder, passage_titles
from whence.store.validation import check_limit
from whence.text.analysis import document_terms


class MemoryNames(MemoryPart):
    """Links between passages and look-up of symbols; every call takes time linear in the collection."""

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """See `ChunkStore`."""
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
        """See `ChunkStore`."""
        found = self._collections.get(collection)
        if found is None:
            return None
        documents = found.visible_documents(access)
        linked = {
            ref
            for title in _link_titles(documents)
            if title.is_rare and title.mentions
            for ref in (*title.titled_passages, *title.mentions)
        }
        chunks = sum(len(one.chunks) for one in documents)
        return LinkStatistics(chunks=chunks, linked=len(linked), documents=len(documents))

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """See `ChunkStore`."""
        titles = _link_titles(self._find(collection).visible_documents(access))
        terms = document_terms(query_text, DEFAULT_LANGUAGES[0])[:MAX_QUERY_WORDS]
        asked = MentionFinder(one.name for one in titles).find(terms)
        found = [msgspec.structs.replace(one, in_query=one.name in asked) for one in titles]
        return rare_titles_around(found, frozenset(chunk_ids))


def _link_titles(documents: Sequence[StoredDocument]) -> list[LinkTitle]:
    """Return every title of some documents, by name, with the passages at both ends of its links."""
    titled_by: defaultdict[str, list[PassageRef]] = defaultdict(list)
    mentioned_by: defaultdict[str, list[PassageRef]] = defaultdict(list)
    passages: list[tuple[PassageRef, tuple[str, ...]]] = []
    for document in documents:
        titled = passage_titles(document.draft, DEFAULT_LANGUAGES[0])
        for chunk, passage in zip(document.chunks, titled, strict=True):
            ref = PassageRef(chunk.text.chunk_id, chunk.text.document_id)
            passages.append((ref, passage.terms))
            for title in passage.titles:
                titled_by[title].append(ref)
    finder = MentionFinder(titled_by)
    for ref, terms in passages:
        for title in finder.find(terms):
            if ref.document_id not in {one.document_id for one in titled_by[title]}:
                mentioned_by[title].append(ref)
    return [
        LinkTitle(
            name=name,
            titled_passages=tuple(sorted(titled)),
            mentions=tuple(sorted(mentioned_by[name])),
        )
        for name, titled in sorted(titled_by.items())
    ]
