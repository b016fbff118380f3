"""Messages between processors, and the values that they contain.

In and out: bytes on a topic. Each message is a frozen struct with a `TYPE` such as `search-request.v1`, which
never changes its meaning; new fields have defaults, so that old bytes decode.

Open `message` and `codec` first, then the module of the service in question (`search`, `document_rag`, ...).
`access` holds rights, `filters` conditions on metadata, `errors` every error, `terms` RDF triples, `code_ids`
and `relations` the ids and edges of code. All of these modules may be imported from outside.
"""

from whence.schema.access import Access, DocumentTags
from whence.schema.code_rag import CodeRagRequest
from whence.schema.codec import decode, decode_as, encode, to_builtins
from whence.schema.document_rag import (
    Answer,
    AnswerPiece,
    Citation,
    ExplainEvent,
    StageReport,
    TraceRecord,
)
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import ErrorReply, WhenceError
from whence.schema.graph import ExpandRequest, ExpandResponse, GraphEdge, GraphNode
from whence.schema.ingest import (
    ChunkDraft,
    DocumentDraft,
    DocumentOutcome,
    IngestRequest,
    IngestResponse,
)
from whence.schema.liveness import ProcessorReport
from whence.schema.message import Message, message_types
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult, Quote
from whence.schema.rerank import RerankerResult, RerankItem, RerankRequest, RerankResponse
from whence.schema.search import (
    Candidate,
    ChunkMatch,
    Degradation,
    SearchQuery,
    SearchRequest,
    SearchResponse,
    SearchResult,
)
from whence.schema.terms import Term, Triple, iri, literal
from whence.schema.texts import (
    ChunkText,
    PlannedText,
    TextBudget,
    TextDecision,
    TextPlan,
    TextRequest,
    TextResponse,
)
