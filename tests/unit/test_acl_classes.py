"""Access classes and the second check of rights, without a database: parameters, caching, rows withheld."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID, uuid4

import pytest

from whence.schema.access import Access, DocumentTags
from whence.store.acl_check import allowed_rows
from whence.store.postgres.acl_classes import (
    access_values,
    allowed_classes,
    cached_classes,
    intern_classes,
)


def row(
    document: int, number: int, acl: tuple[str, ...] = (), clearance: int = 0
) -> dict[str, Any]:
    return {
        "own_document": document,
        "own_class": number,
        "own_acl": acl,
        "own_labels": (),
        "own_clearance": clearance,
    }


def test_rows_of_hidden_documents_are_withheld_and_logged_by_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The visible rows stay in order; the log has the numbers of the others, each once, and the read."""
    rows = [row(7, 1), row(9, 2, ("board",)), row(5, 3, ("hr",)), row(4, 2, ("board",))]
    rows += [row(9, 2, ("board",)), row(3, 4, (), 2), row(6, 1)]
    with caplog.at_level(logging.ERROR):
        kept = allowed_rows(rows, Access({"hr"}, frozenset(), 1), "dense")
    (record,) = caplog.records

    assert [one["own_document"] for one in kept] == [7, 5, 6]
    assert "the dense read let 4 rows pass" in record.getMessage()
    assert "documents numbered [3, 4, 9]" in record.getMessage()
    assert vars(record)["action"] == "withhold"
    assert vars(record)["read"] == "dense"


def test_a_reader_of_all_rows_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Without a withheld row there is no log record; each class is judged by the reader's own rights."""
    rows = [row(1, 1), row(2, 2, ("board",))]
    assert allowed_rows(rows, Access({"board"}), "dense") == rows
    assert allowed_rows(rows, Access(), "texts") == rows[:1]
    caplog.clear()
    assert allowed_rows(rows[:1], Access(), "texts") == rows[:1]
    assert caplog.records == []


class Connection:
    """A database that knows the digests it was given, and remembers its statements."""

    def __init__(self, *classes: int) -> None:
        self.classes = classes
        self.fetched: list[tuple[Any, ...]] = []
        self.stored: dict[bytes, int] = {}
        self.inserted: list[tuple[Any, ...]] = []

    async def fetch(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        self.fetched.append((statement, *values))
        if "digest = ANY" in statement:
            return [{"digest": d, "id": self.stored[d]} for d in values[0] if d in self.stored]
        return [{"id": one} for one in self.classes]

    async def executemany(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        assert "INSERT INTO sec_class" in statement
        self.inserted += rows
        for digest, *_ in rows:
            self.stored.setdefault(digest, len(self.stored) + 1)


def test_rights_become_sorted_parameters() -> None:
    """Tags that no document can have are left out; clearance is the last parameter."""
    access = Access({"hr", "board", "\udfff"}, {"x", "\ud800"}, 4)
    assert access_values(access) == (["board", "hr"], ["x"], 4)


async def test_classes_are_resolved_once_in_an_epoch() -> None:
    """The first call asks the database with the reader's rights; a new epoch or reader asks again."""
    connection: Any = Connection(9, 2, 4)
    epoch, access = uuid4(), Access({f"tag-{uuid4()}"}, {"l"}, 3)
    assert cached_classes(access, epoch) is None
    assert await allowed_classes(connection, access, epoch) == [2, 4, 9]
    assert await allowed_classes(connection, access, epoch) == [2, 4, 9]
    assert cached_classes(access, epoch) == [2, 4, 9]
    (first,) = connection.fetched
    assert first[1:] == access_values(access)

    await allowed_classes(connection, access, UUID(int=epoch.int ^ 1))
    await allowed_classes(connection, Access(access.acl_tags), epoch)
    assert len(connection.fetched) == 3


@pytest.mark.parametrize(
    ("acl", "labels", "many"), [(25, 25, False), (26, 25, True), (0, 51, True)]
)
async def test_many_tags_take_another_statement(acl: int, labels: int, many: bool) -> None:
    """More than fifty tags are looked up in a hash."""
    connection: Any = Connection(1)
    access = Access({f"a{n}" for n in range(acl)}, {f"l{n}" for n in range(labels)})
    await allowed_classes(connection, access, uuid4())

    assert ("NOT IN" in connection.fetched[0][0]) == many


async def test_new_combinations_of_tags_become_classes() -> None:
    """Each combination has one number; only unknown ones are inserted, in order of their digests."""
    connection: Any = Connection()
    tags = [DocumentTags(("hr",), ("x",), 2), DocumentTags(), DocumentTags(("hr",), (), 2)]
    first = await intern_classes(connection, iter(tags))
    inserted = list(connection.inserted)
    again = await intern_classes(connection, [tags[0], DocumentTags(("new",))])

    assert sorted(first.values()) == [1, 2, 3]
    assert set(first) == set(tags)
    assert [one[0] for one in inserted] == sorted(one[0] for one in inserted)
    assert {one[1:] for one in inserted} == {(one.acl, one.labels, one.clearance) for one in tags}
    assert again == {tags[0]: first[tags[0]], DocumentTags(("new",)): 4}
    assert len(connection.inserted) == 4
    # Known combinations cost one statement.
    connection.fetched.clear()
    assert await intern_classes(connection, tags) == first
    assert len(connection.fetched) == 1
    assert len(connection.inserted) == 4
