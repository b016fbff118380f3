"""Searches that are odd, and tags that are hard on whoever builds queries of text."""

from __future__ import annotations

#: Queries that mean little or too much, by name.
QUERIES = {
    "only stop words": "the of and to a in",
    "only punctuation": "?!... --- ,;:",
    "10,000 times two words": "holiday leave " * 5000,
    "10,000 words": " ".join(f"word{n}" for n in range(10_000)),
    "1 MB in one word": "x" * 1_000_000,
    "1 MB of words": "abc " * 250_000,
    "only zero width": "\u200b\u200c\u200d\ufeff",
    "zero width between": "annual\u200b \u2060leave\ufeff",
    "right to left": "חופשה שנתית",
    "direction marks": "\u202eannual\u202c \u2067leave\u2069",
    "quotes": '"annual\' leave"" `',
    "operators": "annual AND leave OR NOT (holiday*) ~2 +days -x ^3 title:x",
    "SQL": "'; DROP TABLE whence.chunk; -- annual leave $1 %s",
    "patterns": "100%_\\ annual.*leave[",
    "emoji": "🏖️🏝️👨‍👩‍👧",
    "control characters": "annual\x01\x1b[31m leave\x7f",
    "line ends": "annual\n\nleave\r\n\t",
    "combining": "e\u0301" * 2000,
    "other blanks": "\u00a0\u2003annual leave\u3000",
}

#: Tags that are hard on whoever builds queries of text.
TAGS = (
    "plain",
    "Plain",
    "it's",
    'a "quoted" tag',
    "a,b",
    "{x}",
    "back\\slash",
    " blank ",
    "line\nend",
    "日本語",
    "e\u0301",
    "\u00e9",
    "NULL",
    "%",
    "*",
    "'; DROP TABLE whence.sec_class; --",
    "x" * 10_000,
    "x" * 9_999 + "y",
)
