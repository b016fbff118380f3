"""Words made comparable: folding of case and accents, stop words, and stemming.

Snowball stems the terms of the index, in the language of the document, and those of `overlap`, in English.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import Stemmer

#: Languages that Snowball can stem.
LANGUAGES = frozenset(Stemmer.algorithms())

_STOP_WORDS = """a an and are as at be but by for if in into is it no not of on or such that the their then there
    these they this to was will with"""
#: The 33 English words of Lucene's default list; they carry no topic.
STOP_WORDS = frozenset(_STOP_WORDS.split())

_QUESTION_WORDS = "what which who whom whose where when why how do does did"
#: The words that make a question of a statement.
QUESTION_WORDS = frozenset(_QUESTION_WORDS.split())

_FUNCTION_WORDS = """about above after again all also although am any because been before being between both can
    could doing don during each either else ever every few from gave get gets give given gives giving go goes
    going gone got had has have having he her here hers him his i its itself just let like made make makes many
    may me might more most much must my nor off once one only other our out over own per please put same say
    shall she should show showing shown shows so some take taken takes taking tell than them those though
    through too took under until up upon us use used using very we were whether while within without would you
    your"""
#: The stop words, those that make a question, and other English words without a topic.
FUNCTION_WORDS = STOP_WORDS | QUESTION_WORDS | set(_FUNCTION_WORDS.split())

_IRREGULAR_VERBS = """began:begin bought:buy broke:break broken:break brought:bring built:build chose:choose chosen:choose
    drove:drive fell:fall felt:feel found:find grew:grow held:hold kept:keep knew:know known:know left:leave lost:lose
    met:meet paid:pay ran:run sent:send sold:sell spent:spend stole:steal stolen:steal taught:teach
    thought:think told:tell wrote:write written:write won:win"""
#: Past forms of common verbs without a regular ending, which no stemmer knows, with their base forms.
BASE_FORMS = dict(pair.split(":") for pair in _IRREGULAR_VERBS.split())


def fold(text: str) -> str:
    """Lower the case and remove accents."""
    lowered = text.casefold()
    if lowered.isascii():
        return lowered
    decomposed = unicodedata.normalize("NFKD", lowered)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def snowball_stem(word: str, language: str) -> str:
    """Return the folded Snowball stem of a word; English stop words are returned whole, in lower case."""
    lowered = word.casefold()
    # Stemming a stop word would turn "this" into "thi".
    if lowered in STOP_WORDS:
        return lowered
    # Porter's first stemmer leaves nothing of "s".
    return fold(_stemmer(language).stemWord(lowered) or lowered)


@lru_cache(maxsize=64)
def _stemmer(language: str) -> Stemmer.Stemmer:
    # Without PyStemmer's own cache of 10,000 words: `analysis` caches terms.
    return Stemmer.Stemmer(language, 0)
