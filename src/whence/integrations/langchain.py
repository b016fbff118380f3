"""Whence as a retriever of LangChain; needs the extra `langchain`."""

from __future__ import annotations

from typing import Any

from whence.integrations.passages import FrameworkPassage, PassageSource
from whence.schema.access import Access
from whence.schema.errors import missing_extra

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import Field, PrivateAttr, SecretStr
except ImportError as error:
    raise missing_extra("langchain", "the retriever for LangChain") from error


class WhenceRetriever(BaseRetriever):
    """Finds passages of a collection; see `whence.integrations.passages.FrameworkPassage` for their metadata.

    >>> retriever = WhenceRetriever(collection="handbook", k=3)  # doctest: +SKIP
    >>> retriever.invoke("How many days of annual leave?")  # doctest: +SKIP
    """

    collection: str = "default"
    """Collection to search."""
    k: int = Field(default=5, ge=1)
    """Most documents."""
    url: str = ""
    """Address of `whence serve`; empty for an engine in this process."""
    token: SecretStr = SecretStr("")
    """Token for that server."""
    home: str = ""
    """Home of the engine; the usual one when empty."""
    acl: list[str] = []
    """Access tags of the reader; public documents only when empty."""
    labels: list[str] = []
    """Labels of the reader."""
    clearance: int = Field(default=0, ge=0)
    """Clearance of the reader."""
    mode: str = "hybrid"
    """`hybrid`, `dense` or `bm25`."""
    filters: dict[str, Any] = {}
    """Conditions on metadata, as for `whence search`."""
    cited_only: bool = False
    """Whether to ask, and return what the answer quotes."""
    _source: PassageSource = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Prepare the source; nothing is opened before the first search."""
        self._source = PassageSource(
            self.collection,
            url=self.url,
            token=self.token.get_secret_value(),
            home=self.home,
            access=Access(frozenset(self.acl), frozenset(self.labels), self.clearance),
            mode=self.mode,
            filters=self.filters,
            cited_only=self.cited_only,
        )

    def close(self) -> None:
        """Close the engine or the connection; a later search opens it again."""
        self._source.close()

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> list[Document]:
        return [_document(one) for one in self._source.find(query, k or self.k, filters)]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> list[Document]:
        return [_document(one) for one in await self._source.afind(query, k or self.k, filters)]


def _document(passage: FrameworkPassage) -> Document:
    score = {} if passage.score is None else {"score": passage.score}
    return Document(id=passage.id, page_content=passage.text, metadata=passage.metadata | score)
