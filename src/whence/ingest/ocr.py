"""Text of pictures by tesseract, where the command is installed: words with their places, a page at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from whence.schema.errors import BadInput

PROGRAM = "tesseract"
#: Why pictures are skipped by the setting.
OFF = "a picture; OCR, which would read its text, is off (WHENCE_OCR_LANGUAGES)"
#: Seconds for one page; most take three to ten.
_PAGE_S = 60.0
#: Least confidence of a word, and of the words of a paragraph together, in percent. In two photos and a logo no
#: paragraph had more than 58; in scans of 100 to 300 dpi, with noise and without, and in two screenshots those
#: of more than one letter had 71 or more.
_WORD, _PARAGRAPH = 30.0, 65.0
#: Values of `--list-langs` that are no languages.
_NO_LANGUAGES = frozenset({"osd", "equ", "snum"})
#: Languages together; each takes about as long as the first.
_MOST_LANGUAGES = 4


class Word(NamedTuple):
    """A word on a page, in pixels from the top left corner."""

    text: str
    left: int
    top: int
    width: int
    height: int
    line: tuple[int, int, int]
    """Its block, paragraph and line."""


class _Settings:
    """Of this process; the reader sets them when it starts."""

    def __init__(self) -> None:
        self.languages = "auto"
        self.on_page: Callable[[], None] = lambda: None


_settings = _Settings()


def set_up(languages: str, on_page: Callable[[], None]) -> None:
    """Set what this process reads.

    Args:
        languages: `auto` for the languages that are installed, `off`, or those of tesseract, e.g. `deu+eng`.
        on_page: Called before each page, which may take up to a minute.
    """
    _settings.languages, _settings.on_page = languages, on_page


def is_available(languages: str | None = None) -> bool:
    """Return whether pictures are read, by the setting and by what is installed."""
    wanted = _settings.languages if languages is None else languages
    return wanted != "off" and shutil.which(PROGRAM) is not None


def signature(languages: str) -> str:
    """Return what the text of a picture depends on; empty when none is read."""
    return f"ocr 1 {languages}" if is_available(languages) else ""


@cache
def installed_languages() -> tuple[str, ...]:
    """Return the languages that tesseract has, the English one first; none when it does not run."""
    try:
        done = subprocess.run(
            [PROGRAM, "--list-langs"], check=False, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = {one.strip() for one in done.stdout.splitlines()[1:]} - _NO_LANGUAGES
    return tuple(sorted(found, key=lambda one: (one != "eng", "/" in one, one)))


def read_words(picture: bytes) -> list[Word]:
    """Return the words of a picture, in the order of reading; those that are hardly legible are left out.

    Args:
        picture: A file of PNG, JPEG, TIFF, BMP, WebP or PNM.

    Returns:
        The words; none of a picture that is damaged or takes longer than a minute.

    Raises:
        BadInput: A language is not installed.
    """
    _settings.on_page()
    languages = _settings.languages
    if languages == "auto":
        languages = "+".join(installed_languages()[:_MOST_LANGUAGES])
    command = [PROGRAM, "stdin", "stdout", *(("-l", languages) if languages else ()), "tsv"]
    try:
        done = subprocess.run(
            command,
            check=False,
            input=picture,
            capture_output=True,
            timeout=_PAGE_S,
            env={
                "OMP_THREAD_LIMIT": "1",
                "PATH": os.environ.get("PATH", os.defpath),
                "LC_ALL": "C.UTF-8",
            },
        )
    except subprocess.TimeoutExpired:
        return []
    if done.returncode:
        absent = {*filter(None, languages.split("+"))}.difference(installed_languages())
        if absent:
            names = ", ".join(sorted(absent))
            raise BadInput(f"OCR has not these languages of WHENCE_OCR_LANGUAGES: {names}")
        return []
    return _legible(done.stdout.decode(errors="replace"))


def _legible(table: str) -> list[Word]:
    """Return the words of a table of tesseract that stand in legible paragraphs."""
    paragraphs: dict[tuple[int, int], list[tuple[Word, float]]] = {}
    for row in table.splitlines()[1:]:
        columns = row.split("\t")
        if len(columns) != 12 or columns[0] != "5" or not columns[11].strip():
            continue
        block, paragraph, line = map(int, columns[2:5])
        left, top, width, height = map(int, columns[6:10])
        word = Word(columns[11].strip(), left, top, width, height, (block, paragraph, line))
        paragraphs.setdefault((block, paragraph), []).append((word, float(columns[10])))
    found: list[Word] = []
    for words in paragraphs.values():
        kept = [(word, share) for word, share in words if share >= _WORD]
        weight = sum(len(word.text) for word, _ in kept)
        if kept and sum(share * len(word.text) for word, share in kept) >= _PARAGRAPH * weight:
            found += [word for word, _ in kept]
    return found
