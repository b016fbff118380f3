"""`whence validate` and `whence eval`, through the installed command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest


def test_the_handbook_passes_its_shipped_suite(cli: Any, handbook: Path, tmp_path: Path) -> None:
    """Without --suite the shipped suite runs; the report has all fields; texts are compared with files."""
    report, svg = tmp_path / "report.json", tmp_path / "latency.svg"
    words = ("--report", report, "--svg", svg, "--source", handbook)
    result = cli("validate", *words, "--clients", "2", "--json")
    done = result.json
    rows = [row for query in done["results"] for row in query["results"]]

    assert result.code == 0, result.out
    assert json.loads(report.read_text()) == done
    assert svg.read_text().startswith("<svg")
    assert done["suite"]["origin"] == "shipped"
    assert done["total_queries"] == done["passed_queries"] + done["failed_queries"] >= 5
    assert done["passed_queries"] >= 0.8 * done["total_queries"]
    assert all(len(query["results"]) >= 3 for query in done["results"])
    assert done["sources_compared"] == len(rows)
    assert all(row["source_url"] and row["section_path"] and row["heading"] for row in rows)
    latencies = sorted(query["latency_ms"] for query in done["results"])
    assert done["p99_latency_ms"] == latencies[-1]
    assert done["p50_latency_ms"] == latencies[(len(latencies) + 1) // 2 - 1]


def test_any_collection_has_a_suite_of_its_own(cli: Any, tmp_path: Path) -> None:
    """A suite is generated from headings, and --suggest prints a suite that passes."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in (
        (
            "tides",
            "# Tides\n\nThe moon pulls the sea up twice a day.\n\n## Springs\n\nAt full moon.",
        ),
        ("knots", "# Knots\n\nA bowline makes a loop that does not slip and opens easily."),
    ):
        (folder / f"{name}.md").write_text(text)
    assert cli("index", folder, "--collection", "sea", "--json").code == 0
    quick = ("--collection", "sea", "--clients", "0", "--repeats", "0", "--json")
    generated, suggested = cli("validate", *quick), cli("validate", "--suggest", *quick)
    suite = tmp_path / "suite.json"
    suite.write_text(suggested.out)
    again = cli("validate", "--suite", suite, *quick)

    assert generated.json["total_queries"] >= 5
    assert generated.json["suite"]["origin"] == "generated"
    assert (generated.code, again.code) == (0, 0), generated.out
    assert again.json["suite"]["digest"] == generated.json["suite"]["digest"]


def test_failed_queries_have_a_reason(cli: Any, handbook: Path, tmp_path: Path) -> None:
    """Blank, short, unusual and impossible queries fail with a reason; exit 1."""
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "queries:\n"
        "  - {query_text: '  '}\n"
        "  - {query_text: ab}\n"
        '  - {query_text: "\'; DROP TABLE x; -- <b>&amp; 日本 🤖"}\n'
        "  - {query_text: hotel in London, expected_topics: [kinematics]}\n"
        f"  - {{query_text: '{'hotel ' * 150}', min_results: 1}}\n"
    )
    result = cli("validate", "--suite", suite, "--clients", "0", "--repeats", "0", "--json")
    reasons = [query["reason"] for query in result.json["results"]]

    assert result.code == 1
    assert "empty" in reasons[0]
    assert "3 characters" in reasons[1]
    assert "threshold" in reasons[2]
    assert "kinematics" in reasons[3]
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--collection", "nowhere"), 3, "nowhere"),
        (("--database-url", "postgresql://me:hunter2@127.0.0.1:1/x"), 4, "127.0.0.1:1"),
        (("--store", "qdrant://127.0.0.1:1/book"), 4, "127.0.0.1:1"),
        (("--store", "weaviate://host/book"), 2, "weaviate"),
        (("--threshold", "nan"), 2, "--threshold"),
        (("--min-pass", "2"), 2, "--min-pass"),
        (("--clients", "-1"), 2, "--clients"),
        (("--mode", "guess"), 2, "guess"),
        (("--source", "/nonexistent"), 2, "/nonexistent"),
        (("--suite", "/nonexistent.json"), 2, "/nonexistent.json"),
        (("--report", "/nonexistent/report.json"), 2, "/nonexistent"),
    ],
)
def test_errors_are_reported(
    cli: Any, handbook: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """The documented exit code, an error and a hint, no password."""
    result = cli("validate", *words)

    assert result.code == code, result.err
    assert said in result.err
    assert "hint: " in result.err
    assert "hunter2" not in result.err
    assert "Traceback" not in result.err


def test_an_unavailable_embedder_is_exit_four(cli: Any, handbook: Path) -> None:
    """Exit 4 with its address; mode bm25 needs no embedder."""
    down = {
        "WHENCE_EMBEDDER": "cohere:embed-english-v3.0",
        "COHERE_API_KEY": "secret-key",
        "COHERE_BASE_URL": "http://127.0.0.1:1",
    }
    result = cli("validate", env=down)
    quick = ("--clients", "0", "--repeats", "0")
    words = cli("validate", "--mode", "bm25", *quick, "--json", env=down)

    assert result.code == 4, result.err
    assert "127.0.0.1:1" in result.err
    assert "secret-key" not in result.err
    assert words.json["total_queries"] >= 5


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the address of a collection of Qdrant in a folder, made with the local model."""
    from qdrant_client import AsyncQdrantClient, models

    from whence.flow.resources import Resources
    from whence.flow.settings import Settings

    texts = {
        "tides": "The moon pulls the sea up twice a day, and the sun helps at full moon.",
        "knots": "A bowline makes a loop that does not slip and is opened easily.",
        "sails": "A sail is trimmed until it just stops flapping, and no further.",
        "charts": "A chart shows depths, rocks, lights and the way between them.",
        "weather": "A falling barometer tells of wind, a rising one of better weather.",
    }
    folder = tmp_path_factory.mktemp("qdrant")

    async def make() -> None:
        async with Resources(Settings({})) as resources:
            embedder = await resources.get("embedder")
            vectors = await embedder.embed(list(texts.values()), "document")
        client = AsyncQdrantClient(path=str(folder))
        size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
        await client.create_collection("book", vectors_config=size)
        await client.upsert(
            "book",
            [
                models.PointStruct(
                    id=number,
                    vector=vector.tolist(),
                    payload={
                        "text": f"{name.title()}\n{text}",
                        "source_url": f"https://sea.example/{name}",
                        "section_path": f"Sea > {name.title()}",
                        "heading": name.title(),
                        "chunk_index": 0,
                    },
                )
                for number, ((name, text), vector) in enumerate(
                    zip(texts.items(), vectors, strict=True)
                )
            ],
        )
        await client.close()

    asyncio.run(make())
    return f"qdrant+file://{folder}/book"


def test_a_collection_of_qdrant_is_validated(fresh: Any, qdrant: str) -> None:
    """A suite is generated from its headings, and every result is complete."""
    result = fresh("validate", "--store", qdrant, "--json")
    done = result.json
    missing = fresh("validate", "--store", qdrant.replace("/book", "/nothing"))

    assert result.code == 0, result.out
    assert done["total_queries"] == 5
    assert done["about"]["collection"] == "book"
    assert done["latency"]["embedding"]["samples"] == 5
    assert missing.code == 3
    assert "nothing" in missing.err


def test_two_reports_are_compared(cli: Any, tmp_path: Path) -> None:
    """A table and a chart of the differences; other files are exit 2."""
    runs = []
    for name, ranks in (("a", (1, 1, 2)), ("b", (1, 2, 2))):
        queries = [
            {
                "id": f"q{number}",
                "hit_rank": rank,
                "reciprocal_rank": 1 / rank,
                "recall_at_k": 1.0,
                "ndcg_at_k": 1 / rank,
            }
            for number, rank in enumerate(ranks)
        ]
        run = {"suite_digest": "s", "k": 10, "per_query": queries}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"report": run, "gate": {}}))
        runs.append(path)
    svg = tmp_path / "differences.svg"
    found = cli("eval", "compare", *runs, "--measure", "mrr", "--svg", svg, "--json")
    table = cli("eval", "compare", *runs)

    assert found.code == table.code == 0, found.err
    assert found.json["measures"]["mrr"]["worse"] == 1
    assert [one["id"] for one in found.json["differences"]] == ["q1"]
    assert "q1" in svg.read_text()
    assert "first hit 1 -> 2" in table.out
    assert cli("eval", "compare", runs[0], svg).code == 2
