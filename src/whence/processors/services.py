"""The services that processors offer one another, apart from the processors that serve them."""

from __future__ import annotations

from whence.processors.base import Service
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer, AnswerPiece, DocumentRagRequest, ExplainEvent
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.ingest import IngestRequest, IngestResponse
from whence.schema.message import Message
from whence.schema.prompt import PromptRequest, PromptResponse
from whence.schema.rerank import RerankRequest, RerankResponse
from whence.schema.search import SearchRequest, SearchResponse
from whence.schema.texts import TextRequest, TextResponse


def _has_result(message: Message) -> bool:
    return isinstance(message, PromptResponse) and message.result is not None


def _is_answer(message: Message) -> bool:
    return isinstance(message, Answer)


EMBEDDING = Service(EmbeddingRequest, (EmbeddingResponse,))
SEARCH = Service(SearchRequest, (SearchResponse,))
EXPAND = Service(ExpandRequest, (ExpandResponse,))
TEXTS = Service(TextRequest, (TextResponse,))
RERANK = Service(RerankRequest, (RerankResponse,))
PROMPT = Service(PromptRequest, (PromptResponse,), _has_result)
INGEST = Service(IngestRequest, (IngestResponse,))
CODE_RAG = Service(CodeRagRequest, (AnswerPiece, ExplainEvent, Answer), _is_answer)
DOCUMENT_RAG = Service(DocumentRagRequest, (AnswerPiece, ExplainEvent, Answer), _is_answer)
