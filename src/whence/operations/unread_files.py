"""Refusals that say how much of a collection's folders was not read, and which file comes nearest by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from whence.store.chunk_ids import split_collections
from whence.store.source_states import SourceFileState
from whence.text.analysis import document_terms, is_stop_term
from whence.text.languages import detect_language

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.schema.document_rag import Answer

#: Between the words of a file's name.
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


async def with_unread_files(
    session: Session, collection: str, answer: Answer, access: Access
) -> Answer:
    """Return an answer whose refusal names what was not read, as far as the reader may know of it."""
    from whence.operations.source_roots import own_store

    store = None if answer.refusal is None else await own_store(session)
    if answer.refusal is None or store is None:
        return answer
    count = 0
    files: list[SourceFileState] = []
    names = split_collections(collection)
    for name in names:
        more, named = await store.unread_files(name, access)
        count += more
        files += named
    if not count:
        return answer
    whose = "this collection's" if len(names) == 1 else "these collections'"
    nearest = nearest_file(answer.question_used or answer.question, files)
    were = (
        f"1 file of {whose} folders was"
        if count == 1
        else f"{count:,} files of {whose} folders were"
    )
    reason = f"{answer.refusal.reason} {were} not read"
    if nearest is not None:
        reason += f"; by its name {nearest.path!r} comes nearest ({nearest.reason})"
    refusal = replace(answer.refusal, reason=f"{reason}.", unread_files=count)
    return replace(answer, refusal=refusal)


def nearest_file(question: str, files: list[SourceFileState]) -> SourceFileState | None:
    """Return the file whose name has most words of a question, the first of equal ones; None without any."""
    language = detect_language(question)
    asked = {term for term in document_terms(question, language) if not is_stop_term(term)}

    def shared(file: SourceFileState) -> int:
        name = " ".join(_BETWEEN.split(file.path.rpartition(".")[0] or file.path))
        return len(asked & set(document_terms(name, language)))

    best = max(files, key=shared, default=None)
    return best if best is not None and shared(best) else None
