"""Reading the passage graph in PostgreSQL: both sides of a link are visible, and only the visible count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from whence.schema.access import Access
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.linked_titles import LinkStatistics, LinkTitle, PassageRef
from whence.store.postgres.acl_classes import EPOCH, allowed_classes
from whence.store.postgres.chunk_reader import REQUESTED_CHUNKS, requested_values
from whence.store.postgres.dense.vector_index import VISIBLE_CHUNKS
from whence.store.postgres.driver import Connection
from whence.store.postgres.links.indexing import IS_LINK, titles_by_anchor
from whence.store.term_counts import DEFAULT_LANGUAGES
from whence.store.title_mentions import LINKS_VERSION, MAX_MENTIONS, MAX_TITLED, MentionFinder
from whence.store.validation import missing_collection
from whence.text.analysis import document_terms

__all__ = ("LinkStatisticsCache", "linked_titles", "links_pending")

_VISIBLE = "c.ord = {side}.ord AND c.class_id = ANY($2::int[])"
_SIDE = (
    f"SELECT w.name, k.* FROM unnest($1::int[]) w(name), LATERAL (SELECT c.chunk_key, d.document_id, {DOCUMENT_TAGS}"  # noqa: S608 - only constants
    f" FROM {{table}} m JOIN chunk c ON {{visible}} JOIN document d ON d.id = c.document{TAGS_JOIN}"
    " WHERE m.name = w.name {rule} LIMIT $3::int + 1) k ORDER BY w.name, k.chunk_key"
)
_BEARERS = _SIDE.format(table="passage_bearer", visible=_VISIBLE.format(side="m"), rule="")
_MENTIONS = _SIDE.format(
    table="passage_mention", visible=_VISIBLE.format(side="m"), rule=f"AND {IS_LINK}"
)
_RESOLVE = (
    f"SELECT c.id, coalesce(l.languages[1], $2) AS language, {EPOCH}"  # noqa: S608 - only constants
    " FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.name = $1"
)
_STANDING = (
    f"SELECT c.id, {EPOCH} FROM collection c"  # noqa: S608 - only constants
    " JOIN passage_links l ON l.collection_id = c.id AND l.version = $2 WHERE c.name = $1"
)
#: Documents that stand for all, and the first passages of each: a share is known to 5 points by so many.
_SAMPLE, _OF_EACH = 400, 5
_RARE = (
    "(SELECT count(*) FROM (SELECT FROM {table} m JOIN chunk c ON c.ord = m.ord AND c.class_id = ANY($2::int[])"
    " WHERE m.name = a.name {rule} LIMIT {most} + 1) x) BETWEEN 1 AND {most}"
)
# Those with the least hash: which ones these are is up to the visible ones alone.
_STATISTICS = (
    "WITH sample AS MATERIALIZED (SELECT d.id FROM document d"  # noqa: S608 - only constants
    " WHERE d.collection_id = $1 AND d.class_id = ANY($2::int[])"
    f" ORDER BY hashtextextended(d.document_id, 0), d.document_id LIMIT {_SAMPLE}),"
    " passages AS MATERIALIZED (SELECT c.ord, c.document FROM sample s JOIN chunk c ON c.document = s.id"
    f" AND c.index < {_OF_EACH}),"
    " around AS MATERIALIZED (SELECT b.name, b.ord FROM passages c JOIN passage_bearer b ON b.ord = c.ord"
    f" UNION SELECT m.name, m.ord FROM passages c JOIN passage_mention m ON m.ord = c.ord WHERE {IS_LINK}),"
    " rare AS MATERIALIZED (SELECT a.name FROM (SELECT DISTINCT name FROM around) a"
    f" WHERE {_RARE.format(table='passage_bearer', rule='', most=MAX_TITLED)}"
    f" AND {_RARE.format(table='passage_mention', rule=f'AND {IS_LINK}', most=MAX_MENTIONS)})"
    " SELECT (SELECT count(DISTINCT document) FROM passages) AS documents,"
    " (SELECT count(*) FROM passages) AS chunks,"
    " (SELECT count(DISTINCT a.ord) FROM around a JOIN rare USING (name)) AS linked"
)
_AROUND = (
    "SELECT b.name FROM passage_bearer b WHERE b.ord = ANY($1::int[])"
    " UNION SELECT m.name FROM passage_mention m WHERE m.ord = ANY($1::int[])"
)


class LinkStatisticsCache:
    """How densely what readers see of collections is linked, remembered while nearly the same is there."""

    #: Growth or loss at which it is found anew: often enough for a share, a logarithm of times in all.
    _DRIFT = 0.1
    _MOST = 1000

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], tuple[int, LinkStatistics]] = {}

    async def of(
        self, connection: Connection, collection: str, access: Access
    ) -> LinkStatistics | None:
        """Return how densely a collection is linked for a reader; None when its links are not known.

        Cost: linear in the classes of rights; when it is found anew, in the visible documents.
        """
        row = await connection.fetchrow(_STANDING, collection, LINKS_VERSION)
        if row is None:
            return None
        classes = await allowed_classes(connection, access, row["epoch"])
        visible = await connection.fetchval(VISIBLE_CHUNKS, row["id"], classes)
        key = row["id"], tuple(classes)
        known = self._known.get(key)
        if known is not None and abs(visible - known[0]) <= self._DRIFT * known[0]:
            return known[1]
        found = await connection.fetchrow(_STATISTICS, row["id"], classes)
        statistics = LinkStatistics(
            chunks=found["chunks"], linked=found["linked"], documents=found["documents"]
        )
        if len(self._known) >= self._MOST:
            self._known.clear()
        self._known[key] = visible, statistics
        return statistics


async def links_pending(connection: Connection, collection: str) -> bool:
    """Return whether a collection is there whose links are to be found, but are not known by this version."""
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM collection c WHERE c.name = $1 AND NOT c.internal"
        " AND NOT EXISTS (SELECT FROM passage_links l"
        "  WHERE l.collection_id = c.id AND l.version = $2))",
        collection,
        LINKS_VERSION,
    )
    return found


async def linked_titles(
    connection: Connection,
    collection: str,
    chunk_ids: Sequence[str],
    access: Access,
    query_text: str,
) -> list[LinkTitle]:
    """Return the rare names around visible chunks and in a query, from one snapshot of the database.

    Raises:
        NotFound: There is no such collection.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(_RESOLVE, collection, DEFAULT_LANGUAGES[0])
        if row is None:
            raise missing_collection(collection)
        classes = await allowed_classes(connection, access, row["epoch"])
        wanted = await connection.fetch(
            f"SELECT c.ord, c.chunk_key, {DOCUMENT_TAGS}{REQUESTED_CHUNKS}",
            *requested_values(access, collection, chunk_ids),
        )
        wanted = allowed_rows(wanted, access, "passages")
        around = await connection.fetch(_AROUND, [one["ord"] for one in wanted])
        asked = await _names_in(connection, row["id"], query_text, row["language"])
        ids = sorted({one["name"] for one in around}.union(asked))
        titled_passages = await _side(connection, _BEARERS, ids, classes, MAX_TITLED, access)
        mentions = await _side(connection, _MENTIONS, ids, classes, MAX_MENTIONS, access)
        names = await connection.fetch(
            "SELECT id, terms FROM passage_name WHERE id = ANY($1::int[]) ORDER BY terms", ids
        )
    keys = frozenset(one["chunk_key"] for one in wanted)
    found = (
        LinkTitle(
            name=one["terms"],
            titled_passages=titled_passages.get(one["id"], ()),
            mentions=mentions.get(one["id"], ()),
            in_query=one["id"] in asked,
        )
        for one in names
    )
    return [one for one in found if _is_rare(one) and (one.in_query or _touches(one, keys))]


def _is_rare(name: LinkTitle) -> bool:
    return 0 < len(name.titled_passages) <= MAX_TITLED and len(name.mentions) <= MAX_MENTIONS


def _touches(name: LinkTitle, chunk_ids: frozenset[str]) -> bool:
    """Return whether a link of the name ends at one of the chunks; one that bears and holds it has none."""
    return any(ref.chunk_id in chunk_ids for ref in (*name.titled_passages, *name.mentions))


async def _names_in(
    connection: Connection, collection_id: int, text: str, language: str
) -> frozenset[int]:
    """Return the ids of the names that a query holds, in its first terms."""
    terms = document_terms(text, language)[:MAX_QUERY_WORDS] if text else []
    if not terms:
        return frozenset()
    ids = await titles_by_anchor(connection, collection_id, set(terms))
    return frozenset(ids[name] for name in MentionFinder(ids).find(terms))


async def _side(
    connection: Connection,
    query: str,
    names: list[int],
    classes: list[int],
    limit: int,
    access: Access,
) -> dict[int, tuple[PassageRef, ...]]:
    """Return the visible passages of each title on one side, at most one more than the limit."""
    rows = await connection.fetch(query, names, classes, limit)
    return {
        name: tuple(PassageRef(row["chunk_key"], row["document_id"]) for row in some)
        for name, some in groupby(allowed_rows(rows, access, "links"), key=lambda row: row["name"])
    }
