"""Search files for strings, as `grep` does: whether words of an erased text are still on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from whence.text.spelling import can_be_misspelt

#: Shortest and longest piece of a line that is searched for, in characters.
_MIN_PIECE, _MAX_PIECE = 20, 60
#: Shortest word that is searched for, in characters, and shortest text, in bytes: shorter ones may be bytes of
#: something else.
_MIN_WORD = 8
#: Most pieces and words of a text that are searched for.
_MOST_PIECES, _MOST_WORDS = 64, 32
_WORD = re.compile(rf"[^\W_]{{{_MIN_WORD},40}}")
_BLOCK_BYTES = 4 * 2**20
_PREFIX_BYTES = 4


def text_pieces(texts: Iterable[str]) -> list[str]:
    """Return pieces of lines that show that a text is still there: up to 64, evenly chosen.

    They have 20 to 60 characters. A text without such a line is one piece, if it has 8 bytes or more.
    """
    pieces: dict[str, None] = {}
    for text in texts:
        cut = [
            line[at : at + _MAX_PIECE].strip()
            for line in text.splitlines()
            for at in range(0, len(line), _MAX_PIECE)
        ]
        long = [piece for piece in cut if len(piece) >= _MIN_PIECE]
        whole = text.strip()
        pieces |= dict.fromkeys(long or ([whole] if len(whole.encode()) >= _MIN_WORD else []))
    return _evenly(list(pieces), _MOST_PIECES)


def rare_words(texts: Iterable[str]) -> list[str]:
    """Return words of 8 characters or more with a digit or in no English dictionary, in lower case."""
    found = {word.lower() for text in texts for word in _WORD.findall(text)}
    return sorted(
        word for word in found if not word.isalpha() or can_be_misspelt(word, ("english",))
    )


def word_forms(words: Sequence[str]) -> list[str]:
    """Return up to 32 of the words, evenly chosen, each in lower case and capitalised."""
    chosen = _evenly(list(words), _MOST_WORDS)
    return list(dict.fromkeys(form for word in chosen for form in (word, word.capitalize())))


def _evenly(items: list[str], most: int) -> list[str]:
    return items if len(items) <= most else [items[n * len(items) // most] for n in range(most)]


class FileSearch:
    """Finds some strings in files. Cost: linear in the bytes, 100 MB in half a second.

    Args:
        strings: Of at least 4 bytes in UTF-8 each; shorter ones are left out.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        wanted = dict.fromkeys(one.encode() for one in strings)
        self.strings = [one for one in wanted if len(one) >= _PREFIX_BYTES]
        self._longest = max(map(len, self.strings), default=0)
        self._by_prefix: dict[bytes, list[bytes]] = {}
        self._first, self._second = np.zeros(2**16, bool), np.zeros(2**16, bool)
        for one in self.strings:
            self._by_prefix.setdefault(one[:_PREFIX_BYTES], []).append(one)
            self._first[int.from_bytes(one[:2], "little")] = True
            self._second[int.from_bytes(one[2:4], "little")] = True

    def find(self, path: Path) -> set[bytes]:
        """Return which strings are in a file; none when it is gone.

        Raises:
            OSError: It cannot be read.
        """
        found: set[bytes] = set()
        tail = b""
        try:
            with path.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    data = tail + block
                    found |= self._in_block(data)
                    tail = data[max(0, len(data) - self._longest + 1) :]
        except FileNotFoundError:
            return set()
        return found

    def _in_block(self, data: bytes) -> set[bytes]:
        """Look at each pair of bytes whether a string begins with it, then at the next pair."""
        found: set[bytes] = set()
        for start in (0, 1):
            count = (len(data) - start) // 2
            if count < 2:
                continue
            pairs = np.frombuffer(data, dtype="<u2", offset=start, count=count)
            begins = self._first[pairs[:-1]] & self._second[pairs[1:]]
            for at in (np.flatnonzero(begins) * 2 + start).tolist():
                for one in self._by_prefix.get(data[at : at + _PREFIX_BYTES], ()):
                    if data.startswith(one, at):
                        found.add(one)
        return found

    def find_in(self, paths: Iterable[Path]) -> set[bytes]:
        """Return which strings are in some files, or below some folders."""
        files = (
            each
            for path in paths
            for each in (_files(path, frozenset()) if path.is_dir() else (path,))
        )
        return set().union(*map(self.find, files))

    def find_below(
        self, folder: Path, *, without: frozenset[Path], moved: Callable[[], None]
    ) -> tuple[int, dict[Path, set[bytes]]]:
        """Search all regular files below a folder.

        Args:
            folder: The folder; links are not followed.
            without: Files and folders that are left out.
            moved: Called after each file.

        Returns:
            How many files were searched, and the strings that are in each of those that have some.
        """
        searched, found = 0, {}
        for path in _files(folder, without):
            strings = self.find(path)
            searched += 1
            if strings:
                found[path] = strings
            moved()
        return searched, found


def _files(folder: Path, without: frozenset[Path]) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in entries:
        if path in without or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path, without)
        elif path.is_file():
            yield path
