"""Detection of a document's language by its commonest words, for the stemmer and for hints.

Names are Snowball's, with those of a few languages that it does not stem. Function words (articles,
prepositions, pronouns) are a third of running text in any of these languages and hardly occur in another. A
script of one language is sufficient, or one of two that letters tell apart. Unclear text counts as English: a
document in the wrong language loses some inflected matches, while a language that a collection does not have
would only add terms to its queries.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from whence.text.normalization import LANGUAGE_CODES, fold, function_words
from whence.text.scripts import UNSPACED, language_of_run

DEFAULT_LANGUAGE = "english"

#: Characters of a document that are examined: some six hundred words.
_SAMPLE_CHARACTERS = 4000
#: A language is detected by at least this many different function words, which are at least this share of all
#: words, and at least this many times as frequent as English ones.
_MIN_WORDS = 4
_MIN_SHARE = 0.12
_MIN_RATIO_TO_ENGLISH = 2
#: Texts of up to so many words may have too few of the commonest function words. All of a language's count
#: there, and must be this share of the words.
_FEW_WORDS = 40
_MIN_SHARE_OF_FEW = 0.25
#: The same for a language that letters show, of all its function words. Of 8,300 pieces of English texts and
#: of code 8 count as another language, most of them lists of names.
_MIN_WORDS_BY_LETTERS, _MIN_SHARE_BY_LETTERS, _MIN_RATIO_BY_LETTERS = 2, 0.05, 1.5
_WORD = re.compile(r"[^\W\d_]+")

# No words of one letter: these are names of variables and list markers as well. A word of two languages counts
# for both.
_FUNCTION_WORDS = {
    "english": "the of and to in is that it for was on are as with be this by from at or which not have an",
    "czech": "se na je že to do ve si za ale jako pro byl bylo podle který která které nebo jsou není také",
    "danish": "og det er en til af på som at den der med de for ikke et jeg har vi kan om fra men ved",
    "dutch": "de het een en van in is dat op te zijn voor met niet die aan er om als bij ook door naar wordt",
    "finnish": "ja on ei se että oli hän mutta kun ovat myös tai joka ole sen jos niin kuin voi mukaan",
    "french": "de la le et les des en un une du est que dans pour qui sur au par il pas ne avec ce sont",
    "german": "der die und das in den von zu mit ist nicht ein eine für auf dem des im sich auch es wird oder bei",
    "hungarian": "az és hogy nem is egy ez de van meg csak vagy mint volt kell lehet ami azt már",
    "indonesian": "yang dan di dari untuk dengan ini itu tidak pada adalah dalam akan oleh juga atau ke karena",
    "italian": "di il la che un in per una del non della con si sono le da al nel gli più dei",
    "norwegian": "og det er en til av på som at den med de for ikke et jeg har vi kan om fra men ved",
    "polish": "się nie na do że jest to po za od przez jak oraz dla są być lub przy ale był może które który",
    "portuguese": "de que do da em um para com não uma no se na por mais as dos das ao",
    "romanian": "de și în la cu nu este că pe un se din care mai sunt pentru sau ca",
    "spanish": "de la que el en los del se las por un para con no una su al es lo como más este",
    "swedish": "och det är en till av på som att den med de för inte ett jag har vi kan om från men vid",
    "turkish": "ve bir bu da de için ile ne çok olarak daha gibi olan kadar sonra her değil ama veya",
    "vietnamese": "và là của có được trong cho không các một người này với khi đã những để từ theo phải",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _name, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
#: Languages that a few words may be in.
SHORT_LANGUAGES = sorted(_FUNCTION_WORDS)
#: Language by script; scripts are named as in the first word of the Unicode names of their letters.
_LANGUAGE_OF_SCRIPT = {
    "BENGALI": "bengali",
    "GEORGIAN": "georgian",
    "CJK": "chinese",
    "HANGUL": "korean",
    "HEBREW": "hebrew",
    "HIRAGANA": "japanese",
    "KATAKANA": "japanese",
    "THAI": "thai",
    "ARABIC": "arabic",
    "ARMENIAN": "armenian",
    "CYRILLIC": "russian",
    "DEVANAGARI": "hindi",
    "GREEK": "greek",
    "TAMIL": "tamil",
}
#: Another language of a script, and letters that only it has.
_LETTERS_OF_OTHER = {
    "arabic": ("persian", frozenset("پچژگکی")),
    "russian": ("ukrainian", frozenset("іїєґ")),
}


#: Names of languages by code.
_NAMES = {code: name for name, code in LANGUAGE_CODES.items()}
#: The last letter of Latin script with marks in Unicode that European languages use.
_LAST_LATIN = 0x24F
#: Share of letters of other scripts from which names in Latin letters are foreign to a text.
_MIN_SHARE_OF_SCRIPT = 1 / 3
#: Languages that their script shows.
LANGUAGES_BY_SCRIPT = frozenset(
    (*_LANGUAGE_OF_SCRIPT.values(), *(other for other, _ in _LETTERS_OF_OTHER.values()))
)


def language_code(name: str) -> str:
    """Return the ISO 639-1 code of a language that `detect_language` names."""
    return LANGUAGE_CODES[name]


def language_of_document(texts: Iterable[str]) -> str:
    """Return the language of a text given in parts, as `detect_language`.

    Reading and storing a document both need it, shortly after one another, so the latest are kept.
    """
    return _detect_kept(language_sample(texts))


@lru_cache(maxsize=512)
def _detect_kept(sample: str) -> str:
    return detect_language(sample)


def language_sample(texts: Iterable[str]) -> str:
    """Return as much of the beginning of a text given in parts as `detect_language` examines."""
    return " ".join(islice((text[:_SAMPLE_CHARACTERS] for text in texts), 8))[:_SAMPLE_CHARACTERS]


def detect_language(text: str) -> str:
    """Return the name of the language of a text, by its first 4,000 characters; English when unclear.

    >>> detect_language("Der Urlaub ist bis März zu nehmen."), detect_language("送料は五百円です。")
    ('german', 'japanese')
    """
    words = _WORD.findall(unicodedata.normalize("NFC", text[:_SAMPLE_CHARACTERS]).casefold())
    if not words:
        return DEFAULT_LANGUAGE
    if not text.isascii() and (script := _language_by_script(words)):
        return script
    found: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for word, times in Counter(filter(_LANGUAGES_OF.__contains__, words)).items():
        for language in _LANGUAGES_OF[word]:
            found[language] += times
            kinds[language] += 1
    best = max(sorted(found), key=lambda name: (found[name], kinds[name]), default=DEFAULT_LANGUAGE)
    is_clear = (
        kinds[best] >= _MIN_WORDS
        and found[best] >= _MIN_SHARE * len(words)
        and found[best] >= _MIN_RATIO_TO_ENGLISH * found[DEFAULT_LANGUAGE]
    )
    if is_clear:
        return best
    if found[DEFAULT_LANGUAGE] >= _MIN_SHARE * len(words):
        return DEFAULT_LANGUAGE
    few = _language_of_few(words) if len(words) <= _FEW_WORDS else DEFAULT_LANGUAGE
    return few if few != DEFAULT_LANGUAGE else _language_by_letters(text, words)


def guess_language(text: str) -> str | None:
    """Return the language of a few sentences: as `detect_language`, and by letters where words do not show it.

    Names in Latin letters do not count in a sentence of another script. None for a language that is not
    English, and that nothing shows.

    >>> guess_language("Leihgaben regelt die Leitung."), guess_language("ゲートは Kong です。")
    ('german', 'japanese')
    """
    others = [one for one in text if one.isalpha() and ord(one) > _LAST_LATIN]
    if len(others) >= _MIN_SHARE_OF_SCRIPT * sum(map(str.isalpha, text)) > 0:
        if UNSPACED.search("".join(others)):
            return language_of_run("".join(others))
        return detect_language("".join(one if ord(one) > _LAST_LATIN else " " for one in text))
    found = detect_language(text)
    words = _WORD.findall(text.casefold())
    if found != DEFAULT_LANGUAGE or has_english(text):
        return found
    import chardet

    guessed = chardet.detect(text.encode()).get("language") or "en"
    if guessed == LANGUAGE_CODES[DEFAULT_LANGUAGE]:
        return found
    folded = [fold(one) for one in words]
    counts = {one: len(function_words(one).intersection(folded)) for one in SHORT_LANGUAGES}
    best = [one for one in SHORT_LANGUAGES if counts[one] == max(counts.values())]
    if len(best) < len(SHORT_LANGUAGES) and DEFAULT_LANGUAGE not in best:
        return next((one for one in best if LANGUAGE_CODES[one] == guessed), best[0])
    return _NAMES.get(guessed)


def has_english(text: str) -> bool:
    """Return whether a text has one of the commonest English words that no other language has."""
    words = _WORD.findall(text.casefold())
    return any(_LANGUAGES_OF.get(one) == (DEFAULT_LANGUAGE,) for one in words)


def _language_of_few(words: list[str]) -> str:
    """Return the language of a few words by all function words of each language; English when unclear."""
    folded = [fold(one) for one in words]
    counts = {
        language: len(function_words(language).intersection(folded)) for language in SHORT_LANGUAGES
    }
    best, second = sorted(SHORT_LANGUAGES, key=lambda one: (-counts[one], one))[:2]
    is_clear = (
        counts[DEFAULT_LANGUAGE] < _MIN_RATIO_TO_ENGLISH
        and counts[best] > counts[second]
        and counts[best] >= max(_MIN_RATIO_TO_ENGLISH, _MIN_SHARE_OF_FEW * len(words))
    )
    return best if is_clear else DEFAULT_LANGUAGE


def _language_by_letters(text: str, words: list[str]) -> str:
    """Return the language that letters show, where its function words are the most; English when unclear.

    Lists, forms, minutes and invoices have few function words, as all Turkish texts have.
    """
    import chardet

    code = chardet.detect(text[:_SAMPLE_CHARACTERS].encode(errors="ignore")).get("language")
    named = _NAMES.get(code or "")
    if named not in SHORT_LANGUAGES or named == DEFAULT_LANGUAGE:
        return DEFAULT_LANGUAGE
    folded = [fold(one) for one in words if len(one) > 1]
    known = {one: [w for w in folded if w in function_words(one)] for one in SHORT_LANGUAGES}
    own = len(known[named])
    is_clear = (
        own >= _MIN_SHARE_BY_LETTERS * len(words)
        and len(set(known[named])) >= _MIN_WORDS_BY_LETTERS
        and own >= _MIN_WORDS_BY_LETTERS + _MIN_RATIO_BY_LETTERS * len(known[DEFAULT_LANGUAGE])
        and own == max(map(len, known.values()))
    )
    return named if is_clear else DEFAULT_LANGUAGE


def _language_by_script(words: list[str]) -> str:
    """Return the language of words in a script of one language; empty where most are in another script."""
    letters = [word[0] for word in words if not word.isascii()]
    names = [unicodedata.name(letter, "").partition(" ")[0] for letter in letters]
    # Words of Japanese begin with a sign of any of the three.
    scripts = Counter("CJK" if one in ("HIRAGANA", "KATAKANA") else one for one in names)
    name = max(sorted(scripts), key=scripts.__getitem__, default="")
    if name not in _LANGUAGE_OF_SCRIPT or scripts[name] * 2 <= len(words):
        return ""
    language = _LANGUAGE_OF_SCRIPT[name]
    used = frozenset("".join(words))
    if language == "chinese":
        return language_of_run("".join(words))
    other, own = _LETTERS_OF_OTHER.get(language, ("", frozenset()))
    return other if used & own else language
