"""Write the numbers of headings and lists as office programs show them."""

from __future__ import annotations

from collections.abc import Mapping

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
    (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u043a\u043b\u043c\u043d\u043e\u043f\u0440\u0441\u0442\u0443\u0444\u0445\u0446\u0447\u0448\u0449\u044d\u044e\u044f"
#: Letters that count, by the name of the format in Word; after the last one they are doubled.
_ALPHABETS: Mapping[str, str] = {
    "lowerLetter": _LATIN,
    "upperLetter": _LATIN.upper(),
    "russianLower": _RUSSIAN,
    "russianUpper": _RUSSIAN.upper(),
    "hebrew2": "\u05d0\u05d1\u05d2\u05d3\u05d4\u05d5\u05d6\u05d7\u05d8\u05d9\u05db\u05dc\u05de\u05e0\u05e1\u05e2\u05e4\u05e6\u05e7\u05e8\u05e9\u05ea",
    "arabicAlpha": "\u0623\u0628\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638\u0639\u063a\u0641\u0642\u0643\u0644\u0645\u0646\u0647\u0648\u064a",
    "aiueoFullWidth": "\u30a2\u30a4\u30a6\u30a8\u30aa\u30ab\u30ad\u30af\u30b1\u30b3\u30b5\u30b7\u30b9\u30bb\u30bd",
    "ideographTraditional": "\u7532\u4e59\u4e19\u4e01\u620a\u5df1\u5e9a\u8f9b\u58ec\u7678",
}
_CHINESE = "\u3007\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d"
_TEN = "\u5341"
_COUNTING = frozenset(
    ("chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting",
     "taiwaneseCountingThousand", "ideographDigital", "japaneseDigitalTenThousand")
)  # fmt: skip
#: Larger numbers are written in digits: no list has so many items.
_MOST = 3999
#: Formats by the sign with which HTML and OpenDocument name them.
BY_SIGN = {
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "1": "decimal",
}


def format_number(number: int, kind: str) -> str:
    """Return a number in a format of Word, in digits if the format is not known.

    >>> [format_number(28, kind) for kind in ("decimal", "lowerLetter", "upperRoman", "decimalZero")]
    ['28', 'bb', 'XXVIII', '28']
    """
    if kind == "none":
        return ""
    if not 0 < number <= _MOST:
        return str(number)
    letters = _ALPHABETS.get(kind)
    if letters:
        round_, at = divmod(number - 1, len(letters))
        return letters[at] * (round_ + 1)
    if kind in ("lowerRoman", "upperRoman"):
        return _roman(number) if kind == "lowerRoman" else _roman(number).upper()
    if kind in _COUNTING and number < 100:
        return _chinese(number)
    if kind == "decimalEnclosedCircle" and number <= 20:
        return chr(0x2460 + number - 1)
    if kind == "ordinal":
        return f"{number}{_ordinal_ending(number)}"
    if kind == "numberInDash":
        return f"- {number} -"
    return f"{number:02d}" if kind == "decimalZero" else str(number)


def _roman(number: int) -> str:
    written = ""
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        written += letters * count
    return written


def _chinese(number: int) -> str:
    tens, ones = divmod(number, 10)
    head = (_CHINESE[tens] if tens > 1 else "") + (_TEN if tens else "")
    return head + (_CHINESE[ones] if ones or not tens else "")


def _ordinal_ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
