"""Messages of the search service: a query in, a ranking of visible chunks out."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.message import Message

__all__ = (
    "MAX_QUERY_CHARS",
    "MAX_QUERY_WORDS",
    "Candidate",
    "Degradation",
    "GraphUse",
    "Match",
    "SearchMode",
    "SearchQuery",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "check_query_words",
    "truncate_query",
)

#: Characters of a query that count; five pages. A longer one is a document, and its first pages say what it is
#: about. An encoder reads less of it.
MAX_QUERY_CHARS = 16_384
#: Most distinct words of a query that count.
MAX_QUERY_WORDS = 1024
_WORD = re.compile(r"[^\W_]+")
#: From here on scripts are written without spaces, and nearly each character begins a word.
_FIRST_UNSPACED = "\u3040"

SearchMode = Literal["dense", "bm25", "hybrid"]
Match = Literal["any", "all"]


class Degradation(Message, frozen=True, kw_only=True, gc=False):
    """Something that was left out of an answer, and why; the answer is still true without it."""

    stage: str
    """Stage that fell short: `embedding`, `search`, `rerank`, `text-fetch`, `prompt`, `trace`."""
    reason: str
    """One line for people."""
    code: str = "degraded"
    """Machine word, e.g. `reranker_failed`, `no_language_model`."""


def truncate_query(query: str) -> tuple[str, tuple[Degradation, ...]]:
    """Give the part of a query that counts, and what is to be told when that is not all of it."""
    if len(query) <= MAX_QUERY_CHARS or len(query := query.strip()) <= MAX_QUERY_CHARS:
        return query, ()
    reason = f"of a query of {len(query):,} characters the first {MAX_QUERY_CHARS:,} counted"
    return query[:MAX_QUERY_CHARS], (Degradation(stage="search", code="query_cut", reason=reason),)


def check_query_words(query: str) -> tuple[Degradation, ...]:
    """Tell that not all words of a query count, when it has so many. Cost: linear in its length."""
    if len(query) <= MAX_QUERY_WORDS:
        return ()
    runs = set(_WORD.findall(query.casefold()))
    words = sum(len(run) if run[0] >= _FIRST_UNSPACED else 1 for run in runs)
    if words <= MAX_QUERY_WORDS:
        return ()
    reason = f"of a query of some {words:,} different words the first {MAX_QUERY_WORDS:,} counted"
    return (Degradation(stage="search", code="query_cut", reason=reason),)


class Candidate(Message, frozen=True, kw_only=True, gc=False):
    """One ranked chunk."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document it is part of."""
    score: float
    """Score the ranking is sorted by, 0 to 1, higher is better."""
    rank: int
    """1 is first."""
    dense_score: float | None = None
    """Cosine of query and chunk, -1 to 1; None when the dense leg did not score it."""
    sparse_score: float | None = None
    """Absolute lexical share, 0 to 1; None when the lexical leg did not score it."""
    graph_score: float | None = None
    """What links to other passages added to `score`, 0 to 1; None when the passage graph took no part."""
    name_score: float | None = None
    """What was added to `score` because the chunk goes by the very name that the query is; None when it does
    not."""


class GraphUse(Message, frozen=True, kw_only=True, gc=False):
    """What a search did with the passage graph."""

    passages: int
    """Visible passages that were looked at around the best candidates."""
    links: int
    """Links between them."""
    named: int
    """Passages whose title or heading the query holds."""
    linked_share: float
    """Visible passages with a link, per passage, 0 to 1 in tenths; told by some of them where they are many."""


class SearchQuery(Message, frozen=True, kw_only=True):
    """One more query of a request, with all else as there."""

    limit: int
    """Most candidates to return, 1 or more."""
    vector: bytes | None = None
    """Query vector, as in the request."""
    query_text: str = ""
    """Words of the query."""


class SearchResult(Message, frozen=True, kw_only=True):
    """What one of several queries found."""

    candidates: tuple[Candidate, ...]
    """Best first; may be empty, never longer than the query's limit."""
    degraded: tuple[Degradation, ...] = ()
    """Legs that did not take part, and why."""
    graph: GraphUse | None = None
    """What the passage graph did; None when it took no part."""


class SearchRequest(Message, frozen=True, kw_only=True):
    """Ask for the best visible chunks of a collection."""

    TYPE: ClassVar[str] = "search-request.v1"

    access: Access
    """Rights of the reader, applied before ranking and limit."""
    collection: str
    """Name of the collection."""
    limit: int
    """Most candidates to return, 1 or more."""
    vector: bytes | None = None
    """Query vector, float32 little endian, shape (dimension,); needed by `dense` and `hybrid`."""
    model: EmbeddingModel | None = None
    """The model that made `vector`; refused when it is not the collection's."""
    query_text: str = ""
    """Words of the query; needed by `bm25` and `hybrid`."""
    mode: SearchMode = "dense"
    """Which legs rank."""
    threshold: float = 0.0
    """Lowest score returned, 0 to 1."""
    filters: dict[str, Any] = {}
    """Conditions on metadata, key to value; all must hold."""
    match: Match = "any"
    """Whether words count in chunks that have one of them, or only in those that have all; not for `dense`."""
    more: tuple[SearchQuery, ...] = ()
    """Further queries by the same reader, answered together with this one."""


class SearchResponse(Message, frozen=True, kw_only=True):
    """The ranking: by score, ties by chunk id. Of several queries the rankings are in `results`."""

    TYPE: ClassVar[str] = "search-response.v1"

    candidates: tuple[Candidate, ...]
    """Best first; may be empty, never longer than the request's limit."""
    degraded: tuple[Degradation, ...] = ()
    """Legs that did not take part, and why."""
    graph: GraphUse | None = None
    """What the passage graph did; None when it took no part."""
    results: tuple[SearchResult | None, ...] = ()
    """To a request with `more`: one for each query, the request's own first. None for one that failed while
    another did not; asked alone it tells why. `candidates` is empty then."""
