"""A search of several collections, and a question about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from whence.operations.answers import ShowAnswer
from whence.operations.citation_source import ShowSource
from whence.operations.collection_renaming import RenameCollection
from whence.operations.documents import Show
from whence.operations.history import ListCitingAnswers
from whence.operations.json_documents import answer_document
from whence.operations.many_collections import collection_names
from whence.operations.owner import Erase
from whence.operations.search import Search
from whence.operations.stale import ListStale
from whence.provenance.checking import check_trace
from whence.schema.access import Access
from whence.schema.errors import BadInput, NotFound
from whence.store.memory.store import MemoryStore
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import EchoWriter, HashEmbedder


@pytest.mark.parametrize("text", ["a,", ",a", "a,,b", " ", ",".join(f"c{n}" for n in range(33))])
def test_names_are_separated_by_commas(text: str) -> None:
    """Each once, in the order given; an empty one is a mistake."""
    assert collection_names("b, a,b") == ["b", "a"]
    with pytest.raises(BadInput, match="collections"):
        collection_names(text)


async def test_each_collection_is_searched_with_the_rights_of_the_reader(tmp_path: Path) -> None:
    """Scores and texts of each are those of a search of it alone; a wrong name fails the search."""
    texts = {
        "north": {
            "a.md": "Otters swim in the river.",
            "b.md": "---\nacl: [x]\nkind: rest\n---\nOtters sleep.",
        },
        "south": {"a.md": "Herons and otters share the river."},
    }
    async with Engine(store=MemoryStore(), embedder=HashEmbedder(), writer=EchoWriter()) as engine:
        for name, files in texts.items():
            (tmp_path / name).mkdir()
            for file, text in files.items():
                (tmp_path / name / file).write_text(text)
            await engine.index([tmp_path / name], collection=name)
        alone = {
            (name, one.document_id): one.similarity_score
            for name in texts
            for one in await engine.search("otters river", collection=name)
        }
        both = await engine.run(Search("otters river", collection="north,south"))
        mine = Access(frozenset(["x"]))
        more = await engine.run(Search("otters", collection="south,north", access=mine))
        with pytest.raises(NotFound, match="west"):
            await engine.search("otters", collection="north,west")
        with pytest.raises(BadInput, match="takes one collection"):
            await engine.run(Show("a.md", collection="north,south"))

        year = await engine.search(
            "otters", collection="north,south", filters={"kind": "rest"}, access=mine
        )
    assert [one.document_id for one in year] == ["b.md"]
    found = {(one.collection, one.document_id): one.similarity_score for one in both.results}
    assert found == alone
    assert {one.chunk.id.split(":")[2] for one in both.results} == {"north", "south"}
    assert ("north", "b.md") in {(one.collection, one.document_id) for one in more.results}
    assert both.calibrations.keys() <= {"north", "south"}


async def test_words_of_one_of_the_collections_are_not_corrected(tmp_path: Path) -> None:
    """A word is corrected when all lack it; where only some do, these are searched as it is written."""
    async with Engine(store=MemoryStore(), embedder=HashEmbedder(), writer=None) as engine:
        for name, text in {
            "north": "The xylotherum sleeps in the harbour.",
            "south": "The xylotherium swims in the harbour.",
        }.items():
            (tmp_path / f"{name}.md").write_text(text)
            await engine.index([tmp_path / f"{name}.md"], collection=name)
        alone = await engine.run(Search("xylotherum harbour", collection="south"))
        assert alone.question_used == "xylotherium harbour"
        for order in ("north,south", "south,north"):
            known = await engine.run(Search("xylotherum harbour", collection=order))
            assert (known.question_used, known.corrections) == ("xylotherum harbour", ())
            assert {one.collection for one in known.results} == {"north", "south"}
            wrong = await engine.run(Search("harbuor", collection=order))
            assert wrong.question_used == "harbour"
            assert {one.collection for one in wrong.results} == {"north", "south"}


async def test_equal_passages_of_several_collections_take_one_place(tmp_path: Path) -> None:
    """The hit names the other one, and no more hits than wanted are left, ranked through."""
    text = " ".join(f"word{n}" for n in range(30))
    async with Engine(store=MemoryStore(), embedder=HashEmbedder(), writer=None) as engine:
        for name in ("north", "south"):
            (tmp_path / name).mkdir()
            for file, more in {"same.md": "", "own.md": f"{name} alone"}.items():
                (tmp_path / name / file).write_text(more or text)
            await engine.index([tmp_path / name], collection=name)
        found = await engine.run(Search("word1 word2", collection="north,south", mode="bm25"))
    (hit,) = found.results
    assert (hit.rank, hit.collection) == (1, "north")
    assert [one.chunk_id.split(":")[2] for one in hit.duplicates] == ["south"]


NORTH = {
    "river.md": "Otters swim in the river Elbe every morning.",
    "secret.md": "---\nacl: [x]\n---\nThe otters of the vault are called Borealis.",
}
SOUTH = {"river.md": "Herons nest on the chimney of the old bakery."}


@asynccontextmanager
async def two_collections(folder: Path) -> AsyncIterator[Engine]:
    """Yield an engine with a document of one name in `north` and `south`, and a hidden one in `north`."""
    async with Engine(store=MemoryStore(), embedder=HashEmbedder(), writer=None) as engine:
        for name, files in {"north": NORTH, "south": SOUTH}.items():
            (folder / name).mkdir()
            for file, text in files.items():
                (folder / name / file).write_text(text)
            await engine.index([folder / name], collection=name)
        yield engine


async def test_a_question_is_answered_from_the_collection_that_knows_it(tmp_path: Path) -> None:
    """The citation names its collection, also where another one has a document of the same id."""
    async with two_collections(tmp_path) as engine:
        for question, name in (
            ("Where do otters swim?", "north"),
            ("Where do herons nest?", "south"),
        ):
            for order in ("north,south", "south, north"):
                answer = await engine.ask(question, collection=order)
                cited = {(one.collection, one.document_id) for one in answer.citations}
                assert cited == {(name, "river.md")}
                document = answer_document(answer)
                assert document["citations"][0]["collection"] == name
        alone = await engine.ask("Where do otters swim?", collection="north")
        assert "collection" not in answer_document(alone)["citations"][0]


async def test_what_is_hidden_in_one_of_the_collections_stays_hidden(tmp_path: Path) -> None:
    """A reader without rights gets what is left; neither trace, why-not nor the change log shows more."""
    both, mine = "north,south", Access(frozenset(["x"]))
    async with two_collections(tmp_path) as engine:
        public = await engine.ask("What are the otters of the vault called?", collection=both)
        assert "Borealis" not in str(public)
        secret = await engine.ask(
            "What are the otters of the vault called?", collection=both, access=mine
        )
        assert {one.document_id for one in secret.citations} == {"secret.md"}
        with pytest.raises(NotFound):
            await engine.explain(secret.answer_id)
        hidden = await engine.why_not("secret.md", public.answer_id)
        assert hidden.code == "unknown"
        with pytest.raises(NotFound, match="west"):
            await engine.ask("Where do otters swim?", collection="north,west")
        with pytest.raises(BadInput, match="collections"):
            await engine.ask("Where do otters swim?", collection="north,")
        with pytest.raises(BadInput, match="one collection"):
            await engine.ask("Where do otters swim?", collection=both, as_of="2026-01-01")


async def test_all_that_reads_an_answer_reads_it_of_several_collections(tmp_path: Path) -> None:
    """Trace, source, why-not, replay, the follow-up, the list of stale documents and of citing answers."""
    async with two_collections(tmp_path) as engine:
        answer = await engine.ask("Where do herons nest?", collection="north,south")
        trace = await engine.explain(answer.answer_id)
        assert [one.collection for one in trace.citations] == ["south"]
        assert not check_trace(trace)
        source = await engine.run(ShowSource(answer.answer_id, 0))
        assert "chimney" in source.text
        (other,) = [one.chunk_id for one in trace.candidates if ":north:" in one.chunk_id]
        assert (await engine.why_not(other, answer.answer_id)).document_id == "river.md"
        assert (await engine.replay(answer.answer_id)).identical
        shown = await engine.run(ShowAnswer(answer.answer_id))
        assert shown.citations[0].indexed_at
        follow = await engine.ask("And otters?", collection="north,south", follow=answer.answer_id)
        assert "otters" in follow.question_used
        assert "north" in {one.collection for one in follow.citations}
        for name, count in (("north", 0), ("south", 1)):
            stale = await engine.run(ListStale(collection=name))
            assert sum(one.answers for one in stale) >= count
            citing = await engine.run(ListCitingAnswers("river.md", collection=name))
            assert (answer.answer_id in {one.answer_id for one in citing}) == bool(count)


async def test_erasing_and_renaming_reach_answers_of_several_collections(tmp_path: Path) -> None:
    """The words of an erased document go; those of a document of the same id elsewhere stay."""
    async with two_collections(tmp_path) as engine:
        herons = await engine.ask("Where do herons nest?", collection="north,south")
        otters = await engine.ask("Where do otters swim?", collection="north,south")
        await engine.run(RenameCollection("north", "upper"))
        shown = await engine.run(ShowAnswer(otters.answer_id))
        assert [one.collection for one in shown.citations] == ["upper"]
        assert not (await engine.replay(otters.answer_id)).answer_changed
        await engine.run(Erase(["river.md"], collection="south"))
        assert "chimney" not in str(await engine.run(ShowAnswer(herons.answer_id)))
        assert "Elbe" in str(await engine.run(ShowAnswer(otters.answer_id)))
