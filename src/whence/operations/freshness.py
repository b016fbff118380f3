"""How current the sources of an answer are, and where they contradict each other.

Nothing of this is recorded: it is found out each time an answer is shown, from what the reader may see then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec.structs import replace

from whence.operations.source_roots import is_changed, own_store
from whence.schema.document_rag import Conflict
from whence.store.chunk_ids import by_collection, split_collections
from whence.text.contradictions import Statement, common_language, contradiction, read_statements

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.schema.document_rag import Answer, Citation
    from whence.store.protocols import ListedDocument
    from whence.store.source_states import SourceRoot


async def with_freshness(
    session: Session, collection: str, answer: Answer, access: Access, *, past: bool = False
) -> Answer:
    """Return an answer with the dates of its sources and their contradictions; see `dated_citations`."""
    if not answer.citations:
        return answer
    citations = await dated_citations(session, collection, answer.citations, access, past=past)
    return replace(answer, citations=citations, conflicts=find_conflicts(citations))


async def dated_citations(
    session: Session,
    collection: str,
    citations: Sequence[Citation],
    access: Access,
    *,
    past: bool = False,
) -> tuple[Citation, ...]:
    """Return citations with the dates of their documents, and whether these are other ones now.

    They are unknown where only the processes of the flow know the store, and of a document that is gone or
    hidden.

    Args:
        session: Of the engine.
        collection: Its name.
        citations: Of an answer.
        access: Rights of the reader.
        past: Whether the answer may be older than what is stored: then a passage without the quote is a former
            one, whose dates are not known.
    """
    names = split_collections(collection)
    if len(names) > 1:
        return await _dated_of_each(session, names, citations, access, past=past)
    store = await own_store(session)
    if store is None:
        return tuple(citations)
    names = sorted({one.document_id for one in citations})
    known = await store.describe_documents(collection, names, access)
    former: set[str] = set()
    if past:
        chunk_ids = list(dict.fromkeys(one.chunk_id for one in citations))
        texts = await store.chunk_texts(collection, chunk_ids, access)
        contents = {one.chunk_id: one.content for one in texts}
        former = {
            one.chunk_id for one in citations if one.quote not in contents.get(one.chunk_id, "")
        }
        former |= set(chunk_ids) - set(contents)
    roots = await store.source_roots(collection)
    return await asyncio.to_thread(_dated, citations, known, former, roots)


async def _dated_of_each(
    session: Session,
    names: Sequence[str],
    citations: Sequence[Citation],
    access: Access,
    *,
    past: bool,
) -> tuple[Citation, ...]:
    """Return the same for citations of several collections; each names its own."""
    chunk_ids = by_collection(",".join(names), dict.fromkeys(one.chunk_id for one in citations))
    found: dict[int, Citation] = {}
    for name in names:
        own = [n for n, one in enumerate(citations) if one.chunk_id in {*chunk_ids[name]}]
        named = [replace(citations[n], collection=name) for n in own]
        dated = await dated_citations(session, name, named, access, past=past)
        found |= dict(zip(own, dated, strict=True))
    return tuple(found.get(n, one) for n, one in enumerate(citations))


def _dated(
    citations: Sequence[Citation],
    known: dict[str, ListedDocument],
    former: set[str],
    roots: Sequence[SourceRoot],
) -> tuple[Citation, ...]:
    changed = {name: is_changed(roots, one) for name, one in known.items()}
    found: list[Citation] = []
    for one in citations:
        document = known.get(one.document_id)
        if document is not None and one.chunk_id in former:
            found.append(replace(one, changed=True))
        elif document is not None:
            dates = {"document_date": document.document_date, "indexed_at": document.indexed_at}
            found.append(replace(one, **dates, changed=changed[one.document_id]))
        else:
            found.append(one)
    return tuple(found)


def find_conflicts(citations: Sequence[Citation]) -> tuple[Conflict, ...]:
    """Return the pairs of current documents whose quotes say the same in another number or date.

    Cost: quadratic in the citations.
    """
    current = [one for one in citations if one.quote and not one.outdated]
    if len({_document(one) for one in current}) < 2:
        return ()
    language = common_language([one.quote for one in current])
    read = [(one, _statements(one, language)) for one in current]
    found: dict[Conflict, None] = {}
    for (a, says_a), (b, says_b) in combinations(read, 2):
        if _document(a) == _document(b):
            continue
        for one in says_a:
            for other in says_b:
                values = contradiction(one, other)
                if values is not None:
                    found[Conflict(citations=(a.marker, b.marker), values=values)] = None
    return tuple(found)


def _document(citation: Citation) -> tuple[str, str]:
    return citation.collection, citation.document_id


def _statements(citation: Citation, language: str) -> list[Statement]:
    text = f"{citation.lead}\n{citation.quote}" if citation.lead else citation.quote
    return read_statements(text, citation.heading or citation.title, language)
