"""Messages of the search service: a query in, a ranking of visible chunks out."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

import msgspec

from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.message import Message

#: Longest query, in characters; the rest of a longer one is ignored.
MAX_QUERY_CHARS = 16_384
#: Most distinct words of a query; the others are ignored.
MAX_QUERY_WORDS = 1024
_WORD = re.compile(r"[^\W_]+")
#: First character of the scripts without spaces, in which nearly each character begins a word.
_FIRST_UNSPACED = "\u3040"

SearchMode = Literal["dense", "bm25", "hybrid"]
Match = Literal["any", "all"]


class Degradation(Message, frozen=True, kw_only=True, gc=False):
    """Something that was left out of an answer, and why; the answer is correct without it."""

    stage: str
    """Stage that failed: `embedding`, `search`, `rerank`, `text-fetch`, `prompt`, `trace`."""
    reason: str
    """Description, one line."""
    code: str = "degraded"
    """Identifier, e.g. `reranker_failed`, `no_language_model`, `parameter_not_taken`."""
    share: float | None = None
    """With code `vectors_pending`: share of the visible passages that have vectors, 0 to 1."""

    @property
    def label(self) -> str:
        """The field's term for the stage, e.g. `generation`; of an unknown stage its name."""
        if self.code in _QUERY_CODES:
            return "query processing"
        return _DEGRADED_LABELS.get(self.stage, self.stage)


#: The field's terms for what failed.
_DEGRADED_LABELS = {
    "embedding": "query processing",
    "search": "retrieval",
    "exploration": "retrieval",
    "text-fetch": "retrieval",
    "rerank": "reranking",
    "prompt": "generation",
    "steps": "further search",
}
#: Faults of the writer before it writes the answer.
_QUERY_CODES = frozenset({"concepts_failed", "completion_failed"})


def truncate_query(query: str) -> tuple[str, tuple[Degradation, ...]]:
    """Return the query cut to `MAX_QUERY_CHARS`, and a degradation when it was cut."""
    if len(query) <= MAX_QUERY_CHARS or len(query := query.strip()) <= MAX_QUERY_CHARS:
        return query, ()
    reason = f"of a query of {len(query):,} characters the first {MAX_QUERY_CHARS:,} counted"
    return query[:MAX_QUERY_CHARS], (Degradation(stage="search", code="query_cut", reason=reason),)


def check_query_words(query: str) -> tuple[Degradation, ...]:
    """Return a degradation when a query has more than `MAX_QUERY_WORDS` words. Cost: linear in its length."""
    runs = set(_WORD.findall(query.casefold()))
    words = sum(len(run) if run[0] >= _FIRST_UNSPACED else 1 for run in runs)
    if words <= MAX_QUERY_WORDS:
        return ()
    reason = f"of a query of some {words:,} different words the first {MAX_QUERY_WORDS:,} counted"
    return (Degradation(stage="search", code="query_cut", reason=reason),)


class Correction(
    Message, frozen=True, kw_only=True, gc=False, rename={"source": "from", "target": "to"}
):
    """A word of a query that no visible document has, and the word that was searched for instead."""

    source: str
    """As the query has it; an identifier is whole."""
    target: str
    """The nearest word of the visible documents, in the case of `source`."""


class Candidate(Message, frozen=True, kw_only=True, gc=False):
    """One ranked chunk."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document of the chunk."""
    score: float
    """Score that orders the ranking, 0 to 1, higher is better."""
    rank: int
    """1 is first."""
    dense_score: float | None = None
    """Cosine of query and chunk, -1 to 1; None when dense retrieval did not score it."""
    sparse_score: float | None = None
    """Lexical score, 0 to 1; None when lexical retrieval did not score it."""
    graph_score: float | None = None
    """Part of `score` that comes from links between passages, 0 to 1; None when links were not used."""
    name_score: float | None = None
    """Part of `score` for a name equal to the query's identifier; None when there is no such match."""


class ChunkMatch(msgspec.Struct, frozen=True, gc=False):
    """The least that a search of one's own returns: a chunk and perhaps its score."""

    chunk_id: str
    """Id of the chunk."""
    score: float | None = None
    """Score that orders the ranking, higher is better; None when only the order is known."""


class GraphUse(Message, frozen=True, kw_only=True, gc=False):
    """Use of links between passages in a search."""

    passages: int
    """Visible passages linked with the best candidates."""
    links: int
    """Links between them."""
    named: int
    """Passages whose title or heading the query contains."""
    linked_share: float
    """Share of visible passages with a link, 0 to 1 in tenths; estimated from a sample when they are many."""


#: Begins the names of a calibration's fields among the settings of a stage.
CALIBRATION_PREFIX = "calibration_"
#: Setting of a stage that searched several collections: the calibration of each, as JSON.
CALIBRATIONS = "calibrations"


class Calibration(Message, frozen=True, kw_only=True, gc=False):
    """What the cosines of a collection mean, learnt from a sample of the passages that the reader sees."""

    encoder: str = ""
    """Name of the model of the vectors."""
    language: str = ""
    """The most frequent language of the sample; empty when nothing was learnt."""
    passages: int = 0
    """Passages in the sample; 0 when nothing was learnt."""
    unrelated: float | None = None
    """Mean cosine of two passages of different documents."""
    related: float | None = None
    """Mean cosine of a passage and the one that has most of its words."""
    agreement: float | None = None
    """How well vectors tell that passage from others, 0.5 (not at all) to 1."""
    slope: float = 1.0
    """The score counts `slope * cosine + offset` as a cosine, above 0."""
    offset: float = 0.0
    """See `slope`."""
    dense_weight: float = 0.35
    """Share of that in the score, 0 to 1; the rest is the lexical share's."""

    def on_scale(self, cosine: float) -> float:
        """Return a cosine on the scale of the score, 0 to 1."""
        return min(1.0, max(0.0, self.slope * cosine + self.offset))

    def as_settings(self) -> dict[str, str | int | float]:
        """Return its known fields as settings of a stage, `calibration_encoder` and so on."""
        fields = msgspec.structs.asdict(self).items()
        return {CALIBRATION_PREFIX + name: value for name, value in fields if value is not None}


class SearchQuery(Message, frozen=True, kw_only=True):
    """One more query of a request, with the same other fields; by words alone where only it has no vector."""

    limit: int
    """Most candidates to return, 1 or more."""
    vector: bytes | None = None
    """Query vector, as in the request."""
    query_text: str = ""
    """Words of the query."""


class SearchResult(Message, frozen=True, kw_only=True):
    """Result of one of several queries."""

    candidates: tuple[Candidate, ...]
    """Best first; may be empty, never longer than the query's limit."""
    degraded: tuple[Degradation, ...] = ()
    """Retrievers that were left out, and why."""
    graph: GraphUse | None = None
    """Use of links between passages; None when links were not used."""
    calibration: Calibration | None = None
    """What the cosines meant; None where the score has no part of a cosine."""


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
    """Query vector, float32 little endian, shape (dimension,); for `dense` and `hybrid`."""
    model: EmbeddingModel | None = None
    """Model of `vector`; must be the collection's."""
    query_text: str = ""
    """Words of the query; for `bm25` and `hybrid`."""
    mode: SearchMode = "dense"
    """Retrievers to use."""
    threshold: float = 0.0
    """Lowest score returned, 0 to 1."""
    filters: dict[str, Any] = {}
    """Conditions on metadata, key to value; all must hold."""
    match: Match = "any"
    """`all` counts words only in chunks that have all of them; not for `dense`."""
    spelling: bool = False
    """Whether words of `query_text` that no visible chunk has are looked up; not those of `more`."""
    stop_when_misspelt: bool = False
    """With `spelling`: search for nothing when a word is misspelt; `candidates` is empty then."""
    more: tuple[SearchQuery, ...] = ()
    """Further queries by the same reader, answered together with this one."""
    with_version: bool = False
    """Whether the response states the version of the collection, for the record of an answer."""


class SearchResponse(Message, frozen=True, kw_only=True):
    """The ranking: by score, ties by chunk id. Rankings of several queries are in `results`."""

    TYPE: ClassVar[str] = "search-response.v1"

    candidates: tuple[Candidate, ...]
    """Best first; may be empty, never longer than the request's limit."""
    degraded: tuple[Degradation, ...] = ()
    """Retrievers that were left out, and why."""
    graph: GraphUse | None = None
    """Use of links between passages; None when links were not used."""
    calibration: Calibration | None = None
    """What the cosines meant; None where the score has no part of a cosine."""
    corrections: tuple[Correction, ...] = ()
    """With `spelling`: what the query probably means; candidates, if any, are those of the query as it is."""
    absent: tuple[str, ...] = ()
    """With `spelling`: words and identifiers of the query that no visible chunk has and that are not corrected,
    in order; and all words joined by hyphens, which the index has one by one."""
    results: tuple[SearchResult | None, ...] = ()
    """For a request with `more`: one per query, the request's own first; None for a query that failed while
    another succeeded. `candidates` is empty then."""
    collection_version: int = 0
    """With `with_version`: version of the collection; 0 when the store counts none. It counts hidden documents
    too: it goes into the record of an answer and is shown to no reader."""
    settings: dict[str, Any] = {}
    """Settings of the service that decided a hybrid ranking, `fusion` and `passage_graph`; else empty."""
