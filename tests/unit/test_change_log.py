"""What differs between two versions of a collection, for one reader."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.access import Access, DocumentTags
from whence.store.change_log import Change, ChangeKind, NetChanges, net_changes

PUBLIC = Access.public()
INSIDER = Access(frozenset({"a"}))
SECRET = DocumentTags(("a",))


def one(version: int, kind: ChangeKind, document_id: str = "d", **fields: Any) -> Change:
    return Change(
        version=version, changed_at="2026-01-01", kind=kind, document_id=document_id, **fields
    )


def net(
    *entries: Change, before: int = 1, after: int = 9, was: Access = PUBLIC, now: Access = PUBLIC
) -> NetChanges:
    return net_changes(entries, before, after, was=was, now=now)


def test_documents_that_came_changed_and_went() -> None:
    """Each is named once, by what differs between the two versions."""
    found = net(
        one(1, "added", "a", content=1),
        one(1, "added", "b"),
        one(2, "changed", "a", content=2),
        one(3, "changed", "a", content=3),
        one(3, "removed", "b"),
        one(4, "added", "c", content=4),
    )

    assert found == NetChanges(added=("c",), changed=("a",), removed=("b",))
    assert found.documents == ("c", "a", "b")


def test_what_was_undone_is_no_difference() -> None:
    """A change that was reverted, and a document that came and went between, count for nothing."""
    found = net(
        one(1, "added", "a", content=1),
        one(2, "changed", "a", content=2),
        one(3, "changed", "a", content=1),
        one(4, "added", "b"),
        one(5, "removed", "b"),
        one(6, "tagged", "a", content=1, tags=DocumentTags(clearance=0)),
    )

    assert found == NetChanges()


def test_versions_may_go_back() -> None:
    """With the later version first, what came has gone."""
    entries = (one(1, "added", "a"), one(2, "added", "b"), one(2, "removed", "a"))

    assert net(*entries, before=2, after=1) == NetChanges(added=("a",), removed=("b",))


@pytest.mark.parametrize("shown", [True, False])
def test_a_document_that_a_reader_could_not_see_was_not_there(shown: bool) -> None:
    """New tags alone let it come or go for a reader, and are told; who sees both sides sees no difference."""
    tags = (SECRET, DocumentTags()) if shown else (DocumentTags(), SECRET)
    entries = (one(1, "added", tags=tags[0], content=1), one(2, "tagged", tags=tags[1], content=1))
    side = {"added" if shown else "removed": ("d",)}

    assert net(*entries) == NetChanges(**side, tagged=("d",))
    assert net(*entries, was=INSIDER, now=INSIDER) == NetChanges()


def test_each_version_has_the_rights_of_its_reader() -> None:
    """A document that changed between counts for the side whose reader may see it."""
    entries = (one(1, "added", tags=SECRET), one(2, "changed", tags=SECRET, content=1))

    assert net(*entries, was=INSIDER) == NetChanges(removed=("d",))
    assert net(*entries, now=INSIDER) == NetChanges(added=("d",))


def test_new_text_and_new_tags_at_once_are_more_than_tags() -> None:
    """A document that also changed is not one whose tags alone changed."""
    found = net(one(1, "added", tags=SECRET, content=1), one(2, "changed", content=2))

    assert found == NetChanges(added=("d",))


def test_only_what_was_there_before_counts_as_erased() -> None:
    """A document that came after the first version and was erased is no difference."""
    assert net(one(5, "erased", "", first_version=1)).erased
    assert not net(one(5, "erased", "", first_version=2)).erased
    assert not net(one(5, "erased", "", first_version=1), before=5).erased
    assert net(one(5, "erased", "", first_version=1), before=9, after=1).erased


def test_settings_between_the_versions() -> None:
    """New settings count when they came after the first version, up to the second."""
    assert net(one(2, "settings", "")).settings
    assert not net(one(2, "settings", ""), before=2).settings
    assert not net(one(2, "settings", ""), after=1).settings
