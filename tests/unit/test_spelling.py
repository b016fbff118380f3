"""Misspelt words of queries: what is looked up, what is near enough, and how a query is put together again."""

from __future__ import annotations

import pytest

from whence.retrieval.spelling import check_spelling
from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Correction
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.testing.index_samples import MODEL, VECTOR
from whence.text.spelling import (
    as_written,
    can_be_misspelt,
    correct_text,
    is_contraction,
    is_rare,
    nearest_word,
)

TEXTS = {
    "Create a migration. Migrations are files.": DocumentTags(),
    "Middleware runs before views. Set MAX_UPLOAD_SIZE and CONN_MAX_AGE.": DocumentTags(),
    "Connection pooling keeps connections open. A convection oven is hot.": DocumentTags(),
    "A remote file is good. The field of a form has a size.": DocumentTags(),
    "Release 2.4 has the option --max-requests.": DocumentTags(),
    "Each recipient has a recipient_delimiter.": DocumentTags(),
    "The license is free.": DocumentTags(),
    "The canary sings.": DocumentTags(("secret",)),
}


@pytest.fixture
async def store() -> MemoryStore:
    """Return a store with a collection of English notes, one of them hidden."""
    store = MemoryStore()
    await store.ensure_collection("notes", MODEL)
    documents = [
        EmbeddedDocument(
            draft=DocumentDraft(
                document_id=f"d{n}", title="Notes", chunks=(ChunkDraft(content=text),), tags=tags
            ),
            vectors=VECTOR.reshape(1, -1),
        )
        for n, (text, tags) in enumerate(TEXTS.items())
    ]
    await store.replace_documents("notes", documents)
    return store


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("create a migratoin", "create a migration"),
        ("conection pooling", "connection pooling"),
        ("midlewear order", "middleware order"),
        ("Midlewear order", "Middleware order"),
        ("MAX_UPLOAD_SZIE", "MAX_UPLOAD_SIZE"),
        ("--max-requets", "--max-requests"),
        # The stem is that of a word which is there.
        ("recipiant_delimiter", "recipient_delimiter"),
        ("two mirgations and conections", "two migrations and connections"),
        ("the fiel of a form", "the file of a form"),
        # A quoted word, a number, a version, a word with digits, and a word of a dictionary are kept.
        ('create a "migratoin"', 'create a "migratoin"'),
        ("create a `migratoin`", "create a `migratoin`"),
        ('"migratoin" and migratoin', '"migratoin" and migration'),
        ('migratoin and "migratoin"', 'migration and "migratoin"'),
        ("release 2.5", "release 2.5"),
        ("migr4tion", "migr4tion"),
        ("MAX_UPLOAD_SZIE2", "MAX_UPLOAD_SZIE2"),
        ("`MAX_UPLOAD_SZIE`", "`MAX_UPLOAD_SZIE`"),
        ("max-requets", "max-requests"),
        ("conection-poling", "connection-pooling"),
        ("MAX_FILE_SZIE", "MAX_FILE_SZIE"),
        ("remove a file", "remove a file"),
        ("the food", "the food"),
        # In an abbreviation letters are only swapped.
        ("the FIEL of a form", "the FILE of a form"),
        ("the FOLE of a form", "the FOLE of a form"),
        ("MAX_UPLOAD_SOZE", "MAX_UPLOAD_SIZE"),
        # Nothing is near, or the word is in no document that the reader may see.
        ("kubernetes", "kubernetes"),
        ("canrys", "canrys"),
        # A query in another language.
        ("fila remoto conexion migracion", "fila remoto conexion migracion"),
        ("remoto conexion", "remote conexion"),
        # Many misspelt words, each of them near one that is there.
        ("midlewear migratoin conectoin poolng", "middleware migration connection pooling"),
        # British and American spelling.
        ("which licence", "which license"),
        ("which Licence and colour", "which License and colour"),
        ("`licence`", "`licence`"),
        ("", ""),
        ("?!", "?!"),
        ("休暇", "休暇"),
    ],
)
async def test_a_word_in_no_visible_document_is_corrected(
    store: MemoryStore, query: str, used: str
) -> None:
    """A misspelt word becomes the nearest visible one; quoted, known and far words and numbers stay."""
    found = await check_spelling(store, "notes", query, Access.public())
    assert correct_text(query, found.corrections) == used


async def test_absent_words_are_reported(store: MemoryStore) -> None:
    """Words and identifiers that are not corrected are reported as they are written."""
    query = "CONN_POOL_WARMUP of Kubernetes in release 2.5 and 2.4"
    found = await check_spelling(store, "notes", query, Access.public())
    assert found.absent == ("CONN_POOL_WARMUP", "Kubernetes", "2.5")
    quoted = await check_spelling(store, "notes", "a `migratoin`", Access.public())
    assert quoted.absent == ("migratoin",)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("acyclic", "cyclic"),
        ("bigint", "sigint"),
        ("bitstring", "isstring"),
        ("cocitation", "citation"),
        ("reregister", "register"),
    ],
)
def test_a_word_with_another_first_letter_is_another_word(word: str, other: str) -> None:
    """The first letter stays, or is swapped with the second; no two letters are put before it."""
    assert nearest_word(word, {other: 9}) is None
    assert nearest_word("jsno", {"json": 1}) == nearest_word("sjon", {"json": 1}) == "json"


def test_only_swapped_letters_of_a_short_name_are_corrected() -> None:
    """`Jnija` is a misspelt `Jinja`, and `TypedDixt` is `TypedDict`; `Dixt` may be any name."""
    assert nearest_word("Jnija", {"jinja": 1}) == "jinja"
    assert nearest_word("Dixt", {"dict": 1}) is None
    assert nearest_word("Dixt", {"dict": 1}, is_part=True) == "dict"


def test_ties_are_broken_by_frequency_then_alphabet() -> None:
    """Of equally near words that with the same letters wins, then that in most chunks, then the alphabet."""
    assert nearest_word("tabel", {"table": 1, "tabes": 3}) == "table"
    assert nearest_word("resove", {"remove": 9, "resolve": 1}) == "resolve"
    assert nearest_word("word", {"work": 9, "ward": 9, "wore": 1}) == "ward"


def test_short_words_have_one_edit_and_long_ones_two() -> None:
    """A word of five letters is one edit from its correction, a longer one two; doubled letters are free."""
    assert nearest_word("flaks", {"flakes": 1}) == "flakes"
    assert nearest_word("flkas", {"flakes": 1}) is None
    assert nearest_word("migrtaoin", {"migration": 1}) == "migration"
    assert nearest_word("mgrtaoni", {"migration": 1}) is None
    assert nearest_word("hyperpituitarism", {"hypopituitarism": 1}) is None
    assert nearest_word("taiwan", {"tain": 1}) is None
    assert nearest_word("comitee", {"committee": 1}) == "committee"


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        # The right word stands beside the misspelt one, in quotes or not.
        ("a laek or lake", "a lake or lake"),
        ("a laek `laek`", "a lake `laek`"),
    ],
)
def test_a_corrected_question_as_it_was_written(asked: str, used: str) -> None:
    """It is the question as asked; of one that was completed first, the one with the misspelt words."""
    made = [Correction(source="laek", target="lake")]
    assert as_written(asked, used, made) == asked
    assert as_written("And a laek?", "Is it red? And a lake?", made) == "Is it red? And a laek?"


@pytest.mark.parametrize(
    ("word", "candidates", "found"),
    [
        ("stevenson", {"stevens": 9}, None),
        ("postgers", {"postgres": 9}, "postgres"),
        ("recieve", {"receive": 9}, "receive"),
    ],
)
def test_a_rare_word_of_a_dictionary_is_taken_for_a_name(
    word: str, candidates: dict[str, int], found: str | None
) -> None:
    """Two names are often two letters apart; a misspelt word is in no dictionary."""
    limit = 1 if is_rare(word, ["english"]) else None

    assert nearest_word(word, candidates, limit=limit) == found


@pytest.mark.parametrize("word", ["havent", "didnt", "wouldnt"])
def test_a_contraction_without_its_apostrophe_is_kept(word: str) -> None:
    """A word that an apostrophe makes a known one is not misspelt."""
    assert not can_be_misspelt(word, ["english"])
    assert is_contraction(f"{word[:-1]}'{word[-1]}")
