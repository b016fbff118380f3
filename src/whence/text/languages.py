"""The language of a document, told by its commonest words, for the stemmer.

Small words (articles, prepositions, pronouns) are a third of running text in any of these languages and hardly
occur in another. Scripts that one language of Snowball's is written in tell it by themselves. What is not told
clearly is taken for English: a document in the wrong language loses some inflected matches, while a language
that a collection does not have would only add terms to its queries.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

__all__ = ("DEFAULT_LANGUAGE", "detect_language", "sample")

DEFAULT_LANGUAGE = "english"

#: Characters of a document that are looked at: some six hundred words.
_SAMPLE = 4000
#: Least small words of a language, least share of all words, and how many times those of English there must be.
_LEAST_WORDS = 4
_LEAST_SHARE = 0.12
_TIMES_ENGLISH = 2
_WORD = re.compile(r"[^\W\d_]+")

# None of one letter: these are names of variables and marks of lists as well. Words that another language
# writes alike are counted for both; the greater count decides.
_SMALL_WORDS = {
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
for _name, _words in _SMALL_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
#: Scripts of one language each, by the first word of the names of their letters.
_OF_SCRIPT = {
    "ARABIC": "arabic",
    "ARMENIAN": "armenian",
    "CYRILLIC": "russian",
    "DEVANAGARI": "hindi",
    "GREEK": "greek",
    "TAMIL": "tamil",
}


def sample(texts: Iterable[str]) -> str:
    """Return the beginning of a text that comes in parts, as far as `detect_language` looks."""
    return " ".join(islice((text[:_SAMPLE] for text in texts), 8))[:_SAMPLE]


def detect_language(text: str) -> str:
    """Return the language of a text, as Snowball names it; English when it is not told clearly.

    Cost: linear in the first 4,000 characters.
    """
    words = _WORD.findall(unicodedata.normalize("NFC", text[:_SAMPLE]).casefold())
    if not words:
        return DEFAULT_LANGUAGE
    scripts = Counter([_script(word) for word in words if not word.isascii()])
    name = max(sorted(scripts), key=scripts.__getitem__, default="")
    if name in _OF_SCRIPT and scripts[name] * 2 > len(words):
        return _OF_SCRIPT[name]
    found: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for word, times in Counter(filter(_LANGUAGES_OF.__contains__, words)).items():
        for language in _LANGUAGES_OF[word]:
            found[language] += times
            kinds[language] += 1
    best = max(sorted(found), key=lambda name: (found[name], kinds[name]), default=DEFAULT_LANGUAGE)
    is_clear = (
        kinds[best] >= _LEAST_WORDS
        and found[best] >= _LEAST_SHARE * len(words)
        and found[best] >= _TIMES_ENGLISH * found[DEFAULT_LANGUAGE]
    )
    return best if is_clear else DEFAULT_LANGUAGE


def _script(word: str) -> str:
    return unicodedata.name(word[0], "").partition(" ")[0]
