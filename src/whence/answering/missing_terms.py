"""Refuse questions about an identifier or a release that no visible document has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from whence.answering.state import Question
from whence.quoting.identifiers import defines_key, neighbours_in_path
from whence.quoting.named_terms import (
    NamedTerm,
    named_terms,
    nearest_term,
    numbered_releases,
)
from whence.schema.document_rag import BestPassage, Refusal
from whence.schema.passages import Passage

#: Terms of a question that are looked for, at most.
_MAX_TERMS: Final = 8


async def find_missing_term(question: Question, passages: Sequence[Passage]) -> Refusal | None:
    """Return a refusal if the question names something that no visible document has.

    The index has words and whole identifiers; a part of a longer identifier and a version in a path are found
    in the passages, and identifiers also in all that have their words. `mypy.api.run` is also found as
    `mypy.api` and `api.run`, and `web.port` as a definition of `port` below a heading with `web`. Cost: a
    search for each identifier that is neither in the index nor in the passages. A release refuses only where
    the passages number other releases of its product. A language model reads what is missing, and decides.
    """
    if not question.only_quotes:
        return None
    terms = named_terms(question.text, question.absent)[:_MAX_TERMS]
    texts = [_searched_text(one) for one in passages] if terms else []
    for term in terms:
        steps = [msgspec.structs.replace(term, text=one) for one in neighbours_in_path(term.text)]
        headings = [str(one.metadata.get("header_path")) for one in passages]
        if any(defines_key(term.text, *one) for one in zip(texts, headings, strict=True)):
            continue
        if term.kind == "version" and not numbered_releases(term.product, texts):
            continue
        if all([await _occurs(question, one, texts) for one in steps or [term]]):
            continue
        return _refusal(question, term, texts)
    return None


async def _occurs(question: Question, term: NamedTerm, texts: Sequence[str]) -> bool:
    if any(term.occurs_in(text) for text in texts):
        return True
    return term.kind == "identifier" and any(
        [await question.retrieval.occurs(one) for one in term.spellings]
    )


def _searched_text(passage: Passage) -> str:
    named = [value for value in passage.metadata.values() if isinstance(value, str)]
    return "\n".join([passage.text, passage.document_id, *named])


def _refusal(question: Question, term: NamedTerm, texts: Iterable[str]) -> Refusal:
    name = f"{term.product} {term.text}".strip() if term.kind == "version" else term.text
    reason = f"`{name}` does not occur in this collection"
    nearest = nearest_term(term, texts)
    scored = (one for one in question.candidates.values() if one.score is not None)
    best = next((BestPassage(one.chunk_id, one.score or 0.0) for one in scored), None)
    return Refusal(
        code="term_not_in_documents",
        reason=f"{reason}; nearest: `{nearest}`." if nearest else f"{reason}.",
        best=best,
    )
