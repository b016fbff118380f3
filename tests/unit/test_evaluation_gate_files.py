"""Files of the gate: a missing, unknown or malformed key is an error that names the file and the key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.gate_policy import POLICY as POLICY_FILE

from whence.evaluation.files import parse_data, read_lines
from whence.evaluation.gate.files import load_baseline, load_policy, load_suite
from whence.operations.output_files import check_folder, write_text
from whence.schema.errors import BadInput, ConfigError

SUITE = (
    '{"version":"v1","queries":[{"id":"a","query":"first query","intent":"symbol",'
    '"expected_targets":[{"hint":"a.md"}],"negative_targets":[{"hint":"old.md","within":2}]},'
    '{"id":"b","query":"second query","intent":"path","expected_targets":[{"hint":"b.md"}]}]}'
)
POLICY = json.dumps(POLICY_FILE, separators=(",", ":"))
LOADERS: dict[str, Any] = {"suite": load_suite, "policy": load_policy, "baseline": load_baseline}


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        ("suite", '"version":"v1"', '"version":" "', "blank"),
        ("suite", '"version":"v1"', '"version":1', "version"),
        ("suite", '"id":"a"', '"id":" "', "blank"),
        ("suite", '"query":"first query"', '"query":"first \\ud800"', r"\\ud800"),
        ("policy", "retrieval-gate-policy-v1", "\\udfff", r"\\udfff"),
        ("suite", '"id":"a"', '"id":null', "id"),
        ("suite", '"id":"a"', '"id":"b"', "occurs twice"),
        ("suite", '"id":"a"', '"id":"a","id":"c"', "twice"),
        ("suite", '"query":"first query"', '"query":"ab"', "fewer than 3"),
        ("suite", '"query":"first query"', '"query":["ab"]', "query"),
        ("suite", '"intent":"symbol"', '"intent":"Symbol"', "intent|Symbol"),
        ("suite", '[{"hint":"a.md"}]', '["a.md"]', "expected_targets"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":"a.md"},{"hint":" A.md"}]', "occurs twice"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":""}]', "hint"),
        ("suite", '[{"hint":"a.md"}]', '[{"hint":"a.md","within":3}]', "within"),
        ("suite", '"within":2', '"within":0', "within"),
        ("suite", '"within":2', '"within":NaN', "NaN"),
        ("suite", '"within":2', '"within":1.5', "within"),
        ("suite", '"hint":"old.md"', '"hint":"a.md"', "occurs twice"),
        ("suite", ',"intent":"symbol"', "", "intent"),
        ("suite", '"query":"first query",', "", "query"),
        ("suite", '"expected_targets":[{"hint":"a.md"}],', "", "expected_targets"),
        ("suite", '"version":"v1",', "", "version"),
        ("suite", '[{"hint":"a.md"}]', "[]", "expected_targets"),
        ("suite", '"id":"a"', '"id":"a","extra":1', "extra"),
        ("suite", '{"version"', '[{"version"', "JSON"),
        ("policy", "retrieval-gate-policy-v1", "retrieval-gate-policy-v2", "version"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":-1', "max_p95"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":1e999', "max_p95|JSON"),
        ("policy", '"max_p95_latency_ms":1000.0', '"max_p95_latency_ms":NaN', "NaN"),
        ("policy", '"latency":{', '"latency":{"by_intent":{"guess":{}},', "by_intent|guess"),
        ("policy", '"latency":{', '"latency":{"by_intent":{"path":{}},', "max_p50"),
        ("policy", '"latency":{', '"latency":{"by_intents":{},', "by_intents"),
        ("policy", '"min_mrr":0.1', '"min_mrr":0.1,"max_negative_hit_rate":2', "negative"),
        *(
            ("policy", '"min_mrr":0.1', f'"min_mrr":{value}', "min_mrr|JSON")
            for value in ("NaN", "-0.1", "1.5", "1e999", "true", '"0.5"', "Infinity", "null")
        ),
        ("policy", '"tolerance"', '"tolerances"', "tolerance"),
        ("baseline", "{", "[", "JSON"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, kind: str, old: str, new: str, words: str) -> None:
    """A file with one fault is refused; the error names the file and the key."""
    good = {"suite": SUITE, "policy": POLICY, "baseline": "{}"}[kind]
    assert old in good
    path = tmp_path / f"{kind}.json"
    path.write_text(good.replace(old, new, 1))

    with pytest.raises(ConfigError, match=words) as caught:
        LOADERS[kind](path)
    assert str(path) in caught.value.message


def test_good_files_are_read(tmp_path: Path) -> None:
    """The files that the faults are made from are valid; a policy may omit newer keys."""
    for kind, text in (("suite", SUITE), ("policy", POLICY)):
        (tmp_path / "file.json").write_text(text)
        LOADERS[kind](tmp_path / "file.json")


def test_what_to_do_about_a_bad_file(tmp_path: Path) -> None:
    """The hint names the kind of file, whether it cannot be parsed or has another form."""
    for kind, load in LOADERS.items():
        for data in ("{", "{}"):
            (tmp_path / "file.json").write_text(data)
            with pytest.raises(ConfigError) as caught:
                load(tmp_path / "file.json")
            assert caught.value.hint == f"correct the {kind} file"


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ("a.json", "[", "a.json: is not JSON: Expecting value at column 2"),
        ("a.json", '{"k": NaN}', "a.json: holds NaN, which JSON does not have, at the key 'k'"),
        ("a.YML", "k: [1", "a.YML"),
        ("a.yaml", "k: 1\nk: 2", "a.yaml"),
    ],
)
def test_what_cannot_be_parsed(source: str, text: str, message: str) -> None:
    """The message begins with the file, once, and ends with the key where it is known."""
    with pytest.raises(ConfigError) as caught:
        parse_data(text, source, hint="do it")

    assert caught.value.message.startswith(message)
    assert caught.value.message.count(source) == 1
    assert (caught.value.hint, "XX" in caught.value.message) == ("do it", False)


def test_a_suite_is_sorted_and_may_have_short_queries(tmp_path: Path) -> None:
    """Queries are sorted by id; one of three characters can be searched for."""
    query = '{"id":"%s","query":" abc ","intent":"path","expected_targets":[{"hint":"x"}]}'
    queries = ",".join(query % one for one in ("b", "c", "a"))
    (tmp_path / "suite.json").write_text(f'{{"version":"v9","queries":[{queries}]}}')
    suite = load_suite(tmp_path / "suite.json")

    assert suite.version == "v9"
    assert [one.id for one in suite.queries] == ["a", "b", "c"]


def test_a_baseline_has_each_query_once(tmp_path: Path) -> None:
    """A query that was recorded twice is refused by its id."""
    names = ("recall_at_k", "mrr", "ndcg_at_k", "zero_result_rate", "clustering_ratio")
    rates = (*names, "degraded_query_rate", "semantic_budget_exhaustion_rate")
    metrics = dict.fromkeys((*rates, "latency_p95_ms", "latency_mean_ms"), 0.5)
    query = dict.fromkeys(("reciprocal_rank", "recall_at_k", "ndcg_at_k"), 1)
    query |= {"id": "q", "hit_rank": 1, "cluster_ratio": None, "found_hints": []}
    plain = {"version": "retrieval-eval-baseline-v1", "suite_version": "v", "suite_digest": "d"}
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(plain | {"k": 1, "metrics": metrics, "per_query": [query]}))

    assert load_baseline(path).per_query[0].id == "q"
    path.write_text(json.dumps(plain | {"k": 1, "metrics": metrics, "per_query": [query] * 2}))
    with pytest.raises(ConfigError, match=r"baseline\.json: per_query: the id 'q' occurs twice"):
        load_baseline(path)


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    """Other line ends are part of a line; a byte order mark is none of its text."""
    (tmp_path / "lines").write_bytes("\ufeffa\rä\u2028b\r\n\nc".encode())

    assert list(read_lines(tmp_path / "lines")) == ["a\rä\u2028b\r\n", "\n", "c"]


def test_a_file_that_will_be_written_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be new or replace a file, in a folder that exists and can be written; None is no file."""
    (tmp_path / "old").write_text("")
    check_folder(None)
    check_folder(tmp_path / "new")
    check_folder(tmp_path / "old")
    for bad in (tmp_path, tmp_path / "no" / "new", tmp_path / "old" / "new"):
        with pytest.raises(BadInput, match="cannot write"):
            check_folder(bad)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadInput, match="cannot write"):
        check_folder(tmp_path / "new")


def test_a_file_is_written_whole_or_not(tmp_path: Path) -> None:
    """As UTF-8 with the line ends it has; a folder that is missing is an error, and nothing is left."""
    write_text(tmp_path / "file", "ä\r\nb\n")
    with pytest.raises(BadInput, match="cannot write"):
        write_text(tmp_path / "no" / "file", "")

    assert (tmp_path / "file").read_bytes() == "ä\r\nb\n".encode()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["suite", "policy", "baseline"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"null", b"[]", b"{}", b"[" * 100_000])
def test_no_bytes_break_a_loader(tmp_path: Path, kind: str, data: bytes) -> None:
    """Any content that is not such a file is an error that names the file."""
    path = tmp_path / "file.json"
    path.write_bytes(data)

    with pytest.raises(BadInput) as caught:
        LOADERS[kind](path)
    assert str(path) in caught.value.message
