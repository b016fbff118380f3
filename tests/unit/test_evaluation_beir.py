"""Readers and writers of test collections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.evaluation.beir.collection import BeirDataset, LeftOut, load_beir
from whence.evaluation.beir.trec import RunRow, read_qrels, write_qrels, write_run
from whence.schema.errors import BadInput


def test_four_columns_are_trec(tmp_path: Path) -> None:
    """`q1 Q0 auth_doc 1` is query, iteration, document, grade."""
    path = tmp_path / "qrels"
    path.write_text("q1 Q0 auth_doc 1\nq1 0 other 0\n\n# note\nq2 Q0 auth_doc 3\n")

    assert read_qrels(path) == {"q1": {"auth_doc": 1, "other": 0}, "q2": {"auth_doc": 3}}


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore\n", ""])
def test_three_columns_are_beir(tmp_path: Path, header: str) -> None:
    """Query, document, grade; ids may hold spaces where tabs part the columns; a header is optional."""
    path = tmp_path / "qrels.tsv"
    path.write_text(f"{header}q1\tdoc one\t2\nq2\td2\t-1\n")

    assert read_qrels(path) == {"q1": {"doc one": 2}, "q2": {"d2": -1}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q1 d1", "2 columns"),
        ("q1 0 d1 1 more", "5 columns"),
        ("q1 d1 high", "'high'"),
        ("q1 d1 1.5", "'1.5'"),
        ("q1 d1 nan", "'nan'"),
        ("q1\t\t1", "empty"),
        ("q0 d0 2", "differently"),
        ("query-id corpus-id score", "'score'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    """The error names file, line and fault; a header is allowed in the first line only."""
    path = tmp_path / "qrels.tsv"
    path.write_text(f"query-id corpus-id score\nq0 d0 1\n{line}\n")

    with pytest.raises(BadInput, match=f"qrels.tsv:3: .*{words}"):
        read_qrels(path)


_ids = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1).filter(
    lambda text: not text.startswith("#") and len(text.split()) == 1
)


@given(
    qrels=st.dictionaries(_ids, st.dictionaries(_ids, st.integers(-2, 9), min_size=1), min_size=1)
)
def test_judgements_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    """What is written is read back, grade by grade."""
    path = tmp_path_factory.mktemp("qrels") / "out"
    write_qrels(path, qrels)

    assert read_qrels(path) == qrels


def test_the_first_line_may_be_a_judgement(tmp_path: Path) -> None:
    """A query may be named like the head of a column; grades have up to nine digits."""
    path = tmp_path / "qrels"
    path.write_text("query\td1\t123456789\ntopic\td1\t1\n")

    assert read_qrels(path) == {"query": {"d1": 123456789}, "topic": {"d1": 1}}
    path.write_text("q\td1\t1234567890\n")
    with pytest.raises(BadInput, match="'1234567890' is not an integer"):
        read_qrels(path)


def test_scores_of_a_run_decrease_in_single_precision(tmp_path: Path) -> None:
    """Equal ones are lowered by a step each, lower ones keep their digits, every ranking begins anew."""
    step = float(np.nextafter(np.float32(0.5), np.float32(0)))
    scores = [("q", 0.5), ("q", 0.5), ("q", 0.5), ("r", 0.5), ("r", step - 1e-10), ("r", 0.25)]
    write_run(tmp_path / "run", [RunRow(one, "d", 1, score, "t") for one, score in scores])
    written = [line.split()[4] for line in (tmp_path / "run").read_text().splitlines()]
    third = float(np.nextafter(np.float32(step), np.float32(0)))

    assert written == [repr(one) for one in (0.5, step, third, 0.5, step - 1e-10, 0.25)]


def test_exports_are_what_trec_eval_reads(tmp_path: Path) -> None:
    """Six columns with the system's name in a run, four without a header in judgements."""
    write_run(tmp_path / "run", [RunRow("q1", "d1", 1, 0.1 + 0.2, "whence-bm25")])
    write_qrels(tmp_path / "qrels", {"q1": {"d1": 2, "a": 0}})

    assert (tmp_path / "run").read_text() == "q1 Q0 d1 1 0.30000000000000004 whence-bm25\n"
    assert (tmp_path / "qrels").read_text() == "q1 0 a 0\nq1 0 d1 2\n"


def test_an_id_with_a_space_is_not_exported(tmp_path: Path) -> None:
    """A file that others would misread is not written."""
    with pytest.raises(BadInput, match="'d 1'"):
        write_run(tmp_path / "run", [RunRow("q1", "d 1", 1, 0.5, "whence")])

    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small collection: three documents, four queries, of which one is judged relevant."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "", "text": "one"}\n{"_id": 2, "text": "two\u2028half"}\n\n'
        '{"_id": "d3", "text": ""}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        "".join(f'{{"_id": "q{n}", "text": "query {n}"}}\n' for n in range(1, 5))
    )
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\tgone\t1\nq1\tlost\t0\nq1\td3\t1\nq2\td1\t0\nq9\td1\t1\n"
    )
    return tmp_path


def test_a_collection_counts_judged_queries(folder: Path) -> None:
    """Queries without a relevant document are left out and counted."""
    dataset = load_beir(folder)

    assert dataset == BeirDataset(
        name=folder.name,
        corpus=folder / "corpus.jsonl",
        documents=3,
        queries={"q1": "query 1"},
        qrels={"q1": {"d1": 2, "gone": 1, "lost": 0, "d3": 1}},
        left_out=LeftOut(
            queries_not_judged=3, judged_queries_missing=1, relevant_documents_missing=1
        ),
    )


def test_ids_may_be_numbers(folder: Path) -> None:
    """Judgements name a document or query by its digits; a document without a judged query is another's."""
    (folder / "queries.jsonl").write_text('{"_id": 7, "text": "two"}\n{"_id": 2, "text": "two"}\n')
    (folder / "qrels" / "test.tsv").write_text("7\t2\t1\n2\td1\t1\n")
    (folder / "corpus.jsonl").write_text('{"_id": 2, "text": "two"}\n{"_id": "d1", "text": ""}\n')

    assert load_beir(folder).qrels == {"7": {"2": 1}, "2": {"d1": 1}}
    assert load_beir(folder).own_documents == {"two": "2"}


def test_a_query_that_is_a_document_does_not_find_itself(folder: Path) -> None:
    """A document is its query only with the same id and text, and without a judgement."""
    corpus = "".join(
        f'{{"_id": "{name}", "text": "{text}"}}\n'
        for name, text in [
            *(("d1", "one"), ("q1", "query  1"), ("q2", "other")),
            *(("q3", "query 3"), ("q4", "query 4")),
        ]
    )
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t1\nq2\td1\t1\nq3\tq3\t1\n")
    dataset = load_beir(folder)

    assert dataset.own_documents == {"query 1": "q1", "query 4": "q4"}
    assert dataset.left_out.queries_in_corpus == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\nnot json\n', "corpus.jsonl:2"),
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n', "twice"),
        ("corpus.jsonl", '{"_id": "d1"}\n', "corpus.jsonl:1: text"),
        ("queries.jsonl", '{"_id": true, "text": "a"}\n', "queries.jsonl:1: _id"),
        ("queries.jsonl", '{"_id": "q7", "text": "a"}\n', "no query"),
        ("qrels/test.tsv", "q1 d1\n", "test.tsv:1"),
    ],
)
def test_a_broken_collection_is_refused(folder: Path, name: str, content: str, words: str) -> None:
    """The error names the file and the line."""
    (folder / name).write_text(content)

    with pytest.raises(BadInput, match=words):
        load_beir(folder)


def test_a_line_that_is_not_utf8_is_refused(folder: Path) -> None:
    """Anywhere in the file."""
    with (folder / "corpus.jsonl").open("ab") as file:
        file.write(b'{"_id": "d9", "text": "\xff"}\n')

    with pytest.raises(BadInput, match=r"corpus\.jsonl is not UTF-8"):
        load_beir(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    """A missing file or folder is an error that names it."""
    (folder / "qrels" / "test.tsv").unlink()

    with pytest.raises(BadInput, match=r"cannot read .*test\.tsv"):
        load_beir(folder)
    with pytest.raises(BadInput, match="not a folder"):
        load_beir(folder / "nowhere")
