"""Whence as a retriever of LlamaIndex; needs the extra `llama_index`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from whence.integrations.passages import FrameworkPassage, PassageSource
from whence.schema.access import Access
from whence.schema.errors import missing_extra

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing_extra("llama-index", "the retriever for LlamaIndex") from error


class WhenceRetriever(BaseRetriever):
    """Finds passages of a collection; see `whence.integrations.passages.FrameworkPassage` for their metadata.

    Args:
        collection: Collection to search.
        similarity_top_k: Most nodes.
        url: Address of `whence serve`; empty for an engine in this process.
        token: Token for that server.
        home: Home of the engine; the usual one when empty.
        acl: Access tags of the reader; public documents only when empty.
        labels: Labels of the reader.
        clearance: Clearance of the reader.
        mode: `hybrid`, `dense` or `bm25`.
        filters: Conditions on metadata, as for `whence search`.
        cited_only: Whether to ask, and return what the answer quotes.
        callback_manager: LlamaIndex's.
    """

    def __init__(
        self,
        collection: str = "default",
        *,
        similarity_top_k: int = 5,
        url: str = "",
        token: str = "",
        home: str = "",
        acl: Iterable[str] = (),
        labels: Iterable[str] = (),
        clearance: int = 0,
        mode: str = "hybrid",
        filters: Mapping[str, Any] | None = None,
        cited_only: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._top_k = similarity_top_k
        self._source = PassageSource(
            collection,
            url=url,
            token=token,
            home=home,
            access=Access(frozenset(acl), frozenset(labels), clearance),
            mode=mode,
            filters=filters,
            cited_only=cited_only,
        )

    def close(self) -> None:
        """Close the engine or the connection; a later search opens it again."""
        self._source.close()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(one) for one in self._source.find(query_bundle.query_str, self._top_k)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._source.afind(query_bundle.query_str, self._top_k)
        return [_node(one) for one in found]


def _node(passage: FrameworkPassage) -> NodeWithScore:
    # What follows the text to a language model is the source, not ids and offsets.
    hidden = [key for key in passage.metadata if key not in ("title", "heading", "source_file")]
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=passage.metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)
