"""Words of a query that no visible document has: which are misspelt, and what they probably mean."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from whence.schema.access import Access
from whence.schema.search import Correction
from whence.text.normalization import FUNCTION_WORDS
from whence.text.spelling import (
    QueryToken,
    can_be_misspelt,
    is_contraction,
    is_rare,
    max_edits,
    nearest_word,
    other_spelling,
    query_tokens,
    replace_parts,
)

if TYPE_CHECKING:
    from whence.store.protocols import ChunkStore

#: Words of a query that are looked up; a longer one is a text rather than a query.
_MAX_TOKENS: Final = 64
#: Absent words from which on a query of mostly such words may be one in another language: it is left as it is
#: unless each of them is near a word of the documents.
_MANY_ABSENT: Final = 4


class Spelling(msgspec.Struct, frozen=True):
    """What is known of the words of a query."""

    corrections: tuple[Correction, ...] = ()
    absent: tuple[str, ...] = ()
    """Words and identifiers that no visible chunk has and that are not corrected, in order."""


async def check_spelling(store: ChunkStore, collection: str, text: str, access: Access) -> Spelling:
    """Look up the words of a query and correct those that no visible chunk has.

    Cost: nothing beside the search when all words were found by it; else that of `similar_words` for each word
    that may be misspelt.
    """
    tokens = {
        (token.text, token.quoted): token
        for token in query_tokens(text)[:_MAX_TOKENS]
        if token.text.lower() not in FUNCTION_WORDS and not is_contraction(token.text)
    }
    wanted = dict.fromkeys(
        word for token in tokens.values() for word in (token.text, *(one for _, one in token.parts))
    )
    if not wanted:
        return Spelling()
    found = await store.absent_words(collection, list(wanted), access)
    missing = [token for token in tokens.values() if _is_absent(token, found.words)]
    if not missing:
        return Spelling()
    absent = list(_absent_parts(missing, found.words))
    words = sum(token.is_word for token in missing)
    may_be_foreign = words >= _MANY_ABSENT and 2 * words > len(tokens)
    targets: dict[str, str] = {}
    if absent:
        misspelt = await asyncio.to_thread(
            lambda: [one for one in absent if can_be_misspelt(one, found.languages)]
        )
        whole_words = {token.text for token in missing}
        # Two names are often two letters apart.
        names = {one for one in misspelt if is_rare(one, found.languages)}
        targets = await _nearest_words(
            store, collection, misspelt, access, whole_words, names, all_or_none=may_be_foreign
        )
        targets |= await _variants_in_use(store, collection, {*absent} - {*misspelt}, access)
    corrected = {token.text: replace_parts(token, targets) for token in missing if not token.quoted}
    # An identifier is corrected to another one, not to words that are there for themselves.
    whole = {
        corrected[token.text]: token.text
        for token in missing
        if len(token.parts) > 1
        and "-" not in token.text
        and corrected.get(token.text, token.text) != token.text
    }
    unknown = (await store.absent_words(collection, list(whole), access)).words if whole else ()
    corrected |= {whole[one]: whole[one] for one in unknown}
    return Spelling(
        tuple(Correction(source=one, target=new) for one, new in corrected.items() if one != new),
        tuple(
            dict.fromkeys(
                token.text
                for token in missing
                if corrected.get(token.text, token.text) == token.text
            )
        ),
    )


async def _nearest_words(
    store: ChunkStore,
    collection: str,
    misspelt: Iterable[str],
    access: Access,
    whole_words: Collection[str],
    names: Collection[str],
    *,
    all_or_none: bool,
) -> dict[str, str]:
    """Return for misspelt words the nearest of visible chunks; nothing if one lacks it and all are wanted."""
    targets = {}
    for word in misspelt:
        similar = await store.similar_words(collection, word, access)
        limit = 1 if word in names else None
        nearest = nearest_word(word, similar, is_part=word not in whole_words, limit=limit)
        if nearest is not None:
            targets[word] = nearest
        elif all_or_none:
            return {}
    return targets


async def _variants_in_use(
    store: ChunkStore, collection: str, words: Iterable[str], access: Access
) -> dict[str, str]:
    """Return for words of a dictionary their other spelling, British or American, that visible chunks have."""
    variants = {word: other for word in sorted(words) if (other := other_spelling(word))}
    if not variants:
        return {}
    absent = (await store.absent_words(collection, list(variants.values()), access)).words
    return {word: other for word, other in variants.items() if other not in absent}


def _is_absent(token: QueryToken, absent: frozenset[str]) -> bool:
    """Return whether no chunk has a token as a whole; words joined by hyphens are none in the index."""
    return "-" in token.text or token.text in absent


def _absent_parts(tokens: Iterable[QueryToken], absent: frozenset[str]) -> dict[str, None]:
    """Return the words that may be corrected, each once; none of a token with a digit.

    Of an identifier that no chunk has, any word may be: `recipiant` has the stem of `recipient`.
    """
    return {
        word: None
        for token in tokens
        if not (token.quoted or any(char.isdigit() for char in token.text))
        for _, word in token.parts
        if (word in absent or (len(token.parts) > 1 and "-" not in token.text)) and max_edits(word)
    }
