"""What `DocumentRag` promises beyond the contract of reranking: limits, degradation, failure, account."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from whence.answering.trace_recorder import Sources
from whence.processors.document_rag import (
    NOTHING_FOUND,
    NOTHING_READABLE,
    DocumentRag,
    RagOptions,
)
from whence.provenance import namespaces as ns
from whence.provenance.redaction import chunk_ids
from whence.provenance.terms import answer_uris, stage_from_uri
from whence.provenance.trace import Trace, read_trace
from whence.provenance.why_not import why_not
from whence.retrieval.services import Vector
from whence.schema import Answer, EmbeddingModel, PromptResult, Quote, RerankerResult, Triple
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    InternalError,
    NotFound,
    Unavailable,
    WhenceError,
)
from whence.schema.texts import ChunkText
from whence.schema.version import VERSION
from whence.testing.stub_clients import (
    NEVER,
    StubEmbeddings,
    StubPrompt,
    StubReranker,
    StubSearch,
    StubTexts,
    candidate,
)

IDS = [f"urn:chunk:{number}" for number in range(100)]
TEXTS = {chunk_id: f"Text of {chunk_id}." for chunk_id in IDS}
QUESTION = "What is the return policy?"
#: Short enough that a test of patience is quick, long enough for a loaded machine to do what it should.
SHORT = 0.05


class Bench:
    """A RAG over stubs, with everything that it records."""

    def __init__(
        self,
        *,
        prompt: StubPrompt | None = None,
        embeddings: Any = None,
        search: Any = None,
        texts: StubTexts | None = None,
        reranker: Any = None,
        batched: bool = False,
        **options: Any,
    ) -> None:
        self.prompt = prompt or StubPrompt("Answer [1].", concepts=["returns", "refunds"])
        self.embeddings = embeddings or StubEmbeddings()
        self.search = search or StubSearch(IDS[:3])
        self.texts = texts or StubTexts(TEXTS)
        self.reranker = reranker
        self.rag = DocumentRag(
            self.prompt,
            self.embeddings,
            self.search,
            self.texts.fetch_chunk,
            reranker,
            fetch_chunks=self.texts.fetch_chunks if batched else None,
            options=RagOptions(**options),
            new_id=lambda: "answer-1",
            clock=lambda: datetime(2025, 1, 2, tzinfo=UTC),
            monotonic=lambda: 5.0,
        )
        self.events: list[tuple[str, str, tuple[Triple, ...]]] = []
        """Stage, IRI and triples of each event."""

    async def ask(self, question: str = QUESTION, **options: Any) -> Answer:
        """Ask and keep the events, those of a failing question too."""

        async def keep(triples: tuple[Triple, ...], explain_id: str) -> None:
            self.events.append((stage_from_uri(explain_id), explain_id, triples))

        return await self.rag.query(question, explain_callback=keep, **options)

    @property
    def given(self) -> list[str]:
        """The documents of the last answer."""
        return self.prompt.documents[-1]

    @property
    def trace(self) -> Trace:
        """What the events say."""
        return read_trace([t for *_, triples in self.events for t in triples])

    @property
    def stages(self) -> list[str]:
        return [stage for stage, *_ in self.events]

    def dropped(self) -> dict[str, str]:
        """Reason code by chunk."""
        return {c.chunk_id: c.reason_code for c in self.trace.candidates if c.reason_code}


def codes(result: Answer) -> list[str]:
    return [degradation.code for degradation in result.degraded]


# Searching


async def test_the_question_itself_is_always_searched() -> None:
    """Concepts add searches; the question is searched first, for the whole pool."""
    bench = Bench(reranker=StubReranker())

    await bench.ask(doc_limit=6)

    own = bench.embeddings.vector(QUESTION)
    assert bench.search.calls[0] == (own, 18)
    assert [limit for _, limit in bench.search.calls[1:]] == [9, 9]


async def test_without_a_language_model_the_question_is_the_only_concept() -> None:
    """Without a language model there are no concepts, and one vector is computed."""
    bench = Bench(prompt=StubPrompt("Answer."))

    await bench.ask("Two\nlines?")

    assert bench.embeddings.calls == [["Two\nlines?"]]
    assert len(bench.search.calls) == 1
    assert bench.trace.concepts == ("Two\nlines?",)


async def test_a_concept_equal_to_the_question_is_searched_once() -> None:
    """A concept equal to the question adds no search."""
    bench = Bench(prompt=StubPrompt("Answer.", concepts=[QUESTION]))

    await bench.ask()

    assert len(bench.search.calls) == 1


async def test_concepts_do_not_crowd_one_another_out() -> None:
    """The best hit of each concept ranks before the second best of any."""
    found = {"returns": IDS[10:20], "refunds": IDS[20:30], QUESTION: IDS[:10]}
    embeddings = StubEmbeddings()
    by_vector = {tuple(embeddings.vector(text)): ids for text, ids in found.items()}
    bench = Bench(
        embeddings=embeddings, search=StubSearch(lambda vector, _: by_vector[tuple(vector)])
    )

    await bench.ask(doc_limit=6)

    assert bench.given == [TEXTS[IDS[n]] for n in (0, 10, 20, 1, 11, 21)]


async def test_doc_limit_applies_without_a_reranker() -> None:
    """The writer gets at most `doc_limit` documents, however many concepts there are."""
    concepts = [f"concept {n}" for n in range(10)]
    calls = iter(range(1000))
    bench = Bench(
        prompt=StubPrompt("Answer.", concepts=concepts),
        search=StubSearch(lambda _, limit: [IDS[(next(calls) * 7) % 90 + n] for n in range(limit)]),
    )

    await bench.ask(doc_limit=3)

    assert len(bench.given) == 3
    assert set(bench.dropped().values()) == {"over_limit"}


async def test_the_pool_is_cut_before_texts_are_read() -> None:
    """With a reranker at most `fetch_limit` texts are read."""
    calls = iter(range(100))
    bench = Bench(
        search=StubSearch(lambda _v, limit: [IDS[next(calls)] for _ in range(limit)]),
        reranker=StubReranker(),
    )

    await bench.ask(doc_limit=2, fetch_limit=5)

    assert len(bench.texts.calls) == 5
    assert bench.trace.chunk_count == 5


async def test_candidates_beyond_the_pool_have_a_reason() -> None:
    """Candidates beyond `fetch_limit` are recorded with their reason."""
    calls = iter(range(100))
    bench = Bench(
        search=StubSearch(lambda _v, limit: [IDS[next(calls)] for _ in range(limit)]),
        reranker=StubReranker(),
    )

    await bench.ask(doc_limit=2, fetch_limit=4)

    dropped = bench.dropped()
    assert list(dropped.values()).count("over_fetch_limit") == 4
    assert len(bench.trace.candidates) == 8


async def test_a_score_below_the_threshold_drops_a_candidate() -> None:
    """A candidate below the threshold is dropped, with its score and the reason."""
    matches = [candidate(IDS[0], 0.9), candidate(IDS[1], 0.2)]
    bench = Bench(search=StubSearch(matches), threshold=0.5)

    await bench.ask()

    assert bench.given == [TEXTS[IDS[0]]]
    assert bench.dropped() == {IDS[1]: "below_threshold"}


async def test_a_score_that_is_not_finite_counts_as_none() -> None:
    """NaN neither orders candidates nor reaches the trace."""
    matches = [candidate(IDS[0], float("nan")), candidate(IDS[1], 0.2)]
    bench = Bench(search=StubSearch(matches))

    await bench.ask()

    assert bench.given == [TEXTS[IDS[0]], TEXTS[IDS[1]]]
    assert [one.score for one in bench.trace.candidates] == [None, 0.2]


# Embedding


@pytest.mark.parametrize("surplus", [-1, 1])
async def test_a_wrong_number_of_vectors_is_an_error(surplus: int) -> None:
    """A wrong number of vectors is refused."""
    bench = Bench(embeddings=StubEmbeddings(surplus=surplus))

    with pytest.raises(InternalError, match=r"gave \d vectors for 1 texts"):
        await bench.ask()

    assert bench.search.calls == []


async def test_concepts_without_vectors_degrade() -> None:
    """The question's own search answers, and the answer is degraded."""

    class OneOnly(StubEmbeddings):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if len(texts) > 1:
                raise Unavailable("too many at once")
            return await super().embed(texts)

    bench = Bench(embeddings=OneOnly())

    result = await bench.ask()

    assert len(bench.search.calls) == 1
    assert codes(result) == ["concepts_not_embedded"]
    assert bench.trace.stage("exploration").run.degraded == result.degraded


async def test_a_failing_embedding_service_fails_the_question() -> None:
    """Without any vector nothing is searched, and the error is the service's own."""
    bench = Bench(embeddings=StubEmbeddings(error=Unavailable("no embedder")))

    with pytest.raises(Unavailable, match="no embedder"):
        await bench.ask()

    assert bench.prompt.documents == []


# Concepts


@pytest.mark.parametrize("error", [RuntimeError("boom"), Unavailable("no model"), TimeoutError()])
async def test_failing_concepts_degrade(error: Exception) -> None:
    """The question alone is searched, and the answer is degraded."""
    bench = Bench(prompt=StubPrompt("Answer.", concepts=["x"], concepts_error=error))

    result = await bench.ask()

    assert result.text == "Answer."
    assert codes(result) == ["concepts_failed"]
    assert bench.trace.concepts == (QUESTION,)


async def test_a_slow_concept_model_degrades() -> None:
    """A concept model that never replies costs its timeout."""
    bench = Bench(
        prompt=StubPrompt("Answer.", concepts=["x"], concepts_error=NEVER),
        concepts_timeout_s=SHORT,
    )

    result = await bench.ask()

    assert codes(result) == ["concepts_failed"]
    assert "not done within" in result.degraded[0].reason


# Searches that fail


async def test_a_search_that_fails_is_left_out() -> None:
    """One failing search of several degrades the answer; the others are used."""
    calls = iter(range(10))

    def matches(_vector: Any, _limit: int) -> list[str]:
        if next(calls) == 1:
            raise Unavailable("one search down")
        return IDS[:3]

    bench = Bench(search=StubSearch(matches))

    result = await bench.ask()

    assert bench.given == [TEXTS[i] for i in IDS[:3]]
    assert codes(result) == ["search_failed"]


async def test_a_missing_collection_fails_the_question() -> None:
    """When every search fails, the question fails with the first error."""
    bench = Bench(search=StubSearch(error=NotFound("no collection 'x'")))

    with pytest.raises(NotFound, match="no collection"):
        await bench.ask()


# Texts


async def test_single_reads_are_concurrent_and_bounded() -> None:
    """Texts read one by one are read concurrently, up to a limit."""
    bench = Bench(search=StubSearch(IDS[:40]), fetch_concurrency=8)

    await bench.ask(doc_limit=40)

    assert bench.texts.most_at_once == 8


async def test_a_batched_reader_gets_one_request() -> None:
    """With `fetch_chunks` all texts are read in one request, in the order of retrieval."""
    bench = Bench(search=StubSearch(IDS[:40]), batched=True)

    await bench.ask(doc_limit=40)

    assert bench.texts.calls == [tuple(IDS[:40])]
    assert bench.given == [TEXTS[i] for i in IDS[:40]]


async def test_a_batched_reader_can_have_other_ids() -> None:
    """A text belongs to the chunk that it was requested for, whatever id it has itself."""

    class Renamed(StubTexts):
        async def fetch_chunks(self, chunk_ids: Sequence[str]) -> dict[str, ChunkText]:
            found = await super().fetch_chunks(chunk_ids)
            return {key: msgspec.structs.replace(one, chunk_id="x") for key, one in found.items()}

    bench = Bench(search=StubSearch(IDS[:2]), texts=Renamed(TEXTS), batched=True)

    await bench.ask()

    assert bench.given == [TEXTS[IDS[0]], TEXTS[IDS[1]]]


async def test_missing_texts_are_dropped_with_their_reason() -> None:
    """Failed, missing and blank texts have different reasons; the other passages are used."""
    texts: dict[str, str | Exception] = {
        IDS[0]: RuntimeError("disk"),
        IDS[2]: "  \n",
        IDS[3]: TEXTS[IDS[3]],
    }
    bench = Bench(search=StubSearch(IDS[:4]), texts=StubTexts(texts))

    result = await bench.ask()

    assert bench.given == [TEXTS[IDS[3]]]
    assert bench.dropped() == {
        IDS[0]: "fetch_failed",
        IDS[1]: "text_missing",
        IDS[2]: "text_missing",
    }
    assert codes(result) == ["texts_missing"]


async def test_reading_has_a_timeout() -> None:
    """All reads together have one timeout."""
    bench = Bench(
        search=StubSearch(IDS[:2]),
        texts=StubTexts({IDS[0]: NEVER, IDS[1]: TEXTS[IDS[1]]}),
        texts_timeout_s=SHORT,
    )

    await bench.ask()

    assert bench.given == [TEXTS[IDS[1]]]
    assert bench.dropped() == {IDS[0]: "fetch_failed"}


async def test_a_batched_reader_that_fails_fails_the_question() -> None:
    """A store that is down is not the same as nothing found."""
    bench = Bench(texts=StubTexts({}, error=Unavailable("store down")), batched=True)

    with pytest.raises(Unavailable, match="store down"):
        await bench.ask()


@pytest.mark.parametrize(
    ("copy", "code"), [("the same", "duplicate"), ("The *same*", "near_duplicate")]
)
async def test_texts_that_say_the_same_can_be_merged(copy: str, code: str) -> None:
    """With the option they take one place, that of the better rank, which the trace and why-not name."""
    texts = {IDS[0]: "the same", IDS[1]: copy, IDS[2]: "other"}
    bench = Bench(texts=StubTexts(texts), drop_duplicates=True)

    result = await bench.ask()

    assert bench.given == ["the same", "other"]
    assert bench.dropped() == {IDS[1]: code}
    assert codes(result) == []
    outcome = why_not(bench.trace, IDS[1], visible=chunk_ids(bench.trace))
    assert (outcome.code, outcome.duplicate_of) == (code, IDS[0])
    hidden = why_not(bench.trace, IDS[1], visible=chunk_ids(bench.trace) - {IDS[0]})
    assert (hidden.code, hidden.duplicate_of) == ("not_retrieved", "")


async def test_a_budget_takes_whole_texts() -> None:
    """A text over the budget is skipped, later ones are tried; the best is always taken."""
    texts = {IDS[0]: "a" * 30, IDS[1]: "b" * 30, IDS[2]: "c" * 10}
    bench = Bench(texts=StubTexts(texts), max_context_chars=40)

    await bench.ask()

    assert bench.given == ["a" * 30, "c" * 10]
    assert bench.dropped() == {IDS[1]: "over_budget"}


async def test_the_best_text_is_taken_at_any_size() -> None:
    """A budget smaller than the best text still takes that text."""
    bench = Bench(texts=StubTexts(dict.fromkeys(IDS[:3], "x" * 50)), max_context_chars=10)

    await bench.ask()

    assert bench.given == ["x" * 50]


async def test_reading_one_by_one_has_one_timeout_for_all() -> None:
    """When the time for reading is over, no further text is requested."""
    bench = Bench(
        texts=StubTexts(dict.fromkeys(IDS[:3], NEVER)), texts_timeout_s=SHORT, fetch_concurrency=1
    )
    bench.rag._sources = Sources(monotonic=asyncio.get_running_loop().time)

    result = await bench.ask()

    assert len(bench.texts.calls) == 1
    assert result.text == NOTHING_READABLE


# Nothing to answer from


@pytest.mark.parametrize(
    ("found", "texts", "says", "code"),
    [
        ([], {}, NOTHING_FOUND, "nothing_retrieved"),
        (IDS[:2], {}, NOTHING_READABLE, "no_text_readable"),
    ],
    ids=["nothing found", "nothing readable"],
)
async def test_without_a_text_no_model_is_called(
    found: list[str], texts: dict[str, str], says: str, code: str
) -> None:
    """The answer states that nothing was found, and why; the trace still ends with a synthesis."""
    reranker = StubReranker()
    bench = Bench(search=StubSearch(found), texts=StubTexts(texts), reranker=reranker)

    result = await bench.ask()

    assert (result.text, result.found, result.citations) == (says, False, ())
    assert (bench.prompt.documents, reranker.calls) == ([], [])
    assert bench.stages == ["question", "grounding", "exploration", "synthesis"]
    assert bench.trace.found is False
    assert result.refusal is not None
    assert result.refusal.code == code
    assert bench.trace.refusal == result.refusal


async def test_nothing_found_reaches_a_streaming_reader() -> None:
    """The fixed text is streamed as one last piece."""
    pieces: list[tuple[str, bool]] = []
    bench = Bench(search=StubSearch([]))

    async def take(text: str, end: bool) -> None:
        pieces.append((text, end))

    await bench.ask(streaming=True, chunk_callback=take)

    assert pieces == [(NOTHING_FOUND, True)]


CHECKED = (
    ("Returns are free within 30 days [1].", [], True),
    ("Returns are free within 90 days [1].", ["sentence_unsupported"], False),
    ("Returns are free within 30 days.", [], True),
    ("Returns are free within 60 days.", ["sentence_without_marker"], False),
    ("Returns are free within 30 days [1] [8].", ["citation_invalid"], True),
    ("The documents do not answer this question.", [], False),
    ("Returns are free within 30 days [1]. Bicycles need bright lamps [1].", ["sentence_unsupported"], True),
)  # fmt: skip


@pytest.mark.parametrize(("said", "faults", "found"), CHECKED)
async def test_a_models_sentences_are_checked(said: str, faults: list[str], found: bool) -> None:
    """A sentence without a marker or without support is reported; an answer without any is none."""
    texts = StubTexts({IDS[0]: "Returns of all goods are free within 30 days of the purchase."})
    bench = Bench(prompt=StubPrompt(said), search=StubSearch(IDS[:1]), texts=texts)

    result = await bench.ask()

    assert codes(result) == faults
    assert (result.found, result.refusal is None) == (found, found)
    assert "[8]" not in result.text
    unsupported = [code for code in faults if code != "citation_invalid"]
    assert len(result.unsupported) == len(unsupported)


# Reranking


def results(*pairs: tuple[Any, Any]) -> list[RerankerResult]:
    return [RerankerResult(document_id, "0", score) for document_id, score in pairs]


@pytest.mark.parametrize(
    "reply",
    [
        results(("0", 0.2), ("7", 0.9), ("2", 0.8)),
        results(("-1", 0.9), ("2", 0.8), ("0", 0.2)),
        results(("2", 0.8), ("2", 0.1), ("0", 0.2)),
        results(("x", 0.8), ("2", 0.8), ("0", 0.2)),
        results(("1", float("nan")), ("2", 0.8), ("0", 0.2)),
        results(("1", float("inf")), ("2", 0.8), ("0", 0.2)),
        results(("01", 0.9), ("2", 0.8), ("0", 0.2)),
        results((None, 0.9), ("2", 0.8), ("0", 0.2)),
        results(("1", "high"), ("2", 0.8), ("0", 0.2)),
        [object(), *results(("2", 0.8), ("0", 0.2))],
    ],
    ids=[
        "unknown",
        "negative",
        "repeated",
        "text",
        "nan",
        "inf",
        "zeros",
        "none",
        "word",
        "object",
    ],
)
async def test_valid_entries_of_a_reranking_are_used(reply: Any) -> None:
    """Invalid entries are reported and left out; the others are sorted by score."""
    bench = Bench(reranker=StubReranker(reply))

    result = await bench.ask()

    assert bench.given == [TEXTS[IDS[2]], TEXTS[IDS[0]]]
    assert codes(result) == ["reranker_reply_invalid"]
    assert bench.dropped() == {IDS[1]: "not_scored"}


@pytest.mark.parametrize(
    ("reranker", "code"),
    [
        (StubReranker([]), "reranker_reply_invalid"),
        (StubReranker(results(("9", 0.5))), "reranker_reply_invalid"),
        (StubReranker(7), "reranker_reply_invalid"),
        (StubReranker(error=RuntimeError("boom")), "reranker_failed"),
        (StubReranker(error=TimeoutError()), "reranker_failed"),
        (StubReranker(error=NEVER), "reranker_failed"),
    ],
    ids=["empty", "unknown", "no list", "exception", "timeout inside", "never"],
)
async def test_a_failing_reranker_keeps_the_order_of_retrieval(
    reranker: StubReranker, code: str
) -> None:
    """The answer is cut to `doc_limit` and degraded, and there is no focus stage."""
    bench = Bench(reranker=reranker, rerank_timeout_s=SHORT)

    result = await bench.ask(doc_limit=2)

    assert bench.given == [TEXTS[IDS[0]], TEXTS[IDS[1]]]
    assert codes(result) == [code]
    assert result.degraded[0].stage == "rerank"
    assert result.degraded[0].reason.strip()
    assert bench.stages == ["question", "grounding", "exploration", "synthesis"]
    assert bench.dropped() == {IDS[2]: "over_limit"}


async def test_a_reply_that_is_too_long_is_cut() -> None:
    """A reranker's reply is cut to the limit, whatever the reranker returned."""
    bench = Bench(reranker=StubReranker(results(("0", 0.1), ("1", 0.2), ("2", 0.3))))

    await bench.ask(doc_limit=2)

    assert bench.given == [TEXTS[IDS[2]], TEXTS[IDS[1]]]
    assert bench.dropped() == {IDS[0]: "reranked_out"}


async def test_ties_of_the_reranker_keep_the_order_of_retrieval() -> None:
    """Equal scores are ordered by rank, not by the order of the reply."""
    bench = Bench(reranker=StubReranker(results(("2", 0.5), ("1", 0.5), ("0", 0.5))))

    await bench.ask(doc_limit=2)

    assert bench.given == [TEXTS[IDS[0]], TEXTS[IDS[1]]]


async def test_scores_beyond_the_limit_are_recorded() -> None:
    """The trace has all scores of a client that returns more than its limit."""
    bench = Bench(reranker=StubReranker(results(("1", 0.9), ("0", 0.5), ("2", 0.1))))

    await bench.ask(doc_limit=2)

    account = next(c for c in bench.trace.candidates if c.chunk_id == IDS[2])
    assert (account.rerank_rank, account.raw_score, account.final_score) == (3, 0.1, 0.1)
    assert account.reason_code == "reranked_out"


async def test_one_question_can_skip_reranking() -> None:
    """`rerank=False` behaves as if there were no reranker."""
    reranker = StubReranker()
    bench = Bench(reranker=reranker)

    await bench.ask(rerank=False, doc_limit=2)

    assert reranker.calls == []
    assert bench.search.calls[0][1] == 2


# Writing


async def test_a_failing_writer_fails_the_question() -> None:
    """The error names the step and the cause, and the trace ends with a failure node."""
    bench = Bench(prompt=StubPrompt("", concepts=["x"], error=RuntimeError("model on fire")))

    with pytest.raises(InternalError, match="writing the answer failed: RuntimeError: model on"):
        await bench.ask()

    failure = bench.trace.failure
    assert bench.stages[-1] == "error"
    assert (failure.stage, failure.code) == ("synthesis", "internal")
    assert "model on fire" in failure.message
    assert bench.events[-1][1] == answer_uris("answer-1").error


@pytest.mark.parametrize(
    ("broken", "stage", "last"),
    [
        ({"embeddings": StubEmbeddings(error=Unavailable("x"))}, "exploration", "grounding"),
        ({"search": StubSearch(error=Unavailable("x"))}, "exploration", "grounding"),
        ({"prompt": StubPrompt("", error=Unavailable("x"))}, "synthesis", "exploration"),
    ],
    ids=["embedding", "search", "writer"],
)
async def test_a_failure_derives_from_the_last_stage(
    broken: dict[str, Any], stage: str, last: str
) -> None:
    """The failure node names its stage and derives from the last completed one."""
    bench = Bench(**broken)

    with pytest.raises(Unavailable):
        await bench.ask()

    node = bench.trace.stage("error")
    assert bench.trace.failure.stage == stage
    assert node.derived_from == getattr(answer_uris("answer-1"), last)


@pytest.mark.parametrize(
    "broken",
    [
        {"embeddings": StubEmbeddings(error=TimeoutError())},
        {"search": StubSearch(error=TimeoutError())},
        {"prompt": StubPrompt("", error=TimeoutError())},
        {"prompt": StubPrompt("", error=NEVER), "answer_timeout_s": SHORT},
        {"search": StubSearch(error=NEVER), "search_timeout_s": SHORT},
    ],
)
async def test_a_timeout_has_a_message(broken: dict[str, Any]) -> None:
    """An error never has an empty message."""
    bench = Bench(**broken)

    with pytest.raises(WhenceError) as caught:
        await bench.ask()

    assert caught.value.message.strip()
    assert "time" in caught.value.message or "not done within" in caught.value.message


async def test_an_answer_without_text_is_reported() -> None:
    """An empty answer of the writer is an error."""
    bench = Bench(prompt=StubPrompt("", concepts=["x"]))

    result = await bench.ask()

    assert codes(result) == ["empty_answer"]


async def test_a_writer_without_language_model_is_reported() -> None:
    """An answer of quotes is marked as degraded."""

    class Extractive(StubPrompt):
        async def document_prompt(self, query: str, documents: Any, **_: Any) -> PromptResult:
            self.documents.append(list(documents))
            return PromptResult(text="A [1].", model="extractive", language_model=False)

    bench = Bench(prompt=Extractive())

    result = await bench.ask()

    assert codes(result) == ["no_language_model"]
    assert result.model == "extractive"


async def test_pieces_arrive_in_order_and_end_once() -> None:
    """The pieces add up to the text, and the stream ends once."""
    pieces: list[tuple[str, bool]] = []
    bench = Bench(prompt=StubPrompt("Yes [1].", concepts=["x"], pieces=["Yes", " [1]."]))

    async def take(text: str, end: bool) -> None:
        pieces.append((text, end))

    result = await bench.ask(streaming=True, chunk_callback=take)

    assert "".join(text for text, _ in pieces) == result.text
    assert [end for _, end in pieces][-2:] == [False, True]


async def test_a_stream_without_an_end_is_completed() -> None:
    """A stream that the writer does not end is ended; the text is that of the pieces."""
    pieces: list[tuple[str, bool]] = []

    class Forgetful(StubPrompt):
        async def document_prompt(
            self, query: str, documents: Any, streaming: bool = False, chunk_callback: Any = None
        ) -> PromptResult:
            await chunk_callback("Yes", False)
            await chunk_callback(".", False)
            return PromptResult(text="")

    async def take(text: str, end: bool) -> None:
        pieces.append((text, end))

    bench = Bench(prompt=Forgetful(concepts=["x"]))
    result = await bench.ask(streaming=True, chunk_callback=take)

    assert result.text == "Yes."
    assert "".join(text for text, _ in pieces) == "Yes."
    assert [end for _, end in pieces] == [True]


async def test_markers_become_citations() -> None:
    """A citation has the document of its marker, with source and verbatim quote."""
    quote = Quote(1, f"Text of {IDS[0]}.")
    bench = Bench(
        prompt=StubPrompt("So [2]. And so [1, 2].", concepts=["x"], quotes=[quote]), batched=True
    )

    result = await bench.ask()

    assert [(c.marker, c.chunk_id, c.quote) for c in result.citations] == [
        (1, IDS[0], quote.text),
        (2, IDS[1], ""),
    ]
    first = result.citations[0]
    assert first.document_id == f"document of {IDS[0]}"
    assert (first.source_file, first.heading) == (f"{IDS[0]}.md", "Heading")
    assert [c.chunk_id for c in bench.trace.citations] == [IDS[0], IDS[1]]


async def test_markers_follow_the_reranker() -> None:
    """`[1]` is the first document that the writer got, not the first that was retrieved."""
    bench = Bench(
        prompt=StubPrompt("So [1].", concepts=["x"]),
        reranker=StubReranker(results(("2", 0.9), ("0", 0.1))),
    )

    result = await bench.ask()

    assert [c.chunk_id for c in result.citations] == [IDS[2]]


@pytest.mark.parametrize("text", ["So [4].", "So [0]."])
async def test_an_unknown_marker_is_reported(text: str) -> None:
    """An unknown marker is no citation, and the answer is degraded."""
    bench = Bench(prompt=StubPrompt(text, concepts=["x"]))

    result = await bench.ask()

    assert result.citations == ()
    assert codes(result) == ["citation_invalid"]


async def test_a_quote_that_is_not_in_its_document_is_reported() -> None:
    """Only text that occurs verbatim in the document becomes a quote."""
    bench = Bench(prompt=StubPrompt("So [1].", concepts=["x"], quotes=[Quote(1, "made up")]))

    result = await bench.ask()

    assert [(c.marker, c.quote) for c in result.citations] == [(1, "")]
    assert codes(result) == ["citation_invalid"]


# Time


async def test_the_whole_question_has_a_deadline() -> None:
    """The stages share the time of the question."""
    bench = Bench(prompt=StubPrompt("", concepts=["x"], error=NEVER))
    bench.rag._sources = Sources(monotonic=asyncio.get_running_loop().time)

    with pytest.raises(DeadlineExceeded, match="writing the answer"):
        await bench.ask(deadline_s=0.3)

    assert bench.trace.failure.code == "deadline_exceeded"


async def test_the_shorter_of_two_deadlines_applies() -> None:
    """The options cannot extend the caller's deadline, nor the caller that of the options."""
    bench = Bench(prompt=StubPrompt("", concepts=["x"], error=NEVER), deadline_s=0.3)
    bench.rag._sources = Sources(monotonic=asyncio.get_running_loop().time)

    async with asyncio.timeout(30):
        with pytest.raises(DeadlineExceeded):
            await bench.ask(deadline_s=60.0)


async def test_optional_stages_leave_time_for_the_answer() -> None:
    """Concepts and reranking that never end leave time for an answer."""
    bench = Bench(
        prompt=StubPrompt("Answer.", concepts=["x"], concepts_error=NEVER),
        reranker=StubReranker(error=NEVER),
    )
    bench.rag._sources = Sources(monotonic=asyncio.get_running_loop().time)

    result = await bench.ask(deadline_s=1.0)

    assert result.text == "Answer."
    assert codes(result) == ["concepts_failed", "reranker_failed"]


async def test_no_stage_begins_after_the_deadline() -> None:
    """After the deadline no service is called."""
    moments = iter([0.0, 0.0, *([9.0] * 100)])
    bench = Bench()
    bench.rag._sources = Sources(monotonic=lambda: next(moments))

    with pytest.raises(DeadlineExceeded):
        await bench.ask(deadline_s=1.0)

    assert (bench.search.calls, bench.prompt.documents) == ([], [])


# Explaining


async def test_a_callback_that_fails_does_not_fail_the_question() -> None:
    """The answer is returned and reports the failed callback."""
    heard: list[str] = []
    bench = Bench()

    async def callback(_triples: Any, explain_id: str) -> None:
        heard.append(explain_id)
        if len(heard) == 2:
            raise ConnectionError("listener gone")

    result = await bench.rag.query(QUESTION, explain_callback=callback)

    assert result.text == "Answer [1]."
    assert len(heard) == 4
    assert codes(result) == ["explain_failed"]


async def test_a_slow_callback_is_waited_for_once() -> None:
    """One call is limited by its timeout; afterwards the callback is not called again."""
    heard: list[str] = []
    bench = Bench(explain_timeout_s=SHORT)

    async def callback(_triples: Any, explain_id: str) -> None:
        heard.append(explain_id)
        await asyncio.Event().wait()

    result = await bench.rag.query(QUESTION, explain_callback=callback)

    assert len(heard) == 1
    assert codes(result) == ["explain_timeout"]


async def test_triples_are_built_for_a_listener_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a listener no event is built; the stages are still reported."""

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise RuntimeError("built")

    monkeypatch.setattr("whence.answering.pipeline.question_triples", fail)
    bench = Bench()

    result = await bench.rag.query(QUESTION)

    assert codes(result) == []
    assert [s.stage for s in result.stages] == [
        "question",
        "grounding",
        "exploration",
        "synthesis",
    ]
    assert codes(await bench.ask()) == ["stage_not_told"]


async def test_stages_report_counts() -> None:
    """Each stage reports its candidates before and after."""
    bench = Bench(reranker=StubReranker())

    result = await bench.ask(doc_limit=2)

    assert [(s.stage, s.candidates_in, s.candidates_out) for s in result.stages] == [
        ("question", 0, 0),
        ("grounding", 1, 2),
        ("exploration", 3, 3),
        ("focus", 3, 2),
        ("synthesis", 2, 2),
    ]


async def test_the_trace_has_scores_ranks_concepts_models_and_limits() -> None:
    """Our own vocabulary records, typed, what the shared one cannot."""
    model = EmbeddingModel(name="minilm", revision="r1", precision="w8", dimension=4)

    class WithModel(StubEmbeddings):
        async def embed(self, texts: Sequence[str]) -> Any:
            return [Vector(b"", model) for _ in await super().embed(texts)]

    bench = Bench(
        embeddings=WithModel(),
        search=StubSearch([candidate(IDS[0], 0.75), candidate(IDS[1], 0.5)]),
        reranker=StubReranker(results(("1", 0.9))),
    )
    await bench.ask(doc_limit=1)

    first, second = bench.trace.candidates
    assert (first.rank, first.score, first.dense_score, first.reason_code) == (
        1,
        0.75,
        0.75,
        "reranked_out",
    )
    assert set(first.concepts) == {QUESTION, "returns", "refunds"}
    assert (second.rank, second.rerank_rank, second.raw_score) == (2, 1, 0.9)
    assert second.digest
    exploration = bench.trace.stage("exploration").run
    assert [(m.name, m.revision, m.precision, m.dimension) for m in exploration.models] == [
        ("minilm", "r1", "w8", 4)
    ]
    settings = bench.trace.stage("question").run.settings
    assert (settings["doc_limit"], settings["fetch_limit"], settings["collection"]) == (
        1,
        3,
        "default",
    )


async def test_the_trace_can_use_the_shared_vocabulary_only() -> None:
    """Without details the trace has no term of our own namespace."""
    bench = Bench(full_account=False, reranker=StubReranker())

    await bench.ask()

    triples = [t for *_, triples in bench.events for t in triples]
    assert not [t for t in triples if t.p.iri.startswith("urn:whence:ns#")]
    assert bench.stages == ["question", "grounding", "exploration", "focus", "synthesis"]


async def test_equal_questions_have_equal_triples() -> None:
    """With fixed ids and clocks two runs are equal."""
    first, second = Bench(reranker=StubReranker()), Bench(reranker=StubReranker())

    await first.ask()
    await second.ask()

    assert first.events == second.events


async def test_the_question_was_asked_when_its_activity_started() -> None:
    """Live events state one time on the question and on its activity; the software has its version."""
    bench = Bench()

    await bench.ask()

    times = {t.o.value for t in bench.events[0][2] if t.p.iri == ns.PROV_STARTED_AT_TIME}
    assert times == {"2025-01-02T00:00:00Z"}
    assert bench.trace.asked_at == bench.trace.stages[0].run.started_at == "2025-01-02T00:00:00Z"
    versions = [t.o.value for t in bench.trace.triples if t.p.iri == ns.WH_VERSION]
    assert versions == [VERSION]


async def test_the_model_that_named_concepts_is_an_agent() -> None:
    """A language model that named the concepts is one of the stage's models."""
    bench = Bench()

    await bench.ask()

    grounding = bench.trace.stages[1]
    assert [(one.role, one.name) for one in grounding.run.models] == [("writer", grounding.model)]
    assert grounding.model


async def test_a_given_answer_id_is_kept() -> None:
    """All IRIs contain the caller's id."""
    bench = Bench()

    result = await bench.ask(answer_id="mine")

    assert result.answer_id == "mine"
    assert bench.events[0][1] == answer_uris("mine").question


async def test_the_answer_is_passed_to_the_save_callback() -> None:
    """The callback gets the IRI and the text, and the synthesis refers to it."""
    saved: list[tuple[str, str]] = []
    bench = Bench()

    async def save(uri: str, text: str) -> None:
        saved.append((uri, text))

    await bench.ask(save_answer_callback=save)

    assert saved == [(answer_uris("answer-1").answer, "Answer [1].")]
    assert bench.trace.answer_document == saved[0][0]


async def test_a_failing_save_callback_degrades() -> None:
    """The answer is degraded; the text that the trace refers to stands in the trace itself."""
    bench = Bench()

    async def save(_uri: str, _text: str) -> None:
        raise OSError("no space")

    result = await bench.ask(save_answer_callback=save)

    assert codes(result) == ["answer_not_saved"]
    assert bench.trace.answer_text == "Answer [1]."


async def test_a_plain_trace_refers_to_a_saved_answer_only() -> None:
    """Without our statements the trace has no text; it refers to one that was saved, and to no other."""
    documents = []
    for fails in (False, True):
        bench = Bench(full_account=False)

        async def save(_uri: str, _text: str, fails: bool = fails) -> None:
            if fails:
                raise OSError("no space")

        await bench.ask(save_answer_callback=save)
        documents.append((bench.trace.answer_document, bench.trace.answer_text))

    assert documents == [(answer_uris("answer-1").answer, ""), ("", "")]


async def test_chunk_ids_that_are_no_iris_survive_the_trace() -> None:
    """The trace can express any valid chunk id."""
    odd = 'a b"<>\u00e9#1'
    bench = Bench(search=StubSearch([odd]), texts=StubTexts({odd: "text"}))

    await bench.ask()

    assert bench.trace.explored == (odd,)


# Questions that cannot be asked


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("", "blank"),
        (" \n\t", "blank"),
        ("a\0b", "NUL"),
        ("a\ud800b", "UTF-8"),
        pytest.param("x" * 201_000, "201000 bytes", id="long"),
        (7, "int"),
    ],
)
async def test_an_invalid_question_is_refused_first(question: Any, says: str) -> None:
    """An invalid question calls no client and records no stage."""
    bench = Bench()

    with pytest.raises(BadInput, match=says):
        await bench.ask(question)

    assert (bench.events, bench.embeddings.calls, bench.prompt.prompts) == ([], [], [])


async def test_a_long_question_is_answered() -> None:
    """A question of a thousand words is valid."""
    bench = Bench()

    assert (await bench.ask("holiday " * 1_000)).found


@pytest.mark.parametrize(
    "options", [{"doc_limit": 0}, {"doc_limit": -1}, {"fetch_limit": -1}, {"answer_id": "a b"}]
)
async def test_limits_and_ids_out_of_range_are_refused(options: dict[str, Any]) -> None:
    """A limit below its minimum, or an id that fits no IRI, is bad input."""
    bench = Bench()

    with pytest.raises(BadInput):
        await bench.ask(**options)

    assert bench.events == []


async def test_cancelling_a_question_cancels_its_calls() -> None:
    """No call continues after its question was cancelled."""
    started: list[str] = []
    left: list[str] = []
    all_started = asyncio.Event()

    class Slow(StubSearch):
        async def query(self, *, vector: Any, limit: int, collection: str) -> list[Any]:
            started.append("search")
            if len(started) == 3:
                all_started.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.append("search")
            return []

    task = asyncio.create_task(Bench(search=Slow()).ask())
    await all_started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert left == started == ["search"] * 3


async def test_logs_contain_no_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Words of questions and documents are not logged, also on errors."""
    caplog.set_level("DEBUG")

    async def callback(_triples: Any, _explain_id: str) -> None:
        raise ConnectionError("listener gone")

    bench = Bench(reranker=StubReranker(error=RuntimeError("boom")))
    await bench.rag.query(QUESTION, explain_callback=callback)

    said = " ".join(str(record.__dict__) for record in caplog.records)
    assert "explain callback failed" in said
    assert QUESTION not in said
    assert TEXTS[IDS[0]] not in said
