"""A test collection in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and judgements.

Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models", 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from whence.evaluation.files import read_lines, read_text, write_text
from whence.ingest.strict_json import parse_object
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


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out of a measurement."""

    queries_not_judged: int = 0
    """Queries without any positive judgement."""
    judged_queries_missing: int = 0
    """Judged queries that are missing in `queries.jsonl`."""
    relevant_documents_missing: int = 0
    """Relevant documents that are missing in `corpus.jsonl`; they count as not found."""
    queries_in_corpus: int = 0
    """Queries that are documents of the corpus: such a document does not count for its own query."""


class BeirDataset(msgspec.Struct, frozen=True, kw_only=True):
    """A test collection; the texts of documents stay in the file."""

    name: str
    corpus: Path
    documents: int
    queries: dict[str, str]
    """Text of every query with a positive judgement, by id, in order of the file."""
    qrels: Qrels
    """Judgements of these queries, all grades kept."""
    left_out: LeftOut
    own_documents: dict[str, str] = msgspec.field(default_factory=dict)
    """Document id by query text, for queries that are a document: same id, same text, and not judged for it.

    BEIR's own evaluation drops every document that has the id of the query. The id alone would drop relevant
    documents of collections that number both queries and documents from 1.
    """


def load_beir(folder: Path, qrels: Path | None = None) -> BeirDataset:
    """Read a collection and check it as a whole.

    Cost: linear in the files; memory holds the ids of the corpus, the queries and the judgements.

    Raises:
        BadInput: A file is missing or cannot be read, a line (named `file:N`) is malformed, an id occurs
            twice, or no query of the collection is judged.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", hint="give a folder in BEIR's layout")
    corpus = folder / "corpus.jsonl"
    queries = {record["_id"]: record["text"] for record in _records(folder / "queries.jsonl")}
    judged = read_qrels(qrels or folder / "qrels" / "test.tsv")
    document_ids: set[str] = set()
    own_documents = {}
    for record in _records(corpus):
        name = record["_id"]
        document_ids.add(name)
        query = queries.get(name)
        if query is None or name in judged.get(name, {}):
            continue
        if query.split() == record["text"].split():
            own_documents[query] = name
    wanted = {
        query: text
        for query, text in queries.items()
        if any(grade > 0 for grade in judged.get(query, {}).values())
    }
    if not wanted:
        raise BadInput(
            f"no query of {folder} has a relevant document",
            hint="do the ids in the judgements and in queries.jsonl belong together?",
        )
    kept = {query: judged[query] for query in wanted}
    missing = {
        document
        for grades in kept.values()
        for document, grade in grades.items()
        if grade > 0 and document not in document_ids
    }
    return BeirDataset(
        name=folder.resolve().name,
        corpus=corpus,
        documents=len(document_ids),
        queries=wanted,
        qrels=kept,
        left_out=LeftOut(
            queries_not_judged=len(queries) - len(wanted),
            judged_queries_missing=len(judged.keys() - queries.keys()),
            relevant_documents_missing=len(missing),
            queries_in_corpus=len(own_documents.keys() & wanted.values()),
        ),
        own_documents=own_documents,
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON Lines file; each has a unique `_id` and a text."""
    seen: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = parse_object(line)
        except BadInput as error:
            raise BadInput(f"{where}: {error.message}") from error
        # Indexing takes an integer as its digits; the judgements know digits only.
        if isinstance(record.get("_id"), int) and not isinstance(record["_id"], bool):
            record["_id"] = str(record["_id"])
        for key in ("_id", "text"):
            if not isinstance(record.get(key), str):
                raise BadInput(f"{where}: {key} is missing or not a string")
        if not record["_id"] or record["_id"] in seen:
            raise BadInput(f"{where}: the _id {record['_id']!r} is empty or occurs twice")
        seen.add(record["_id"])
        yield record
