"""`DocumentRag`: questions answered over any clients, without a bus.

The class, its arguments and what it calls are those of TrustGraph's class of this name, so that callers and
stub clients of one work with the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from whence.answering.evidence import read_concepts
from whence.answering.pipeline import answer
from whence.answering.plain_services import (
    EmbeddingClient,
    FetchChunk,
    FetchChunks,
    KeywordClient,
    PlainServices,
    PromptClient,
    RerankerClient,
    SearchClient,
)
from whence.answering.state import Question, RagOptions, SaveAnswerCallback, new_question
from whence.answering.trace_recorder import Sources, new_answer_id, utc_now
from whence.operations.ask import ChunkCallback, DocumentRagRequest, ExplainCallback, check_question
from whence.retrieval.diversity import DEFAULT_LAMBDA, check_diversity
from whence.retrieval.fusion import reciprocal_ranks
from whence.retrieval.pipeline import find_candidates, read_passages
from whence.retrieval.services import Deadline, PlannedQuery
from whence.schema.access import Access
from whence.schema.document_rag import Answer, Diversity
from whence.schema.search import SearchMode

RetrievalMode = Literal["vector", "keyword", "hybrid"]
_MODES: Final[Mapping[str, SearchMode]] = {
    "vector": "dense",
    "keyword": "bm25",
    "hybrid": "hybrid",
}


class DocumentRag:
    """Answers questions from documents and records how each answer was produced.

    Args:
        prompt_client: Extracts concepts and writes answers.
        embeddings_client: Makes vectors.
        doc_embeddings_client: Searches with vectors.
        fetch_chunk: Takes a chunk id and returns its text.
        reranker_client: Chooses among the candidates; None for the order of retrieval.
        verbose: Whether each step, the question and the documents are logged at debug level.
        rerank_diversity_mode: `mmr` chooses documents that say different things, see `retrieval.diversity`.
        rerank_diversity_lambda: Weight of relevance against diversity, 0 to 1.
        kw_index_client: Searches with words.
        retrieval_mode: `vector` searches with the vectors of concepts, `keyword` with the words of the
            question, `hybrid` with both; their rankings are joined by weighted reciprocal rank fusion.
        vector_weight: Weight of the vectors' ranking in `hybrid`, 0 or more.
        keyword_weight: Weight of the words' ranking in `hybrid`, 0 or more.
        fetch_chunks: Reads all texts in one request; used in place of `fetch_chunk` when given.
        options: Limits and choices; by default the concepts are searched and not the question itself.
        new_id: Makes ids of answers.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.

    Raises:
        ValueError: A mode is unknown or needs a `kw_index_client`, or a weight is invalid.
    """

    def __init__(
        self,
        prompt_client: PromptClient,
        embeddings_client: EmbeddingClient,
        doc_embeddings_client: SearchClient,
        fetch_chunk: FetchChunk,
        reranker_client: RerankerClient | None = None,
        verbose: bool = False,
        rerank_diversity_mode: Diversity = "none",
        rerank_diversity_lambda: float = DEFAULT_LAMBDA,
        kw_index_client: KeywordClient | None = None,
        retrieval_mode: RetrievalMode = "vector",
        vector_weight: float = 1.0,
        keyword_weight: float = 1.0,
        *,
        fetch_chunks: FetchChunks | None = None,
        options: RagOptions | None = None,
        new_id: Callable[[], str] = new_answer_id,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_modes(retrieval_mode, kw_index_client, (vector_weight, keyword_weight))
        check_diversity(rerank_diversity_mode, rerank_diversity_lambda)
        self.prompt_client = prompt_client
        self.embeddings_client = embeddings_client
        self.doc_embeddings_client = doc_embeddings_client
        self.fetch_chunk = fetch_chunk
        self.reranker_client = reranker_client
        self.verbose = verbose
        self.rerank_diversity_mode = rerank_diversity_mode
        self.rerank_diversity_lambda = rerank_diversity_lambda
        self.kw_index_client = kw_index_client
        self.retrieval_mode = retrieval_mode
        self.vector_weight, self.keyword_weight = vector_weight, keyword_weight
        self.fetch_chunks = fetch_chunks
        self.options = options or RagOptions(search_question=False)
        if retrieval_mode == "keyword":
            self.options = msgspec.structs.replace(self.options, max_concepts=0)
        self._sources = Sources(new_id, clock, monotonic)
        self._services("", Deadline()).log("DocumentRag initialized")

    async def query(
        self,
        query: str,
        workspace: str = "default",
        collection: str = "default",
        doc_limit: int = 20,
        fetch_limit: int = 0,
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
        save_answer_callback: SaveAnswerCallback | None = None,
        *,
        rerank: bool = True,
        rerank_limit: int = 0,
        answer_id: str = "",
        deadline_s: float | None = None,
    ) -> Answer:
        """Answer one question; `text, usage = await rag.query(...)` unpacks the answer.

        Args:
            query: The question.
            workspace: Not used: the clients know their own.
            collection: Passed to the searches.
            doc_limit: Most chunks given to the writer, 1 or more.
            fetch_limit: Candidates retrieved for the reranker, at least `doc_limit`; 0 for three times that.
            streaming: Whether `chunk_callback` gets the text as it is written.
            chunk_callback: Takes a piece of text and whether it is the last.
            explain_callback: Takes the triples and the IRI of each stage as soon as it is done.
            save_answer_callback: Takes the IRI and the text of an answer whose stages `explain_callback` takes.
            rerank: False leaves the reranker out.
            rerank_limit: Most candidates that the reranker reads; 0 for all.
            answer_id: Id of the answer; made when empty.
            deadline_s: Seconds for the whole question; the shorter of this and the options' own applies.

        Raises:
            WhenceError: `BadInput` for an invalid argument; the time ran out, or a needed stage failed.
        """
        message = DocumentRagRequest(
            access=Access.public(),
            question=query,
            answer_id=answer_id,
            doc_limit=doc_limit,
            fetch_limit=fetch_limit,
            rerank=rerank,
            rerank_limit=rerank_limit,
            diversity=self.rerank_diversity_mode,
            diversity_lambda=self.rerank_diversity_lambda,
        )
        limits = (doc_limit, fetch_limit, rerank_limit)
        check_question(query, *limits, max_bytes=self.options.max_question_bytes)
        deadline = self.options.deadline(deadline_s, self._sources.monotonic)
        plain = self._services(collection, deadline)
        plain.log("Constructing prompt...")
        question = self._question(message, plain, explain_callback)
        question.on_piece = chunk_callback if streaming else None
        question.save_answer = save_answer_callback
        result = await answer(question)
        plain.log("Query processing complete")
        return result

    def _question(
        self,
        message: DocumentRagRequest,
        plain: PlainServices,
        explain_callback: ExplainCallback | None,
    ) -> Question:
        question = new_question(
            message,
            self.options,
            self._sources,
            retrieval=plain,
            writer=plain,
            deadline=plain.deadline,
            has_reranker=self.reranker_client is not None,
            settings={"collection": plain.collection, "mode": plain.mode},
            listener=None
            if explain_callback is None
            else lambda event: explain_callback(event.triples, event.explain_id),
        )
        if self.retrieval_mode == "hybrid":
            question.rank_weights = (self.vector_weight, self.keyword_weight)
        return question

    def _services(self, collection: str, deadline: Deadline) -> PlainServices:
        return _services_of(
            self, collection, deadline, self.options, self.verbose, self.fetch_chunks
        )


class Query:
    """The searches of one question in parts, for code that calls them one by one.

    Args:
        rag: Has the clients and the retrieval mode, as a `DocumentRag` does.
        workspace: Not used: the clients know their own.
        collection: Passed to the searches.
        verbose: Whether each step is logged at debug level.
        fetch_limit: Most chunks, 1 or more; the concepts share it.
        track_usage: Called with each reply of the prompt client.
    """

    def __init__(
        self,
        rag: Any,
        workspace: str,
        collection: str,
        verbose: bool,
        fetch_limit: int = 20,
        track_usage: Callable[[Any], None] | None = None,
    ) -> None:
        self.rag = rag
        self.workspace = workspace
        self.collection = collection
        self.verbose = verbose
        self.fetch_limit = fetch_limit
        self.track_usage = track_usage

    async def extract_concepts(self, query: str) -> list[str]:
        """Return search phrases for a question, the question itself when there are none."""
        result = await self._services().extract_concepts(query)
        if self.track_usage is not None:
            self.track_usage(result)
        return list(read_concepts(result.text or "", limit=RagOptions().max_concepts)) or [query]

    async def get_vectors(self, concepts: Sequence[str]) -> Sequence[Any]:
        """Return the vectors of concepts."""
        return (await self._services().embed(concepts, "concepts")).vectors

    async def get_docs(
        self, concepts: Sequence[str], query: str = ""
    ) -> tuple[list[str], list[str]]:
        """Return the texts and the ids of the best chunks, in one order; `query` is searched by its words."""
        plain, limit = self._services(), self.fetch_limit
        queries = [PlannedQuery(query, None, limit)] if plain.mode != "dense" else []
        if plain.mode != "bm25":
            share = max(1, limit // max(1, len(concepts)))
            vectors = await self.get_vectors(concepts)
            queries += [
                PlannedQuery(concept, vector, share)
                for concept, vector in zip(concepts, vectors, strict=True)
            ]
        weights = None
        if plain.mode == "hybrid":
            weights = (self.rag.vector_weight, self.rag.keyword_weight)
        found = await find_candidates(plain, queries, limit=limit, weights=weights)
        passages = await read_passages(plain, found.kept)
        return [one.text for one in passages], [one.chunk_id for one in passages]

    def _services(self) -> PlainServices:
        options = RagOptions()
        return _services_of(self.rag, self.collection, Deadline(), options, self.verbose, None)


def rrf_fuse(
    ranked_lists: Sequence[Sequence[Any]], weights: Sequence[float], limit: int
) -> list[Any]:
    """Return the best matches of several rankings by the sum of `weight / (60 + rank)`.

    Of a chunk that several rankings have the first match is returned; ties keep the order of first occurrence.
    Matches without a chunk id are left out, and count in the ranks of those after them.
    """
    first: dict[str, Any] = {}
    for match in (match for ranking in ranked_lists for match in ranking):
        first.setdefault(match.chunk_id, match)
    scores = reciprocal_ranks(
        ([match.chunk_id for match in ranking] for ranking in ranked_lists), weights
    )
    order = sorted(filter(None, scores), key=lambda chunk_id: -scores[chunk_id])
    return [first[chunk_id] for chunk_id in order[:limit]]


def _services_of(
    rag: Any,
    collection: str,
    deadline: Deadline,
    options: RagOptions,
    verbose: bool,
    fetch_chunks: FetchChunks | None,
) -> PlainServices:
    return PlainServices(
        prompts=rag.prompt_client,
        embeddings=rag.embeddings_client,
        vectors=rag.doc_embeddings_client,
        keywords=rag.kw_index_client,
        reranker=getattr(rag, "reranker_client", None),
        fetch_chunk=rag.fetch_chunk,
        fetch_chunks=fetch_chunks,
        mode=_MODES.get(rag.retrieval_mode, "dense"),
        collection=collection,
        deadline=deadline,
        options=options,
        verbose=verbose,
    )


def _check_modes(mode: str, keywords: object, weights: tuple[float, float]) -> None:
    if mode not in _MODES:
        raise ValueError(f"retrieval_mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if mode != "vector" and keywords is None:
        raise ValueError(f"retrieval_mode {mode!r} needs a kw_index_client")
    if not all(math.isfinite(one) and one >= 0 for one in weights) or not any(weights):
        raise ValueError(
            "vector_weight and keyword_weight must be 0 or more, and not both 0,"
            f" not {weights[0]} and {weights[1]}"
        )
