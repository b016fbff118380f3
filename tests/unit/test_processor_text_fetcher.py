"""The text service reads in one batch and answers hidden chunks like missing ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from whence.processors.text_fetcher import TextFetcherParameters, TextFetcherProcessor
from whence.schema import Access, ChunkText, TextRequest
from whence.schema.errors import BadInput
from whence.testing.stub_context import StubContext


class DictStore:
    """Returns texts in an order of its own."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids
        self.reads: list[tuple[str, tuple[str, ...], Access]] = []

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        self.reads.append((collection, tuple(chunk_ids), access))
        wanted = sorted(set(chunk_ids) & set(self.ids))
        return [ChunkText(chunk_id=i, document_id="d", content=f"text {i}") for i in wanted]


def request(*ids: str) -> TextRequest:
    return TextRequest(access=Access({"hr"}), collection="books", chunk_ids=ids)


async def test_texts_have_the_order_of_the_request() -> None:
    """Found and missing ids have the order of the request; each id counts once."""
    store = DictStore("a", "b", "c")
    reply = await TextFetcherProcessor(store=store).handle(
        request("c", "x", "a", "c"), StubContext()
    )

    assert [text.chunk_id for text in reply.texts] == ["c", "a"]
    assert reply.missing == ("x",)
    assert store.reads == [("books", ("c", "x", "a"), Access({"hr"}))]


async def test_no_ids_need_no_read() -> None:
    """An empty request does not reach the store."""
    store = DictStore()
    reply = await TextFetcherProcessor(store=store).handle(request(), StubContext())

    assert (reply.texts, reply.missing, store.reads) == ((), (), [])


async def test_too_many_ids_are_refused() -> None:
    """A request above the limit never reaches the store."""
    store = DictStore("a")
    processor = TextFetcherProcessor(TextFetcherParameters(max_ids=1), store=store)

    with pytest.raises(BadInput, match="2 chunk ids"):
        await processor.handle(request("a", "b"), StubContext())

    assert store.reads == []
