"""A test collection in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and judgements.

Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models", 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from whence.evaluation.beir.trec import Qrels, read_qrels
from whence.evaluation.files import read_lines
from whence.evaluation.suite import Query, Suite
from whence.ingest.strict_json import parse_object
from whence.schema.errors import BadInput


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

    @property
    def suite(self) -> Suite:
        """The queries with their judgements, as they are asked."""
        own, grades = self.own_documents, self.qrels
        return Suite(
            queries=[
                Query(id=one, text=text, grades=grades[one], own_document=own.get(text))
                for one, text in self.queries.items()
            ]
        )


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
