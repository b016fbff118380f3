"""Messages of the reranker: queries and documents in, scored documents out."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from whence.schema.message import Message


class RerankItem(Message, frozen=True, kw_only=True, gc=False):
    """A query or a document with its id."""

    id: str
    """Id within the request."""
    text: str
    """Its text."""
    retrieval_score: float | None = None
    """Retrieval score, 0 to 1, for a model whose score is only a share of the final one."""
    token_codes: bytes = b""
    """Its token vectors, for a model that reads them in place of the text; empty when none are kept."""


class RerankerResult(msgspec.Struct, frozen=True, gc=False):
    """The score of one document for one query."""

    document_id: str
    """Id of the document within the request."""
    query_id: str
    """Id of the query within the request."""
    score: float
    """What the model said, higher is better; 0 to 1 of our own models."""
    final_score: float | None = None
    """What orders the results; None when it is the score."""


class RerankRequest(Message, frozen=True, kw_only=True):
    """Ask for the best documents over all queries."""

    TYPE: ClassVar[str] = "rerank-request.v1"

    queries: tuple[RerankItem, ...]
    """At least one."""
    documents: tuple[RerankItem, ...]
    """Candidates, any number."""
    limit: int = 10
    """Most results to return, 1 or more."""


class RerankResponse(Message, frozen=True, kw_only=True):
    """Documents by descending final score, each once with its best query; ties keep the request's order."""

    TYPE: ClassVar[str] = "rerank-response.v1"

    results: tuple[RerankerResult, ...]
    """At most `limit`."""
    others: tuple[RerankerResult, ...] = ()
    """Documents that the limit left out, in order, so that a trace can state their scores."""
    model: str = ""
    """Name of the model."""
    unscored: tuple[str, ...] = ()
    """Ids of documents that the model gave no valid score; they have the score 0 and come last."""
    revision: str = ""
    """Digest or version of its weights; empty when unknown."""
