"""The sample of passages whose vectors are compared, in PostgreSQL."""

from __future__ import annotations

import asyncio
import struct

from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.postgres.collection_version import (
    ReaderView,
    check_version,
    fetch_versioned,
    versioned,
)
from whence.store.postgres.driver import Connection
from whence.store.vector_statistics import (
    MAX_SAMPLE,
    SampledPassage,
    VectorStatistics,
    vector_statistics,
)
from whence.text.analysis import ANALYZER_VERSION

# The order is `sample_key`; vectors and terms are read of the sample only.
_SAMPLE = versioned(
    f"""
    WITH documents AS MATERIALIZED (
        SELECT d.id, d.document_id FROM document d WHERE d.collection_id = $1 AND d.class_id = ANY($2::int[])
        ORDER BY md5(d.document_id), d.document_id LIMIT {MAX_SAMPLE}),
    passages AS MATERIALIZED (
        SELECT c.ord, md5(s.document_id || ':' || c.index) AS key FROM documents s JOIN chunk c ON c.document = s.id
        ORDER BY 2, s.document_id, c.index LIMIT {MAX_SAMPLE})
    SELECT p.key, d.document_id, c.index, v.e, t.terms, t.counts, t.language, {DOCUMENT_TAGS}
    FROM passages p JOIN chunk c ON c.ord = p.ord JOIN {{vectors}} v ON v.ord = c.ord
    JOIN chunk_terms t ON t.ord = c.ord JOIN document d ON d.id = c.document{TAGS_JOIN}
    ORDER BY p.key, d.document_id, c.index
    """,  # noqa: S608 - only constants
    3,
)
_KEY = "vector_statistics"


async def read_vector_statistics(
    connection: Connection, view: ReaderView
) -> tuple[VectorStatistics | None] | None:
    """Compare the sample of a reader's version; None while words are not indexed by this version.

    Kept in the cache. Cost: linear in the visible documents: 200,000 took 0.09 s.
    """
    known: tuple[VectorStatistics | None] | None = view.cache.get(view.key(_KEY))
    if known is not None:
        await check_version(connection, view.version)
        return known
    if view.version.analyzer not in ("", ANALYZER_VERSION):
        return None
    statement = _SAMPLE.format(vectors=view.version.vectors)
    rows = await fetch_versioned(connection, statement, view.version, view.version.id, view.classes)
    visible = allowed_rows((one for one in rows if one["key"] is not None), view.access, "sample")
    sample = [
        SampledPassage(
            document_id=row["document_id"],
            vector=row["e"].to_numpy(),
            terms=dict(zip(_numbers(row["terms"]), _numbers(row["counts"]), strict=True)),
            language=row["language"],
        )
        for row in visible
    ]
    found = (await asyncio.to_thread(vector_statistics, sample),)
    view.cache.put(view.key(_KEY), found, 4 * len(view.classes))
    return found


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}i", data)
