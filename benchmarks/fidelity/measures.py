"""Compare what was read with what is expected.

Letters and digits count, in lower case and in their compatible form; marks of Markdown, punctuation and spaces
do not. A word at a line end keeps no hyphen.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rapidfuzz.distance import LCSseq

_MARKS = re.compile(
    r"\*+|~~|(?<=\w)\^(?=\w)|\\(?=[^\w\s])|(?<=[a-z])[-\u2010]\s*\n\s*(?=[a-z])|\u00ad"
)
_WORD = re.compile(r"[^\W_]+")
_ROW_END = re.compile(r"(?<!\\)\|")


def tokens(text: str) -> list[str]:
    r"""Return the words of a text.

    >>> tokens("**Wo**rds 1,5 of exam-\nple")
    ['words', '1', '5', 'of', 'example']
    """
    return _WORD.findall(_MARKS.sub("", unicodedata.normalize("NFKC", text)).casefold())


def compare(expected: dict[str, Any], text: str) -> dict[str, tuple[int, int]]:
    """Return for each measure that the file has how much was right, and of how much."""
    wanted, found = tokens(expected["words"]), tokens(text)
    kept = (Counter(wanted) & Counter(found)).total()
    numbers = {word: at for at, word in enumerate({*wanted, *found})}
    order = LCSseq.similarity([numbers[word] for word in wanted], [numbers[word] for word in found])
    measures = {"words": (kept, len(wanted)), "order": (order, len(wanted))}
    cells = [_cells(row) for table in expected["tables"] for row in table]
    if any(cells):
        measures["cells"] = (_cells_kept(cells, text), sum(map(len, cells)))
    gone = {word for hidden in expected["hidden"] for word in tokens(hidden)} - {*wanted}
    if gone:
        measures["hidden"] = (len(gone - {*found}), len(gone))
    return measures


def _cells(row: Iterable[str]) -> list[str]:
    return [cell for cell in (" ".join(tokens(each)) for each in row) if cell]


def _cells_kept(rows: Sequence[Sequence[str]], text: str) -> int:
    """Return how many cells of each row are cells of one line of the text, the one that has most of them."""
    lines = [Counter(_cells(_ROW_END.split(line))) for line in text.splitlines()]
    having: dict[str, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        for cell in line:
            having[cell].append(at)
    kept = 0
    for row in rows:
        own = Counter(row)
        near = {at for cell in own for at in having[cell][:200]}
        kept += max(((own & lines[at]).total() for at in near), default=0)
    return kept
