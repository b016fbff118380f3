"""Titles and mentions of passages in PostgreSQL, written in the transaction that writes the chunks.

A write finds links in both directions: stored titles in the new texts, and new titles in the stored texts. A
document that is stored again finds the mentions of its titles in place. Rights are not stored here; a read
applies those of the chunks, so that new tags need no work.

A title is stored in `passage_name` (its terms joined by spaces), the passages that have it in `passage_bearer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.postgres.lexical.segments import chunks_with_terms
from whence.store.term_counts import TermVector
from whence.store.title_mentions import (
    LINKS_VERSION,
    MentionFinder,
    PassageTitles,
    anchor_term,
    chunk_titles,
    passage_titles,
    title_terms,
)
from whence.store.validation import json_text
from whence.text.analysis import document_terms
from whence.text.languages import DEFAULT_LANGUAGE

#: Texts that are read and analyzed at a time.
_BATCH = 2000

#: Whether a mention `m` in a chunk `c` is a link: a document does not mention its own titles, which all of its
#: paragraphs may contain.
IS_LINK = (
    "NOT EXISTS (SELECT FROM passage_bearer o JOIN chunk x ON x.ord = o.ord"
    " WHERE o.name = m.name AND x.document = c.document)"
)
_STATE = """
    SELECT c.internal, l.version FROM collection c
    LEFT JOIN passage_links l ON l.collection_id = c.id WHERE c.id = $1"""
_HAS_LINKS = "SELECT EXISTS (SELECT FROM passage_links WHERE collection_id = $1)"
# Batches by the primary keys.
_NEXT_HEADINGS = """
    SELECT d.id, d.title, array_agg(c.ord ORDER BY c.index) AS ords,
        array_agg(c.heading ORDER BY c.index) AS headings
    FROM (SELECT id, title FROM document WHERE collection_id = $1 AND id > $2 ORDER BY id LIMIT $3) d
    JOIN chunk c ON c.document = d.id GROUP BY d.id, d.title ORDER BY d.id"""
_NEXT_TEXTS = """
    SELECT ord, content FROM chunk WHERE collection_id = $1 AND ord > $2 ORDER BY ord LIMIT $3"""
_TERMS = "SELECT id, term, df FROM term WHERE collection_id = $1 AND term = ANY($2::text[])"
_INSERT_TITLES = """
    INSERT INTO passage_name (collection_id, terms, anchor)
    SELECT $1, w.terms, w.anchor FROM unnest($2::text[], $3::text[]) w(terms, anchor)
    ON CONFLICT DO NOTHING RETURNING id, terms"""
_TITLES = "SELECT id, terms FROM passage_name WHERE collection_id = $1 AND terms = ANY($2::text[])"
_BY_ANCHOR = (
    "SELECT id, terms FROM passage_name WHERE collection_id = $1"
    " AND anchor = ANY(ARRAY(SELECT json_array_elements_text($2)))"
)
_CHUNK_TERMS = "SELECT ord, terms FROM chunk_terms WHERE ord = ANY($1::int[])"
_TEXTS = "SELECT ord, content FROM chunk WHERE ord = ANY($1::int[]) ORDER BY ord"
_OF_DOCUMENTS = """
    SELECT DISTINCT b.name FROM document d JOIN chunk c ON c.document = d.id
    JOIN passage_bearer b ON b.ord = c.ord WHERE d.collection_id = $1 AND d.document_id = ANY($2::text[])"""
_DELETE_UNUSED = """
    DELETE FROM passage_name n WHERE n.id = ANY($1::int[])
    AND NOT EXISTS (SELECT FROM passage_bearer b WHERE b.name = n.id)"""


class _Term(NamedTuple):
    """A term of the index; a rarer one is less."""

    df: int
    id: int


async def ensure_links_indexed(connection: Connection, collection_id: int) -> None:
    """Find the links of all chunks of a collection, unless this version has found them.

    Collections of code are left out: their links are the dependencies that were imported with them.
    Cost: one look-up; linear in the texts of the collection when links must be found.
    """
    row = await connection.fetchrow(_STATE, collection_id)
    if row["internal"] or row["version"] == LINKS_VERSION:
        return
    for table in ("passage_name", "passage_links"):
        await connection.execute(f"DELETE FROM {table} WHERE collection_id = $1", collection_id)  # noqa: S608 - only constants
    await connection.execute(
        "INSERT INTO passage_links VALUES ($1, $2)", collection_id, LINKS_VERSION
    )
    language = DEFAULT_LANGUAGE
    await _index_titles(connection, collection_id, language)
    await _index_mentions(connection, collection_id, language)


async def _index_titles(connection: Connection, collection_id: int, language: str) -> None:
    """Add the titles of all passages of a collection."""
    last = -1
    while rows := await connection.fetch(_NEXT_HEADINGS, collection_id, last, _BATCH):
        titles = [
            pair
            for row in rows
            for pair in zip(row["ords"], _titles_of_row(row, language), strict=True)
        ]
        terms = await _read_terms(connection, collection_id, titles)
        await _add_titles(connection, collection_id, titles, terms)
        last = rows[-1]["id"]


def _titles_of_row(row: Any, language: str) -> list[tuple[str, ...]]:
    chunks = tuple(ChunkDraft(content="", heading=heading) for heading in row["headings"])
    draft = DocumentDraft(document_id="", title=row["title"], chunks=chunks)
    return chunk_titles(draft, language)


async def _index_mentions(connection: Connection, collection_id: int, language: str) -> None:
    """Add the mentions in all texts of a collection whose titles are indexed."""
    last = -1
    while rows := await connection.fetch(_NEXT_TEXTS, collection_id, last, _BATCH):
        texts = await asyncio.to_thread(_analyze, rows, language)
        await _add_mentions_of_stored(
            connection, collection_id, [row["ord"] for row in rows], texts
        )
        last = rows[-1]["ord"]


def _analyze(rows: Sequence[Any], language: str) -> list[list[str]]:
    return [document_terms(row["content"], language) for row in rows]


def titles_of_drafts(
    drafts: Sequence[DocumentDraft], words: Sequence[TermVector], language: str
) -> list[PassageTitles]:
    """Return titles and terms of all chunks of some documents, in order, by their term vectors."""
    rest = iter(words)
    return [
        one
        for draft in drafts
        for one in passage_titles(draft, language, list(islice(rest, len(draft.chunks))))
    ]


async def add_links(
    connection: Connection,
    collection_id: int,
    ords: Sequence[int],
    passages: Sequence[PassageTitles],
    language: str,
) -> None:
    """Add titles and mentions of new chunks, before their postings are written.

    Cost: linear in their terms and in the titles whose anchor is among those, and for each new title in the
    texts that have its rarest term.
    """
    if not await connection.fetchval(_HAS_LINKS, collection_id):
        return
    titles = [(ord_, one.titles) for ord_, one in zip(ords, passages, strict=True)]
    terms = await _read_terms(connection, collection_id, titles)
    new = await _add_titles(connection, collection_id, titles, terms)
    await _add_mentions_of_stored(connection, collection_id, ords, [one.terms for one in passages])
    await _add_mentions_of_new(connection, collection_id, new, terms, language)


async def _read_terms(
    connection: Connection, collection_id: int, titles: Sequence[tuple[int, tuple[str, ...]]]
) -> dict[str, _Term]:
    """Return those terms of titles that any chunk has, without stop terms."""
    keys = {
        term: term_key(term)
        for title in {title for _, some in titles for title in some}
        for term in title_terms(title)
    }
    rows = await connection.fetch(_TERMS, collection_id, sorted(set(keys.values())))
    found = {row["term"]: _Term(row["df"], row["id"]) for row in rows}
    return {term: found[key] for term, key in keys.items() if key in found}


async def _add_titles(
    connection: Connection,
    collection_id: int,
    titles: Sequence[tuple[int, tuple[str, ...]]],
    terms: Mapping[str, _Term],
) -> dict[str, int]:
    """Add the titles of chunks; return the ids of those that are new in the collection."""
    names = sorted({title for _, some in titles for title in some})
    if not names:
        return {}
    df = {term: one.df for term, one in terms.items()}
    anchors = [anchor_term(name, df) for name in names]
    rows = await connection.fetch(_INSERT_TITLES, collection_id, names, anchors)
    new = {row["terms"]: row["id"] for row in rows}
    rows = await connection.fetch(_TITLES, collection_id, names)
    ids = {row["terms"]: row["id"] for row in rows}
    await connection.copy_records_to_table(
        "passage_bearer",
        columns=("name", "ord"),
        records=[(ids[title], ord_) for ord_, some in titles for title in some],
    )
    return new


async def _add_mentions_of_stored(
    connection: Connection, collection_id: int, ords: Sequence[int], texts: Sequence[Sequence[str]]
) -> None:
    """Add the mentions of stored titles in new texts."""
    ids = await titles_by_anchor(connection, collection_id, {t for terms in texts for t in terms})
    await _write_mentions(connection, ids, ords, texts)


async def titles_by_anchor(
    connection: Connection, collection_id: int, terms: set[str]
) -> dict[str, int]:
    """Return the ids of the titles that texts with these terms may mention."""
    rows = await connection.fetch(_BY_ANCHOR, collection_id, json_text(list(terms)))
    return {row["terms"]: row["id"] for row in rows}


async def _write_mentions(
    connection: Connection, ids: dict[str, int], ords: Sequence[int], texts: Sequence[Sequence[str]]
) -> None:
    """Write which of some titles are mentioned in texts."""
    pairs = await asyncio.to_thread(_find_mentions, ids, ords, texts)
    await connection.copy_records_to_table(
        "passage_mention", columns=("name", "ord"), records=pairs
    )


def _find_mentions(
    ids: dict[str, int], ords: Sequence[int], texts: Sequence[Sequence[str]]
) -> list[tuple[int, int]]:
    finder = MentionFinder(ids)
    return [
        (ids[title], ord_)
        for ord_, terms in zip(ords, texts, strict=True)
        for title in sorted(finder.find(terms))
    ]


async def _add_mentions_of_new(
    connection: Connection,
    collection_id: int,
    new: dict[str, int],
    terms: Mapping[str, _Term],
    language: str,
) -> None:
    """Add the mentions of new titles in texts whose postings are written."""
    wanted = _term_ids(new, terms)
    if not wanted:
        return
    ords = await chunks_with_terms(connection, collection_id, sorted(wanted))
    for start in range(0, len(ords), _BATCH):
        rows = await connection.fetch(_CHUNK_TERMS, ords[start : start + _BATCH])
        candidates = await asyncio.to_thread(_with_all_terms, rows, wanted)
        rows = await connection.fetch(_TEXTS, candidates)
        texts = await asyncio.to_thread(_analyze, rows, language)
        await _write_mentions(connection, new, [row["ord"] for row in rows], texts)


def _term_ids(titles: Iterable[str], terms: Mapping[str, _Term]) -> dict[int, list[frozenset[int]]]:
    """Return the ids of the terms of each title, by the id of its rarest term.

    A title with a term that no chunk has is left out.
    """
    wanted: dict[int, list[frozenset[int]]] = {}
    for title in titles:
        found = [terms.get(term) for term in title_terms(title)]
        present = [term for term in found if term is not None]
        if len(present) == len(found):
            wanted.setdefault(min(present).id, []).append(frozenset(term.id for term in present))
    return wanted


def _with_all_terms(rows: Sequence[Any], wanted: dict[int, list[frozenset[int]]]) -> list[int]:
    """Return the chunks that have all terms of a title, so that few texts are read in vain."""
    return [
        row["ord"]
        for row in rows
        if _has_any(frozenset(np.frombuffer(row["terms"], dtype="<i4").tolist()), wanted)
    ]


def _has_any(terms: frozenset[int], wanted: dict[int, list[frozenset[int]]]) -> bool:
    return any(title <= terms for rarest in wanted.keys() & terms for title in wanted[rarest])


async def document_titles(
    connection: Connection, collection_id: int, document_ids: Sequence[str]
) -> list[int]:
    """Return the ids of the titles of documents, before they are deleted, for `delete_unused_titles`."""
    rows = await connection.fetch(_OF_DOCUMENTS, collection_id, list(document_ids))
    return [row["name"] for row in rows]


async def delete_unused_titles(connection: Connection, titles: Sequence[int]) -> None:
    """Delete those titles that no passage has any more, with their mentions."""
    if titles:
        await connection.execute(_DELETE_UNUSED, list(titles))
