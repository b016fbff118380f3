"""Links between passages, as a search sees them: titles, the passages that have them, and their mentions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from whence.store.title_mentions import MAX_MENTIONS, MAX_TITLED


class PassageRef(msgspec.Struct, frozen=True, order=True):
    """A visible passage."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""


class LinkTitle(msgspec.Struct, frozen=True, kw_only=True):
    """A title or heading with the visible passages at both ends of its links."""

    name: str
    """The normalized title: its terms, joined by spaces."""
    titled_passages: tuple[PassageRef, ...]
    """Passages with this title or heading, by id; 1 to 3."""
    mentions: tuple[PassageRef, ...] = ()
    """Passages of other documents that mention it, by id; at most 20."""
    in_query: bool = False
    """Whether the query mentions it."""

    @property
    def is_rare(self) -> bool:
        """Whether few enough passages have and mention it that it links them."""
        return 0 < len(self.titled_passages) <= MAX_TITLED and len(self.mentions) <= MAX_MENTIONS


class LinkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How densely the visible passages of a collection are linked, by a sample of its documents."""

    chunks: int
    """Passages in the sample."""
    linked: int
    """Those that mention a title of another visible document, or whose title is mentioned by one."""
    documents: int
    """Documents in the sample."""

    @property
    def share(self) -> float:
        """Return the linked share of the passages, 0 to 1."""
        return self.linked / self.chunks if self.chunks else 0.0

    @property
    def passages_per_document(self) -> float:
        """Return the passages per document, 1 or more; 0 without documents."""
        return self.chunks / self.documents if self.documents else 0.0


def rare_titles_around(titles: Iterable[LinkTitle], chunk_ids: Collection[str]) -> list[LinkTitle]:
    """Return the rare titles that the query mentions, or that have one of these chunks at an end."""
    return [
        one
        for one in titles
        if one.is_rare
        and (
            one.in_query
            or any(ref.chunk_id in chunk_ids for ref in (*one.titled_passages, *one.mentions))
        )
    ]
