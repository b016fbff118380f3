"""The passage graph in PostgreSQL: names and mentions, kept in the transaction that writes the chunks.

Links are found in both directions when documents are stored: names that there are in the new texts, and new
names in the texts that there are. Nothing is found twice: a document that is stored again finds its name's
mentions in place. Rights are not stored here; they are those of the chunks at the time of reading, so that new
tags need no work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.postgres.lexical.segments import chunks_with_terms
from whence.store.term_counts import DEFAULT_LANGUAGES
from whence.store.title_mentions import (
    LINKS_VERSION,
    MentionFinder,
    PassageTitles,
    anchor_term,
    chunk_titles,
    passage_titles,
    title_terms,
)
from whence.text.analysis import document_terms

__all__ = (
    "IS_LINK",
    "add_links",
    "delete_unused_titles",
    "ensure_links_indexed",
    "named",
    "names_of",
    "titles_by_anchor",
)

#: Texts that are read and cut in one go.
_BATCH = 2000

#: Whether a mention `m` in a chunk `c` is a link: a document that bears a name does not mention it, for a
#: page that is about something says so in every paragraph.
IS_LINK = (
    "NOT EXISTS (SELECT FROM passage_bearer o JOIN chunk x ON x.ord = o.ord"
    " WHERE o.name = m.name AND x.document = c.document)"
)


class _Term(NamedTuple):
    """A term that chunks have; the rarer one is less."""

    chunks: int
    """How many have it."""
    id: int


async def ensure_links_indexed(connection: Connection, collection_id: int) -> None:
    """Make sure that the links of all chunks are known, by this version of names.

    Collections of code are left out: their links are the dependencies that were imported with them.
    Cost: one look-up; linear in the texts of the collection when links have to be found anew.
    """
    row = await connection.fetchrow(
        "SELECT c.internal, l.version, w.languages FROM collection c"
        " LEFT JOIN passage_links l ON l.collection_id = c.id"
        " LEFT JOIN lexicon w ON w.collection_id = c.id WHERE c.id = $1",
        collection_id,
    )
    if row["internal"] or row["version"] == LINKS_VERSION:
        return
    for table in ("passage_name", "passage_links"):
        await connection.execute(f"DELETE FROM {table} WHERE collection_id = $1", collection_id)  # noqa: S608 - only constants
    await connection.execute(
        "INSERT INTO passage_links VALUES ($1, $2)", collection_id, LINKS_VERSION
    )
    language = (row["languages"] or DEFAULT_LANGUAGES)[0]
    await _name_anew(connection, collection_id, language)
    await _mention_anew(connection, collection_id, language)


async def _name_anew(connection: Connection, collection_id: int, language: str) -> None:
    """Note all names that the passages of a collection bear."""
    last = -1
    while rows := await connection.fetch(
        "SELECT d.id, d.title, array_agg(c.ord ORDER BY c.index) AS ords,"
        " array_agg(c.heading ORDER BY c.index) AS headings"
        " FROM (SELECT id, title FROM document WHERE collection_id = $1 AND id > $2"
        "  ORDER BY id LIMIT $3) d JOIN chunk c ON c.document = d.id GROUP BY d.id, d.title"
        " ORDER BY d.id",
        collection_id,
        last,
        _BATCH,
    ):
        borne = [
            pair for row in rows for pair in zip(row["ords"], _borne(row, language), strict=True)
        ]
        known = await _known_terms(connection, collection_id, borne)
        await _bear(connection, collection_id, borne, known)
        last = rows[-1]["id"]


def _borne(row: Any, language: str) -> list[tuple[str, ...]]:
    chunks = tuple(ChunkDraft(content="", heading=heading) for heading in row["headings"])
    draft = DocumentDraft(document_id="", title=row["title"], chunks=chunks)
    return chunk_titles(draft, language)


async def _mention_anew(connection: Connection, collection_id: int, language: str) -> None:
    """Note all names that the texts of a collection hold; all names are there."""
    last = -1
    while rows := await connection.fetch(
        "SELECT ord, content FROM chunk WHERE collection_id = $1 AND ord > $2 ORDER BY ord LIMIT $3",
        collection_id,
        last,
        _BATCH,
    ):
        texts = await asyncio.to_thread(_cut, [row["content"] for row in rows], language)
        await _mention_known(connection, collection_id, [row["ord"] for row in rows], texts)
        last = rows[-1]["ord"]


def _cut(texts: Sequence[str], language: str) -> list[list[str]]:
    return [document_terms(text, language) for text in texts]


def named(drafts: Sequence[DocumentDraft], language: str) -> list[PassageTitles]:
    """Return names and terms of all chunks of some documents, in order. Cost: linear in the texts."""
    return [one for draft in drafts for one in passage_titles(draft, language)]


async def add_links(
    connection: Connection,
    collection_id: int,
    ords: Sequence[int],
    passages: Sequence[PassageTitles],
    language: str,
) -> None:
    """Add new chunks to the graph, before their postings are written.

    Cost: linear in their terms and in the names whose anchor is among those, and for each name that is new in
    the texts that have its rarest term.
    """
    if not await _is_open(connection, collection_id):
        return
    borne = [(ord_, one.borne) for ord_, one in zip(ords, passages, strict=True)]
    known = await _known_terms(connection, collection_id, borne)
    new = await _bear(connection, collection_id, borne, known)
    await _mention_known(connection, collection_id, ords, [one.terms for one in passages])
    await _mention_new(connection, collection_id, new, known, language)


async def _is_open(connection: Connection, collection_id: int) -> bool:
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM passage_links WHERE collection_id = $1)", collection_id
    )
    return found


async def _known_terms(
    connection: Connection, collection_id: int, borne: Sequence[tuple[int, tuple[str, ...]]]
) -> dict[str, _Term]:
    """Return the strong terms of names that any chunk has."""
    keys = {
        term: term_key(term)
        for name in {name for _, some in borne for name in some}
        for term in title_terms(name)
    }
    rows = await connection.fetch(
        "SELECT id, term, df FROM term WHERE collection_id = $1 AND term = ANY($2::text[])",
        collection_id,
        sorted(set(keys.values())),
    )
    known = {row["term"]: _Term(row["df"], row["id"]) for row in rows}
    return {term: known[key] for term, key in keys.items() if key in known}


async def _bear(
    connection: Connection,
    collection_id: int,
    borne: Sequence[tuple[int, tuple[str, ...]]],
    known: Mapping[str, _Term],
) -> dict[str, int]:
    """Note which chunks bear which names; return the ids of names that were not there."""
    names = sorted({name for _, some in borne for name in some})
    if not names:
        return {}
    chunks = {term: one.chunks for term, one in known.items()}
    rows = await connection.fetch(
        "INSERT INTO passage_name (collection_id, terms, anchor)"
        " SELECT $1, w.terms, w.anchor FROM unnest($2::text[], $3::text[]) w(terms, anchor)"
        " ON CONFLICT DO NOTHING RETURNING id, terms",
        collection_id,
        names,
        [anchor_term(name, chunks) for name in names],
    )
    new = {row["terms"]: row["id"] for row in rows}
    rows = await connection.fetch(
        "SELECT id, terms FROM passage_name WHERE collection_id = $1 AND terms = ANY($2::text[])",
        collection_id,
        names,
    )
    ids = {row["terms"]: row["id"] for row in rows}
    await connection.copy_records_to_table(
        "passage_bearer",
        columns=("name", "ord"),
        records=[(ids[name], ord_) for ord_, some in borne for name in some],
    )
    return new


async def _mention_known(
    connection: Connection,
    collection_id: int,
    ords: Sequence[int],
    texts: Sequence[Sequence[str]],
) -> None:
    """Note which of the names that are there new texts hold."""
    ids = await titles_by_anchor(connection, collection_id, {t for terms in texts for t in terms})
    await _mention(connection, await asyncio.to_thread(_held, ids, ords, texts))


async def titles_by_anchor(
    connection: Connection, collection_id: int, terms: set[str]
) -> dict[str, int]:
    """Return the ids of the names that texts with these terms may hold."""
    rows = await connection.fetch(
        "SELECT id, terms FROM passage_name WHERE collection_id = $1 AND anchor = ANY($2::text[])",
        collection_id,
        list(terms),
    )
    return {row["terms"]: row["id"] for row in rows}


def _held(
    ids: dict[str, int], ords: Sequence[int], texts: Sequence[Sequence[str]]
) -> list[tuple[int, int]]:
    """Return the pairs of name and chunk for names that texts hold."""
    finder = MentionFinder(ids)
    return [
        (ids[name], ord_)
        for ord_, terms in zip(ords, texts, strict=True)
        for name in sorted(finder.find(terms))
    ]


async def _mention(connection: Connection, pairs: Sequence[tuple[int, int]]) -> None:
    await connection.copy_records_to_table(
        "passage_mention", columns=("name", "ord"), records=pairs
    )


async def _mention_new(
    connection: Connection,
    collection_id: int,
    new: dict[str, int],
    known: Mapping[str, _Term],
    language: str,
) -> None:
    """Note which of the texts whose postings are written hold names that are new."""
    wanted = _terms_of(new, known)
    if not wanted:
        return
    ords = await chunks_with_terms(connection, collection_id, sorted(wanted))
    for start in range(0, len(ords), _BATCH):
        rows = await connection.fetch(
            "SELECT ord, terms FROM chunk_terms WHERE ord = ANY($1::int[])",
            ords[start : start + _BATCH],
        )
        likely = await asyncio.to_thread(_with_all_terms, rows, wanted)
        rows = await connection.fetch(
            "SELECT ord, content FROM chunk WHERE ord = ANY($1::int[]) ORDER BY ord", likely
        )
        texts = await asyncio.to_thread(_cut, [row["content"] for row in rows], language)
        found = [row["ord"] for row in rows]
        await _mention(connection, await asyncio.to_thread(_held, new, found, texts))


def _terms_of(names: Iterable[str], known: Mapping[str, _Term]) -> dict[int, list[frozenset[int]]]:
    """Return the ids of the strong terms of each name, by that of its rarest one.

    A name with a term that no chunk has is left out.
    """
    wanted: dict[int, list[frozenset[int]]] = {}
    for name in names:
        terms = [known.get(term) for term in title_terms(name)]
        found = [term for term in terms if term is not None]
        if len(found) == len(terms):
            rarest = min(found)
            wanted.setdefault(rarest.id, []).append(frozenset(term.id for term in found))
    return wanted


def _with_all_terms(rows: Sequence[Any], wanted: dict[int, list[frozenset[int]]]) -> list[int]:
    """Return the chunks that have all terms of a name: few texts are then read for nothing."""
    return [
        row["ord"]
        for row in rows
        if _has_any(frozenset(np.frombuffer(row["terms"], dtype="<i4").tolist()), wanted)
    ]


def _has_any(terms: frozenset[int], wanted: dict[int, list[frozenset[int]]]) -> bool:
    return any(name <= terms for rarest in wanted.keys() & terms for name in wanted[rarest])


async def names_of(
    connection: Connection, collection_id: int, document_ids: Sequence[str]
) -> list[int]:
    """Return the ids of the names that documents bear, before they are deleted, for `delete_unused_titles`."""
    rows = await connection.fetch(
        "SELECT DISTINCT b.name FROM document d JOIN chunk c ON c.document = d.id"
        " JOIN passage_bearer b ON b.ord = c.ord"
        " WHERE d.collection_id = $1 AND d.document_id = ANY($2::text[])",
        collection_id,
        list(document_ids),
    )
    return [row["name"] for row in rows]


async def delete_unused_titles(connection: Connection, names: Sequence[int]) -> None:
    """Forget those names that no passage bears any more, with their mentions."""
    if names:
        await connection.execute(
            "DELETE FROM passage_name n WHERE n.id = ANY($1::int[])"
            " AND NOT EXISTS (SELECT FROM passage_bearer b WHERE b.name = n.id)",
            list(names),
        )
