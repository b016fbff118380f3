"""Metadata filters in PostgreSQL: an index of documents' metadata, and the visible chunks that match a filter.

A filter is resolved to the numbers of the matching chunks before ranking; both retrievers then rank those
alone. Only visible documents are considered, also for the check whether a key exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    MAX_PREFIX_CHARS,
    Bound,
    Condition,
    Filters,
    FilterValue,
    Logic,
    conditions_of,
    unknown_key_error,
)
from whence.schema.ingest import DocumentDraft
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.postgres.chunk_reader import row_document
from whence.store.postgres.collection_version import ReaderView
from whence.store.postgres.driver import Connection
from whence.store.results import filter_values

#: Incremented when `schema.filters` extracts other values from the same metadata.
METADATA_VERSION = 1
_REBUILD_BATCH = 2000
#: Keys named in an error, and documents read for them.
_NAMED_KEYS = 40
_SAMPLE = 10_000
_KIND = {"text": "t", "number": "n", "flag": "f"}
_COLUMNS = ("collection_id", "document", "key", "kind", "text", "number")
#: A column of chunks in the form of `FilterValue.text`.
_INDEXED_TEXT = (
    f"CASE WHEN length({{0}}) <= {MAX_PREFIX_CHARS} THEN {{0}} ELSE left({{0}}, {MAX_PREFIX_CHARS}) || chr(1)"
    " || encode(sha256(convert_to({0}, 'UTF8')), 'hex') END"
)
_CHUNK_COLUMNS = {
    "section_path": _INDEXED_TEXT.format("c.section_path"),
    "header_path": _INDEXED_TEXT.format("c.section_path"),
    "heading": _INDEXED_TEXT.format("c.heading"),
}
_LONG_ID = _INDEXED_TEXT.format("d.document_id")
_VISIBLE = "d.collection_id = $1 AND d.class_id = ANY($2::int[])"
# The conditions of the filter follow.
_FILTERED = f"""
SELECT string_agg(int4send(c.ord) || int4send(coalesce(t.slot, -1)), '')
FROM document d JOIN chunk c ON c.document = d.id LEFT JOIN chunk_terms t ON t.ord = c.ord
WHERE {_VISIBLE} AND """  # noqa: S608 - only constants
_NEXT_DOCUMENTS = """
SELECT id, document_id, title, source_file, source_url, root, metadata FROM document
WHERE collection_id = $1 AND id > $2 ORDER BY id LIMIT $3
"""
_UNKNOWN_KEY = f"""
SELECT k FROM unnest($3::text[]) WITH ORDINALITY w(k, place)
WHERE NOT EXISTS (SELECT FROM document d WHERE {_VISIBLE} AND d.metadata ? w.k) ORDER BY w.place LIMIT 1
"""  # noqa: S608 - only constants
_KNOWN_KEYS = f"""
SELECT DISTINCT ON (k, d.class_id) k, {DOCUMENT_TAGS}
FROM (SELECT d.id, d.class_id, d.metadata FROM document d WHERE {_VISIBLE} LIMIT {_SAMPLE}) d
CROSS JOIN LATERAL jsonb_object_keys(d.metadata) k{TAGS_JOIN} ORDER BY k, d.class_id
"""  # noqa: S608 - only constants


async def index_metadata(
    connection: Connection, collection_id: int, numbered: Iterable[tuple[int, DocumentDraft]]
) -> None:
    """Index the metadata of new documents. Cost: linear in it.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection.
        numbered: Row ids of documents, and the documents.
    """
    rows = list(_rows(collection_id, numbered))
    if rows:
        await connection.copy_records_to_table("document_fact", columns=_COLUMNS, records=rows)


def _rows(
    collection_id: int, numbered: Iterable[tuple[int, DocumentDraft]]
) -> Iterator[tuple[Any, ...]]:
    for number, draft in numbered:
        for key, fact in filter_values(draft):
            if key == "document_id":
                continue  # The row of the document has it, under an index of its own.
            kind = _KIND[fact.kind].encode()
            yield collection_id, number, key, kind, fact.text, fact.number


async def ensure_metadata_indexed(connection: Connection, collection_id: int) -> None:
    """Index the metadata of all documents if another version indexed it; inside a writing transaction.

    Cost: one look-up; linear in the documents of the collection when it is indexed again.
    """
    version = await connection.fetchval(
        "SELECT facts_version FROM collection WHERE id = $1", collection_id
    )
    if version == METADATA_VERSION:
        return
    await connection.execute("DELETE FROM document_fact WHERE collection_id = $1", collection_id)
    last = -1
    while rows := await connection.fetch(_NEXT_DOCUMENTS, collection_id, last, _REBUILD_BATCH):
        numbered = ((row["id"], row_document(row)) for row in rows)
        await index_metadata(connection, collection_id, numbered)
        last = rows[-1]["id"]
    await connection.execute(
        "UPDATE collection SET facts_version = $2 WHERE id = $1", collection_id, METADATA_VERSION
    )


class _Arguments:
    """The parameters of a statement."""

    def __init__(self, *first: Any) -> None:
        self.values = list(first)

    def add(self, value: Any, sql_type: str) -> str:
        """Add a value; return its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}::{sql_type}"


class FilteredChunks(msgspec.Struct, frozen=True):
    """The visible chunks that a filter keeps."""

    ords: NDArray[np.int32]
    """Their numbers, in no order."""
    slots: NDArray[np.int32]
    """Their numbers in posting segments, in the same order; -1 of one whose words are not indexed."""


async def filtered_chunks(
    connection: Connection, view: ReaderView, filters: Filters
) -> FilteredChunks | None:
    """Return the visible chunks that a filter keeps; None while the metadata is not indexed.

    Cost, once per version: linear in the visible documents for which the most selective condition holds, and
    their chunks; a condition on a key of chunks reads the visible chunks.

    Args:
        connection: To the database.
        view: The collection as the reader sees it.
        filters: At least one condition.
    """
    if view.version.metadata_version != METADATA_VERSION:
        return None
    key = view.key(filters)
    found: FilteredChunks | None = view.cache.get(key)
    if found is None:
        arguments = _Arguments(view.version.id, view.classes)
        packed = await connection.fetchval(_FILTERED + _sql(filters, arguments), *arguments.values)
        # A mistyped key in `or` or `not` would not be noticed by its results.
        if packed is None or any(isinstance(one, Logic) for one in filters):
            await _check_keys(connection, view, filters)
        numbers = np.frombuffer(packed or b"", dtype=">i4").astype(np.int32).reshape(-1, 2)
        found = FilteredChunks(numbers[:, 0].copy(), numbers[:, 1].copy())
        view.cache.put(key, found, numbers.nbytes)
    return found


async def _check_keys(connection: Connection, view: ReaderView, filters: Filters) -> None:
    """Refuse a key that no visible document has. Cost: linear in the visible documents.

    Hidden documents are not read: a key that only they have takes as long as one that no document has.
    """
    built_in = (*DOCUMENT_KEYS, *CHUNK_KEYS)
    keys = [one.key for one in conditions_of(filters) if one.key not in built_in]
    unknown = await connection.fetchval(_UNKNOWN_KEY, view.version.id, view.classes, keys)
    if unknown is not None:
        rows = await connection.fetch(_KNOWN_KEYS, view.version.id, view.classes)
        known = dict.fromkeys(row["k"] for row in allowed_rows(rows, view.access, "keys"))
        raise unknown_key_error(unknown, list(known)[:_NAMED_KEYS])


def _sql(filters: Filters, arguments: _Arguments, word: str = "and") -> str:
    return f" {word.upper()} ".join(_of_filter(one, arguments) for one in filters)


def _of_filter(one: Condition | Logic, arguments: _Arguments) -> str:
    if isinstance(one, Condition):
        return f"({_of_condition(one, arguments)})"
    if one.word == "not":
        # A chunk without a heading has null there, and null is not `not true`.
        return f"(({_sql(one.parts, arguments)}) IS NOT TRUE)"
    return f"({_sql(one.parts, arguments, one.word)})"


def _of_condition(condition: Condition, arguments: _Arguments) -> str:
    if condition.key == "chunk_index":
        return _of_index(condition, arguments)
    if condition.key in _CHUNK_COLUMNS:
        return _of_text(condition, _CHUNK_COLUMNS[condition.key], arguments)
    if condition.key == "document_id":
        return _of_document_id(condition, arguments)
    return f"d.id IN ({_documents(condition, arguments)})"


def _documents(condition: Condition, arguments: _Arguments) -> str:
    """Return the statement that finds the documents that match a condition."""
    key = arguments.add(condition.key, "text")
    return (
        "SELECT f.document FROM document_fact f WHERE f.collection_id = $1"  # noqa: S608 - only constants
        f" AND f.key = {key} AND ({_of_fact(condition, arguments)})"
    )


def _of_fact(condition: Condition, arguments: _Arguments) -> str:
    if condition.any_of:
        return " OR ".join(
            f"(f.kind = '{_KIND[kind]}' AND f.text = ANY({arguments.add(texts, 'text[]')}))"
            for kind, texts in _by_kind(condition.any_of)
        )
    if condition.prefix:
        prefix = arguments.add(condition.prefix, "text")
        return f"f.kind = 't' AND f.text ^@ {prefix}"
    kind = "t" if condition.is_date_range else "n"
    return f"f.kind = '{kind}' AND {_between('f.number', condition, arguments)}"


def _by_kind(facts: Sequence[FilterValue]) -> list[tuple[str, list[str]]]:
    kinds = dict.fromkeys(fact.kind for fact in facts)
    return [(kind, [fact.text for fact in facts if fact.kind == kind]) for kind in kinds]


def _between(column: str, condition: Condition, arguments: _Arguments) -> str:
    def end(bound: Bound | None, sign: str) -> list[str]:
        if bound is None:
            return []
        equal = "" if bound.strict else "="
        return [f"{column} {sign}{equal} {arguments.add(bound.value, 'float8')}"]

    return " AND ".join([*end(condition.low, ">"), *end(condition.high, "<")])


def _of_text(condition: Condition, column: str, arguments: _Arguments) -> str:
    if condition.prefix:
        return f"{column} ^@ {arguments.add(condition.prefix, 'text')}"
    texts = [fact.text for fact in condition.any_of if fact.kind == "text"]
    return f"{column} = ANY({arguments.add(texts, 'text[]')})"


def _of_document_id(condition: Condition, arguments: _Arguments) -> str:
    """Return a condition on the index of document ids; only long ids are compared by digest."""
    long = any(len(fact.text) > MAX_PREFIX_CHARS for fact in condition.any_of)
    return _of_text(condition, _LONG_ID if long else "d.document_id", arguments)


def _of_index(condition: Condition, arguments: _Arguments) -> str:
    if condition.any_of:
        texts = [fact.text for fact in condition.any_of if fact.kind == "number"]
        return f"c.index::text = ANY({arguments.add(texts, 'text[]')})"
    return _between("c.index::float8", condition, arguments)
