"""Write `src/whence/text/calendar_words.json`: names of months and quarters in the languages served, from CLDR.

    pip install babel && python tools/calendar_words.py

Babel is no dependency: the words of a calendar do not change.
"""

from __future__ import annotations

import json
from pathlib import Path

from babel import Locale

from whence.text.normalization import LANGUAGE_CODES, clean, fold
from whence.text.question_words import ASKING_LANGUAGES

OUT = Path(__file__).resolve().parent.parent / "src/whence/text/calendar_words.json"
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


def main() -> None:
    """Write the file."""
    months = {language: names(language) for language in sorted(ASKING_LANGUAGES)}
    OUT.write_text(json.dumps(months, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
