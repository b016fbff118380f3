"""Tables in Markdown: their rows and cells, and those that a question asks for.

In: a table as text and a question. Out: offsets. A row is found by the words of the question in it, those of
its first cell foremost; a column by the words in its header, else by the only date where a date is asked for.
Dates, periods and numbers count in their one form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from itertools import accumulate, dropwhile, takewhile, zip_longest
from typing import NamedTuple

from whence.quoting.answer_kinds import holds_kind
from whence.text.normalization import fold
from whence.text.overlap import Words, inverse_document_frequencies, overlap, words_of
from whence.text.question_words import asked_kind
from whence.text.spans import Span

_WORD = re.compile(r"\w+")
_LINE = re.compile(r"[^\n]+")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*\Z")
#: The line below a header.
RULE = re.compile(r"[ \t]*+\|?[ \t]*+:?-{3,}+:?[ \t]*+(?:\|[ \t]*+:?-{3,}+:?[ \t]*+)*+\|?[ \t]*+\Z")
#: A border of cells as stored texts have it; a bar inside of a cell has no space beside it.
_BORDER = re.compile(r"(?:(?<=\s)|\A)\|(?=\s|\Z)")
#: Weight of the words of a row's first cell, relative to those of the whole row.
_LABEL = 1.0


#: Most rows that answer a question together.
_MOST_ROWS = 5
#: Least letters with which two forms of a word begin, and their least share of the longer one.
_BEGINNING, _BEGINNING_SHARE = 4, 0.6
#: A time of day, a date or the like, which is one word of a table.
_JOINED_NUMBER = re.compile(r"(?<!\d)\d++(?:[.:,/-]\d++)++")
#: What a question asks for that a row of a table tells, whatever its columns.
_TOLD_BY_A_ROW = (None, "thing", "way", "reason")
#: Letters and digits without a blank: `E04`, `INV-2023-7`.
_CODE = re.compile(r"(?=.{0,40}[^\W\d])(?=\D{0,40}\d)[\w./-]{2,40}")


class Row(NamedTuple):
    """A line of a table; offsets are those of the text it was read from."""

    start: int
    end: int
    cells: tuple[Span, ...]
    """Without the space around them; empty cells included."""


def read_rows(text: str) -> list[Row]:
    r"""Return the lines of a text that are rows of a table, its header included.

    >>> text = "| Item | Euro |\\n|---|---|\\n| Bolt | 4 |"
    >>> [[text[slice(*cell)] for cell in row.cells] for row in read_rows(text)]
    [['Item', 'Euro'], ['Bolt', '4']]
    """
    return [
        Row(*line.span(), tuple(_cells(text, *line.span())))
        for line in _LINE.finditer(text)
        if _ROW.match(line[0]) and not RULE.match(line[0])
    ]


def _cells(text: str, start: int, end: int) -> list[Span]:
    line = text[start:end].rstrip()
    first = len(line) - len(line.lstrip())
    borders = [found.start() for found in _BORDER.finditer(line)]
    if borders[:1] != [first] or borders[-1:] != [len(line) - 1] or len(borders) < 2:
        borders = [place for place, letter in enumerate(line) if letter == "|"]
    found = []
    for left, right in itertools.pairwise(borders):
        cell = line[left + 1 : right]
        begin = start + left + 1 + len(cell) - len(cell.lstrip())
        found.append((begin, max(begin, start + left + 1 + len(cell.rstrip()))))
    return found


def row_in_words(header: str, row: str) -> str:
    r"""Return a row as its columns and their values.

    >>> row_in_words("| Item | Euro |\n|---|---|", "| Bolt | 4 |")
    'Item: Bolt, Euro: 4'
    """
    names = [header[slice(*cell)] for line in read_rows(header)[-1:] for cell in line.cells]
    values = [row[slice(*cell)] for line in read_rows(row) for cell in line.cells]
    pairs = zip_longest(names[: len(values)], values, fillvalue="")
    return ", ".join(": ".join(filter(None, pair)) for pair in pairs if pair[1])


class AskedCells(NamedTuple):
    """What a question asks of a table."""

    rows: tuple[int, ...]
    """Rows that have all that any row has of the question, which others have not; empty when many have."""
    columns: tuple[int, ...]
    """Columns after the first whose header the question names; empty when it names none, or all alike."""
    names_a_cell: bool
    """Whether the question has all words of the row's first cell, and some of the column's header."""
    names_a_code: bool
    """Whether that cell is a code of letters and digits, and its meaning or what to do is asked for."""


def asked_cells(
    question: str, words: Words, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> AskedCells:
    """Return the row and the columns that a question asks for. Cost: linear in the cells.

    Args:
        question: The question.
        words: Reads both.
        header: Texts of the header's cells; empty without a header.
        rows: Texts of the cells of the other rows.
    """
    wanted = frozenset((*words.of_question(question), *_JOINED_NUMBER.findall(question)))
    named = [_terms(words, cell) for cell in header]
    columns = _named_columns(wanted, named)
    of_rows = [(_terms(words, " ".join(row[:1])), _terms(words, " ".join(row))) for row in rows]
    found = _named_rows(wanted, of_rows)
    is_named = names_a_code = False
    if len(found) == 1 and (label := of_rows[found[0]][0]):
        # Stems of two languages differ where the words are the same.
        said = set(_WORD.findall(fold(rows[found[0]][0])))
        is_named = label <= wanted or said <= set(_WORD.findall(fold(question)))
        names_a_code = (
            is_named
            and _CODE.fullmatch(rows[found[0]][0].strip("` ")) is not None
            and asked_kind(question, words.asked) in _TOLD_BY_A_ROW
        )
    names_a_cell = is_named and bool(columns)
    if len(rows) == 1:
        found = (0,)
    if len(header) == 2:
        columns = (1,)
    if not columns and len(found) == 1 and asked_kind(question, words.asked) == "date":
        dates = [holds_kind("date", cell, question, words.language) for cell in rows[found[0]]]
        columns = tuple(at for at, is_date in enumerate(dates) if at and is_date)
    columns = columns if len(columns) < max(2, len(header) - 1) else ()
    return AskedCells(found, columns, names_a_cell, names_a_code)


def _terms(words: Words, text: str) -> frozenset[str]:
    return frozenset((*words.of_text(text), *_JOINED_NUMBER.findall(text)))


def _named_columns(wanted: frozenset[str], named: Sequence[frozenset[str]]) -> tuple[int, ...]:
    weights = inverse_document_frequencies(named)
    for alike in (_same, _begin_alike):
        known = [
            {one for one in terms if any(alike(one, word) for word in wanted)} for terms in named
        ]
        scores = [sum(weights[term] for term in sorted(one)) for one in known]
        best = max(scores[1:], default=0.0)
        if best > 0:
            return tuple(at for at, score in enumerate(scores) if at and score == best)
    return ()


def _same(one: str, other: str) -> bool:
    return one == other


def _begin_alike(one: str, other: str) -> bool:
    """Return whether two words have most of their letters in common: `weigh` asks for `Weight`."""
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )
    return shared >= max(_BEGINNING, _BEGINNING_SHARE * max(len(one), len(other)))


def _named_rows(
    wanted: frozenset[str], rows: Sequence[tuple[frozenset[str], frozenset[str]]]
) -> tuple[int, ...]:
    weights = inverse_document_frequencies(row for _, row in rows)
    scores = []
    for label, row in rows:
        precision = len(label & wanted) / max(1, len(label))
        shares = (
            overlap(wanted, row, weights, 0.0),
            overlap(wanted, label, weights, 0.0) * _LABEL * (1 + precision),
        )
        scores.append(sum(shares))
    best = max(scores, default=0.0)
    leaders = tuple(at for at, score in enumerate(scores) if score == best)
    if best <= 0 or len(leaders) > _MOST_ROWS:
        return ()
    own = rows[leaders[0]][1] & wanted
    common = frozenset.intersection(*(row for _, row in rows))
    has_all = all((row & wanted) - common <= own for _, row in rows)
    return leaders if has_all and own - common else ()


def rows_for(query: str, lead: str, text: str, *, most: int) -> str:
    """Return the header of the first table of a text and its rows from the one that a query asks for.

    Args:
        query: A question or search words.
        lead: What stands above the text.
        text: The passage.
        most: Characters of the rows; one row at least is returned.

    Returns:
        A table in Markdown; empty when there is none, or it follows other text and the query asks for no row.
    """
    above, lines = _first_table(text.strip())
    if not lines:
        return ""
    own = header_of("\n".join(lines))
    header, rows = (
        own or ("" if above else header_of(lead)),
        lines[own.count("\n") + 1 if own else 0 :],
    )
    cells = [[row[slice(*cell)] for one in read_rows(row) for cell in one.cells] for row in rows]
    named = [header[slice(*cell)] for one in read_rows(header)[:1] for cell in one.cells]
    asked = asked_cells(query, words_of(query, [text]), named, cells).rows
    if above and not asked:
        return ""
    first = asked[0] if asked else 0
    sizes = accumulate(len(row) for row in rows[first:])
    shown = rows[first : first + max(1, sum(size <= most for size in sizes))]
    return "\n".join(filter(None, (header, *shown)))


def _first_table(text: str) -> tuple[bool, list[str]]:
    """Return whether anything stands above the first table of a text, and the lines of the table."""
    lines = text.split("\n")
    below = list(dropwhile(lambda line: not _is_row(line), lines))
    return len(below) < len(lines), list(takewhile(_is_row, below))


def header_above(lead: str, text: str, quote: str) -> str:
    """Return the header, with the line below it, of the table whose rows a quote is.

    Args:
        lead: What stands above the text.
        text: The passage.
        quote: Verbatim from it.

    Returns:
        Empty for a quote that is no row, has its header itself, or is of a table without one.
    """
    if not _is_row(quote.partition("\n")[0]) or header_of(quote):
        return ""
    above: list[str] = []
    for line in reversed(text[: text.find(quote)].splitlines()):
        if not _is_row(line):
            return header_of("\n".join(reversed(above)))
        above.append(line)
    return header_of("\n".join((lead, *reversed(above))))


def _is_row(line: str) -> bool:
    return _ROW.match(line) is not None


def header_for(question: str, words: Words, above: str) -> str:
    """Return the header of a table with the line below it; empty when it has none.

    Of a table whose file marks no header the first row is one if the question names a column by it.

    Args:
        question: The question.
        words: Reads both.
        above: Header or first row of the table.
    """
    if (header := header_of(above)) or "\n" in above:
        return header
    cells = [_terms(words, above[slice(*cell)]) for row in read_rows(above) for cell in row.cells]
    if not _named_columns(frozenset(words.of_question(question)), cells):
        return ""
    return f"{above}\n|{'---|' * len(cells)}"


def header_of(text: str) -> str:
    """Return the header of the first table of a text with the line below it; empty when it has none."""
    lines = text.split("\n")
    for line, below in itertools.pairwise(lines):
        if _ROW.match(line) and "|" in below and RULE.match(below):
            return f"{line}\n{below}"
    return ""
