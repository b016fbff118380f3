"""Filters in PostgreSQL: what documents state, and which visible chunks a filter keeps.

A filter is resolved to the numbers of the chunks it keeps before anything is ranked; both legs of a search
then look at those alone. Only documents that the reader may see take part, also in the answer to whether a
key exists at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import Access
from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    MAX_PREFIX_CHARS,
    Bound,
    Condition,
    Filters,
    FilterValue,
    unknown_key_error,
)
from whence.schema.ingest import DocumentDraft
from whence.store.acl_check import OWN_TAGS, TAGS_JOIN, cleared
from whence.store.postgres.driver import Connection
from whence.store.validation import draft_facts

__all__ = (
    "add_facts",
    "count_documents",
    "facts_are_kept",
    "matching",
    "matching_documents",
    "matching_numbers",
    "open_facts",
    "visible_numbers",
)

#: Changes when `schema.filters` makes other facts of the same metadata.
_VERSION = 1
_REBUILD_BATCH = 2000
#: Keys named in an error, and documents looked at for them.
_NAMED_KEYS = 40
_SAMPLE = 10_000
_KIND = {"text": "t", "number": "n", "flag": "f"}
_COLUMNS = ("collection_id", "document", "key", "kind", "text", "number")
#: A column of chunks in the form of `FilterValue.text`.
_KEPT = (
    f"CASE WHEN length({{0}}) <= {MAX_PREFIX_CHARS} THEN {{0}} ELSE left({{0}}, {MAX_PREFIX_CHARS}) || chr(1)"
    " || encode(sha256(convert_to({0}, 'UTF8')), 'hex') END"
)
_CHUNK_TEXT = {
    "section_path": _KEPT.format("c.section_path"),
    "header_path": _KEPT.format("c.section_path"),
    "heading": _KEPT.format("c.heading"),
}
_LONG_ID = _KEPT.format("d.document_id")
_VISIBLE = "d.collection_id = $1 AND d.class_id = ANY($2::int[])"
_VISIBLE_NUMBERS = (
    "SELECT string_agg(int8send(d.id) || int4send(c.ord) || int4send(t.slot), '') FROM document d"  # noqa: S608 - only constants
    f" JOIN chunk c ON c.document = d.id JOIN chunk_terms t ON t.ord = c.ord WHERE {_VISIBLE}"
)
_NUMBERED = np.dtype([("document", ">i8"), ("numbers", ">i4", 2)])
_COUNT = "SELECT count(*) FROM document d WHERE d.collection_id = $1"
_UNKNOWN = (
    "SELECT k FROM unnest($3::text[]) WITH ORDINALITY w(k, place) WHERE NOT EXISTS"  # noqa: S608 - only constants
    f" (SELECT FROM document d WHERE {_VISIBLE} AND d.metadata ? w.k) ORDER BY w.place LIMIT 1"
)
_KNOWN = (
    f"SELECT DISTINCT ON (k, d.class_id) k, {OWN_TAGS} FROM"  # noqa: S608 - only constants
    f" (SELECT d.id, d.class_id, d.metadata FROM document d WHERE {_VISIBLE} LIMIT {_SAMPLE}) d"
    f" CROSS JOIN LATERAL jsonb_object_keys(d.metadata) k{TAGS_JOIN} ORDER BY k, d.class_id"
)


# --- writing ---------------------------------------------------------------------------------------


async def add_facts(
    connection: Connection, collection_id: int, numbered: Iterable[tuple[int, DocumentDraft]]
) -> None:
    """Keep what new documents state. Cost: linear in their metadata.

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
        for key, fact in draft_facts(draft):
            if key == "document_id":
                continue  # The row of the document has it, under an index of its own.
            kind = _KIND[fact.kind].encode()
            yield collection_id, number, key, kind, fact.text, fact.number


async def open_facts(connection: Connection, collection_id: int) -> None:
    """Make sure that the facts of all documents are kept; inside a writing transaction.

    Cost: one look-up; linear in the documents of the collection when another version left them.
    """
    if await facts_are_kept(connection, collection_id):
        return
    await connection.execute("DELETE FROM document_fact WHERE collection_id = $1", collection_id)
    last = -1
    while rows := await connection.fetch(
        "SELECT id, document_id, title, source_file, source_url, metadata FROM document"
        " WHERE collection_id = $1 AND id > $2 ORDER BY id LIMIT $3",
        collection_id,
        last,
        _REBUILD_BATCH,
    ):
        await add_facts(connection, collection_id, ((row["id"], _draft(row)) for row in rows))
        last = rows[-1]["id"]
    await connection.execute(
        "UPDATE collection SET facts_version = $2 WHERE id = $1", collection_id, _VERSION
    )


async def facts_are_kept(connection: Connection, collection_id: int) -> bool:
    """Tell whether the facts of a collection were made by this version."""
    version = await connection.fetchval(
        "SELECT facts_version FROM collection WHERE id = $1", collection_id
    )
    return bool(version == _VERSION)


def _draft(row: Any) -> DocumentDraft:
    return DocumentDraft(
        document_id=row["document_id"],
        chunks=(),
        title=row["title"],
        source_file=row["source_file"],
        source_url=row["source_url"],
        metadata=msgspec.json.decode(row["metadata"]),
    )


# --- reading ---------------------------------------------------------------------------------------


class _Arguments:
    """Values of a statement; gives the placeholder of each."""

    def __init__(self, *first: Any) -> None:
        self.values = list(first)

    def add(self, value: Any, of: str) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{of}"


async def matching(
    connection: Connection,
    collection_id: int,
    classes: Sequence[int],
    access: Access,
    filters: Filters,
    what: Literal["ord", "slot"],
) -> list[int]:
    """Give the numbers of the visible chunks that a filter keeps, in no order.

    Cost: linear in the visible documents that hold for the most selective condition, and their chunks; a
    condition on a key of chunks reads the visible chunks.

    Args:
        connection: Inside the reading transaction.
        collection_id: The collection.
        classes: Classes of rights that the reader may see.
        access: Rights of the reader.
        filters: At least one condition.
        what: `ord` for the numbers of chunks, `slot` for those that postings name.

    Raises:
        BadInput: No visible document has one of the keys.
    """
    number = "t.slot" if what == "slot" else "c.ord"
    packed = await _packed(connection, collection_id, classes, filters, f"int4send({number})")
    if packed is None:
        await _check_keys(connection, collection_id, classes, access, filters)
        return []
    numbers: list[int] = np.frombuffer(packed, dtype=">i4").tolist()
    return numbers


async def matching_numbers(
    connection: Connection, collection_id: int, classes: Sequence[int], filters: Filters
) -> NDArray[np.int32]:
    """Give number and slot of the visible chunks that a filter keeps, shape (n, 2), in no order.

    Cost and arguments as for `matching`; a key that nobody has keeps nothing.
    """
    both = "int4send(c.ord) || int4send(t.slot)"
    packed = await _packed(connection, collection_id, classes, filters, both)
    return np.frombuffer(packed or b"", dtype=">i4").astype(np.int32).reshape(-1, 2)


async def matching_documents(
    connection: Connection, collection_id: int, filters: Filters
) -> NDArray[np.int64] | None:
    """Give the row ids of the documents that a filter keeps, whoever sees them.

    None when it asks for more than facts. Cost: linear in the facts for which its conditions hold, 0.2 us each.
    """
    if any(one.key in (*CHUNK_KEYS, "document_id") for one in filters):
        return None
    arguments = _Arguments(collection_id)
    first, *others = (_documents(condition, arguments) for condition in filters)
    also = "".join(f" AND f.document IN ({one})" for one in others)
    packed = await connection.fetchval(
        f"SELECT string_agg(int8send(k.document), '') FROM ({first}{also}) k",  # noqa: S608 - placeholders only
        *arguments.values,
    )
    return np.frombuffer(packed or b"", dtype=">i8").astype(np.int64)


async def count_documents(connection: Connection, collection_id: int) -> int:
    """Count the documents of a collection. Cost: linear in them, 0.1 us each."""
    found: int = await connection.fetchval(_COUNT, collection_id)
    return found


async def visible_numbers(
    connection: Connection, collection_id: int, classes: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Give all visible chunks: the row id of the document of each, and its number and slot.

    As `matching_numbers` gives them. Cost: linear in them, 1.3 us each.
    """
    packed = await connection.fetchval(_VISIBLE_NUMBERS, collection_id, list(classes))
    table = np.frombuffer(packed or b"", dtype=_NUMBERED)
    return table["document"].astype(np.int64), table["numbers"].astype(np.int32)


async def _packed(
    connection: Connection,
    collection_id: int,
    classes: Sequence[int],
    filters: Filters,
    numbers: str,
) -> bytes | None:
    """Give the numbers of the chunks that are kept, big endian; None when there are none."""
    arguments = _Arguments(collection_id, list(classes))
    wanted = " AND ".join(_sql(condition, arguments) for condition in filters)
    words = " JOIN chunk_terms t ON t.ord = c.ord" if "t." in numbers else ""
    found: bytes | None = await connection.fetchval(
        f"SELECT string_agg({numbers}, '') FROM document d"  # noqa: S608 - conditions hold placeholders only
        f" JOIN chunk c ON c.document = d.id{words} WHERE {_VISIBLE} AND {wanted}",
        *arguments.values,
    )
    return found


async def _check_keys(
    connection: Connection,
    collection_id: int,
    classes: Sequence[int],
    access: Access,
    filters: Filters,
) -> None:
    """Refuse a key that no visible document has. Cost: linear in the visible documents.

    Hidden documents are not looked at: a key that only they have takes as long as one that nobody has.
    """
    keys = [one.key for one in filters if one.key not in (*DOCUMENT_KEYS, *CHUNK_KEYS)]
    unknown = await connection.fetchval(_UNKNOWN, collection_id, list(classes), keys)
    if unknown is not None:
        rows = await connection.fetch(_KNOWN, collection_id, list(classes))
        known = dict.fromkeys(row["k"] for row in cleared(rows, access, "keys"))
        raise unknown_key_error(unknown, list(known)[:_NAMED_KEYS])


def _sql(condition: Condition, arguments: _Arguments) -> str:
    if condition.key == "chunk_index":
        return _of_index(condition, arguments)
    if condition.key in _CHUNK_TEXT:
        return _of_text(condition, _CHUNK_TEXT[condition.key], arguments)
    if condition.key == "document_id":
        return _of_document_id(condition, arguments)
    return f"d.id IN ({_documents(condition, arguments)})"


def _documents(condition: Condition, arguments: _Arguments) -> str:
    """Give the statement that finds the documents with a fact."""
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
    """Ask the index of documents' ids; only of a long one the digest has to be made."""
    long = any(len(fact.text) > MAX_PREFIX_CHARS for fact in condition.any_of)
    return _of_text(condition, _LONG_ID if long else "d.document_id", arguments)


def _of_index(condition: Condition, arguments: _Arguments) -> str:
    if condition.any_of:
        texts = [fact.text for fact in condition.any_of if fact.kind == "number"]
        return f"c.index::text = ANY({arguments.add(texts, 'text[]')})"
    return _between("c.index::float8", condition, arguments)
