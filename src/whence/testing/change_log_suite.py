"""The change log of a store; part of `store_suite`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, NotFound
from whence.store.change_log import Change
from whence.store.field_boosts import FieldBoosts
from whence.store.protocols import DocumentParts, Store
from whence.testing.store_samples import (
    EVERYTHING,
    QUERY,
    fill_collection,
    ids_of,
    make_document,
    search_all,
    unit,
)

_SECRET = DocumentTags(("a",))


def _told(changes: list[Change]) -> list[tuple[int, str, str]]:
    return [(one.version, one.kind, one.document_id) for one in changes]


async def _results(store: Any, name: str) -> list[Any]:
    """Return what searches, texts and filters say of a collection."""
    return [
        await search_all(store, name),
        await store.search_lexical(name, "part d", limit=9, access=EVERYTHING),
        await store.dense_scores(name, QUERY, [f"urn:chunk:{name}:d:1"], EVERYTHING),
        await store.chunk_texts(name, [f"urn:chunk:{name}:d:2"], EVERYTHING),
        await store.document_texts(name, ["d", "e"], EVERYTHING),
        await store.visible_chunks(name, [f"urn:chunk:{name}:e:0"], EVERYTHING),
    ]


class ChangeLogSuite:
    """Each write that changes documents is one version, with an entry for each of them."""

    async def test_each_write_is_a_version(self, store: Store) -> None:
        """Entries name what came, changed, got other tags and went; the last has the time of the collection."""
        name = await fill_collection(
            store, make_document("e", digest="1"), make_document("d", digest="1")
        )
        await store.replace_documents(
            name, [make_document("d", digest="2"), make_document("f", digest="1")]
        )
        await store.retag_documents(name, {"e": _SECRET})
        await store.remove_documents(name, ["d", "unknown"])
        changes = await store.changes(name, EVERYTHING)
        info = await store.collection(name)

        assert info is not None
        assert info.changed_at == changes[-1].changed_at
        assert _told(changes) == [
            (1, "added", "d"),
            (1, "added", "e"),
            (2, "changed", "d"),
            (2, "added", "f"),
            (3, "tagged", "e"),
            (4, "removed", "d"),
        ]
        assert await store.collection_version(name) == 4
        assert [one.tags for one in changes if one.document_id == "e"] == [DocumentTags(), _SECRET]

    async def test_what_changes_nothing_is_no_version(self, store: Store) -> None:
        """Equal documents, tags that stay, and unknown documents are not logged."""
        name = await fill_collection(store, make_document("d", digest="1"))
        await store.replace_documents(name, [make_document("d", digest="1")])
        await store.retag_documents(name, {"d": DocumentTags(), "unknown": _SECRET})
        await store.remove_documents(name, ["unknown"])

        assert _told(await store.changes(name, EVERYTHING)) == [(1, "added", "d")]
        assert await store.collection_version("unknown") == 0
        assert await store.changes("unknown", EVERYTHING) == []

    async def test_content_is_told_apart(self, store: Store) -> None:
        """Entries of equal digests have equal content; new tags leave it, other digests do not."""
        name = await fill_collection(store, make_document("d", digest="1"))
        await store.replace_documents(name, [make_document("d", digest="2")])
        await store.retag_documents(name, {"d": _SECRET})
        await store.replace_documents(name, [make_document("d", digest="1", tags=_SECRET)])
        first, second, tagged, last = await store.changes(name, EVERYTHING)

        assert first.content == last.content != second.content == tagged.content

    async def test_entries_of_hidden_documents_are_hidden(self, store: Store) -> None:
        """All entries of a document follow its tags of today; one that is gone has its last tags."""
        name = await fill_collection(store, *(make_document(one) for one in ("d", "e", "f")))
        await store.retag_documents(name, {"d": _SECRET, "e": _SECRET})
        await store.remove_documents(name, ["e"])
        public = await store.changes(name, Access.public())

        assert _told(public) == [(1, "added", "f")]
        assert {one.document_id for one in await store.changes(name, EVERYTHING)} == {
            "d",
            "e",
            "f",
        }

    async def test_entries_after_a_version(self, store: Store) -> None:
        """Later entries come alone, or with the earlier ones of the same documents."""
        name = await fill_collection(store, make_document("d"), make_document("e"))
        await store.replace_documents(name, [make_document("d")])

        assert _told(await store.changes(name, EVERYTHING, after=1)) == [(2, "changed", "d")]
        assert _told(await store.changes(name, EVERYTHING, after=1, whole=True)) == [
            (1, "added", "d"),
            (2, "changed", "d"),
        ]

    async def test_a_document_of_before_is_hidden_by_its_last_tags(self, store: Store) -> None:
        """The earlier entries of a document that is hidden today do not come either."""
        name = await fill_collection(store, make_document("d"))
        await store.retag_documents(name, {"d": _SECRET})

        assert await store.changes(name, Access.public(), after=1, whole=True) == []

    async def test_what_was_hidden_between_two_versions(self, store: Store) -> None:
        """A document that tags hide today counts where one version alone shows it, also once it is removed."""
        name = await fill_collection(
            store, make_document("d"), make_document("e", tags=_SECRET), make_document("f")
        )
        await store.retag_documents(name, {"d": _SECRET})
        await store.remove_documents(name, ["d", "e", "f"])
        public, all_ = Access.public(), EVERYTHING
        found = {
            (one, other): await store.was_hidden(name, public, one, other)
            for one, other in ((1, 2), (2, 1), (1, 3), (2, 3), (1, 1))
        }

        assert found == {(1, 2): True, (2, 1): True, (1, 3): True, (2, 3): False, (1, 1): False}
        assert not await store.was_hidden(name, all_, 1, 3)
        assert not await store.was_hidden("unknown", public, 1, 3)

    async def test_erasing_forgets_the_name(self, store: Store) -> None:
        """One entry without a name takes the place of all of an erased document, also of one removed before."""
        name = await fill_collection(store, make_document("d"), make_document("e", tags=_SECRET))
        await store.remove_documents(name, ["e"])
        before, after = await store.erase_document(name, "e")
        again = await store.erase_document(name, "e")
        changes = await store.changes(name, EVERYTHING)
        info = await store.collection(name)

        assert info is not None
        assert info.changed_at == changes[-1].changed_at
        assert before.versions >= 2
        assert after == DocumentParts()
        assert again == (DocumentParts(), DocumentParts())
        assert _told(changes) == [(1, "added", "d"), (3, "erased", "")]
        assert changes[-1].first_version == 1
        assert _told(await store.changes(name, Access.public())) == [(1, "added", "d")]

    async def test_new_weights_are_settings(self, store: Store) -> None:
        """New weights of fields are logged for every reader; equal ones are not."""
        name = await fill_collection(store, make_document("d"))
        boosts = FieldBoosts(title=3)
        await store.boost_fields(name, boosts)
        await store.boost_fields(name, boosts)

        assert _told(await store.changes(name, Access.public(), after=1)) == [(2, "settings", "")]

    async def test_versions_have_times(self, store: Store) -> None:
        """The version at a moment is the last one that was made until then."""
        name = await fill_collection(store, make_document("d"))
        await store.replace_documents(name, [make_document("e")])
        first, second = await store.changes(name, EVERYTHING)
        at = datetime.fromisoformat(second.changed_at)
        early = datetime(2000, 1, 1, tzinfo=UTC)

        assert first.changed_at <= second.changed_at
        assert await store.version_at(name, at) == 2
        assert await store.version_at(name, at + timedelta(days=1)) == 2
        assert await store.version_at(name, early) == await store.version_at("unknown", at) == 0

    async def test_a_version_is_read_as_it_was(self, store: Store) -> None:
        """Replaced and removed documents are there again, later ones are not, with the same results."""
        vectors = [unit(1, 0, 0, n / 3) for n in range(3)]
        codes = (b"one", b"two", b"three")
        old = make_document("d", vectors, digest="1", title="Old", metadata={"year": 1})
        name = await fill_collection(
            store,
            msgspec.structs.replace(old, token_codes=codes),
            make_document("e", digest="1"),
            make_document("f", [vectors[1]], digest="1"),
        )
        moment = datetime.now(UTC)
        before = await _results(store, name)
        await store.replace_documents(name, [make_document("d", digest="2")])
        await store.remove_documents(name, ["e"])
        await store.replace_documents(
            name, [make_document("d", digest="3"), make_document("g", digest="1")]
        )
        then = await store.store_at(name, EVERYTHING, 1, moment)
        later = await store.store_at(name, EVERYTHING, 3, datetime.now(UTC))

        assert await _results(then, name) == before
        assert await then.collection_version(name) == 1
        assert await then.token_codes(name, [f"urn:chunk:{name}:d:1"], EVERYTHING) == {
            f"urn:chunk:{name}:d:1": b"two"
        }
        assert sorted(ids_of(await search_all(later, name))) == ["d", "f"]
        assert sorted(ids_of(await search_all(store, name))) == ["d", "f", "g"]

    async def test_a_version_has_the_rights_of_today(self, store: Store) -> None:
        """A former version has the documents that the reader may see today, removed ones included."""
        name = await fill_collection(
            store, make_document("d"), make_document("e", tags=_SECRET), make_document("f")
        )
        moment = datetime.now(UTC)
        await store.retag_documents(name, {"d": _SECRET, "e": DocumentTags(), "f": _SECRET})
        await store.remove_documents(name, ["f"])
        public = await store.store_at(name, Access.public(), 1, moment)
        inside = await store.store_at(name, EVERYTHING, 1, moment)

        assert ids_of(await search_all(public, name)) == ["e"]
        assert sorted(ids_of(await search_all(inside, name))) == ["d", "e", "f"]
        assert ids_of(await search_all(inside, name, Access.public())) == ["e"]

    async def test_erased_documents_are_in_no_version(self, store: Store) -> None:
        """An erased document is missed by nobody, and its former texts are gone."""
        name = await fill_collection(store, make_document("d", title="Old"), make_document("e"))
        moment = datetime.now(UTC)
        await store.replace_documents(name, [make_document("d", title="New")])
        former = await store.stored_texts(name, "d")
        await store.erase_document(name, "d")
        then = await store.store_at(name, EVERYTHING, 1, moment)

        assert {"Old", "New", "d part 0"} <= set(former)
        assert ids_of(await search_all(then, name)) == ["e"]
        assert await store.stored_texts(name, "d") == []

    async def test_a_version_before_the_log_is_refused(self, store: Store) -> None:
        """Nothing is known of a moment before the collection was made, nor of no collection."""
        name = await fill_collection(store, make_document("d"))
        early = datetime(2000, 1, 1, tzinfo=UTC)

        with pytest.raises(BadInput, match="is known from"):
            await store.store_at(name, EVERYTHING, 0, early)
        with pytest.raises(NotFound):
            await store.store_at("unknown", EVERYTHING, 0, early)

    async def test_a_search_sees_the_version_of_its_documents(self, store: Store) -> None:
        """After a write, the version of the next search is the new one."""
        name = await fill_collection(store, make_document("d"))
        for number in range(2, 5):
            await search_all(store, name)
            await store.replace_documents(name, [make_document(f"d{number}")])
            hits = await search_all(store, name)

            assert (len(hits), await store.collection_version(name)) == (number, number)
