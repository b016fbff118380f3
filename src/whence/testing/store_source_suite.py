"""Contract of roots, the states of files, and the list of documents."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from typing import Any

import msgspec
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput
from whence.store.protocols import ListedDocument, Store
from whence.store.source_states import SourceFileState, SourceRoot, StoredSource
from whence.testing.store_samples import EVERYTHING, fill_collection, make_document

_HIDDEN = DocumentTags(("a",))


def _file(path: str, state: Any = "failed", root: str = "r", **fields: Any) -> SourceFileState:
    reason = "" if state == "read" else "why"
    return SourceFileState(root=root, path=path, state=state, reason=reason, **fields)


async def _listed(store: Store, name: str, access: Access, **options: Any) -> list[ListedDocument]:
    return await store.visible_documents(name, access, limit=100, unread=True, **options)


class SourceSuite:
    """Where documents come from, and what became of every file."""

    async def test_roots_have_one_path_and_one_name(self, store: Store) -> None:
        """A path has one root; a second path of a name gets the next number, or moves the root when told."""
        name = await fill_collection(store)

        first = await store.add_root(name, "docs", "/one/docs")
        again = await store.add_root(name, "docs", "/one/docs")
        second = await store.add_root(name, "docs", "/two/docs")
        third = await store.add_root(name, "docs", "/three/docs")
        moved = await store.add_root(name, "docs", "/four/docs", moved=True)

        assert first == again == SourceRoot("docs", "/one/docs")
        assert [second.name, third.name] == ["docs-2", "docs-3"]
        assert moved == SourceRoot("docs", "/four/docs")
        assert await store.source_roots(name) == [moved, second, third]
        assert await store.source_roots("nowhere") == []

    async def test_states_need_no_collection(self, store: Store) -> None:
        """A folder without one readable file has states, too."""
        await store.note_files("states-alone", [_file("a.bin", "skipped")])

        count, files = await store.unread_files("states-alone", Access.public())

        assert (count, [(one.path, one.state, one.reason) for one in files]) == (
            1,
            [("a.bin", "skipped", "why")],
        )
        assert await store.stored_sources("states-alone") == [
            StoredSource("", "r", "a.bin", is_document=False)
        ]

    async def test_a_list_has_documents_and_files_that_were_not_read(self, store: Store) -> None:
        """By key; a document has the state of its file, and a file with a visible document is in its line."""
        fields: dict[str, Any] = {"root": "r", "date": "2024-05-06", "encoding": "cp1252"}
        name = await fill_collection(
            store,
            make_document("a.md", source_file="a.md", left_out={"pictures": 2}, **fields),
            make_document("b.md", source_file="b.md", root="r"),
        )
        await store.note_files(
            name,
            [
                _file("a.md", "read", document_id="a.md", size=5, modified=7, digest="d"),
                _file("b.md", "failed", document_id="b.md"),
                _file("c.bin", "skipped"),
                _file("old.md", "gone"),
                _file("read.md", "read"),
            ],
        )

        listed = await _listed(store, name, Access.public())

        found = [(one.document_id, one.root, one.path, one.state, one.reason) for one in listed]
        assert found == [
            ("a.md", "r", "a.md", "read", ""),
            ("b.md", "r", "b.md", "failed", "why"),
            (None, "r", "c.bin", "skipped", "why"),
            (None, "r", "old.md", "gone", "why"),
        ]
        (first, *_) = listed
        assert (first.document_date, first.encoding, first.left_out) == (
            "2024-05-06",
            "cp1252",
            {"pictures": 2},
        )
        assert (first.size, first.modified, first.file_digest) == (5, 7, "d")
        assert (first.chunks, first.vectors) == (1, 1)
        assert first.indexed_at
        assert first.tried_at
        for state in ("read", "waiting", "skipped", "failed", "gone"):
            chosen = await _listed(store, name, Access.public(), state=state)
            assert [one.path for one in chosen] == [p for _, _, p, s, _ in found if s == state]
        after = await _listed(store, name, Access.public(), after=listed[1].key)
        assert after == listed[2:]
        alone = await store.visible_documents(name, Access.public(), limit=9)
        assert alone == listed[:2]
        names = [one.document_id or "" for one in listed]
        described = await store.describe_documents(name, [*names, "other.md"], Access.public())
        assert described == {one.document_id: one for one in alone}

    async def test_only_visible_documents_are_described(self, store: Store) -> None:
        """A hidden document is described as little as a missing one; a visible one may have a hidden file."""
        hidden = make_document("hidden.md", tags=_HIDDEN, root="r", source_file="hidden.md")
        shown = make_document("shown.md", root="r", source_file="shown.md")
        name = await fill_collection(store, hidden, shown)
        await store.note_files(name, [_file("shown.md", "read", size=5, tags=_HIDDEN)])

        found = await store.describe_documents(name, ["hidden.md", "shown.md"], Access.public())
        assert found.keys() == {"shown.md"}
        assert found["shown.md"].size == -1
        everything = await store.describe_documents(name, ["hidden.md", "shown.md"], EVERYTHING)
        assert everything.keys() == {"hidden.md", "shown.md"}
        assert everything["shown.md"].size == 5
        assert await store.describe_documents("nowhere", ["shown.md"], EVERYTHING) == {}

    async def test_a_document_without_vectors_is_waiting(self, store: Store) -> None:
        """Until all of its chunks have a vector; the list may be limited to such documents."""
        document = make_document("late.md", source_file="late.md")
        late = msgspec.structs.replace(document, vectors=None)
        name = await fill_collection(store, make_document("now.md"), late)

        waiting = await _listed(store, name, Access.public(), state="waiting")
        read = await _listed(store, name, Access.public(), state="read")

        assert [(one.document_id, one.chunks, one.vectors) for one in waiting] == [
            ("late.md", 1, 0)
        ]
        assert [one.document_id for one in read] == ["now.md"]

    async def test_hidden_files_are_neither_listed_nor_counted(self, store: Store) -> None:
        """A file has the rights of its document, else those of its run; the owner's list has all."""
        name = await fill_collection(store, make_document("a.md", source_file="a.md", tags=_HIDDEN))
        files = [_file("a.md", document_id="a.md"), _file("b.md", tags=_HIDDEN), _file("c.md")]
        files.append(_file("nothing.md", "skipped", tags=_HIDDEN, size=0))
        await store.note_files(name, files)

        public = await store.unread_files(name, Access.public())
        count, seen = await store.unread_files(name, EVERYTHING)

        assert (public[0], [one.path for one in public[1]]) == (1, ["c.md"])
        assert (count, [one.path for one in seen]) == (3, ["a.md", "b.md", "c.md"])
        assert [one.path for one in await _listed(store, name, Access.public())] == ["c.md"]

    async def test_the_newest_of_a_list_come_first(self, store: Store) -> None:
        """By the time of storing or trying, those of one time by key; pages meet without gap or overlap."""
        name = await fill_collection(store, make_document("b.md"), make_document("c.md"))
        await store.replace_documents(name, [make_document("a.md"), make_document("z.md")])
        hidden = make_document("hidden.md", tags=_HIDDEN)
        await store.replace_documents(name, [hidden])
        await store.note_files(name, [_file("0.bin", "skipped"), _file("1.bin", tags=_HIDDEN)])
        newest: dict[str, Any] = {"unread": True, "order": "newest"}

        whole = await store.visible_documents(name, Access.public(), limit=9, **newest)
        assert whole[0].path == "0.bin"
        ids = [one.document_id for one in whole[1:]]
        assert [{*ids[:2]}, {*ids[2:]}] == [{"a.md", "z.md"}, {"b.md", "c.md"}]
        ordered = sorted(whole, key=lambda one: one.key)
        ordered.sort(key=lambda one: datetime.fromisoformat(one.moment), reverse=True)
        assert whole == ordered
        paged: list[ListedDocument] = []
        after = ""
        while page := await store.visible_documents(
            name, Access.public(), limit=2, after=after, **newest
        ):
            paged += page
            after = page[-1].place("newest")
        assert paged == whole
        for wrong in ("b.md", "|b.md", "x|b.md"):
            with pytest.raises(BadInput):
                await store.visible_documents(name, Access.public(), limit=2, after=wrong, **newest)

    async def test_states_change_and_are_forgotten(self, store: Store) -> None:
        """The last state holds; forgotten files and those of removed documents are not known any more."""
        name = await fill_collection(store, make_document("a.md"), make_document("b.md"))
        await store.note_files(name, [_file(f"{one}.md", document_id=f"{one}.md") for one in "ab"])
        await store.note_files(name, [_file("c.md"), _file("c.md", "skipped"), _file("d.md")])
        await store.note_files(name, [], [("r", "d.md"), ("other", "c.md")])
        await store.remove_documents(name, ["a.md"])
        await store.erase_document(name, "b.md")

        count, files = await store.unread_files(name, EVERYTHING)

        assert (count, [(one.path, one.state) for one in files]) == (1, [("c.md", "skipped")])

    async def test_documents_without_a_root_are_adopted(self, store: Store) -> None:
        """Those of former versions get a root once, and others keep theirs."""
        name = await fill_collection(
            store,
            make_document("old.md", source_file="old.md"),
            make_document("new.md", source_file="new.md", root="mine"),
        )
        await store.adopt_documents(name, "docs", ["old.md", "new.md", "missing.md"])
        await store.adopt_documents(name, "later", ["old.md"])

        stored = await store.stored_sources(name)

        assert sorted(stored, key=lambda one: one.document_id) == [
            StoredSource("new.md", "mine", "new.md"),
            StoredSource("old.md", "docs", "old.md"),
        ]

    async def test_a_name_means_visible_documents(self, store: Store) -> None:
        """The id, else root and path, else the path of one or several; hidden documents have no name."""
        composed, parted = (unicodedata.normalize(form, "Größe.md") for form in ("NFC", "NFD"))
        name = await fill_collection(
            store,
            make_document("x.md", root="one", source_file="x.md", tags=_HIDDEN),
            make_document("two/x.md", root="two", source_file="x.md"),
            make_document("three/x.md", root="three", source_file="x.md"),
            make_document(composed, root="one", source_file=composed),
        )
        cases = {
            "x.md": (["x.md"], ["three/x.md", "two/x.md"]),
            "one/x.md": (["x.md"], []),
            "two/x.md": (["two/x.md"], ["two/x.md"]),
            parted: ([composed], [composed]),
            f"one/{parted}": ([composed], [composed]),
            "": ([], []),
            "\0": ([], []),
            "x": ([], []),
        }
        for asked, (of_owner, of_public) in cases.items():
            assert await store.documents_named(name, asked, None) == of_owner, asked
            assert await store.documents_named(name, asked, Access.public()) == of_public, asked
        assert await store.documents_named("nowhere", "x.md", None) == []

    async def test_roots_and_files_are_forgotten(self, store: Store) -> None:
        """The documents of the collection stay, and other collections keep theirs."""
        name = await fill_collection(store, make_document("a.md", root="r", source_file="a.md"))
        for one in (name, f"{name}-x"):
            await store.add_root(one, "r", f"/{one}")
            await store.note_files(one, [_file("b.md")])

        await store.forget_sources(name)
        assert await store.source_roots(name) == []
        assert await store.unread_files(name, EVERYTHING) == (0, [])
        assert await store.document_ids(name) == ["a.md"]
        assert await store.source_roots(f"{name}-x") == [SourceRoot("r", f"/{name}-x")]
        assert (await store.unread_files(f"{name}-x", EVERYTHING))[0] == 1

    async def test_a_collection_without_its_erased_documents_is_not_listed(
        self, store: Store
    ) -> None:
        """What is left of it is the log; one whose documents were removed is listed, as is one filled again."""
        erased, emptied = [await fill_collection(store, make_document("a.md")) for _ in "12"]
        await store.erase_document(erased, "a.md")
        await store.remove_documents(emptied, ["a.md"])

        listed = {one.name for one in await store.collections()}
        assert emptied in listed
        assert erased not in listed
        await store.replace_documents(erased, [make_document("b.md")])
        assert erased in {one.name for one in await store.collections()}
