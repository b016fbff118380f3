"""Detection of a document's language by its commonest words, for the stemmer and for hints.

Function words (articles, prepositions, pronouns) are a third of running text in any of these languages and
hardly occur in another. A script that only one of Snowball's languages uses is sufficient. Unclear text counts
as English: a document in the wrong language loses some inflected matches, while a language that a collection
does not have would only add terms to its queries.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

DEFAULT_LANGUAGE = "english"

#: Characters of a document that are examined: some six hundred words.
_SAMPLE_CHARACTERS = 4000
#: A language is detected by at least this many different function words, which are at least this share of all
#: words, and at least this many times as frequent as English ones.
_MIN_WORDS = 4
_MIN_SHARE = 0.12
_MIN_RATIO_TO_ENGLISH = 2
_WORD = re.compile(r"[^\W\d_]+")

# No words of one letter: these are names of variables and list markers as well. A word of two languages counts
# for both.
_FUNCTION_WORDS = {
    "english": "the of and to in is that it for was on are as with be this by from at or which not have an",
    "danish": "og det er en til af på som at den der med de for ikke et jeg har vi kan om fra men ved",
    "dutch": "de het een en van in is dat op te zijn voor met niet die aan er om als bij ook door naar wordt",
    "finnish": "ja on ei se että oli hän mutta kun ovat myös tai joka ole sen jos niin kuin voi mukaan",
    "french": "de la le et les des en un une du est que dans pour qui sur au par il pas ne avec ce sont",
    "german": "der die und das in den von zu mit ist nicht ein eine für auf dem des im sich auch es wird oder bei",
    "hungarian": "az és hogy nem is egy ez de van meg csak vagy mint volt kell lehet ami azt már",
    "italian": "di il la che un in per una del non della con si sono le da al nel gli più dei",
    "norwegian": "og det er en til av på som at den med de for ikke et jeg har vi kan om fra men ved",
    "portuguese": "de que do da em um para com não uma no se na por mais as dos das ao",
    "romanian": "de și în la cu nu este că pe un se din care mai sunt pentru sau ca",
    "spanish": "de la que el en los del se las por un para con no una su al es lo como más este",
    "swedish": "och det är en till av på som att den med de för inte ett jag har vi kan om från men vid",
    "turkish": "ve bir bu da de için ile ne çok olarak daha gibi olan kadar sonra her değil ama veya",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _name, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
#: Language by script; scripts are named as in the first word of the Unicode names of their letters.
_LANGUAGE_OF_SCRIPT = {
    "ARABIC": "arabic",
    "ARMENIAN": "armenian",
    "CYRILLIC": "russian",
    "DEVANAGARI": "hindi",
    "GREEK": "greek",
    "TAMIL": "tamil",
}
#: ISO 639-1 codes of the languages above.
_CODES = {
    "english": "en",
    "danish": "da",
    "dutch": "nl",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "hungarian": "hu",
    "italian": "it",
    "norwegian": "no",
    "portuguese": "pt",
    "romanian": "ro",
    "spanish": "es",
    "swedish": "sv",
    "turkish": "tr",
    "arabic": "ar",
    "armenian": "hy",
    "russian": "ru",
    "hindi": "hi",
    "greek": "el",
    "tamil": "ta",
}
#: Codes by script where no stemmer is known.
_CODE_OF_SCRIPT = {
    "BENGALI": "bn",
    "CJK": "zh",
    "GEORGIAN": "ka",
    "HANGUL": "ko",
    "HEBREW": "he",
    "THAI": "th",
}
#: Japanese mixes these with Chinese characters.
_KANA = re.compile("[\u3041-\u30ff]")


def language_code(text: str) -> str:
    """Return the ISO 639-1 code of the language of a text, as `detect_language`, and of more scripts."""
    sample = text[:_SAMPLE_CHARACTERS]
    code = _CODE_OF_SCRIPT.get(_main_script(_words_of(sample)))
    if code == "zh" and _KANA.search(sample):
        return "ja"
    return code or _CODES[detect_language(text)]


def language_sample(texts: Iterable[str]) -> str:
    """Return as much of the beginning of a text given in parts as `detect_language` examines."""
    return " ".join(islice((text[:_SAMPLE_CHARACTERS] for text in texts), 8))[:_SAMPLE_CHARACTERS]


def detect_language(text: str) -> str:
    """Return Snowball's name of the language of a text, by its first 4,000 characters; English when unclear."""
    words = _words_of(text[:_SAMPLE_CHARACTERS])
    if not words:
        return DEFAULT_LANGUAGE
    script = _main_script(words)
    if script in _LANGUAGE_OF_SCRIPT:
        return _LANGUAGE_OF_SCRIPT[script]
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
    return best if is_clear else DEFAULT_LANGUAGE


def _words_of(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFC", text).casefold())


def _main_script(words: list[str]) -> str:
    """Return the script, other than that of ASCII, in which more than half of the words begin, if any."""
    letters = [word[0] for word in words if not word.isascii()]
    scripts = Counter(
        [
            "CJK" if _KANA.match(letter) else unicodedata.name(letter, "").partition(" ")[0]
            for letter in letters
        ]
    )
    name = max(sorted(scripts), key=scripts.__getitem__, default="")
    return name if scripts[name] * 2 > len(words) else ""
