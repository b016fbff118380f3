"""`DocumentRag` in place of TrustGraph's class of this name: what its callers pass, what its clients get."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from whence.processors.document_rag import (
    RRF_K,
    DocumentRag,
    Query,
    RagOptions,
    rrf_fuse,
)
from whence.provenance.trace import Trace, read_trace
from whence.schema import ChunkMatch, PromptResult, Triple
from whence.schema.errors import BadInput, Unavailable, WhenceError
from whence.testing.stub_clients import StubEmbeddings, StubPrompt, StubSearch, StubTexts

QUESTION = "How long may I return items?"
TEXTS = {f"urn:{name}": f"Text {name}." for name in "abcdef"}
A, B, C, D, E, F = TEXTS


@dataclass
class StubKeywords:
    """Returns the chunk ids it was made with, with a score that falls from 9."""

    found: list[str] = field(default_factory=list)
    error: Exception | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def query(self, **arguments: Any) -> list[ChunkMatch]:
        """Return the matches."""
        self.calls.append(arguments)
        if self.error is not None:
            raise self.error
        return [ChunkMatch(chunk_id, 9.0 - place) for place, chunk_id in enumerate(self.found)]


class Bench:
    """A RAG as its callers make it, over stubs."""

    def __init__(
        self,
        found: list[str] | None = None,
        keywords: StubKeywords | None = None,
        concepts: tuple[str, ...] = ("returns", "refunds"),
        prompt: Any = None,
        **arguments: Any,
    ) -> None:
        self.prompt = prompt or StubPrompt("Thirty days.", concepts=concepts)
        self.embeddings = StubEmbeddings()
        self.search = StubSearch([A, B] if found is None else found)
        self.keywords = keywords
        self.rag = DocumentRag(
            prompt_client=self.prompt,
            embeddings_client=self.embeddings,
            doc_embeddings_client=self.search,
            fetch_chunk=StubTexts(TEXTS).fetch_chunk,
            kw_index_client=keywords,
            **arguments,
        )

    @property
    def given(self) -> list[str]:
        """Names of the documents that the writer got."""
        return [text.removeprefix("Text ").removesuffix(".") for text in self.prompt.documents[-1]]


async def traced(rag: DocumentRag, **arguments: Any) -> Trace:
    """Ask, and return what the events say."""
    triples: list[Triple] = []

    async def keep(some: tuple[Triple, ...], explain_id: str) -> None:
        triples.extend(some)

    await rag.query(QUESTION, explain_callback=keep, **arguments)
    return read_trace(triples)


# What a caller gets


async def test_an_answer_unpacks_as_text_and_usage() -> None:
    """The result unpacks as the text and the usage, and is an answer with its sources as well."""
    answer = await Bench().rag.query(QUESTION)
    text, usage = answer

    assert text == answer.text == "Thirty days."
    assert usage == {"in_token": 7, "out_token": 3, "model": "stub-writer"}


async def test_usage_sums_the_calls_of_the_writer() -> None:
    """Usage adds the tokens of naming concepts to those of the answer; what is unknown counts as nothing."""

    class Counting(StubPrompt):
        async def prompt(self, template_id: str, variables: Any = None) -> PromptResult:
            return PromptResult(text="returns", in_token=11)

    _, usage = await Bench(prompt=Counting("Yes.")).rag.query(QUESTION)

    assert usage == {"in_token": 18, "out_token": 3, "model": "stub-writer"}


async def test_usage_is_none_when_no_model_was_called() -> None:
    """Nothing found means no call of the writer; a statement of that is the text."""
    bench = Bench([], prompt=StubPrompt("Made up."))
    text, usage = await bench.rag.query(QUESTION)

    assert bench.prompt.documents == []
    assert text.startswith("Nothing was found")
    assert usage == {"in_token": None, "out_token": None, "model": None}


# What the clients get


async def test_the_collection_reaches_the_searches_and_the_trace() -> None:
    """Both searches get `collection` by name, and the trace records it; `workspace` is accepted."""
    keywords = StubKeywords([C])
    bench = Bench(keywords=keywords, retrieval_mode="hybrid")

    trace = await traced(bench.rag, workspace="acme", collection="policies")

    assert set(bench.search.collections) == {"policies"}
    assert [call["collection"] for call in keywords.calls] == ["policies"]
    assert trace.stage("question").run.settings["collection"] == "policies"


async def test_positions_of_arguments_are_those_of_the_replaced_class() -> None:
    """`query(question, workspace, collection, doc_limit)` by position."""
    bench = Bench([A, B, C])
    await bench.rag.query(QUESTION, "acme", "policies", 4)

    assert bench.search.calls[0][1] == 2
    assert bench.search.collections == ["policies", "policies"]
    assert bench.given == ["a", "b"]


async def test_concepts_alone_are_embedded_in_one_call() -> None:
    """Without options the concepts share the pool and the question is not searched beside them."""
    bench = Bench()
    await bench.rag.query(QUESTION, doc_limit=9)

    assert bench.embeddings.calls == [["returns", "refunds"]]
    assert [limit for _, limit in bench.search.calls] == [4, 4]


async def test_options_have_the_question_searched_too() -> None:
    """`RagOptions()` has the question searched beside its concepts, to the whole depth."""
    bench = Bench(options=RagOptions())
    await bench.rag.query(QUESTION, doc_limit=9)

    assert bench.embeddings.calls == [[QUESTION], ["returns", "refunds"]]
    assert [limit for _, limit in bench.search.calls] == [9, 4, 4]


async def test_without_concepts_the_question_is_searched() -> None:
    """A reply without concepts leaves the question as the only one."""
    bench = Bench(concepts=())
    await bench.rag.query(QUESTION)

    assert bench.embeddings.calls == [[QUESTION]]


async def test_a_failing_embedder_fails_the_question() -> None:
    """Without vectors there is nothing to search with: the error is the embedder's."""
    bench = Bench()
    bench.embeddings.error = Unavailable("no embedder")

    with pytest.raises(Unavailable, match="no embedder"):
        await bench.rag.query(QUESTION)


# Words, and both


async def test_keyword_mode_needs_words_alone() -> None:
    """The question's words are searched once, to the whole depth; no concepts, no vectors."""
    keywords = StubKeywords([D, C])
    bench = Bench(keywords=keywords, retrieval_mode="keyword")

    await bench.rag.query(QUESTION, doc_limit=7)

    assert keywords.calls == [{"query": QUESTION, "limit": 7, "collection": "default"}]
    assert (bench.prompt.prompts, bench.embeddings.calls, bench.search.calls) == ([], [], [])
    assert bench.given == ["d", "c"]


async def test_vector_mode_leaves_the_keyword_client_alone() -> None:
    """A keyword client alone does not change the mode."""
    keywords = StubKeywords([C])
    bench = Bench(keywords=keywords)
    await bench.rag.query(QUESTION)

    assert keywords.calls == []
    assert bench.given == ["a", "b"]


async def test_hybrid_joins_both_rankings_by_reciprocal_ranks() -> None:
    """A chunk of both rankings leads; the scores are 61 times the mean of 1 / (60 + rank)."""
    bench = Bench([A, B], StubKeywords([B, C]), retrieval_mode="hybrid")

    trace = await traced(bench.rag)

    assert bench.given == ["b", "a", "c"]
    scores = {one.chunk_id: one.score for one in trace.candidates}
    assert scores == pytest.approx({B: 61 * (1 / 61 + 1 / 62) / 2, A: 61 / 61 / 2, C: 61 / 62 / 2})
    by_id = {one.chunk_id: one for one in trace.candidates}
    assert by_id[B].sparse_score == 9.0
    assert set(by_id[B].concepts) == {"returns", "refunds", QUESTION}


@pytest.mark.parametrize(("weights", "order"), [((1.0, 3.0), "cdab"), ((3.0, 1.0), "abcd")])
async def test_weights_bias_hybrid(weights: tuple[float, float], order: str) -> None:
    """The ranking with the larger weight leads."""
    bench = Bench(
        [A, B],
        StubKeywords([C, D]),
        retrieval_mode="hybrid",
        vector_weight=weights[0],
        keyword_weight=weights[1],
    )
    await bench.rag.query(QUESTION)

    assert "".join(bench.given) == order


async def test_hybrid_is_cut_to_the_limit() -> None:
    """Both searches together return no more than the limit."""
    bench = Bench([A, B, C], StubKeywords([D, E, F]), retrieval_mode="hybrid")
    await bench.rag.query(QUESTION, doc_limit=4)

    assert bench.given == ["a", "d", "b", "e"]


async def test_a_failing_keyword_index_degrades_hybrid() -> None:
    """The vectors' ranking remains, and the answer says what was left out."""
    keywords = StubKeywords(error=RuntimeError("index down"))
    bench = Bench([A, B], keywords, retrieval_mode="hybrid")
    answer = await bench.rag.query(QUESTION)

    assert bench.given == ["a", "b"]
    (degraded,) = answer.degraded
    assert degraded.code == "search_failed"
    assert "index down" in degraded.reason


async def test_failing_vectors_degrade_hybrid() -> None:
    """Without an embedder the words' ranking remains."""
    bench = Bench([A, B], StubKeywords([C]), retrieval_mode="hybrid")
    bench.embeddings.error = Unavailable("no embedder")
    answer = await bench.rag.query(QUESTION)

    assert bench.given == ["c"]
    assert [one.code for one in answer.degraded] == ["concepts_not_embedded"]


async def test_a_failing_keyword_index_fails_keyword_mode() -> None:
    """In keyword mode nothing remains without the index."""
    bench = Bench(keywords=StubKeywords(error=Unavailable("down")), retrieval_mode="keyword")

    with pytest.raises(WhenceError, match="down"):
        await bench.rag.query(QUESTION)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retrieval_mode": "keyword"}, "needs a kw_index_client"),
        ({"retrieval_mode": "hybrid"}, "needs a kw_index_client"),
        ({"retrieval_mode": "vectors"}, "must be one of vector, keyword, hybrid"),
        ({"vector_weight": -1.0}, "must be 0 or more"),
        ({"keyword_weight": float("nan")}, "must be 0 or more"),
        ({"vector_weight": 0.0, "keyword_weight": 0.0}, "not both 0"),
    ],
)
def test_arguments_are_checked_at_construction(arguments: dict[str, Any], message: str) -> None:
    """An invalid argument is refused when the object is made, not by the first question."""
    with pytest.raises(ValueError, match=message):
        Bench(**arguments)


def test_fusing_ranks_adds_up_over_rankings() -> None:
    """Two middle places beat one first place; weights scale a ranking; the limit cuts."""
    a, b, x, y = (ChunkMatch(name) for name in "abxy")

    assert rrf_fuse([[a, b], [x, y, b]], [1.0, 1.0], 9) == [b, a, x, y]
    assert rrf_fuse([[a], [b]], [1.0, 2.0], 1) == [b]
    assert rrf_fuse([[ChunkMatch(""), a]], [1.0], 9) == [a]
    assert 1 / (RRF_K + 2) + 1 / (RRF_K + 3) > 1 / (RRF_K + 1)


# The searches in parts


def parts(found: list[Any], **arguments: Any) -> tuple[Any, Query]:
    """Return a stand-in for a RAG that has clients and nothing else, and the searches of a question over it."""
    rag = MagicMock()
    rag.prompt_client = StubPrompt(concepts=["one", "- two"])
    rag.embeddings_client = StubEmbeddings()
    rag.doc_embeddings_client = StubSearch(found)
    rag.fetch_chunk = StubTexts(TEXTS).fetch_chunk
    return rag, Query(rag, workspace="w", collection="c", verbose=False, **arguments)


async def test_parts_name_embed_and_read() -> None:
    """The parts use the clients of the RAG; chunks that several concepts find come once."""
    rag, query = parts([A, B], fetch_limit=9)

    concepts = await query.extract_concepts(QUESTION)
    vectors = await query.get_vectors(concepts)
    texts, chunk_ids = await query.get_docs(concepts)

    assert concepts == ["one", "two"]
    assert vectors == [rag.embeddings_client.vector(one) for one in concepts]
    assert (texts, chunk_ids) == ([TEXTS[A], TEXTS[B]], [A, B])
    assert [limit for _, limit in rag.doc_embeddings_client.calls] == [4, 4]
    assert set(rag.doc_embeddings_client.collections) == {"c"}


async def test_parts_without_concepts_or_hits() -> None:
    """Without concepts the question is the only one; without hits both lists are empty."""
    rag, query = parts([])
    used: list[PromptResult] = []
    query.track_usage = used.append
    rag.prompt_client = StubPrompt(concepts=[" "])

    assert await query.extract_concepts(QUESTION) == [QUESTION]
    assert len(used) == 1
    assert await query.get_docs([QUESTION]) == ([], [])


@pytest.mark.parametrize(("mode", "expected"), [("keyword", [C, B]), ("hybrid", [B, A, C])])
async def test_parts_follow_the_mode(mode: str, expected: list[str]) -> None:
    """In `keyword` mode words are searched, in `hybrid` both."""
    rag, query = parts([A, B])
    rag.retrieval_mode, rag.kw_index_client = mode, StubKeywords([C, B])
    rag.vector_weight = rag.keyword_weight = 1.0

    _, chunk_ids = await query.get_docs(["one"], QUESTION)

    assert chunk_ids == expected
    assert rag.kw_index_client.calls[0]["query"] == QUESTION


# Logs


async def test_verbose_logs_each_step_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    """A verbose RAG logs its steps, the question and the documents, all below the level `info`."""
    caplog.set_level(logging.DEBUG)
    await Bench(verbose=True).rag.query(QUESTION)

    steps = [
        "DocumentRag initialized",
        "Constructing prompt",
        "Computing embeddings",
        "Getting chunks",
        "Got 2 chunks",
        "Invoking LLM",
        "Query processing complete",
    ]
    positions = [caplog.text.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert QUESTION in caplog.text
    records = [one for one in caplog.records if one.name.startswith("whence.")]
    assert {one.levelno for one in records} == {logging.DEBUG}


async def test_a_rag_is_silent_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Without `verbose` nothing is logged of a question that succeeds."""
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    await bench.rag.query(QUESTION)

    assert bench.rag.verbose is False
    assert [one for one in caplog.records if one.name.startswith("whence.")] == []


async def test_an_invalid_limit_is_refused() -> None:
    """A limit below 1 is an error and no empty answer."""
    with pytest.raises(BadInput, match="doc_limit"):
        await Bench().rag.query(QUESTION, doc_limit=0)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The program on the page about replacing the class runs, and finds a document with each search."""
    page = Path(__file__).parents[2] / "docs/how-to/replace-documentrag.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)

    exec(compile(program, str(page), "exec"), {})

    assert capsys.readouterr().out.startswith("From 2 documents. my-model ['question', ")
