"""Links between passages, as a search sees them: titles, the passages that have them, and their mentions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from whence.schema.access import Access
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


@runtime_checkable
class SupportsLinks(Protocol):
    """Optional protocol of a store that finds links between passages."""

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Return how densely the visible passages are linked; None while links are not indexed.

        Hidden documents change nothing. A store may cache the statistics until a tenth of what the reader sees
        has changed.
        """

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """Return the rare titles that visible chunks have or mention, or that a query mentions, by name.

        Both ends of a link are visible, and hidden passages count for no limit: the result is that of a
        collection of the visible documents alone. Ids that do not exist or are hidden are left out. Cost:
        linear in the titles around the chunks and in their visible passages, up to the limits.
        """
