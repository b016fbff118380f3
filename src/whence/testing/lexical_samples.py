"""A corpus ranked by brute force, and hypothesis strategies, for the lexical suites."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import strategies as st

from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.bm25 import FLOOR_TERMS, K1, B, query_weights, share
from whence.store.protocols import ChunkStore, EmbeddedDocument
from whence.testing.index_samples import EVERYTHING, VECTOR, any_tags, store_writes
from whence.text.analysis import added_terms, document_terms, is_stop_term, parse_query


def text_document(
    document_id: str, *texts: str, tags: DocumentTags | None = None, embed_text: str = ""
) -> EmbeddedDocument:
    """Return a document with one chunk for each text."""
    chunks = tuple(ChunkDraft(content=text, embed_text=embed_text) for text in texts)
    draft = DocumentDraft(document_id=document_id, chunks=chunks, tags=tags or DocumentTags())
    return EmbeddedDocument(draft=draft, vectors=np.tile(VECTOR, (len(texts), 1)))


class Corpus:
    """The documents that a collection should have, and its rankings by brute force."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        self.documents: dict[str, EmbeddedDocument] = {}

    def chunks(self, access: Access | None = None) -> dict[str, Counter[str]]:
        """Return the term counts of each chunk that a reader may see; of all chunks without a reader."""
        return {
            f"urn:chunk:{self.collection}:{document_id}:{index}": Counter(
                document_terms(text := chunk.embed_text or chunk.content) + added_terms(text)
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
        """Return the score of each visible chunk, None without a shared term; checks the plain formula."""
        mean = self.mean(access)
        visible = self.chunks(access)
        df = Counter(term for words in visible.values() for term in words)
        asked, one_word = parse_query(query)
        counts = Counter(word.terms[0] for word in asked)
        weights, _ = query_weights(counts, df, len(visible), one_word=one_word)
        found: dict[str, float | None] = {}
        for key, words in visible.items():
            is_found = not weights.keys().isdisjoint(words)
            found[key] = share(weights, words, _length(words), mean) if is_found else None
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
    return sum(n for term, n in words.items() if len(term) > 1 and not is_stop_term(term))


def _lacking(query: str, words: Counter[str]) -> set[str]:
    """Return the words of a query that a chunk does not have, without code of the store."""
    parts: set[str] = set()
    for word in query.split():
        terms = document_terms(word)
        # Of an identifier only the parts are required; pairs of characters have no whole.
        parts |= set(terms[1:] if len(terms) > 1 and word.isascii() else terms)
    strong = {term for term in parts if not is_stop_term(term)}
    return (strong or parts) - words.keys()


def _plain_share(
    counts: Counter[str], words: Counter[str], df: Counter[str], n: int, mean: float, one_word: bool
) -> float:
    """Return the score by the formula, without rounding and without code of the store."""
    idfs = {t: math.log(1 + (n - df[t] + 0.5) / (df[t] + 0.5)) for t in counts}
    norm = K1 * (1 - B + B * _length(words) / mean)
    score = sum(
        count * idfs[t] * words[t] / (words[t] + norm) for t, count in counts.items() if words[t]
    )
    whole = sum(count * idfs[t] for t, count in counts.items())
    # From 401 chunks on a term of the floor has the idf of a term without chunks; in one chunk ln 3 less.
    rarity = math.log(2 * n + 2) - math.log(3) * max(0, 401 - n) / 400
    return score / max(
        whole, (1 if one_word or len(counts) == 1 else min(FLOOR_TERMS, len(counts) + 1)) * rarity
    )


_WORD = st.sampled_from(
    ["red", "blue", "green", "the", "of", "x", "日本語", "parseHTTPResponse", "naïve", "Ω", "…"]
)
any_text = st.lists(_WORD, max_size=9).map(" ".join)
_ids = st.sampled_from([f"d{n}" for n in range(8)])
_documents = st.dictionaries(
    _ids, st.tuples(st.lists(any_text, max_size=4), any_tags), min_size=1, max_size=3
).map(lambda some: [text_document(one, *texts, tags=tags) for one, (texts, tags) in some.items()])
any_writes = store_writes(_documents, _ids, most=14)


async def found_documents(
    store: ChunkStore, name: str, query: str, access: Access = EVERYTHING, limit: int = 100
) -> list[str]:
    """Return the documents of a ranking."""
    hits = await store.search_lexical(name, query, limit=limit, access=access)
    return [hit.document_id for hit in hits]
