"""Symbol look-up in PostgreSQL: one look-up in an index of reversed headings."""

from __future__ import annotations

from typing import Any

from whence.schema.access import Access
from whence.schema.errors import NotFound
from whence.schema.filters import Filters
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.postgres.acl_classes import ALLOWED, access_values
from whence.store.postgres.collection_version import read_view
from whence.store.postgres.driver import Connection, read_transaction
from whence.store.postgres.metadata_index import filtered_chunks
from whence.store.postgres.part import PostgresPart
from whence.store.symbol_names import LONGEST_NAME, SymbolMatch, symbol_fit
from whence.store.validation import check_limit, is_text

#: Expression and condition of the index of headings, word for word.
_REVERSED = 'reverse(lower(c.heading COLLATE "C"))'
_IS_NAME = (
    f"octet_length(c.heading) BETWEEN 1 AND {LONGEST_NAME} AND position(' ' IN c.heading) = 0"
)
# The range of the index ends after the last joint, `:`; a further condition checks the character there. The
# condition on titles is that of `is_symbol_heading`.
_NAMED = f"""
    SELECT * FROM (
        SELECT DISTINCT ON (c.document, c.heading) c.chunk_key, d.document_id, c.heading, {DOCUMENT_TAGS}
        FROM collection n JOIN chunk c ON c.collection_id = n.id JOIN document d ON d.id = c.document
        JOIN sec_class s ON s.id = c.class_id AND {ALLOWED}{TAGS_JOIN}
        WHERE n.name = $4 AND {_IS_NAME}
        AND {_REVERSED} >= $5::text AND {_REVERSED} < $5::text || ';'
        AND ({_REVERSED} = $5::text OR substr({_REVERSED}, length($5::text) + 1, 1) IN ('.', ':', '#'))
        AND d.title IN (c.heading, d.document_id)
        AND ($6::int[] IS NULL OR c.ord = ANY($6::int[]))
        ORDER BY c.document, c.heading, c.index) w
    ORDER BY w.heading = $7 DESC, right(w.heading, length($7)) = $7 DESC, w.chunk_key LIMIT $8"""  # noqa: S608 - only constants


class PostgresSymbols(PostgresPart):
    """Look-up of symbols."""

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """Return the visible chunks that define a name, best fit first, ties by id."""
        check_limit(limit)
        if not is_text(collection) or not is_text(name):
            return []

        async def read(connection: Connection) -> list[SymbolMatch] | None:
            if not filters:
                return await _named(connection, collection, name, limit, access, None)
            async with read_transaction(connection):
                try:
                    view = await read_view(connection, collection, access, self.cache)
                except NotFound:
                    return []
                kept = await filtered_chunks(connection, view, filters)
                if kept is None:
                    return None
                return await _named(connection, collection, name, limit, access, kept.ords.tolist())

        return await self.maintenance.read_indexed(collection, read)


async def _named(
    connection: Connection,
    collection: str,
    name: str,
    limit: int,
    access: Access,
    kept: list[int] | None,
) -> list[SymbolMatch]:
    # Only ASCII letters are folded, as in the collation of the index.
    folded = name.encode().lower().decode()
    values: tuple[Any, ...] = (*access_values(access), collection, folded[::-1], kept, name, limit)
    rows = await connection.fetch(_NAMED, *values)
    return [
        SymbolMatch(row["chunk_key"], row["document_id"], symbol_fit(name, row["heading"]) or 0)
        for row in allowed_rows(rows, access, "names")
    ]
