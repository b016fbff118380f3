"""Whether the names of a sentence stand in passages of another language, and its identifiers in any.

No language translates identifiers, names of persons and most names of products. Names of countries, cities,
languages and days are compared by their keys in Unicode's CLDR (`place_words.json`). Other words with a capital
may be translated, as those of offices and menus: they are names when a dictionary does not have them as usual
words, and are missed only when the passages have a name that the sentence lacks. Near spellings are one name,
also in Latin, Cyrillic and Greek letters; names in the letters of other scripts are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Final, NamedTuple

import regex
from rapidfuzz.distance import Jaro, JaroWinkler

from whence.text.normalization import fold, function_words
from whence.text.scripts import UNSPACED_CLASS
from whence.text.spelling import is_listed, usualness
from whence.text.values import month_number

_TOKEN: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:[-_.'\u2019][\p{L}\p{M}\p{N}]+)*+")
_PART: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")
#: What no language translates: `ArchivesSpace`, `reports_eu`, `B2-550`.
_IDENTIFIER: Final = regex.compile(
    r"[\p{L}\p{N}]*\p{Ll}\p{Lu}[\p{L}\p{N}]*|[\p{L}\p{N}]+(?:_[\p{L}\p{N}]+)+|\p{L}{2,}-?\p{N}{2,}[\p{L}\p{N}]*"
)
#: Codes of rooms, shelves, forms and quarters.
_CODE: Final = regex.compile(r"(?<![\p{L}\p{N}_.-])(\p{Lu})-?(\p{Nd}{1,4})(?![\p{L}\p{N}_-])")
#: Such names with a dot, which abbreviations (`prof.ssa`) have too.
_DOTTED: Final = regex.compile(r"\p{L}{2,}(?:\.\p{Ll}{2,})++")
_LATIN: Final = regex.compile(r"\p{Latin}")
#: Scripts with capitals that are compared by their sounds, and the others.
_SPELT: Final = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}]")
_OTHER_LETTER: Final = regex.compile(r"[\p{L}--\p{Latin}]", regex.V1)
_UNSPELT: Final = regex.compile(r"[\p{L}--[\p{Latin}\p{Cyrillic}\p{Greek}]]", regex.V1)
#: Where a word touches the characters of a script without spaces.
_BORDER: Final = regex.compile(
    rf"(?<=[\p{{Latin}}\p{{N}}])(?=[{UNSPACED_CLASS}])|(?<=[{UNSPACED_CLASS}])(?=[\p{{Latin}}\p{{N}}])"
)
_NO_WORD: Final = regex.compile(r"[^\p{L}\p{N}]+")
_DOUBLED: Final = regex.compile(r"(.)\1+")
#: Similarity by Jaro and Winkler from which two words are one name: `Annę` and `Anna`, `Genève` and `Geneva`.
#: This and the rules of `_is_missed` were chosen on half of `benchmarks/claims_across.json` and on 3,000
#: sentences of translated manuals.
_NEAR: Final = 0.82
#: Similarity by Jaro from which a name is the same in other letters: on 95 spellings of 59 names (`Tschechow`,
#: `Tchekhov`) all of them are, and 4 % of other pairs.
_NEAR_HEARD: Final = 0.7
#: Letters of the shortest name, and of the longest title (`Mme`, `Sra.`, `Pani`).
_MIN_LETTERS: Final = 3
_TITLE: Final = 4
#: Longest word in capitals that may be short for words, and be translated with them.
_ACRONYM: Final = 6
#: Letters of one sound, which names of cities change in other languages.
_SOUNDS: Final = (("ph", "f"), ("c", "k"), ("q", "k"), ("w", "v"), ("y", "i"), ("z", "s"))
#: How languages write hissing sounds behind `_SOUNDS`, and other sounds that they write differently.
_HISSING: Final = regex.compile("t?sk?h|tkh|ts|ks|x")
_ALIKE: Final = (("kh", "h"), ("k", "h"), ("g", "h"), ("j", "i"), ("ou", "u"))
#: Languages that write every noun with a capital, those that write names of languages so, those that write
#: compounds as one word, and the endings of words for both sexes.
_CAPITAL_NOUNS: Final = frozenset(("german",))
_CAPITAL_LANGUAGES: Final = frozenset(("dutch", "english", "german"))
_COMPOUNDING: Final = frozenset(("dutch", "german"))
_BOTH_SEXES: Final = ("In", "Innen")
#: Letters of the shortest word in a compound.
_COMPOUND: Final = 4
#: Letters that no ending changes.
_STEM: Final = 4


class _Word(NamedTuple):
    """A word with a capital."""

    text: str
    start: int
    end: int
    leads: bool
    """Whether it begins a sentence."""


class _Place(NamedTuple):
    """The name of a place, language or day."""

    start: int
    end: int
    keys: frozenset[str]

    @property
    def kind(self) -> str:
        """`day`, `lang` or `place`; the last of these that the name may be."""
        return max(map(_kind, self.keys))


class Names:
    """The names of passages, read once for all sentences that are compared with them.

    Args:
        text: The passages, with their titles.
        language: Their language.
    """

    def __init__(self, text: str, language: str) -> None:
        self._text = text
        self._language = language
        self._is_latin = 2 * len(_OTHER_LETTER.findall(text)) < len(_LATIN.findall(text))
        self._is_spelt = 2 * len(_UNSPELT.findall(text)) < len(_SPELT.findall(text))

    @cached_property
    def _joined(self) -> str:
        return _joined(self._text)

    @cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(map(fold, _PART.findall(self._text)))

    @cached_property
    def _capitals(self) -> list[_Word]:
        return list(_capitals(self._text))

    @cached_property
    def _sounds(self) -> frozenset[str]:
        return _sounds(self._capitals)

    @cached_property
    def _places(self) -> list[_Place]:
        return _places(self._text)

    def have_identifiers(self, sentence: str, language: str) -> bool:
        """Return whether the identifiers of a sentence stand in the passages, however their parts join."""
        text = _BORDER.sub(" ", sentence)
        if self._replace_code(text, is_translated=language != self._language):
            return False
        dotted = _DOTTED.findall(text) if _DOTTED.search(self._text) else ()
        return all(_joined(one) in self._joined for one in (*_identifiers(text, language), *dotted))

    @cached_property
    def _codes(self) -> frozenset[tuple[str, str]]:
        return _codes(_BORDER.sub(" ", self._text))

    def _replace_code(self, text: str, *, is_translated: bool) -> bool:
        """Return whether the passages have another code than a sentence, of its form: `B12` for `C14`."""
        said = _codes(text)
        lacking = self._codes - said
        for letter, number in said - self._codes:
            alike = [other for other in lacking if len(other[1]) == len(number)]
            if is_translated and any(one == number for _, one in alike):
                continue  # A quarter is Q3 in English, and T3 in French.
            series = [int(one) for other, one in self._codes if other == letter]
            is_within = series and min(series) < int(number) < max(series)
            if alike and not is_within:
                return True
        return False

    def stand(self, sentence: str, language: str) -> bool:
        """Return whether all names of a sentence in another language may stand in the passages."""
        if not self.have_identifiers(sentence, language):
            return False
        text = _BORDER.sub(" ", sentence)
        if not self._is_spelt:
            # Their letters say neither what a name is nor how it is spelt elsewhere.
            return True
        places = _places(text)
        if self._misplaces(text, places):
            return False
        # Where languages have no capital, a word that has one is a surname.
        covered = [one for one in places if one.kind != "lang" or language in _CAPITAL_LANGUAGES]
        own = [
            one for one in _capitals(text) if _SPELT.match(one.text) and not _within(one, covered)
        ]
        lacking = self._lacking(own, places)
        is_pair = any(one.end + 1 == other.start for one, other in pairwise(lacking))
        has_others = _OTHER_LETTER.search(text) is not None
        return not lacking or not any(
            self._is_missed(
                run,
                language,
                mixed=has_others and _LATIN.match(run[0].text) is not None,
                is_pair=is_pair,
            )
            for run in _runs(own, text)
        )

    def _misplaces(self, text: str, places: Sequence[_Place]) -> bool:
        """Return whether a sentence has a place, language or day where the passages have another."""
        have, said = _keys(self._places), _keys(places)
        lacking = {one.kind for one in self._places if one.keys.isdisjoint(said)}
        return any(
            not one.keys & have
            and not self._folded.issuperset(map(fold, _PART.findall(text[one.start : one.end])))
            and one.kind in lacking
            for one in places
        )

    def _lacking(self, own: Sequence[_Word], places: Sequence[_Place]) -> list[_Word]:
        """Return the names of the passages that a sentence does not have."""
        said, keys = _sounds(own), _keys(places)
        others = [one for one in self._places if not one.keys & keys]
        return [
            one
            for one in self._capitals
            if len(one.text) >= _MIN_LETTERS
            and not one.leads
            and fold(one.text) not in function_words(self._language)
            and (_level(one.text, self._language) or 0) < 2
            and not any(_is_near(_sound(one.text), other) for other in said)
            and (_within(one, others) or not _within(one, self._places))
        ]

    def _is_missed(self, run: list[_Word], language: str, *, mixed: bool, is_pair: bool) -> bool:
        """Return whether words with a capital side by side are a name that the passages lack.

        Args:
            run: The words.
            language: Their language.
            mixed: Whether the sentence is in another script than they are.
            is_pair: Whether two words side by side are among the names that the sentence lacks.
        """
        if run[0].leads and _level(run[0].text, language) != 0:
            run = run[1:]
        unknown = [one for one in run if self._is_unknown(one, language)]
        if not unknown:
            return False
        levels = [_level(one.text, language) for one in unknown]
        has_capitals = language in _CAPITAL_NOUNS
        is_alien = self._is_latin is not bool(_LATIN.match(run[0].text))
        if is_alien and len(run) == 1:
            # A city has a name of its own in other letters.
            return False
        if len(run) == 1:
            # By itself a word counts where no dictionary has it, and where a capital is none of a noun.
            plain = not run[0].leads and (not has_capitals or "-" in run[0].text)
            return (mixed and not levels[0]) or (plain and levels[0] == 0)
        if unknown == run[:1] and (levels[0] != 0 or len(run[0].text) <= _TITLE):
            # A title stands before a name that the passages have.
            return False
        if is_alien:
            # Only a dictionary shows that words are translated ones.
            return 0 in levels
        if has_capitals and len(unknown) > 1 and is_pair:
            return True
        before = run[run.index(unknown[0]) - 1] if unknown[0] is not run[0] else None
        if before and self._has(before.text) and not self._begins_name(before) and 0 not in levels:
            # English writes what a name is with a capital behind it: `the Pasquier Collection`.
            return False
        return 0 in levels or all((one or 0) < 2 for one in levels)

    def _begins_name(self, word: _Word) -> bool:
        """Return whether the passages have a word with a capital, and another one behind it."""
        sound = _sound(word.text)
        return any(
            one.end + 1 == other.start and _is_near(_sound(one.text), sound)
            for one, other in pairwise(self._capitals)
        )

    def _is_unknown(self, word: _Word, language: str) -> bool:
        """Return whether a word is not in the passages, nor one that is written otherwise there."""
        text = word.text
        if fold(text) in function_words(language) or month_number(text, (language, "english")):
            return False
        return any(
            len(one) >= _MIN_LETTERS
            and one.isalpha()
            and one[0].isupper()
            and not (one.isupper() and len(one) <= _ACRONYM)
            and not self._has(one)
            for one in _PART.findall(text)
        )

    def _has(self, word: str) -> bool:
        sound = _sound(word)
        return fold(word) in self._folded or any(_is_near(sound, one) for one in self._sounds)


def _identifiers(text: str, language: str) -> Iterator[str]:
    """Yield what no language translates; of `LHM-550-Kran` its parts."""
    for match in _TOKEN.finditer(text):
        whole = _IDENTIFIER.fullmatch(match[0]) is not None
        for one in (match[0],) if whole else match[0].split("-"):
            of_both = language in _CAPITAL_NOUNS and one.endswith(_BOTH_SEXES)
            if not of_both and (whole or _IDENTIFIER.fullmatch(one)):
                yield one


def _codes(text: str) -> frozenset[tuple[str, str]]:
    """Return the letter and the number of each code of one letter in a text."""
    return frozenset((one[1], one[2]) for one in _CODE.finditer(text))


def _capitals(text: str) -> Iterator[_Word]:
    for match in _TOKEN.finditer(text):
        if match[0][0].isupper():
            before = text[: match.start()].rstrip(" \t\"'([*_-\u201c\u201e\u00ab\u2022|>#")
            yield _Word(match[0], *match.span(), leads=not before or before[-1] in ".!?:\n")


def _runs(words: Sequence[_Word], text: str) -> Iterator[list[_Word]]:
    """Yield words in groups of those side by side."""
    run: list[_Word] = []
    for one in words:
        if run and text[run[-1].end : one.start].strip(".") != " ":
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _level(word: str, language: str) -> int | None:
    """Return how usual the rarest part of a word with a capital is: see `usualness`."""
    parts = [one for one in _PART.findall(word) if len(one) >= _MIN_LETTERS and one[0].isupper()]
    levels = [_level_of_part(one.casefold(), language) for one in parts]
    known = [one for one in levels if one is not None]
    return None if len(known) < len(levels) else min(known, default=2)


def _level_of_part(word: str, language: str) -> int | None:
    if language in _COMPOUNDING:
        # Their dictionaries have compounds by the last part only; the German one counts no uses of nouns.
        tails = [word[start:] for start in range(_MIN_LETTERS, len(word) - _COMPOUND + 1)]
        if language in _CAPITAL_NOUNS:
            return 2 * any(is_listed(one, language) for one in (word, *tails))
        if any(usualness(one, language) for one in tails):
            return 2
    forms = (word, *(word[:-cut] for cut in (1, 2) if len(word) > _STEM + cut))
    levels = [usualness(one, language) for one in forms]
    return max((one for one in levels if one is not None), default=None)


def _joined(text: str) -> str:
    return _NO_WORD.sub("", fold(text))


def _sounds(words: Sequence[_Word]) -> frozenset[str]:
    return frozenset(_sound(one) for word in words for one in _PART.findall(word.text))


def _sound(word: str) -> str:
    sound = fold(word)
    for one, other in _SOUNDS:
        sound = sound.replace(one, other)
    return _DOUBLED.sub(r"\1", sound)


@cache
def _letter_sounds() -> dict[str, str]:
    """Return Cyrillic and Greek letters as names have them in Latin ones, those of two letters first."""
    data = (resources.files(__package__) / "letter_sounds.json").read_text("utf-8")
    found: dict[str, str] = json.loads(data)
    return found


@lru_cache(maxsize=4096)
def _heard(sound: str) -> str:
    """Return a sound in Latin letters, without what languages write in different ways."""
    for one, other in (*_letter_sounds().items(), *_SOUNDS):
        sound = sound.replace(one, other)
    sound = _HISSING.sub("s", sound)
    for one, other in _ALIKE:
        sound = sound.replace(one, other)
    return _DOUBLED.sub(r"\1", sound)


def _is_near(one: str, other: str) -> bool:
    if (_OTHER_LETTER.search(one) is None) is not (_OTHER_LETTER.search(other) is None):
        return Jaro.similarity(_heard(one), _heard(other)) >= _NEAR_HEARD
    return one[:1] == other[:1] and JaroWinkler.similarity(one, other) >= _NEAR


def _within(word: _Word, places: Sequence[_Place]) -> bool:
    return any(one.start <= word.start < one.end for one in places)


def _keys(places: Sequence[_Place]) -> frozenset[str]:
    return frozenset().union(*(one.keys for one in places))


def _kind(key: str) -> str:
    return key.partition("-")[0] if key.startswith(("day-", "lang-")) else "place"


def _places(text: str) -> list[_Place]:
    """Return the names of places with a capital, of languages and of days in a text, the longest first."""
    words = list(_PART.finditer(text))
    known, longest = _place_words()
    found: list[_Place] = []
    for place, word in enumerate(words):
        if found and word.start() < found[-1].end:
            continue
        for size in range(min(longest, len(words) - place), 0, -1):
            name = [fold(one[0]) for one in words[place : place + size]]
            capital = word[0][0].isupper()
            forms = [" ".join(name), *(_stems(name) if capital else ())]
            keys = next((known[one] for one in forms if one in known), ())
            kept = frozenset(one for one in keys if capital or _kind(one) != "place")
            if kept:
                found.append(_Place(word.start(), words[place + size - 1].end(), kept))
                break
    return found


def _stems(name: Sequence[str]) -> list[str]:
    """Return what the endings of cases may leave of a name, with a mark that no name has."""
    if len(name) > 1:
        is_long = all(len(one) >= _STEM for one in name)
        return [" ".join(f"{one[:_STEM]}*" for one in name)] if is_long else []
    (word,) = name
    return [f"{word[: len(word) - cut]}*" for cut in (0, 1, 2) if len(word) - cut >= _STEM]


@cache
def _place_words() -> tuple[dict[str, frozenset[str]], int]:
    """Return the keys of each name and of its stem, and the words of the longest name."""
    data = json.loads((resources.files(__package__) / "place_words.json").read_text("utf-8"))
    found: dict[str, set[str]] = {}
    for key, names in data.items():
        for name in names.split("|"):
            found.setdefault(name, set()).add(key)
            # A name loses one letter at most, as `Ukraina` does in `Ukrainy`.
            for stem in _stems(name.split())[:2] if _kind(key) == "place" else ():
                found.setdefault(stem, set()).add(key)
    return {one: frozenset(keys) for one, keys in found.items()}, max(
        len(one.split()) for one in found
    )
