"""Words made comparable: folding of case and accents, function words, and stemming.

Snowball stems words in the language of the document. Languages without a stemmer of theirs are folded only.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Final

import regex
import Stemmer

#: Languages that are detected and that Snowball cannot stem, with the one whose stemmer serves; empty for none.
_OTHER_STEMMERS: Final = {
    "bengali": "english",
    "georgian": "english",
    "chinese": "english",
    "hebrew": "english",
    "japanese": "english",
    "korean": "english",
    "thai": "english",
    "ukrainian": "russian",
    "vietnamese": "english",
}
#: Languages of documents.
LANGUAGES = frozenset(Stemmer.algorithms()).union(_OTHER_STEMMERS)

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

#: ISO 639-1 codes of the languages, by Snowball's names.
LANGUAGE_CODES: Final = {
    "arabic": "ar",
    "armenian": "hy",
    "basque": "eu",
    "bengali": "bn",
    "catalan": "ca",
    "chinese": "zh",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "esperanto": "eo",
    "estonian": "et",
    "finnish": "fi",
    "french": "fr",
    "georgian": "ka",
    "german": "de",
    "greek": "el",
    "hebrew": "he",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "irish": "ga",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "lithuanian": "lt",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "thai": "th",
    "turkish": "tr",
    "ukrainian": "uk",
    "vietnamese": "vi",
}
#: Characters that readers neither see nor type: soft hyphens, joiners, marks of direction, and the stretching
#: stroke of Arabic.
_INVISIBLE: Final = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}\u0640]+")
_OTHER_DIGIT: Final = regex.compile(r"[\p{Nd}--[0-9]]", regex.V1)
#: Canonical combining classes of marks that belong to their letter: signs of Indic scripts, kana and Thai.
#: Those between are marks on Hebrew and Arabic letters, those above are accents.
_KEPT_MARKS: Final = (*range(1, 10), *range(84, 200))


class _WithoutMarks(dict[int, int | None]):
    """A table for `str.translate` that removes the other marks, filled with the characters that occur."""

    def __missing__(self, code: int) -> int | None:
        mark = unicodedata.combining(chr(code))
        found = self[code] = None if mark and mark not in _KEPT_MARKS else code
        return found


_WITHOUT_MARKS: Final = _WithoutMarks()
#: Ukrainian letters as the Russian ones that stand in the same endings.
_UKRAINIAN: Final = str.maketrans("іїєґ", "ииег")

#: A German verb with its particle in front: `einzureichen` is a form of `einreichen`, which no stemmer knows.
_PARTICLES: Final = "ab|an|auf|aus|bei|durch|ein|fest|fort|her|hin|los|mit|nach|nieder|um|vor|weg|weiter|zur\u00fcck|zusammen"
_GERMAN_ZU: Final = regex.compile(rf"\A({_PARTICLES})zu(?=\w{{2,}}e?n\Z)")


def clean(text: str) -> str:
    r"""Return a text in its compatibility form, with plain digits, without characters that nobody sees.

    >>> clean("Donau\u00addampf \u0661\u0662")
    'Donaudampf 12'
    """
    if text.isascii():
        return text
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), plain)


def is_blank(text: str) -> bool:
    r"""Return whether a text has no character that somebody sees.

    >>> is_blank(" \u200b\u2003"), is_blank("?")
    (True, False)
    """
    return not text.strip() or not clean(text).strip()


def fold(text: str) -> str:
    """Lower the case, and remove accents and the vowel marks of Hebrew and Arabic.

    Signs that make another letter or word stay: those of Indic scripts, of Thai and of kana.
    """
    lowered = text.casefold()
    if lowered.isascii():
        return lowered
    decomposed = unicodedata.normalize("NFKD", lowered)
    return unicodedata.normalize("NFC", decomposed.translate(_WITHOUT_MARKS))


def snowball_stem(word: str, language: str) -> str:
    """Return the folded Snowball stem of a word; English stop words are returned whole, in lower case."""
    lowered = word.casefold()
    # Stemming a stop word would turn "this" into "thi".
    if lowered in STOP_WORDS:
        return lowered
    if language in _OTHER_STEMMERS:
        if language == "ukrainian":
            lowered = lowered.translate(_UKRAINIAN)
        elif not lowered.isascii():
            return fold(lowered)
        language = _OTHER_STEMMERS[language]
    if language == "german":
        lowered = _GERMAN_ZU.sub(r"\1", lowered)
    # Porter's first stemmer leaves nothing of "s".
    return fold(_stemmer(language).stemWord(lowered) or lowered)


@lru_cache(maxsize=64)
def _stemmer(language: str) -> Stemmer.Stemmer:
    # Without PyStemmer's own cache of 10,000 words: `analysis` caches terms.
    return Stemmer.Stemmer(language, 0)


@cache
def function_words(language: str) -> frozenset[str]:
    """Return the folded words of a language that carry no topic, those that ask among them."""
    if language == "english":
        return FUNCTION_WORDS
    from stopwordsiso import stopwords

    from whence.text.question_words import question_words

    listed = stopwords(LANGUAGE_CODES.get(language, language))
    return frozenset(map(fold, listed)) | question_words(language)
