"""Why-not of passages that were not retrieved: the numbers are those of a search without a limit."""

from __future__ import annotations

import json
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.small_bundles import write_small

from whence import Access, Engine
from whence.models.protocols import WritePiece, WriteRequest
from whence.operations.json_documents import why_not_document
from whence.operations.search import Search
from whence.provenance.outcome import WhyNot
from whence.schema.code_rag import CodeRagRequest
from whence.schema.prompt import PromptResult
from whence.surfaces.python.loop_thread import LoopThread
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

QUESTION = "Which valve and pump does the green boiler have?"
#: The same with two words that no passage has, and what is searched for.
MISSPELT = "Which vavle and pump does the green boilre have?"
#: Two searches of a question that a language model divides.
CONCEPTS = ("valve pump", "boiler manual")
_WORDS = (
    "valve pump green boiler manual filter hose tank meter lever plate screw bolt panel cable fuse"
)
WORDS = _WORDS.split()
COUNT = 160
PUBLIC = Access.public()


class ConceptWriter:
    """Stands for a language model that names two concepts."""

    model = "stub-concepts"
    is_language_model = True

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield concepts, or an answer that cites the first passage."""
        concepts = request.template_id == "extract-concepts"
        text = "\n".join(CONCEPTS) if concepts else "See the passage [1]."
        yield WritePiece(result=PromptResult(text=text, model=self.model))

    async def aclose(self) -> None:
        """Free nothing."""


def write_records(path: Path, *, hidden: bool) -> Path:
    """Write passages of random words, every fourth one for the board only."""
    chance = random.Random(7)
    with path.open("w") as out:
        for number in range(COUNT):
            words = [chance.choice(WORDS) for _ in range(chance.randint(4, 30))]
            record: dict[str, Any] = {
                "_id": f"part-{number:03}",
                "text": f"{number} {' '.join(words)}",
            }
            record["metadata"] = {"kind": "guide" if number % 2 else "note"}
            if number % 4 == 0:
                record["acl"] = ["board"]
            if hidden or "acl" not in record:
                out.write(json.dumps(record) + "\n")
    return path


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Path]
) -> Iterator[LoopThread[Engine]]:
    """One engine with passages of two rights, and a collection that has only the public ones."""
    folder = tmp_path_factory.mktemp("why-not")
    home = new_home(folder / "home")
    models = {"embedder": HashEmbedder(), "reranker": "none"}
    thread: LoopThread[Engine] = LoopThread(lambda: Engine(home=home, **models), "why-not")
    for name, hidden in (("all", True), ("pub", False)):
        path = write_records(folder / f"{name}.jsonl", hidden=hidden)
        thread.run(lambda engine, p=path, n=name: engine.index([p], collection=n))
    yield thread
    thread.close()


async def ask(engine: Engine, question: str = QUESTION, **options: Any) -> str:
    """Ask the question and return the id of the answer."""
    given = {"collection": "all", "doc_limit": 5, **options}
    return (await engine.ask(question, **given)).answer_id


async def retrieved(engine: Engine, answer_id: str, access: Access = PUBLIC) -> set[str]:
    """Return the chunks that a question kept of its search."""
    trace = await engine.explain(answer_id, access)
    cut = ("over_limit", "over_fetch_limit", "below_threshold")
    return {one.chunk_id for one in trace.candidates if one.reason_code not in cut}


@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
@pytest.mark.parametrize("access", [PUBLIC, Access(frozenset({"board"}))])
@pytest.mark.parametrize("question", [QUESTION, MISSPELT])
def test_the_numbers_are_those_of_an_unlimited_search(
    running: LoopThread[Engine], mode: str, access: Access, question: str
) -> None:
    """Rank and scores of every sixth visible passage equal those of a search for all."""

    async def check(engine: Engine) -> tuple[list[str], int]:
        answer_id = await ask(engine, question, mode=mode, access=access)
        query = Search(
            query=question, top_k=1000, mode=mode, access=access, collection="all", distinct=False
        )
        found = (await engine.run(query)).results
        kept = await retrieved(engine, answer_id, access)
        wrong = []
        for hit in found[::6]:
            told = await engine.why_not(hit.chunk.id, answer_id, access)
            scores = hit.score_breakdown
            expected = (
                hit.rank,
                hit.similarity_score,
                scores["dense_score"],
                scores["sparse_score"],
            )
            names = ("rank", "score", "dense_score", "sparse_score")
            numbers = tuple(told.numbers.get(name) for name in names)
            if (told.code == "not_retrieved") == (hit.chunk.id in kept) or numbers != expected:
                wrong.append(f"{hit.chunk.id}: {numbers} instead of {expected}")
            cut = told.numbers
            if told.code == "not_retrieved" and not (
                cut["cut_rank"] == 5 and cut["gap"] == cut["cut_score"] - cut["score"] >= 0
            ):
                wrong.append(f"{hit.chunk.id}: cut {cut}")
        return wrong, len(found)

    wrong, count = running.run(check)

    assert wrong == []
    assert count > (60 if mode == "bm25" else 115)


@pytest.mark.parametrize(
    ("place", "question"),
    [*((place, QUESTION) for place in (6, 60, 101, 110, 119)), (60, MISSPELT), (110, MISSPELT)],
)
def test_the_limit_that_is_told_retrieves_the_passage(
    running: LoopThread[Engine], place: int, question: str
) -> None:
    """With that limit the passage is retrieved, with one less it is not."""

    async def check(engine: Engine) -> list[bool]:
        answer_id = await ask(engine, question)
        found = await engine.search(question, top_k=1000, collection="all")
        chunk_id = found[place].chunk.id
        told = await engine.why_not(chunk_id, answer_id)
        limit = told.numbers["enters_at_fetch_limit"]
        assert limit == told.numbers["enters_at_doc_limit"]
        answers = [await ask(engine, question, doc_limit=one) for one in (limit, limit - 1)]
        return [chunk_id in await retrieved(engine, one) for one in answers]

    assert running.run(check) == [True, False]


@pytest.mark.parametrize("access", [PUBLIC, Access(frozenset({"board"}))])
def test_a_corrected_query_is_compared_in_both_readings(
    running: LoopThread[Engine], access: Access
) -> None:
    """Its vector is two parts as written and one as corrected; its words are the corrected ones.

    A query without corrections has the scores of one whose words are kept, to the bit.
    """

    async def check(engine: Engine) -> list[Any]:
        async def found(query: str, mode: str = "hybrid", **options: Any) -> dict[str, Any]:
            asked = Search(
                query=query, top_k=1000, mode=mode, access=access, collection="all", **options
            )
            report = await engine.run(asked)
            assert bool(report.corrections) == (query == MISSPELT and not options)
            return {hit.chunk.id: hit.score_breakdown for hit in report.results}

        plain = [await found(QUESTION), await found(QUESTION, exact=True)]
        sides = [await found(MISSPELT, "dense", exact=True), await found(QUESTION, "dense")]
        vectors = await HashEmbedder().embed([MISSPELT, QUESTION])
        length = math.hypot(*(2 * vectors[0] + vectors[1]))
        both, kept = await found(MISSPELT), await found(MISSPELT, exact=True)
        return [plain, sides, both, kept, length]

    (plain, exact), (written, right), both, kept, length = running.run(check)

    assert repr(plain) == repr(exact)
    assert kept.keys() == both.keys() == written.keys() == right.keys()
    for key, scores in both.items():
        sides = [one[key]["dense_score"] for one in (written, right)]
        mean = (2 * sides[0] + sides[1]) / length
        assert scores["dense_score"] == pytest.approx(mean, abs=1e-6)
        assert scores["sparse_score"] == plain[key]["sparse_score"]
    assert any(both[key]["dense_score"] != plain[key]["dense_score"] for key in both)
    assert any(both[key] != kept[key] for key in both)


def test_a_filter_that_excludes_a_passage_is_named(running: LoopThread[Engine]) -> None:
    """With its rank without filters, and no limit that would retrieve it."""

    async def check(engine: Engine) -> WhyNot:
        answer_id = await ask(engine, filters={"kind": "guide"})
        return await engine.why_not("part-002", answer_id)

    told = running.run(check)

    assert (told.code, told.excluded_by) == ("filtered_out", ("kind=guide",))
    assert told.numbers["rank"] > 0
    assert told.reason.startswith("The filter kind=guide excludes it.")


def test_words_of_the_question_that_a_passage_lacks(running: LoopThread[Engine]) -> None:
    """They are the content words that are not in its text."""

    async def check(engine: Engine) -> list[tuple[WhyNot, str]]:
        answer_id = await ask(engine)
        ids = [f"part-{number:03}" for number in (1, 2, 3, 5, 6, 7)]
        texts = [(await engine.show(one, collection="all")).text for one in ids]
        told = [await engine.why_not(one, answer_id) for one in ids]
        return list(zip(told, texts, strict=True))

    for told, text in running.run(check):
        words = set(text.split())
        asked = ("valve", "pump", "green", "boiler")
        if told.code != "cited":
            assert told.missing_words == tuple(one for one in asked if one not in words)


def test_a_hidden_passage_is_as_unknown_as_a_missing_one(running: LoopThread[Engine]) -> None:
    """The document for an id equals that of a collection which never had the hidden passages."""

    async def check(engine: Engine) -> list[list[Any]]:
        documents: list[list[Any]] = []
        for collection in ("all", "pub"):
            answer_id = await ask(engine, collection=collection)
            chunk = f"urn:chunk:{collection}:part-004:0"
            told = [
                await engine.why_not(one, answer_id)
                for one in ("part-004", "part-0041", "part-99", "party-004", chunk, "nothing")
            ]
            documents.append([why_not_document(one) for one in told])
        return documents

    hidden, missing = running.run(check)

    assert json.dumps(hidden).replace(":all:", ":pub:") == json.dumps(missing)
    assert all(one["code"] == "unknown" for one in hidden)
    assert hidden[-1]["nearest"] == ()
    # The similar ids are visible ones, of chunks for the id of a chunk.
    assert len(hidden[0]["nearest"]) == len(hidden[4]["nearest"]) == 3
    assert all(int(one[-3:]) % 4 for one in hidden[0]["nearest"])
    assert all(one.startswith("urn:chunk:all:part-") for one in hidden[4]["nearest"])


def test_a_passage_that_came_later_is_told_as_such(
    running: LoopThread[Engine], tmp_path: Path
) -> None:
    """It has the rank that it has now, and the outcome says that the documents changed."""

    async def check(engine: Engine) -> WhyNot:
        for name in ("first", "second"):
            (tmp_path / f"{name}.md").write_text(
                f"# Boiler\n\nThe green boiler has a {name} valve.\n"
            )
        await engine.index([tmp_path / "first.md"], collection="later")
        answer_id = await ask(engine, collection="later")
        await engine.index([tmp_path / "second.md"], collection="later")
        return await engine.why_not("second.md", answer_id)

    told = running.run(check)

    assert told.numbers["retrieved_today"]
    assert told.reason.startswith("It ranks ")
    assert "would be retrieved now" in told.reason


def test_the_nearest_of_several_queries_is_named(
    tmp_path: Path, new_home: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a question with concepts: the query that ranks a passage best, and a limit that retrieves it."""

    async def check(engine: Engine) -> None:
        await engine.index([write_records(tmp_path / "all.jsonl", hidden=True)], collection="all")
        answer_id = await ask(engine)
        trace = await engine.explain(answer_id)
        cut = next(one.chunk_id for one in trace.candidates if one.reason_code == "over_limit")
        for item in (cut, "part-001", "part-077", "part-150", "part-155"):
            told = await engine.why_not(item, answer_id)
            if told.code not in ("not_retrieved", "over_limit"):
                continue
            if told.code == "not_retrieved":
                ranks = {}
                for query in (QUESTION, *CONCEPTS):
                    found = await engine.search(query, top_k=1000, collection="all", exact=True)
                    ranks[query] = [one.chunk.id for one in found].index(told.chunk_id) + 1
                assert ranks[told.nearest_query] == min(ranks.values())
                assert told.numbers["query_rank"] == min(ranks.values())
            limit = told.numbers["enters_at_doc_limit"]
            for one, kept in ((limit, True), (limit - 1, False)):
                again = await ask(engine, doc_limit=one)
                assert (told.chunk_id in await retrieved(engine, again)) is kept

    home, models = new_home(tmp_path / "home"), {"embedder": HashEmbedder(), "reranker": "none"}
    monkeypatch.setenv("WHENCE_CONCEPTS", "on")
    thread = LoopThread(lambda: Engine(home=home, writer=ConceptWriter(), **models), "concepts")
    try:
        thread.run(check)
    finally:
        thread.close()


def test_the_limit_of_a_walk_that_left_out_a_node_is_named(
    running: LoopThread[Engine], tmp_path: Path
) -> None:
    """Steps, relations, direction or number of nodes; with the value that would have reached the node."""
    nodes = {"C0001": "boiler valve pump", **{f"C{n:04}": f"lever {n}" for n in range(2, 8)}}
    nodes["SQL:dbo.Parts"] = "plate"
    edges = [("C0001", "C0002", "dep"), ("C0002", "C0003", "dep"), ("C0003", "C0004", "dep")]
    edges += [("C0005", "C0001", "dep"), ("C0001", "SQL:dbo.Parts", "Executes")]
    bundle = write_small(tmp_path / "small.zip", nodes, edges)

    async def check(engine: Engine) -> dict[str, WhyNot]:
        await engine.code.import_bundles([bundle])
        request = CodeRagRequest(
            access=PUBLIC,
            question="boiler valve pump",
            snapshot="a1",
            seed_limit=1,
            relations=("dep",),
            max_depth=2,
        )
        near, small = [
            await engine._session.send(one, 60.0)
            for one in (request, replace(request, doc_limit=2))
        ]
        told = {}
        for name, answer in (
            ("C0004", near),
            ("C0003", small),
            ("C0005", near),
            ("SQL:dbo.Parts", near),
            ("C0007", near),
        ):
            trace = await engine.explain(answer.answer_id)
            prefix = trace.candidates[0].document_id.removesuffix("cs::C0001")
            kind = "sql" if name.startswith("SQL") else "cs"
            told[name] = await engine.why_not(f"{prefix}{kind}::{name}", answer.answer_id)
        return told

    told = running.run(check)

    assert {name: one.code for name, one in told.items()} == {
        "C0004": "beyond_depth",
        "C0003": "over_node_limit",
        "C0005": "against_direction",
        "SQL:dbo.Parts": "relation_not_followed",
        "C0007": "over_limit",
    }
    assert told["C0004"].numbers["enters_at_depth"] == 3
    assert told["C0003"].numbers["enters_at_max_nodes"] == 3
    assert told["SQL:dbo.Parts"].relations == ("Executes",)
    assert told["C0007"].numbers["enters_at_seed_limit"] == told["C0007"].numbers["rank"] > 1
