"""Queries for links in PostgreSQL; both ends of a link are visible, and only visible passages count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from whence.schema.access import Access
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef, rare_titles_around
from whence.store.postgres.acl_classes import EPOCH, allowed_classes
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.chunk_reader import REQUESTED_CHUNKS, requested_values
from whence.store.postgres.dense.vector_index import VISIBLE_CHUNKS
from whence.store.postgres.driver import Connection, read_transaction
from whence.store.postgres.links.indexing import IS_LINK, titles_by_anchor
from whence.store.postgres.part import PostgresPart
from whence.store.title_mentions import LINKS_VERSION, MAX_MENTIONS, MAX_TITLED, MentionFinder
from whence.store.validation import is_text, missing_collection
from whence.text.analysis import document_terms
from whence.text.languages import DEFAULT_LANGUAGE

_RESOLVE = f"""
    SELECT c.id, {EPOCH} FROM collection c WHERE c.name = $1"""  # noqa: S608 - only constants
_RESOLVE_INDEXED = f"""
    SELECT c.id, {EPOCH} FROM collection c
    JOIN passage_links l ON l.collection_id = c.id AND l.version = $2 WHERE c.name = $1"""  # noqa: S608 - only constants
_PENDING = """
    SELECT EXISTS (SELECT FROM collection c WHERE c.name = $1 AND NOT c.internal
        AND NOT EXISTS (SELECT FROM passage_links l WHERE l.collection_id = c.id AND l.version = $2))"""
# Visible passages of each title at one end of its links, one more than the limit.
_PASSAGES = f"""
    SELECT w.name, k.* FROM unnest($1::int[]) w(name), LATERAL (
        SELECT c.chunk_key, d.document_id, {DOCUMENT_TAGS}
        FROM {{table}} m JOIN chunk c ON c.ord = m.ord AND c.class_id = ANY($2::int[])
        JOIN document d ON d.id = c.document{TAGS_JOIN}
        WHERE m.name = w.name AND {{condition}} LIMIT $3::int + 1) k
    ORDER BY w.name, k.chunk_key"""  # noqa: S608 - only constants
_TITLED = _PASSAGES.format(table="passage_bearer", condition="true")
_MENTIONING = _PASSAGES.format(table="passage_mention", condition=IS_LINK)
_TITLES_OF_CHUNKS = """
    SELECT b.name FROM passage_bearer b WHERE b.ord = ANY($1::int[])
    UNION SELECT m.name FROM passage_mention m WHERE m.ord = ANY($1::int[])"""
_TITLES = "SELECT id, terms FROM passage_name WHERE id = ANY($1::int[]) ORDER BY terms"
_CHUNKS = f"SELECT c.ord, c.chunk_key, {DOCUMENT_TAGS}{REQUESTED_CHUNKS}"

#: Documents in the sample of the statistics, and passages of each: a share is accurate to 5 points.
_SAMPLE_DOCUMENTS, _SAMPLE_PASSAGES = 400, 5
_COUNT = """
    (SELECT count(*) FROM (SELECT FROM {table} m
        JOIN chunk c ON c.ord = m.ord AND c.class_id = ANY($2::int[])
        WHERE m.name = a.name AND {condition} LIMIT {limit} + 1) x)"""
_TITLED_COUNT = _COUNT.format(table="passage_bearer", condition="true", limit=MAX_TITLED)
_MENTION_COUNT = _COUNT.format(table="passage_mention", condition=IS_LINK, limit=MAX_MENTIONS)
# The sample is the visible documents with the least hash, so that hidden ones do not change it.
_STATISTICS = f"""
    WITH sample AS MATERIALIZED (
        SELECT d.id FROM document d WHERE d.collection_id = $1 AND d.class_id = ANY($2::int[])
        ORDER BY hashtextextended(d.document_id, 0), d.document_id LIMIT {_SAMPLE_DOCUMENTS}),
    passages AS MATERIALIZED (
        SELECT c.ord, c.document FROM sample s
        JOIN chunk c ON c.document = s.id AND c.index < {_SAMPLE_PASSAGES}),
    titles AS MATERIALIZED (
        SELECT b.name, b.ord FROM passages c JOIN passage_bearer b ON b.ord = c.ord
        UNION SELECT m.name, m.ord FROM passages c JOIN passage_mention m ON m.ord = c.ord WHERE {IS_LINK}),
    rare AS MATERIALIZED (
        SELECT a.name FROM (SELECT DISTINCT name FROM titles) a
        WHERE {_TITLED_COUNT} BETWEEN 1 AND {MAX_TITLED}
        AND {_MENTION_COUNT} BETWEEN 1 AND {MAX_MENTIONS})
    SELECT (SELECT count(DISTINCT document) FROM passages) AS documents,
        (SELECT count(*) FROM passages) AS chunks,
        (SELECT count(DISTINCT t.ord) FROM titles t JOIN rare USING (name)) AS linked"""  # noqa: S608 - only constants


#: Share of what a reader sees that must change before cached statistics are read again.
_MAX_CHANGE = 0.1


class PostgresLinks(PostgresPart):
    """Links between passages."""

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Return how densely the visible passages are linked; None while links are not indexed.

        Links of a collection of a former version are indexed in the background. Cost: one look-up; the first
        time, and when a tenth of what the reader sees is new, linear in the visible documents.
        """
        if not is_text(collection):
            return None
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_RESOLVE_INDEXED, collection, LINKS_VERSION)
            if row is not None:
                classes = await allowed_classes(connection, access, row["epoch"])
                return await _statistics(connection, row["id"], classes, self.cache)
            due = await connection.fetchval(_PENDING, collection, LINKS_VERSION)
        if due:
            self.maintenance.start(collection)
        return None

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """See `ChunkStore.linked_titles`; read from one snapshot of the database."""
        if not is_text(collection):
            raise missing_collection(collection)
        async with self.pool.connection() as connection, read_transaction(connection):
            row = await connection.fetchrow(_RESOLVE, collection)
            if row is None:
                raise missing_collection(collection)
            classes = await allowed_classes(connection, access, row["epoch"])
            rows = await connection.fetch(_CHUNKS, *requested_values(access, collection, chunk_ids))
            chunks = allowed_rows(rows, access, "passages")
            around = await connection.fetch(_TITLES_OF_CHUNKS, [one["ord"] for one in chunks])
            in_query = await _titles_in(connection, row["id"], query_text)
            ids = sorted({one["name"] for one in around}.union(in_query))
            titled = await _passages(connection, _TITLED, ids, classes, MAX_TITLED, access)
            mentions = await _passages(connection, _MENTIONING, ids, classes, MAX_MENTIONS, access)
            titles = await connection.fetch(_TITLES, ids)
        keys = frozenset(one["chunk_key"] for one in chunks)
        found = (
            LinkTitle(
                name=one["terms"],
                titled_passages=titled.get(one["id"], ()),
                mentions=mentions.get(one["id"], ()),
                in_query=one["id"] in in_query,
            )
            for one in titles
        )
        return rare_titles_around(found, keys)


async def _statistics(
    connection: Connection, collection_id: int, classes: list[int], cache: ByteCache
) -> LinkStatistics:
    visible = await connection.fetchval(VISIBLE_CHUNKS, collection_id, classes)
    key = ("link_statistics", collection_id, tuple(classes))
    cached: tuple[int, LinkStatistics] | None = cache.get(key)
    if cached is not None and abs(visible - cached[0]) <= _MAX_CHANGE * cached[0]:
        return cached[1]
    found = await connection.fetchrow(_STATISTICS, collection_id, classes)
    statistics = LinkStatistics(
        chunks=found["chunks"], linked=found["linked"], documents=found["documents"]
    )
    cache.put(key, (visible, statistics), 40 * len(classes))
    return statistics


async def _titles_in(connection: Connection, collection_id: int, text: str) -> frozenset[int]:
    """Return the ids of the titles that the first terms of a query mention."""
    terms = document_terms(text, DEFAULT_LANGUAGE)[:MAX_QUERY_WORDS] if text else []
    if not terms:
        return frozenset()
    ids = await titles_by_anchor(connection, collection_id, set(terms))
    return frozenset(ids[title] for title in MentionFinder(ids).find(terms))


async def _passages(
    connection: Connection,
    statement: str,
    titles: list[int],
    classes: list[int],
    limit: int,
    access: Access,
) -> dict[int, tuple[PassageRef, ...]]:
    """Return the visible passages of each title, at most one more than the limit."""
    rows = await connection.fetch(statement, titles, classes, limit)
    return {
        name: tuple(PassageRef(row["chunk_key"], row["document_id"]) for row in some)
        for name, some in groupby(allowed_rows(rows, access, "links"), key=lambda row: row["name"])
    }
