"""Write the words of the calendar and of numbers in the languages served, for `whence.text.values`.

    pip install babel num2words && python tools/calendar_words.py

`calendar_words.json` has the names of months, from Unicode's CLDR; `number_words.json` the words of small
numbers. The two packages are no dependencies: these words do not change.
"""

from __future__ import annotations

import json
from pathlib import Path

from babel import Locale
from num2words import CONVERTER_CLASSES, num2words

from whence.text.normalization import LANGUAGE_CODES, clean, fold
from whence.text.question_words import ASKING_LANGUAGES

OUT = Path(__file__).resolve().parent.parent / "src/whence/text"
#: Numbers that texts write as words.
_NUMBERS = (*range(2, 21), *range(30, 100, 10), 100, 1000)
#: A shorter abbreviation is a word of its own.
_SHORTEST = 3


def names(language: str) -> dict[str, int]:
    """Return the folded names of the months of a language, with their numbers; none that two months have."""
    locale = Locale.parse(LANGUAGE_CODES[language])
    found: dict[str, set[int]] = {}
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for number, name in locale.months[context][width].items():
                word = fold(clean(name)).strip(". ")
                if len(word) >= _SHORTEST and word.isalpha() | any(map(str.isalpha, word)):
                    found.setdefault(word, set()).add(number)
    return {
        word: min(numbers)
        for word, numbers in sorted(found.items())
        if len(numbers) == 1 and not word[0].isdigit()
    }


def numbers(language: str) -> list[str]:
    """Return the folded words of small numbers in a language, none of several words."""
    code = LANGUAGE_CODES[language]
    if code not in CONVERTER_CLASSES:
        return []
    words = {fold(clean(num2words(number, lang=code))) for number in _NUMBERS}
    return sorted(word for word in words if word.isalpha())


def write(name: str, words: dict[str, object]) -> None:
    """Write a file of words by language."""
    text = json.dumps(words, ensure_ascii=False, indent=None, separators=(",", ":"))
    (OUT / name).write_text(text.replace("},", "},\n").replace("],", "],\n") + "\n", "utf-8")


def main() -> None:
    """Write both files."""
    languages = sorted(ASKING_LANGUAGES)
    write("calendar_words.json", {language: names(language) for language in languages})
    write("number_words.json", {language: numbers(language) for language in languages})


if __name__ == "__main__":
    main()
