"""A search of several collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whence.operations.ask import Ask
from whence.operations.many_collections import collection_names, merge_reports
from whence.operations.search import Search
from whence.retrieval.results import RetrievalResult, RetrievedChunk, SearchReport
from whence.schema.access import Access
from whence.schema.errors import BadInput, NotFound
from whence.schema.search import Degradation
from whence.store.memory.store import MemoryStore
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import EchoWriter, HashEmbedder


def report(*scores: float, **fields: Any) -> SearchReport:
    """Return a report of hits with these scores; documents are called by their place."""
    hits = [
        RetrievalResult(
            rank=rank,
            similarity_score=score,
            document_id=f"d{rank}",
            chunk=RetrievedChunk(content="x", metadata={}),
        )
        for rank, score in enumerate(scores, 1)
    ]
    return SearchReport(results=hits, **fields)


def test_hits_are_merged_by_score_then_by_the_order_of_names() -> None:
    """Ranks are those of the whole, and no more hits than wanted are left."""
    merged = merge_reports(["b", "a"], [report(0.75, 0.5), report(0.75, 0.625, 0.25)], 4)

    found = [(one.rank, one.collection, one.document_id) for one in merged.results]
    assert found == [(1, "b", "d1"), (2, "a", "d1"), (3, "a", "d2"), (4, "b", "d2")]


def test_what_was_left_out_names_its_collection() -> None:
    """The best score is that of all, also where no hit reaches the threshold."""
    fault = Degradation(stage="embedding", reason="no encoder")
    merged = merge_reports(
        ["a", "b"], [report(best_score=0.25), report(best_score=0.5, degraded=(fault,))], 5
    )

    assert merged.best_score == 0.5
    assert [one.reason for one in merged.degraded] == ["no encoder (collection b)"]


@pytest.mark.parametrize("text", ["a,", ",a", "a,,b", " ", ",".join(f"c{n}" for n in range(33))])
def test_names_are_separated_by_commas(text: str) -> None:
    """Each once, in the order given; an empty one is a mistake."""
    assert collection_names("b, a,b") == ["b", "a"]
    with pytest.raises(BadInput, match="collections"):
        collection_names(text)


async def test_each_collection_is_searched_with_the_rights_of_the_reader(tmp_path: Path) -> None:
    """Scores and texts of each are those of a search of it alone; a wrong name fails the search."""
    texts = {
        "north": {"a.md": "Otters swim in the river.", "b.md": "---\nacl: [x]\n---\nOtters sleep."},
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
            await engine.run(Ask("Where do otters swim?", collection="north,south"))

    found = {(one.collection, one.document_id): one.similarity_score for one in both.results}
    assert found == alone
    assert {one.chunk.id.split(":")[2] for one in both.results} == {"north", "south"}
    assert ("north", "b.md") in {(one.collection, one.document_id) for one in more.results}
    assert both.calibrations.keys() <= {"north", "south"}
