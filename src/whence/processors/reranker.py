"""The rerank service: queries and documents in, the best documents with their scores out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import RERANK, Context, Processor
from whence.retrieval.rerank import score_documents
from whence.schema.errors import BadInput
from whence.schema.rerank import RerankRequest, RerankResponse

if TYPE_CHECKING:
    from whence.models.protocols import Reranker


class RerankerParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the reranker."""

    max_pairs: Annotated[int, msgspec.Meta(ge=1)] = 5000
    """Most pairs of query and document in one request; a larger one is refused."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 16_000_000
    """Most bytes of text in one request, UTF-8; a larger one is refused."""


class RerankerProcessor(Processor):
    """Scores documents for queries with one model; see `whence.retrieval.rerank`."""

    type_name = "reranker"
    summary = "documents to the best of them, read together with the query"
    serves = RERANK
    Parameters = RerankerParameters
    needs = ("reranker",)

    parameters: RerankerParameters

    def __init__(self, parameters: RerankerParameters | None = None, *, reranker: Reranker) -> None:
        super().__init__(parameters)
        self._reranker = reranker

    async def handle(self, message: RerankRequest, context: Context) -> RerankResponse:
        """Rank the documents of one request.

        Raises:
            BadInput: The limit is below 1, there is no query, an id occurs twice, or there are too many pairs
                or bytes.
        """
        if message.limit < 1:
            raise BadInput(f"limit must be at least 1, not {message.limit}")
        if not message.queries:
            raise BadInput("a rerank request needs at least one query")
        for kind, items in (("query", message.queries), ("document", message.documents)):
            ids = [item.id for item in items]
            if len(set(ids)) < len(ids):
                twice = next(one for place, one in enumerate(ids) if one in ids[:place])
                raise BadInput(f"{kind} id {twice!r} occurs twice in one request")
        texts = [item.text for item in (*message.queries, *message.documents)]
        size = len("".join(texts).encode("utf-8", "surrogatepass"))
        pairs = len(message.queries) * len(message.documents)
        for what, count, setting in (
            ("pairs of query and document", pairs, "max_pairs"),
            ("bytes of text", size, "max_bytes"),
        ):
            most = getattr(self.parameters, setting)
            if count > most:
                raise BadInput(
                    f"{count} {what} in one request; at most {most} are taken",
                    hint=f"ask for fewer candidates, or raise `{setting}` of the reranker",
                )
        return await score_documents(self._reranker, message)
