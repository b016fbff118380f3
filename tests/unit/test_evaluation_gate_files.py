"""Files of the gate: a missing, unknown or malformed key is an error that names the file and the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.gate_policy import POLICY as POLICY_FILE

from whence.evaluation.gate.schema import load_baseline, load_policy, load_suite
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


@pytest.mark.parametrize("kind", ["suite", "policy", "baseline"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"null", b"[]", b"{}", b"[" * 100_000])
def test_no_bytes_break_a_loader(tmp_path: Path, kind: str, data: bytes) -> None:
    """Any content that is not such a file is an error that names the file."""
    path = tmp_path / "file.json"
    path.write_bytes(data)

    with pytest.raises(BadInput) as caught:
        LOADERS[kind](path)
    assert str(path) in caught.value.message
