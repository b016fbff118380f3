"""A corpus ranked by brute force, and hypothesis strategies, for the lexical suites."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.bm25 import FLOOR_TERMS, K1, B, impact, share, weights
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.text.analysis import document_terms, is_stop_term, parse_query, query_terms

__all__ = (
    "EVERYTHING",
    "MODEL",
    "SECRET",
    "VECTOR",
    "Corpus",
    "any_access",
    "any_text",
    "any_writes",
    "apply_write",
    "fill_collection",
    "found_documents",
    "on_one_store",
    "text_document",
)

MODEL = EmbeddingModel(name="words", dimension=2)
EVERYTHING = Access(frozenset({"a", "b"}), frozenset({"x"}), 9)
SECRET = DocumentTags(("a",))
VECTOR = np.array([1, 0], dtype=np.float32)


def text_document(
    document_id: str, *texts: str, tags: DocumentTags | None = None, embed_text: str = ""
) -> EmbeddedDocument:
    """Return a document with one chunk for each text."""
    chunks = tuple(ChunkDraft(content=text, embed_text=embed_text) for text in texts)
    draft = DocumentDraft(document_id=document_id, chunks=chunks, tags=tags or DocumentTags())
    return EmbeddedDocument(draft=draft, vectors=np.tile(VECTOR, (len(texts), 1)))


class Corpus:
    """The collection as it should be, and its rankings by brute force."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        self.documents: dict[str, EmbeddedDocument] = {}

    def chunks(self, access: Access | None = None) -> dict[str, Counter[str]]:
        """Return the counted terms of each chunk that a reader may see, of all without one."""
        return {
            f"urn:chunk:{self.collection}:{document_id}:{index}": Counter(
                document_terms(chunk.embed_text or chunk.content)
            )
            for document_id, document in self.documents.items()
            if access is None or access.allows(document.draft.tags)
            for index, chunk in enumerate(document.draft.chunks)
        }

    def mean(self, access: Access) -> float:
        """Return the mean length of the chunks that a reader may see, 1 at least."""
        chunks = self.chunks(access)
        total = sum(map(_length, chunks.values()))
        return max(1.0, total / len(chunks)) if chunks else 1.0

    def shares(self, query: str, access: Access) -> dict[str, float | None]:
        """Return the share of each visible chunk, None without a shared word; checked by the plain formula."""
        mean = self.mean(access)
        visible = self.chunks(access)
        df = Counter(term for words in visible.values() for term in words)
        counts = Counter(query_terms(query))
        _, one_word = parse_query(query)
        parts = weights(counts, df, len(visible), one_word=one_word)
        found: dict[str, float | None] = {}
        for key, words in visible.items():
            shared = [
                (parts[t], impact(float(words[t]), float(_length(words)), mean))
                for t in parts
                if t in words
            ]
            found[key] = share(shared) if shared else None
            plain = _plain_share(counts, words, df, len(visible), mean, one_word)
            assert abs((found[key] or 0.0) - plain) < 1e-6
        return found

    def ranking(
        self, query: str, access: Access, *, every: bool = False
    ) -> list[tuple[str, float]]:
        """Return ids and scores, best first, ties by id; of all chunks or of those with every word."""
        chunks = self.chunks(access)
        scored = [
            (-score, key)
            for key, score in self.shares(query, access).items()
            if score is not None and not (every and _lacking(query, chunks[key]))
        ]
        return [(key, -negative) for negative, key in sorted(scored)]


def _length(words: Counter[str]) -> int:
    return sum(count for term, count in words.items() if not is_stop_term(term))


def _lacking(query: str, words: Counter[str]) -> set[str]:
    """Return the words of a query that a chunk does not have, without sharing code with the store."""
    parts: set[str] = set()
    for word in query.split():
        terms = document_terms(word)
        # Of an identifier the parts are asked for; pairs of characters have no whole.
        parts |= set(terms[1:] if len(terms) > 1 and word.isascii() else terms)
    strong = {term for term in parts if not is_stop_term(term)}
    return (strong or parts) - words.keys()


def _plain_share(
    counts: Counter[str],
    words: Counter[str],
    df: Counter[str],
    n: int,
    mean: float,
    one_word: bool,
) -> float:
    """Write the formula down once more, without rounding and without sharing code with the store."""
    idfs = {t: math.log(1 + (n - df[t] + 0.5) / (df[t] + 0.5)) for t in counts}
    norm = K1 * (1 - B + B * _length(words) / mean)
    score = sum(
        count * idfs[t] * words[t] / (words[t] + norm) for t, count in counts.items() if words[t]
    )
    whole = sum(count * idfs[t] for t, count in counts.items())
    # From 401 chunks on a term of the floor is worth the idf of one that is nowhere, in one chunk ln 3 less.
    rarity = math.log(2 * n + 2) - math.log(3) * max(0, 401 - n) / 400
    return score / max(whole, (1 if one_word or len(counts) == 1 else FLOOR_TERMS) * rarity)


_WORD = st.sampled_from(
    ["red", "blue", "green", "the", "of", "x", "日本語", "parseHTTPResponse", "naïve", "Ω", "…"]
)
any_text = st.lists(_WORD, max_size=9).map(" ".join)
_tags = st.builds(
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
_ids = st.sampled_from([f"d{n}" for n in range(8)])
_put = st.tuples(
    st.just("put"),
    st.dictionaries(_ids, st.tuples(st.lists(any_text, max_size=4), _tags), min_size=1, max_size=3),
)
_retag = st.tuples(st.just("retag"), st.dictionaries(_ids, _tags, max_size=4))
_remove = st.tuples(st.just("remove"), st.lists(_ids, max_size=2, unique=True))
# Two chances of three to write, so that collections grow.
any_writes = st.lists(_put | _put | _put | _put | _retag | _remove, max_size=14)

on_one_store = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
_numbers = itertools.count()


async def fill_collection(store: ChunkStore, *documents: EmbeddedDocument) -> str:
    """Create a collection with these documents; return its name."""
    name = f"words-{next(_numbers)}"
    await store.ensure_collection(name, MODEL)
    await store.replace_documents(name, documents)
    return name


async def found_documents(
    store: ChunkStore, name: str, query: str, access: Access = EVERYTHING, limit: int = 100
) -> list[str]:
    """Return the documents of a ranking."""
    hits = await store.search_lexical(name, query, limit=limit, access=access)
    return [hit.document_id for hit in hits]


async def apply_write(store: ChunkStore, corpus: Corpus, kind: str, what: Any) -> None:
    """Apply one write to the store and to the corpus."""
    if kind == "put":
        documents = [text_document(one, *texts, tags=tags) for one, (texts, tags) in what.items()]
        await store.replace_documents(corpus.collection, documents)
        corpus.documents |= {one.draft.document_id: one for one in documents}
    elif kind == "retag":
        await store.retag_documents(corpus.collection, what)
        for one in what.keys() & corpus.documents.keys():
            texts = [chunk.content for chunk in corpus.documents[one].draft.chunks]
            corpus.documents[one] = text_document(one, *texts, tags=what[one])
    else:
        await store.remove_documents(corpus.collection, what)
        for one in what:
            corpus.documents.pop(one, None)
