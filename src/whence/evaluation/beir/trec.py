"""Judgements and rankings in the formats of trec_eval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from whence.evaluation.files import read_text
from whence.operations.output_files import write_text
from whence.schema.errors import BadInput

#: Grade by query and document; 0 and below mean judged as not relevant.
Qrels = dict[str, dict[str, int]]

#: First words of a header line, as BEIR and its converters write them.
_HEADERS = frozenset({"query-id", "query_id", "queryid", "qid", "query", "topic"})
_COLUMNS = "write `query document grade` or `query iteration document grade`"


class RunRow(NamedTuple):
    """One line of a run."""

    query_id: str
    document_id: str
    rank: int
    score: float
    tag: str
    """Name of the system, without white space."""


def read_qrels(path: Path) -> Qrels:
    """Read judgements of three columns (query, document, grade) or four (query, iteration, document, grade).

    Columns are separated by tabs if the line has one, else by white space. Blank lines, lines that begin
    with `#` and a header in the first line are skipped. A repeated judgement counts once. Cost: linear in
    the file.

    Raises:
        BadInput: The file cannot be read, or a line (named `file:N`) has another number of columns, an
            empty id, a grade that is not an integer, or contradicts an earlier one.
    """
    qrels: Qrels = {}
    first = True
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        header = first and columns[0].casefold() in _HEADERS and not _is_grade(columns[-1])
        first = False
        if header:
            continue
        query, document, grade = _judgement(f"{path}:{number}", columns)
        if qrels.setdefault(query, {}).setdefault(document, grade) != grade:
            raise BadInput(
                f"{path}:{number}: document {document!r} was judged differently for query {query!r} before",
                hint="keep one grade for each pair of query and document",
            )
    return qrels


def write_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements as trec_eval reads them: four columns, graded, no header, sorted."""
    rows = [
        (query, "0", document, str(grade))
        for query, judged in sorted(qrels.items())
        for document, grade in sorted(judged.items())
    ]
    write_text(path, "".join(_lines(rows)))


def write_run(path: Path, rows: Iterable[RunRow]) -> None:
    """Write a run as trec_eval reads it: query, `Q0`, document, rank, score, tag.

    Readers of such files sort by score in single precision and break ties by document. Scores are written
    with all digits, and are lowered by one step of that precision where they would tie, so that sorting
    restores the ranks.
    """
    lines = _lines(
        (row.query_id, "Q0", row.document_id, str(row.rank), repr(score), row.tag)
        for row, score in _decreasing(rows)
    )
    write_text(path, "".join(lines))


def _decreasing(rows: Iterable[RunRow]) -> Iterator[tuple[RunRow, float]]:
    """Yield each line with a score that is lower than the one before it in single precision."""
    import numpy as np

    for _, ranking in groupby(rows, key=lambda row: (row.query_id, row.tag)):
        above = np.float32(np.inf)
        for row in ranking:
            rounded, below = np.float32(row.score), np.nextafter(above, np.float32(-np.inf))
            above = min(rounded, below)
            yield row, row.score if rounded <= below else float(below)


def _is_grade(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal()


def _judgement(where: str, columns: Sequence[str]) -> tuple[str, str, int]:
    if len(columns) not in (3, 4):
        raise BadInput(f"{where}: {len(columns)} columns, expected 3 or 4", hint=_COLUMNS)
    query, document, grade = columns[0], columns[-2], columns[-1]
    if not query or not document:
        raise BadInput(f"{where}: an id is empty", hint=_COLUMNS)
    if not _is_grade(grade) or len(grade) > 9:
        raise BadInput(f"{where}: the grade {grade!r} is not an integer", hint=_COLUMNS)
    return query, document, int(grade)


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in rows:
        for word in row:
            if len(word.split()) != 1 or word.strip() != word:
                raise BadInput(
                    f"the id {word!r} cannot be written in TREC's format",
                    hint="columns are separated by white space; use ids without it",
                )
        yield " ".join(row) + "\n"
