"""Unusual queries and options of `whence search`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whence import Engine


@pytest.mark.parametrize(
    "query", ["x" * 100_000, "\"annual' AND (leave* OR -x); -- \u202e"], ids=["100 kB", "marks"]
)
def test_any_text_is_a_query(cli: Any, handbook: Path, query: str) -> None:
    """Any text is searched: exit 0 and a JSON document."""
    result = cli("search", "--json", "--threshold", "0", "--", query)

    assert result.code == 0, result.err
    assert isinstance(result.json["hits"], list)
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--top-k", "0"), "top_k"),
        (("--top-k", "9" * 30), "top"),
        (("--top-k", "many"), "top"),
        (("--threshold", "nan"), "threshold"),
        (("--filter", "nobody=1"), "nobody"),
        (("--filter", "lang"), "lang"),
        (("--filter", b"status=\xff"), "status"),
        (("--filter", '{"or": []}'), "`or` is empty"),
        (("--acl", b"\xff"), "not Unicode text"),
        (("--rerank", "--rerank-budget", "0"), "reranking"),
    ],
    ids=str,
)
def test_wrong_options_are_named(
    cli: Any, handbook: Path, words: tuple[str | bytes, ...], named: str
) -> None:
    """An invalid option is exit 2, with an error that names it and a hint."""
    result = cli("search", "annual leave", "--json", *words)

    assert result.code == 2, result.err
    assert named in result.json["error"]["message"]
    assert result.json["error"]["hint"]
    assert "Traceback" not in result.err


def test_filters_restrict_the_results(cli: Any, handbook: Path) -> None:
    """Equality, ranges of dates, prefixes and several at once; an unknown key lists the known ones."""

    def found(*filters: str) -> set[str]:
        options = [word for one in filters for word in ("--filter", one)]
        result = cli(
            "search", "annual leave", "--json", "--threshold", "0", "--top-k", "500", *options
        )
        assert result.code == 0, result.err
        return {hit["document_id"] for hit in result.json["hits"]}

    leave = {"people/annual-leave.md", "people/annual-leave-2022.md"}
    people = found("document_id^=people/")

    assert leave <= people < found()
    assert "people/annual-leave.md" in found("status=current", "document_id^=people/")
    assert found("document_id^=people/", "status!=current") == people - found("status=current")
    either = '{"or": [{"document_id": "people/sick-leave.md"}, {"not": {"status": "current"}}]}'
    assert found(either) == {"people/sick-leave.md"} | found("status!=current")
    assert "people/annual-leave-2022.md" not in found("status=current")
    assert "people/annual-leave.md" in found("updated=2025-01-01..2025-01-01")
    assert "people/annual-leave.md" not in found("updated>2025-01-01")
    unknown = cli("search", "annual leave", "--filter", "colour=red")
    assert unknown.code == 2
    assert "status" in unknown.err


def test_filtered_lists_are_full(cli: Any, handbook: Path) -> None:
    """Under a filter a list has `top_k` hits or all that match, weak ones under one line after the others."""
    query = ("search", "how many days of annual leave", "--filter", "document_id^=security/")
    every = cli(*query, "--top-k", "500", "--json").json["hits"]
    found = cli(*query, "--json").json["hits"]
    printed = cli("search", "how many days of annual leave", "--top-k", "500").out
    before, _, after = printed.partition("Weak matches, with scores below 0.5:")

    assert len(every) > 5
    assert found == every[:5]
    assert found[-1]["weak"]
    assert "annual-leave.md" in before
    assert "security/" in after
    assert "Weak matches" not in after


#: One word in one document each, with the query that must find it.
SHORT_QUERIES = {
    "C#": "Delegates are types in C#.",
    "C++": "A destructor of C++ has no result.",
    "C": "The language C has pointers.",
    "R": "Data frames hold tables in R.",
    "42": "The limit is 42 requests per minute.",
    "休暇": "年次有給休暇は二十日です。",
    "Отпуск": "Отпуск длится двадцать дней.",
}


async def test_one_character_is_a_query(apart: Any, tmp_path: Path) -> None:
    """A query and a question may have one character, of any script; the passage with it comes first."""
    corpus = tmp_path / "corpus.jsonl"
    records = [{"_id": query, "text": text} for query, text in SHORT_QUERIES.items()]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    apart("index", corpus)

    async with Engine(home=apart.home) as engine:
        for query in SHORT_QUERIES:
            for mode in ("hybrid", "bm25"):
                first, *_ = await engine.search(query, mode=mode, collection=apart.collection)
                assert first.document_id == query
                assert first.similarity_score >= 0.5
            assert (await engine.ask(query, collection=apart.collection)).question == query
    dense = apart("search", "R", "--mode", "dense", "--json").json["hits"]
    assert len(dense) == 5
    assert not apart("search", "C", "--json").json["hits"][0]["weak"]
    assert apart("ask", "C", "--json").code == 0


def test_odd_tags_are_kept_and_compared_exactly(apart: Any, tmp_path: Path) -> None:
    """Tags with quotes, commas, Unicode or 10 kB are compared exactly, also among 5,000 tags."""
    tags = ["it's", 'a "b"', "a,b", "{x}", "日本語", "x" * 10_000]
    corpus = tmp_path / "corpus.jsonl"
    records = [{"_id": f"d{n}", "text": "annual leave", "acl": [tag]} for n, tag in enumerate(tags)]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert apart("index", corpus).code == 0

    def found(held: list[str]) -> set[str]:
        options = [word for tag in held for word in ("--acl", tag)]
        result = apart("search", "annual leave", "--json", "--threshold", "0", *options)
        assert result.code == 0, result.err
        return {hit["document_id"] for hit in result.json["hits"]}

    assert found([]) == set()
    assert found([tags[2], tags[5]]) == {"d2", "d5"}
    assert found([*(f"group {n}" for n in range(5000)), tags[0]]) == {"d0"}
    assert found(["a", "b", "x" * 9_999, "日本"]) == set()


def test_reranking_is_reported(cli: Any, handbook: Path) -> None:
    """With --rerank each hit has its former rank; hits are ordered by score."""
    words = ("search", "how many days of annual leave", "--json", "--threshold", "0")
    plain = cli(*words, "--no-rerank").json
    result = cli(*words, "--rerank", "--rerank-budget", "60").json
    late = cli(*words, "--rerank", "--rerank-budget", "0.000001").json
    scores = [hit["similarity_score"] for hit in result["hits"]]

    assert plain["reranker"] == ""
    assert all(hit["reranking"] is None for hit in plain["hits"])
    assert result["reranker"] == "whence-minilm-maxsim"
    assert scores == sorted(scores, reverse=True)
    assert all(hit["reranking"]["rank_before"] >= 1 for hit in result["hits"])
    assert [hit["chunk"]["id"] for hit in late["hits"]] == [
        hit["chunk"]["id"] for hit in plain["hits"]
    ]
    assert [fault["stage"] for fault in late["degraded"]] == ["rerank"]


def test_fields_can_be_boosted(apart: Any, tmp_path: Path) -> None:
    """With --boost the path is searched; invalid boosts are refused."""
    (tmp_path / "expenses.md").write_text("# Travel\n\nReceipts are kept for ten years.\n")
    refused = [
        apart("index", tmp_path, "--json", "--boost", one)
        for one in ("body=2", "title=0", "title=11", "title", "path=-1")
    ]
    search = ("search", "expenses", "--mode", "bm25", "--threshold", "0", "--json")
    apart("index", tmp_path)
    before = apart(*search).json["hits"]
    apart("index", tmp_path, "--boost", "path=2", "--boost", "title=3")
    after = apart(*search).json["hits"]

    assert [one.code for one in refused] == [2] * 5
    assert all(one.json["error"]["hint"] for one in refused)
    assert before == []
    assert [one["document_id"] for one in after] == ["expenses.md"]


def test_misspelt_words_are_corrected(apart: Any, tmp_path: Path) -> None:
    """A misspelt word is searched for as the nearest visible one, and shown; quotes and --exact keep it.

    A hidden document lends no word.
    """
    corpus = tmp_path / "corpus.jsonl"
    records: list[dict[str, Any]] = [
        {"_id": "a", "text": "To create a migration, run the command."},
        {"_id": "b", "text": "Middleware has an order. It is set by MAX_UPLOAD_SIZE."},
        {"_id": "c", "text": "The zebrafinch rule.", "acl": ["birds"]},
    ]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    apart("index", corpus)

    def found(*words: str) -> tuple[str, list[dict[str, str]]]:
        document = apart("search", "--json", "--mode", "bm25", *words).json
        return document["question_used"], document["corrections"]

    right = [{"from": "migratoin", "to": "migration"}]
    assert found("create a migratoin") == ("create a migration", right)
    assert found("MAX_UPLOAD_SZIE")[0] == "MAX_UPLOAD_SIZE"
    assert found("create a migratoin", "--exact") == ("create a migratoin", [])
    assert found('create a "migratoin"') == ('create a "migratoin"', [])
    assert found("zebrafinhc") == ("zebrafinhc", [])
    assert found("zebrafinhc", "--acl", "birds")[0] == "zebrafinch"
    answer = apart("ask", "How do I create a migratoin?", "--json").json
    assert answer["question"] == "How do I create a migratoin?"
    assert answer["question_used"] == "How do I create a migration?"
    assert answer["corrections"] == right
    trace = apart("explain", answer["answer_id"], "--json").json
    assert [one["corrections"] for one in trace["stages"] if "corrections" in one] == [right]
    assert "migratoin corrected to migration" in apart("explain", answer["answer_id"]).out
    exact = apart("ask", "How do I create a migratoin?", "--exact", "--json").json
    assert (exact["question_used"], exact["corrections"]) == (exact["question"], [])
    printed = apart("search", "create a migratoin")
    assert "searched for: create a migration (migratoin not found" in printed.err
    assert printed.out.startswith("1. a ")


def test_a_question_about_a_missing_term_is_refused(apart: Any, tmp_path: Path) -> None:
    """An identifier in no visible document refuses the question and is named.

    The refusal is in the answer and the trace, no writer is called, and hidden documents count for nobody else.
    """
    corpus = tmp_path / "corpus.jsonl"
    records: list[dict[str, Any]] = [
        {"_id": "a", "text": "CONN_MAX_AGE is how long a connection lives, 0 seconds by default."},
        {"_id": "c", "text": "CONN_POOL_WARMUP opens connections early.", "acl": ["dba"]},
    ]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    apart("index", corpus)

    def refusal(question: str, *options: str) -> Any:
        return apart("ask", question, "--json", *options).json

    missing = refusal("What is the default of CONN_POOL_WARMUP?")
    assert (missing["found"], missing["citations"], missing["model"]) == (False, [], "")
    assert missing["refusal"]["code"] == "term_not_in_documents"
    assert missing["refusal"]["reason"] == (
        "`CONN_POOL_WARMUP` does not occur in this collection; nearest: `CONN_MAX_AGE`."
    )
    told = apart("explain", missing["answer_id"], "--json").json
    assert told["stages"][-1]["refusal"]["code"] == "term_not_in_documents"
    assert "CONN_POOL_WARMUP" in apart("why-not", "a", "--answer", missing["answer_id"]).out
    seen = refusal("What does CONN_POOL_WARMUP do?", "--acl", "dba")
    assert (seen["refusal"] or {}).get("code") != "term_not_in_documents"
