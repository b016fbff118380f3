"""Readers, tags and writes that the suites of words, links and symbols have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing import store_samples

MODEL = EmbeddingModel(name="suite", dimension=2)
EVERYTHING = Access(frozenset({"a", "b"}), frozenset({"x"}), 9)
PUBLIC = Access.public()
SECRET = DocumentTags(("a",))
VECTOR = np.array([1, 0], dtype=np.float32)
fill_collection = partial(store_samples.fill_collection, model=MODEL)

any_tags = st.builds(
    DocumentTags,
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=2),
    st.lists(st.sampled_from(["x"]), max_size=1),
    st.integers(0, 1),
)
any_access = st.builds(
    Access,
    st.frozensets(st.sampled_from(["a", "b"])),
    st.frozensets(st.sampled_from(["x"])),
    st.integers(0, 1),
)


def store_writes(
    documents: st.SearchStrategy[list[EmbeddedDocument]], ids: st.SearchStrategy[str], most: int
) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Return sequences of writes for `apply_write`; two of three put documents, so that collections grow."""
    put = st.tuples(st.just("put"), documents)
    retag = st.tuples(st.just("retag"), st.dictionaries(ids, any_tags, max_size=4))
    remove = st.tuples(st.just("remove"), st.lists(ids, max_size=2, unique=True))
    return st.lists(st.one_of(put, put, put, put, retag, remove), max_size=most)


async def apply_write(
    store: ChunkStore,
    collection: str,
    expected: dict[str, EmbeddedDocument],
    write: tuple[str, Any],
) -> None:
    """Do a write of `store_writes` in a store, and to the documents that the store should have then."""
    kind, what = write
    if kind == "put":
        documents: Sequence[EmbeddedDocument] = what
        await store.replace_documents(collection, documents)
        expected |= {one.draft.document_id: one for one in documents}
    elif kind == "retag":
        await store.retag_documents(collection, what)
        for one in what.keys() & expected.keys():
            draft = msgspec.structs.replace(expected[one].draft, tags=what[one])
            expected[one] = EmbeddedDocument(draft=draft, vectors=expected[one].vectors)
    else:
        await store.remove_documents(collection, what)
        for one in what:
            expected.pop(one, None)
