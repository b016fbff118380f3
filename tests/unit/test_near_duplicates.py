"""Passages that say the same take one place; those that state another figure do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.operations.search import Search
from whence.retrieval.duplicates import NearDuplicates, without_duplicates
from whence.retrieval.pipeline import search
from whence.retrieval.services import (
    Embedded,
    PlannedQuery,
    RetrievalServices,
)
from whence.schema.passages import Passage
from whence.schema.search import Candidate, SearchResponse
from whence.schema.texts import ChunkText

SECTION = """Uid and gid classes
The UID and GID numbers are divided into classes as follows. The range from 100 to 999 holds dynamically
allocated system users and groups. Packages that need a user account should create it in the script that runs
after installation, and the user should have no password and a home folder that does not exist."""
MARKED = SECTION.replace("UID and GID", "**UID** and `GID`").replace("\n", "\n    ")


def original(*texts: str) -> int | None:
    """Return what the last text duplicates."""
    near = NearDuplicates()
    return [near.original(text) for text in texts][-1]


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (SECTION, True),
        (MARKED.upper(), True),
        (SECTION.replace("should have", "must have"), True),
        (SECTION[:200], True),
        (f"9.2.2. {SECTION}", True),
        (SECTION.replace("999", "59999"), False),
        (
            SECTION + " A package must never remove such a user, because files may belong to it.",
            False,
        ),
        (
            "The home folder of a user is removed by the administrator alone, never by a package.",
            False,
        ),
        ("", False),
    ],
    ids=["copy", "marks", "word", "part", "section", "figure", "more", "other", "empty"],
)
def test_a_passage_with_the_same_words_and_figures_is_a_near_duplicate(
    later: str, same: bool
) -> None:
    """Layout, marks, case and single words do not make a passage its own; figures and further sentences do."""
    assert (original(SECTION, later) == 0) is same


@pytest.mark.parametrize(
    ("shared", "figure", "same"),
    [(17, "", True), (16, "", False), (18, " 7", True), (17, " 7", False)],
)
def test_how_much_the_earlier_passage_must_have(shared: int, figure: str, *, same: bool) -> None:
    """Seventeen of twenty runs of three words, or eighteen where the later one has a figure of its own."""
    words = [f"{one}{other}" for one in "abcdef" for other in "ghij"]
    first, others = words[: shared + 2], [f"x{one}" for one in words[: 20 - shared]]
    if figure:
        others[-1] = "7"
    assert original(" ".join(words[:22]), " ".join([*first, *others])) == (0 if same else None)


def test_the_passage_with_most_words_in_common_is_the_original() -> None:
    """Of several earlier passages the one with most words in common is named, ties by rank."""
    longer = (
        SECTION + " Such a user is never removed, because files on the disk may still belong to it."
    )
    assert original(SECTION, longer, longer) == 1
    assert original(longer, SECTION) == 0
    # Two others that are each its own have all of its words.
    assert original(longer, SECTION + " It is removed by the last of all of them.", SECTION) == 0


@given(st.lists(st.text(alphabet="ab1 \n", max_size=12), max_size=12))
def test_each_passage_is_kept_or_named_under_one_that_is(texts: list[str]) -> None:
    """Kept and dropped passages together are all; the order stays; an original is always kept and earlier."""
    passages = [Passage(chunk_id=str(n), text=text) for n, text in enumerate(texts)]
    kept, originals = without_duplicates(passages)
    ids = [one.chunk_id for one in kept]
    assert sorted([*ids, *originals], key=int) == [one.chunk_id for one in passages]
    assert ids == sorted(ids, key=int)
    assert all(one in ids and int(one) < int(copy) for copy, one in originals.items())


class Copies:
    """Services of a collection in which each of `documents` passages has `copies` copies."""

    mode = "dense"
    fuses_scores = False

    def __init__(self, documents: int, copies: int) -> None:
        self.texts = {
            f"c{number}-{copy}": " ".join(chr(97 + number) * length for length in range(2, 26))
            for number in range(documents)
            for copy in range(copies)
        }
        self.limits: list[int] = []

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        return Embedded([[1.0]])

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse]:
        self.limits.append(queries[0].limit)
        ids = list(self.texts)[: queries[0].limit]
        found = [
            Candidate(chunk_id=one, document_id="book.md", rank=rank, score=1 - rank / 1000)
            for rank, one in enumerate(ids, 1)
        ]
        return [SearchResponse(candidates=tuple(found))]

    async def fetch(self, chunk_ids: Sequence[str]) -> dict[str, ChunkText]:
        return {
            one: ChunkText(chunk_id=one, document_id="book.md", content=self.texts[one])
            for one in chunk_ids
        }


async def found(services: Copies, **options: Any) -> list[tuple[str, list[str]]]:
    report = await search(cast("RetrievalServices", services), Search("what?", **options))
    return [(one.chunk.id, [copy.chunk_id for copy in one.duplicates]) for one in report.results]


async def test_short_passages_have_a_place_each() -> None:
    """Passages of a few equal words are all listed: records of a sentence are often equal and not copies."""
    short = Copies(documents=1, copies=3)
    short.texts = dict.fromkeys(short.texts, "annual leave")

    assert await found(short, top_k=3) == [("c0-0", []), ("c0-1", []), ("c0-2", [])]


async def test_a_ranking_stays_full_where_passages_have_copies() -> None:
    """Copies take no place and are named under the hit; the places are filled from further down."""
    few = Copies(documents=8, copies=2)
    assert await found(few, top_k=3) == [("c0-0", ["c0-1"]), ("c1-0", ["c1-1"]), ("c2-0", ["c2-1"])]
    assert few.limits == [9]

    many = Copies(documents=8, copies=6)
    hits = await found(many, top_k=3)
    assert [one for one, _ in hits] == ["c0-0", "c1-0", "c2-0"]
    assert many.limits == [9, 18]


async def test_copies_count_where_that_is_asked_for() -> None:
    """An evaluation or a snapshot of code ranks every copy."""
    services = Copies(documents=8, copies=2)
    hits = await found(services, top_k=3, distinct=False)
    assert hits == [("c0-0", []), ("c0-1", []), ("c1-0", [])]
    assert services.limits == [3]


def test_a_short_text_of_two_files_is_one_passage() -> None:
    """The very same text under several names is found once; records of one file are listed each."""

    def passage(number: int, file: str, text: str, root: str = "") -> Passage:
        metadata = {"source_file": file, "root": root} if root else {"source_file": file}
        return Passage(chunk_id=str(number), document_id=f"d{number}", text=text, metadata=metadata)

    rows = [
        passage(0, "a.md", "Park here."),
        passage(1, "b.md", "Park  here.\n"),
        passage(2, "b.md", "Park there."),
        passage(3, "b.md", "Park there."),
        passage(4, "b.md", "Park there.", root="other"),
        passage(5, "", "Park here."),
    ]

    kept, originals = without_duplicates(rows, least_words=20)

    assert [one.chunk_id for one in kept] == ["0", "2", "3", "5"]
    assert originals == {"1": "0", "4": "2"}
