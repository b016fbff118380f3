"""What an erasure leaves on disk: nothing on the embedded server, a hint on any other."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from whence import Engine
from whence.flow.settings import Settings
from whence.operations.collection_removal import RemoveCollection
from whence.processors.recorder import RecorderProcessor
from whence.provenance.checking import check_trace
from whence.schema.codec import decode_as, encode
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import NotFound, Unavailable
from whence.store.postgres import physical_erasure
from whence.store.postgres.dense import vector_index
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.protocols import ErasedMeanwhile
from whence.testing.stub_context import StubContext
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

SECRET = "The xylotherium of Mr Quernstone weighs 47110815 grams on every Thursday."


@pytest.fixture
def home(tmp_path: Path, new_home: Callable[[Path], Path]) -> Path:
    return new_home(tmp_path / "home")


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Engine]:
    """Open an engine with a few documents, one of them secret."""
    folder = home.parent / "docs"
    folder.mkdir(exist_ok=True)
    (folder / "secret.md").write_text(f"# Cellar\n\n{SECRET}\n")
    for number in range(4):
        (folder / f"{number}.md").write_text(f"# Part {number}\n\nRooms have number {number}.\n")
    async with Engine(home=home, embedder=HashEmbedder(), reranker="none") as engine:
        await engine.index([folder])
        yield engine


def holders(home: Path, *words: str) -> list[str]:
    """Return the files of a home that hold one of some words."""
    pattern = re.compile("|".join(words).encode())
    files = (path for path in home.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if pattern.search(path.read_bytes()))


WORDS = ("xylotherium", "Xylotherium", "Quernstone", "quernstone", "47110815")


async def test_no_file_holds_a_word_of_an_erased_document(home: Path) -> None:
    """Before and after an erasure are told apart by a search that does not share our code, server running."""
    async with opened(home) as engine:
        answer = await engine.ask("How many grams weighs the beast on every Thursday?")
        assert "47110815" in answer.text
        async with asyncio.timeout(60), EmbeddedServer(home) as server:
            connection = await asyncpg.connect(server.url())
            await connection.execute("CHECKPOINT")
            await connection.close()
        assert len(holders(home, *WORDS)) > 5
        done = await engine.erase("secret.md")

        assert holders(home, *WORDS) == []
        assert (done.physical.done, done.physical.found) == (True, 0)
        assert done.physical.files_searched > 50
        assert done.physical.strings >= 4
        assert [(one.answer_id, one.falls) for one in done.answers] == [(answer.answer_id, True)]
        assert (await engine.search("Rooms have number 3"))[0].document_id == "3.md"
        with pytest.raises(NotFound):
            await engine.erase("secret.md")


async def test_a_question_is_asked_again(home: Path) -> None:
    """Its answer fell with the document: the new one names it, and both are recorded."""
    async with opened(home) as engine:
        question = "How many grams weighs the beast on every Thursday?"
        former = await engine.ask(question)
        other = await engine.ask("Which rooms have number 3?")
        (done,) = await engine.owner.erase(["secret.md"], reask=True)
        (asked,) = [one for one in done.asked_again if one.answer_id != other.id]
        old, new = [await engine.explain(one) for one in (former.id, asked.new_answer_id)]

        assert (asked.answer_id, asked.question, asked.error) == (former.id, question, "")
        assert new.revision_of == former.id
        assert old.revision_of == ""
        assert new.question == old.question == question
        assert not any("47110815" in triple.o.value for triple in new.triples)
        assert check_trace(new) == []
        assert (await engine.owner.verify()).ok


async def test_pipeline_traces_that_name_a_document_are_deleted(home: Path) -> None:
    """They quote it; those of other documents, and other files of the folder, stay."""
    folder = home.parent / "traces"
    settings = Settings({"home": str(home), "trace_dir": str(folder)})
    document = home.parent / "secret.md"
    document.write_text(SECRET)
    other = home.parent / "other.md"
    other.write_text("Rooms have numbers.")
    async with Engine(settings=settings, embedder=HashEmbedder(), reranker="none") as engine:
        await engine.index([document])
        await engine.ask("How many grams weighs the beast on every Thursday?")
        (folder / "own.txt").write_text(SECRET)
        assert len(list(folder.glob("*.json"))) == 1
        await engine.index([other], collection="rooms")
        await engine.search("rooms", collection="rooms")
        done = await engine.erase("secret.md")

    assert done.trace_files == 1
    assert len(list(folder.glob("*.json"))) == 1
    assert holders(folder, *WORDS) == [str(folder / "own.txt")]


async def test_an_answer_that_is_recorded_meanwhile(home: Path) -> None:
    """Its writer had read the document before it was erased: it is recorded without words of it."""
    async with opened(home) as engine:
        answer = await engine.ask("How many grams weighs the beast on every Thursday?")
        store = await engine._session.store()
        await engine.explain(answer.id)
        stored = await store.trace(answer.id)
        assert stored is not None
        wire = encode(stored.record).replace(answer.id.encode(), b"late")
        late = decode_as(wire, TraceRecord)
        expunge = store.expunge

        recorder = RecorderProcessor(store=store)

        async def expunge_and_record(*args: Any, **options: Any) -> Any:
            done = await expunge(*args, **options)
            await recorder.handle(late, StubContext())
            return done

        store.expunge = expunge_and_record  # type: ignore[method-assign]
        done = await engine.erase("secret.md")
        told = await store.trace("late")

        assert done.after.traces_with_text == 0
        assert (await engine.owner.verify("late")).ok
        with pytest.raises(ErasedMeanwhile):
            await store.record_trace(late)
        assert told is not None
        assert told.record.answer is not None
        assert told.record.answer.text == "[erased]"
        assert holders(home, *WORDS) == []


async def test_a_corrected_word_is_erased_with_its_document(home: Path) -> None:
    """A question was corrected to a word that only the erased document has: no stored answer tells it."""
    async with opened(home) as engine:
        answer = await engine.ask("Is the xylotherum in room number 3?")
        assert [one.target for one in answer.corrections] == ["xylotherium"]
        await engine.erase("secret.md")
        trace = await engine.explain(answer.id)
        again = await engine.owner.verify(answer.id)

        assert trace.question_used == "Is the [erased] in room number 3?"
        assert not any("xylotherium" in triple.o.value for triple in trace.triples)
        assert again.ok


async def test_words_that_another_document_has_are_not_counted(home: Path) -> None:
    """A copy of a passage stays: its words are in files, and not those of the erased document alone."""
    async with opened(home) as engine:
        (copy := home.parent / "copy.md").write_text(f"# Copy\n\n{SECRET}\n")
        await engine.index([copy])
        physical = (await engine.erase("secret.md")).physical

        assert (physical.done, physical.found) == (True, 0)
        assert holders(home, "Quernstone")


async def test_what_stands_elsewhere_by_itself_is_no_trace_of_a_document(home: Path) -> None:
    """Names of settings, short texts, and words of the names of files stay, and nothing else does."""
    texts = {
        "setting.txt": "shared_buffers",
        "host.txt": "localhost",
        "short.txt": "data",
        "Ledger of boats.md": "# Ledger of boats\n\nEight boats.",
        "boats/one.md": "# Eight boats\n\nThe Mirabelford is a boat.",
    }
    async with opened(home) as engine:
        folder = home.parent / "Eight boats"
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        await engine.index([folder], collection="boats")
        await engine.ask("Which is in the Ledger of boats?", collection="boats")
        done = await engine.run(RemoveCollection("boats"))

        assert (done.physical.files, done.physical.hint) == ((), "")
        assert done.physical.done
        assert done.physical.strings
        assert not holders(home, "Mirabelford")


async def test_an_older_reader_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that still sees the rows ends the wait with an error; the next call finishes."""
    monkeypatch.setattr(physical_erasure, "_PATIENCE_S", 0.3)
    async with opened(home) as engine, EmbeddedServer(home) as server:
        reader = await asyncpg.connect(server.url())
        async with reader.transaction(isolation="repeatable_read"):
            assert await reader.fetchval("SELECT count(*) FROM whence.chunk") == 5
            with pytest.raises(Unavailable, match=r"reads or writes since .* are erased, but"):
                await engine.erase("secret.md")
            assert holders(home, *WORDS)
        again = await engine.erase("secret.md")

        assert again.before.documents == 0
        assert again.physical.done
        assert holders(home, *WORDS) == []
        await reader.close()


async def test_a_used_table_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer delays the rewriting; readers go on meanwhile, and the erasure ends when the writer does."""
    async with opened(home) as engine, EmbeddedServer(home) as server:
        monkeypatch.setattr(physical_erasure, "_LOCK_TIMEOUT_MS", 50)
        writer = await asyncpg.connect(server.url())
        transaction = writer.transaction()
        await engine.search("warm")
        await transaction.start()
        await writer.execute("LOCK TABLE whence.term IN ROW EXCLUSIVE MODE")
        erasing = asyncio.create_task(engine.erase("secret.md"))
        for _ in range(20):
            assert await engine.search("Rooms have number")
            await asyncio.sleep(0.05)
        assert not erasing.done()
        await transaction.rollback()

        assert (await erasing).physical.done
        await writer.close()


async def test_vector_indexes_are_built_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a large collection is dropped for the rewriting and there again afterwards."""
    monkeypatch.setattr(vector_index, "_MIN_CHUNKS", 4)
    async with opened(home) as engine, EmbeddedServer(home) as server:
        store = await engine._session.store()
        await store.maintenance.wait()
        reader = await asyncpg.connect(server.url())
        (before,) = await reader.fetch(_GRAPHS)
        physical = (await engine.erase("secret.md")).physical
        (after,) = await reader.fetch(_GRAPHS)
        await reader.close()

        assert physical.done
        assert before["relname"] == after["relname"]
        assert before["relfilenode"] != after["relfilenode"]
        assert after["indisvalid"]
        assert len(await engine.search("Rooms have number", top_k=9)) == 4


_GRAPHS = """
SELECT c.relname, c.relfilenode, i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relname ^@ 'chunk_vec_near_'
"""


async def test_files_of_a_killed_server_are_removed(home: Path) -> None:
    """A file that no table has and that is older than the server is no transaction's: it goes, tables stay."""
    async with opened(home), EmbeddedServer(home) as server:
        connection = await asyncpg.connect(server.url())
        table = await connection.fetchval("SELECT pg_relation_filepath('whence.term')")
        await connection.close()
    left = (home / "postgres" / table).with_name("999999.1")
    young = left.with_name("999998_fsm")
    for path in (left, young):
        path.write_text(SECRET)
    os.utime(left, (1e9, 1e9))
    async with opened(home) as engine:
        os.utime(young)
        physical = (await engine.erase("secret.md")).physical

        assert not left.exists()
        assert young.exists()
        assert [Path(name).name for name in physical.files] == [young.name]
        assert not physical.done
        assert len(await engine.search("Rooms have number", top_k=9)) == 4


async def test_a_foreign_server_gets_a_hint(
    database_url: str, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Nothing is rewritten there; the statements of the hint remove the words from the tables."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    async with Engine(
        home=tmp_path, database_url=database_url, embedder=HashEmbedder(), reranker="none"
    ) as engine:
        await engine.index([folder])
        physical = (await engine.erase("secret.md")).physical
    statements = re.findall(r"-c (?:'([^']+)'|(\w+))", physical.hint)
    connection = await asyncpg.connect(database_url)
    name = urlsplit(database_url).path[1:]
    number = await connection.fetchval("SELECT oid FROM pg_database WHERE datname = $1", name)
    tables = postgres_server.home / "postgres" / "base" / str(number)

    assert (physical.done, physical.files_searched) == (False, 0)
    await connection.execute("CHECKPOINT")
    assert holders(tables, *WORDS)
    for quoted, bare in statements:
        await connection.execute(quoted or bare)
    assert holders(tables, *WORDS) == []
    await connection.close()
