"""Write the words of the calendar and of numbers in the languages served, for `whence.text.values`.

    pip install babel num2words && python tools/calendar_words.py

`calendar_words.json` has the names of months, from Unicode's CLDR; `weekday_words.json` those of the days of
the week; `number_words.json` the words of small numbers; `unit_words.json` the names of units, from CLDR, with
a name for each that holds in all languages; `money_words.json` the words of the names of currencies, from CLDR;
`number_values.json` numbers from 1 to 100 and their words; `place_words.json` the names of countries, of
cities, languages and days of the week, from CLDR, by key. The two packages are no dependencies: these words do
not change.
"""

from __future__ import annotations

import json
from pathlib import Path

import regex as re
from babel import Locale
from num2words import CONVERTER_CLASSES, num2words

from whence.text.normalization import LANGUAGE_CODES, clean, fold, function_words
from whence.text.question_words import ASKING_LANGUAGES
from whence.text.scripts import UNSPACED

OUT = Path(__file__).resolve().parent.parent / "src/whence/text"
#: Numbers that texts write as words.
_NUMBERS = (*range(2, 21), *range(30, 100, 10), 100, 1000)
#: Units of CLDR that documents of all kinds state numbers in.
_UNITS = frozenset(
    f"{kind}-{unit}"
    for kind, of_kind in {
        "duration": "second minute hour day week month year millisecond night",
        "length": "millimeter centimeter meter kilometer mile foot inch yard",
        "mass": "milligram gram kilogram tonne pound ounce",
        "volume": "milliliter liter gallon",
        "temperature": "celsius fahrenheit",
        "concentr": "percent",
        "digital": "bit byte kilobyte megabyte gigabyte terabyte",
        "area": "hectare acre",
        "power": "watt kilowatt",
        "energy": "kilowatt-hour",
        "electric": "volt ampere",
        "frequency": "hertz megahertz gigahertz",
    }.items()
    for unit in of_kind.split()
)
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "PLN", "SEK", "CZK")
#: Currencies whose names are read for the words of money.
_MONEY = """AED ARS AUD BGN BRL BYN CAD CHF CLP CNY COP CZK DKK DZD EGP EUR GBP GEL HKD HUF IDR ILS INR IQD IRR JOD JPY
    KES KRW KWD LBP MAD MXN MYR NGN NOK NZD OMR PHP PKR PLN QAR RON RSD RUB SAR SEK SGD SYP THB TND TRY TWD TZS UAH
    USD VND XAF YER ZAR"""
_PLURALS = frozenset(("zero", "one", "two", "few", "many", "other"))
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


def weekdays(language: str) -> list[str]:
    """Return the folded names of the days of the week; in scripts without spaces short ones, too."""
    locale = Locale.parse(LANGUAGE_CODES[language])
    found = set()
    for context in ("format", "stand-alone"):
        found.update(locale.days[context]["wide"].values())
        short = locale.days[context]["abbreviated"].values()
        found.update(one for one in short if UNSPACED.search(one) and len(one) > 1)
    return sorted(fold(clean(one)) for one in found)


def numbers(language: str) -> list[str]:
    """Return the folded words of small numbers in a language, none of several words."""
    code = LANGUAGE_CODES[language]
    if code not in CONVERTER_CLASSES:
        return []
    words = {fold(clean(num2words(number, lang=code))) for number in _NUMBERS}
    return sorted(word for word in words if word.isalpha())


def values(language: str) -> dict[str, int]:
    """Return the folded words of the numbers from 1 to 100 in a language, with spaces between."""
    code = LANGUAGE_CODES[language]
    if code not in CONVERTER_CLASSES:
        return {}
    found = {}
    for number in range(1, 101):
        words = " ".join(re.findall(r"[^\W\d_]+", fold(clean(num2words(number, lang=code)))))
        if len(words) >= _SHORTEST:
            found.setdefault(words, number)
    return found


def units(language: str) -> dict[str, str]:
    """Return the folded names of the units of a language, in all forms; none that two units have."""
    locale = Locale.parse(LANGUAGE_CODES[language])
    found: dict[str, set[str]] = {}
    data = locale._data  # noqa: SLF001 - Babel offers no other way to the patterns
    for kind, forms in data["unit_patterns"].items():
        if kind not in _UNITS:
            continue
        for width in ("long", "short"):
            for form, pattern in forms.get(width, {}).items():
                if isinstance(pattern, str) and "{0}" in pattern and form in _PLURALS:
                    word = fold(clean(pattern.replace("{0}", ""))).strip(". \u00a0")
                    if (
                        word
                        and " " not in word
                        and (len(word) > _SHORTEST or word not in function_words(language))
                    ):
                        found.setdefault(word, set()).add(kind.partition("-")[2])
    for currency in _CURRENCIES:
        names_of = [
            *data["currency_names_plural"].get(currency, {}).values(),
            locale.currencies.get(currency, ""),
        ]
        for name in names_of:
            word = fold(clean(name)).split()
            if word:
                found.setdefault(word[-1], set()).add(currency.lower())
    return {
        word: min(kinds)
        for word, kinds in sorted(found.items())
        if len(kinds) == 1 and " " not in word
    }


def money(language: str) -> list[str]:
    """Return the folded words of the names of currencies; adjectives stay, they hardly stand after a number."""
    locale = Locale.parse(LANGUAGE_CODES[language])
    data = locale._data  # noqa: SLF001 - Babel offers no other way to the plural forms
    found = set()
    for currency in _MONEY.split():
        plurals = data["currency_names_plural"].get(currency, {}).values()
        for name in (*plurals, locale.currencies.get(currency, "")):
            found.update(_money_parts(name))
        symbol = fold(clean(locale.currency_symbols.get(currency, "")))
        found.update([symbol] if symbol.isalpha() and len(symbol) > 1 else [])
    return sorted(found - function_words(language))


def _money_parts(name: str) -> list[str]:
    """Return the folded words of the name of a currency, and the last character of a Chinese one: `日元`."""
    words = re.findall(r"[^\W\d_](?:[^\W\d_]|\p{M})*", fold(clean(name)))
    long = [one for one in words if len(one) > 1 or UNSPACED.search(one)]
    return long + [one[-1] for one in long if re.fullmatch(r"\p{Han}+", one)]


def places() -> dict[str, str]:
    """Return the folded names of places, languages and days in all languages, in scripts with capitals."""
    found: dict[str, set[str]] = {}
    for language in sorted(ASKING_LANGUAGES):
        data = Locale.parse(LANGUAGE_CODES[language])._data  # noqa: SLF001 - nor to the cities
        named = [
            *((key.lower(), name) for key, name in data["territories"].items() if len(key) == 2),
            # English data has only the cities that differ from the keys.
            *((zone, zone.rpartition("/")[2]) for zone in data["time_zones"] if "/" in zone),
            *(
                (zone, names["city"])
                for zone, names in data["time_zones"].items()
                if "city" in names
            ),
            *((f"day-{day}", name) for day, name in data["days"]["format"]["wide"].items()),
            *((f"lang-{key}", name) for key, name in data["languages"].items() if len(key) == 2),
        ]
        for key, name in named:
            words = " ".join(re.findall(r"[\p{L}\p{M}\p{N}]+", fold(clean(name)).replace("_", " ")))
            if re.fullmatch(rf"[\p{{Latin}}\p{{Cyrillic}}\p{{Greek}} ]{{{_SHORTEST + 1},}}", words):
                found.setdefault(key, set()).add(words)
    return {key: "|".join(sorted(names)) for key, names in sorted(found.items())}


def write(name: str, words: dict[str, object]) -> None:
    """Write a file of words by language."""
    text = json.dumps(words, ensure_ascii=False, indent=None, separators=(",", ":"))
    (OUT / name).write_text(text.replace("},", "},\n").replace("],", "],\n") + "\n", "utf-8")


def main() -> None:
    """Write all files."""
    languages = sorted(ASKING_LANGUAGES)
    write("calendar_words.json", {language: names(language) for language in languages})
    write("weekday_words.json", {language: weekdays(language) for language in languages})
    write("number_words.json", {language: numbers(language) for language in languages})
    write("unit_words.json", {language: units(language) for language in languages})
    write("money_words.json", {language: money(language) for language in languages})
    write("number_values.json", {language: values(language) for language in languages})
    write("place_words.json", dict(places()))


if __name__ == "__main__":
    main()
