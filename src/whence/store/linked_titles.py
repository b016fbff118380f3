"""What a search asks of the passage graph: which passages bear a name, and which name it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from whence.schema.access import Access

__all__ = ("LinkStatistics", "LinkTitle", "PassageRef", "SupportsLinks")


class PassageRef(msgspec.Struct, frozen=True, order=True):
    """A visible passage."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""


class LinkTitle(msgspec.Struct, frozen=True, kw_only=True):
    """A title or heading with the visible passages on both sides of its links."""

    name: str
    """Its terms, joined by spaces."""
    titled_passages: tuple[PassageRef, ...]
    """Passages that it is the title or heading of, by id; 1 to 3."""
    mentions: tuple[PassageRef, ...] = ()
    """Passages of other documents whose text holds it, by id; at most 20."""
    in_query: bool = False
    """Whether the text of the query holds it."""


class LinkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How densely what a reader sees of a collection is linked, told by some of its documents."""

    chunks: int
    """Passages that were looked at."""
    linked: int
    """Those of them that name another visible document, or are named by one."""
    documents: int
    """Documents that the passages are of."""

    @property
    def share(self) -> float:
        """Linked passages per passage, 0 to 1."""
        return self.linked / self.chunks if self.chunks else 0.0

    @property
    def passages_per_document(self) -> float:
        """Passages per document, 1 or more; 0 where there are none."""
        return self.chunks / self.documents if self.documents else 0.0


@runtime_checkable
class SupportsLinks(Protocol):
    """A store that knows the names of its passages."""

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Return how densely a collection is linked for a reader; None when its links are not known (yet).

        Only what the reader may see is looked at: hidden documents change nothing, as in a collection without
        them. A store may remember what it found until a tenth of what the reader sees is new.
        """
        ...

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """Return the rare names that some visible chunks bear or hold, or that a query holds, by name.

        Both sides of a link are visible, and what is hidden counts for no limit: a reader gets what a
        collection of the visible documents alone would give. Ids that do not exist or are hidden are left out.

        Cost: linear in the names around the chunks, each with at most the limits' worth of visible passages.

        Raises:
            NotFound: There is no such collection.
        """
        ...
