"""Why a passage is not in an answer: from the trace, or from the search that ran, done again without limits.

In: a recorded answer, the id of a passage or document, the rights of the reader. Out: a `WhyNot`. A passage
that the trace names is explained by the trace. Any other visible one is looked up in the ranking of the
recorded question over all that the reader may see, by the search services of the flow
(`answering.question_rankings`); cost and time are those of two searches, one of them without a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from whence.answering.question_rankings import AskedBefore, QuestionRankings, find_rankings
from whence.operations.passage_support import measure_support
from whence.operations.plugins import operations_plugin
from whence.operations.trace_access import ReadableTrace, load_trace, texts_of
from whence.provenance.outcome import WhyNot, outcome_sentence
from whence.provenance.reasons import OUTCOMES
from whence.provenance.redaction import redact_trace
from whence.provenance.stage_records import SCORE_PREDICATES, Scalar
from whence.provenance.why_not import cut_numbers
from whence.provenance.why_not import why_not as recorded_outcome
from whence.retrieval.many_collections import retrieval_clients
from whence.retrieval.pipeline import check_text
from whence.schema.code_rag import CODE_RAG
from whence.schema.filters import (
    CHUNK_KEYS,
    Filters,
    document_values,
    holds,
    parse_filters,
    to_filter_value,
)
from whence.store.chunk_ids import (
    by_collection,
    chunk_key,
    collection_of,
    parse_chunk_key,
    split_collections,
)
from whence.text.normalization import FUNCTION_WORDS
from whence.text.spelling import as_written, query_tokens

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.provenance.trace import Trace
    from whence.schema.access import Access
    from whence.schema.texts import ChunkText
    from whence.store.protocols import Store

_UNKNOWN = "There is no such passage or document, or this access may not see it."
#: Largest limit of a search; passages after that have no rank.
_MOST_RANKED = 100_000
#: Documents, by id, that a mistyped id is compared with.
_MOST_COMPARED = 50_000
#: Similar ids that are named, and their least similarity, 0 to 100. Two ids of one folder about different
#: things are about 55 alike.
_MOST_SIMILAR, _LEAST_SIMILAR = 3, 70.0
#: Words of a question that a passage is checked for.
_MOST_WORDS = 32
#: Decimal places to which scores of two times are compared, as in `engine.replay`.
_SCORE_PLACES = 5
#: Degradations of a question that was searched for by its words alone.
_WORDS_ALONE = frozenset({"question_not_embedded", "dense_leg_missing"})


async def why_not(session: Session, item: str, answer_id: str, access: Access) -> WhyNot:
    """Return why a chunk or document is not in an answer.

    An item that the reader may not see is answered like one that does not exist, with the code `unknown`.

    Raises:
        NotFound: There is no such answer, or the reader may not see it.
        WhenceError: The ranking cannot be made again, e.g. because a model is missing.
    """
    check_text("the item's id", item)
    loaded = await load_trace(session, answer_id, access)
    # A name that means several documents is looked for as it is.
    store = await session.store()
    found = [
        await store.documents_named(name, item, access)
        for name in split_collections(loaded.record.collection)
    ]
    named = list(dict.fromkeys(name for one in found for name in one))
    return await outcome_of(session, loaded, named[0] if len(named) == 1 else item, access)


async def outcome_of(session: Session, loaded: ReadableTrace, item: str, access: Access) -> WhyNot:
    """Return the same for an answer whose trace is loaded."""
    outcome = recorded_outcome(loaded.trace, item, visible=loaded.visible)
    lookup = _Lookup(session, await session.store(), loaded, access)
    if outcome.code == "not_retrieved":
        chunk_ids = await lookup.find(item)
        if not chunk_ids:
            return await lookup.unknown(item)
        outcome = await lookup.rank(outcome, chunk_ids)
    elif outcome.code in ("over_fetch_limit", "over_limit"):
        outcome = await lookup.with_entry_limit(outcome)
    outcome = await lookup.with_walk_limit(outcome)
    outcome = await lookup.with_support(outcome)
    return await lookup.with_description(outcome)


@dataclass(slots=True)
class _Lookup:
    """One question of a reader about one answer."""

    session: Session
    store: Store
    loaded: ReadableTrace
    access: Access
    trace: Trace = field(init=False)
    """As the reader may see it."""

    def __post_init__(self) -> None:
        self.trace = redact_trace(self.loaded.trace, self.loaded.visible)

    @property
    def collection(self) -> str:
        return self.loaded.record.collection

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.loaded.record.settings

    @property
    def filters(self) -> dict[str, Any]:
        """Filters of the question."""
        filters: dict[str, Any] = msgspec.json.decode(self.settings.get("filters", "{}"))
        return filters

    async def find(self, item: str) -> list[str]:
        """Return the chunks that an id means: itself, or all of a document; none when it is not visible."""
        chunks: list[str] = []
        for name in split_collections(self.collection):
            seen, found = await asyncio.gather(
                self.store.visible_chunks(name, [item], self.access),
                self.store.document_texts(name, [item], self.access),
            )
            if seen or item not in found:
                chunks += sorted(seen)
            else:
                chunks += [one.id for one in found[item].chunks]
        return chunks

    async def unknown(self, item: str) -> WhyNot:
        """Return the one answer for what does not exist and what the reader may not see."""
        key = parse_chunk_key(item)
        names = split_collections(self.collection)
        listed = [
            one
            for name in ([key.collection] if key and key.collection in names else names)
            for one in await self.store.visible_documents(name, self.access, limit=_MOST_COMPARED)
        ]
        known = sorted({one.document_id for one in listed if one.document_id is not None})
        nearest = await asyncio.to_thread(_similar_ids, item, known, names[0])
        chunks: frozenset[str] = frozenset()
        for name, ids in by_collection(self.collection, nearest.chunks).items():
            chunks |= await self.store.visible_chunks(name, ids, self.access)
        shown = [one for one in nearest.chunks if one in chunks] or nearest.documents
        return WhyNot(
            chunk_id=item, stage="", code="unknown", reason=_UNKNOWN, nearest=tuple(shown)
        )

    async def rank(self, outcome: WhyNot, chunk_ids: Sequence[str]) -> WhyNot:
        """Return where the best of some chunks stands among everything that the question could retrieve."""
        if not isinstance(self.settings.get("fetch_limit"), int):
            # A trace of another program: what it searched for is not known.
            return replace(outcome, chunk_id=chunk_ids[0])
        filters = self.filters
        rankings = await self._rankings(filters)
        best = self._best(rankings, chunk_ids)
        excluded = await self._excluded_by(best, filters) if filters else []
        if excluded:
            rankings = await self._rankings({})
            best = self._best(rankings, chunk_ids)
        numbers = await self._numbers(rankings, best)
        outcome = replace(
            outcome,
            chunk_id=best,
            code="filtered_out" if excluded else outcome.code,
            excluded_by=tuple(excluded),
            numbers=outcome.numbers | numbers,
        )
        if len(rankings.plan.queries) > 1 and (query := rankings.nearest_query(best)):
            own: dict[str, Scalar] = {"query_rank": query.rank, "query_limit": query.limit}
            outcome = replace(outcome, nearest_query=query.text, numbers=outcome.numbers | own)
        return outcome

    async def with_entry_limit(self, outcome: WhyNot) -> WhyNot:
        """Return the limit that retrieves a candidate beyond it, where several queries share the pool."""
        settings = self.settings
        is_code = settings.get("flow") == CODE_RAG
        if (
            is_code
            or len(self.trace.concepts) < 2
            or not isinstance(settings.get("fetch_limit"), int)
        ):
            return outcome
        enters = await (await self._rankings(self.filters)).enters_at(outcome.chunk_id)
        limit = "doc_limit" if outcome.code == "over_limit" else "fetch_limit"
        return replace(outcome, numbers=outcome.numbers | {f"enters_at_{limit}": enters})

    async def with_walk_limit(self, outcome: WhyNot) -> WhyNot:
        """Return which limit of a walk left out a node of code, where that is why it is not there."""
        is_code = self.settings.get("flow") == CODE_RAG
        if not is_code or outcome.code not in ("not_retrieved", "over_limit"):
            return outcome
        found: WhyNot = await operations_plugin("walk-outcome")(
            self.session, self.settings, self.trace, outcome, self.access
        )
        return found

    async def with_support(self, outcome: WhyNot) -> WhyNot:
        """Return how well a passage answers that the writer read and did not cite."""
        if outcome.code not in ("used", "refused"):
            return outcome
        record, used = self.loaded.record, self.trace.used
        found = await measure_support(self.session, record, used, outcome.chunk_id, self.access)
        return replace(outcome, numbers=outcome.numbers | found)

    async def with_description(self, outcome: WhyNot) -> WhyNot:
        """Return an outcome with the names of the passage, the words it lacks, and its line for people."""
        texts, missing = await asyncio.gather(
            texts_of(self.store, self.collection, [outcome.chunk_id], self.access),
            self._missing_words(outcome),
        )
        for one in texts:
            title, heading = (_text(one.metadata.get(name)) for name in ("title", "heading"))
            outcome = replace(outcome, document_id=one.document_id, title=title, heading=heading)
        outcome = replace(outcome, missing_words=missing, stage=OUTCOMES[outcome.code].stage)
        return replace(outcome, reason=outcome_sentence(outcome))

    async def _rankings(self, filters: Mapping[str, Any]) -> QuestionRankings:
        settings, trace = self.settings, self.trace
        retrieval = retrieval_clients(
            self.session.client,
            collection=self.collection,
            access=self.access,
            mode=settings.get("mode", "dense"),
            filters=filters,
            texts_port="text-fetcher",
        )
        pool = settings["fetch_limit"]
        degraded = {one.code for stage in trace.stages for one in stage.run.degraded}
        text = trace.question_used or trace.question
        asked = AskedBefore(
            text=text,
            written=as_written(trace.question, text, trace.corrections)
            if trace.corrections
            else text,
            concepts=trace.concepts,
            pool=pool,
            limit=min(pool, settings.get("seed_limit", pool)),
            threshold=settings.get("threshold", 0.0),
            search_question=settings.get("search_question", True),
            without_vector=bool(degraded & _WORDS_ALONE),
        )
        names = split_collections(self.collection)
        infos = [await self.store.collection(name) for name in names]
        chunks = sum(one.chunks for one in infos if one is not None)
        most = min(_MOST_RANKED, max(pool, chunks, 1))
        return await find_rankings(retrieval, asked, most, self.session.rankings)

    def _best(self, rankings: QuestionRankings, chunk_ids: Iterable[str]) -> str:
        """Return the chunk that is ranked best; the first one when none is ranked."""
        wanted = list(chunk_ids)
        places = {one: found.rank for one in wanted if (found := rankings.candidate(one))}
        return min(places, key=places.__getitem__, default=wanted[0])

    async def _numbers(self, rankings: QuestionRankings, chunk_id: str) -> dict[str, Scalar | None]:
        """Return rank, scores and cut of a chunk, and what would have retrieved it."""
        one = rankings.candidate(chunk_id)
        within = rankings.within
        limit = "seed_limit" if self.settings.get("flow") == CODE_RAG else "fetch_limit"
        enters = await rankings.enters_at(chunk_id)
        numbers: dict[str, Scalar | None] = {
            "passages": len(rankings.everything.candidates),
            "rank": one.rank if one else None,
            **{name: getattr(one, name) if one else None for name in SCORE_PREDICATES},
            **cut_numbers(within.kept[-1:], one.score if one else None),
            f"enters_at_{limit}": enters,
            "changed": self._has_changed(rankings),
            "retrieved_today": any(kept.chunk_id == chunk_id for kept in within.kept),
        }
        if not self.settings.get("rerank") and limit == "fetch_limit":
            # Without a selection every passage that is retrieved goes to the writer.
            numbers["enters_at_doc_limit"] = enters
        absent = {"graph_score", "name_score"}
        return {key: v for key, v in numbers.items() if v is not None or key not in absent}

    def _has_changed(self, rankings: QuestionRankings) -> bool:
        """Return whether a candidate of the trace has another score now, or is gone."""
        now = {one.chunk_id: one.score for one in rankings.within.candidates}
        before = [one for one in self.trace.candidates if one.score is not None]
        return any(
            one.chunk_id not in now
            or round(now[one.chunk_id] or 0.0, _SCORE_PLACES)
            != round(one.score or 0.0, _SCORE_PLACES)
            for one in before
        )

    async def _excluded_by(self, chunk_id: str, filters: Mapping[str, Any]) -> list[str]:
        """Return the filters that a chunk does not meet, as they are written."""
        texts = await texts_of(self.store, self.collection, [chunk_id], self.access)
        return [
            f"{key}={_written(value)}"
            for key, value in filters.items()
            if not _meets(parse_filters({key: value}), texts)
        ]

    async def _missing_words(self, outcome: WhyNot) -> tuple[str, ...]:
        """Return the words of the question that the index does not have for a chunk."""
        name = collection_of(self.collection, outcome.chunk_id)
        if outcome.code in ("cited", "unknown") or name is None:
            return ()
        text = self.trace.question_used or self.trace.question
        tokens = dict.fromkeys(one.text for one in query_tokens(text))
        words = [one for one in tokens if one.lower() not in FUNCTION_WORDS][:_MOST_WORDS]
        found = await asyncio.gather(
            *(
                self.store.lexical_scores(name, word, [outcome.chunk_id], self.access)
                for word in words
            )
        )
        return tuple(
            word for word, scores in zip(words, found, strict=True) if 0.0 in scores.values()
        )


class _SimilarIds(NamedTuple):
    """Ids that resemble a mistyped one, the most similar first."""

    documents: list[str]
    chunks: list[str]
    """For the id of a chunk: the chunks of these documents with its index, which may not exist."""


def _similar_ids(item: str, known: Sequence[str], collection: str) -> _SimilarIds:
    """Return the documents whose ids resemble an id of a document or chunk.

    Deterministic in the id and the known ones, which are sorted. Cost: linear in the known ids.
    """
    key = parse_chunk_key(item)
    name = key.document_id if key else item
    found = process.extract(
        name, known, scorer=fuzz.WRatio, limit=_MOST_SIMILAR, score_cutoff=_LEAST_SIMILAR
    )
    documents = [one for one, _, _ in found]
    own = key.collection if key else collection
    chunks = [chunk_key(own, one, key.index) for one in documents] if key else []
    return _SimilarIds(documents, chunks)


def _meets(filters: Filters, texts: Iterable[ChunkText]) -> bool:
    """Return whether one of these chunks meets all filters, by its document or by itself."""
    for one in texts:
        own = [(key, to_filter_value(one.metadata.get(key))) for key in CHUNK_KEYS]
        if holds(filters, [*document_values(one.document_id, one.metadata), *own]):
            return True
    return False


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
