"""Patterns for the scripts of the world: words, scripts without spaces, and the units of these.

Python's `re` knows no scripts and takes vowel signs for the borders of words, so these are patterns of `regex`.
"""

from __future__ import annotations

from typing import Final

import regex

#: Characters of scripts that put no space between words. Korean does, but joins particles to words.
UNSPACED_CLASS: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\u3005\u30fc\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
)
#: What no number touches, as part of a word; a number may touch a script without spaces: `一日1,400円`.
TOUCHING: Final = rf"[\w--[{UNSPACED_CLASS}]]"
#: A character of a script without spaces.
UNSPACED: Final = regex.compile(rf"[{UNSPACED_CLASS}--\p{{N}}--\p{{P}}]", regex.V1)
#: A sequence in a script without spaces.
UNSPACED_RUN: Final = regex.compile(rf"[{UNSPACED_CLASS}--\p{{Nd}}--\p{{P}}]+", regex.V1)
#: What a reader takes for one character: a letter with its marks.
_CLUSTER: Final = regex.compile(r"\X")
_HIRAGANA: Final = regex.compile(r"\p{Hiragana}")
_THAI: Final = regex.compile(r"\p{Thai}")
_HANGUL: Final = regex.compile(r"\p{Hangul}")


def clusters(run: str) -> list[str]:
    """Return the characters of a sequence as readers see them: letters with their vowel signs and tones."""
    found: list[str] = _CLUSTER.findall(run)
    return found


def language_of_run(text: str) -> str:
    """Return the language of a text in a script without spaces: Japanese where it has a Hiragana letter.

    >>> language_of_run("送料は五百円です"), language_of_run("运费"), language_of_run("ราคา")
    ('japanese', 'chinese', 'thai')
    """
    if _HIRAGANA.search(text):
        return "japanese"
    if _HANGUL.search(text):
        return "korean"
    return "thai" if _THAI.search(text) else "chinese"


def count_words(text: str) -> int:
    """Return the number of words of a text; two characters of a script without spaces are one.

    >>> count_words("two words"), count_words("送料は五百円です。")
    (2, 4)
    """
    if text.isascii():
        return len(text.split())
    characters = sum(map(len, UNSPACED_RUN.findall(text)))
    if not characters:
        return len(text.split())
    spaced = UNSPACED_RUN.sub(" ", text).split()
    # What is left of sentences is their punctuation.
    return characters // 2 + sum(any(map(str.isalnum, one)) for one in spaced)
