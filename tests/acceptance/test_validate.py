"""`whence validate` and `whence eval`, through the installed command."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.support.json_server import json_server

from whence.store.postgres.server.server import EmbeddedServer


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


def test_local_documents_are_compared_with_their_files(cli: Any, tmp_path: Path) -> None:
    """By default and with --check-urls: a changed file fails the validation, a missing one the check."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("tides", "knots"):
        text = f"# {name.title()}\n\nWhat there is to say about the {name} of the sea.\n"
        (folder / f"{name}.md").write_text(text)
    record = {
        "_id": "sails",
        "title": "Sails",
        "text": "A sail is trimmed until it stops flapping.",
    }
    (folder / "more.jsonl").write_text(json.dumps(record) + "\n")
    words = ("--collection", "files", "--clients", "0", "--repeats", "0", "--json")
    assert cli("index", "docs", "--collection", "files", "--json", cwd=tmp_path).code == 0

    def validate(*more: str) -> tuple[int, int, str]:
        done = cli("validate", *words, *more).json
        rows = [row for query in done["results"] for row in query["results"]]
        reasons = "; ".join(query["reason"] for query in done["results"] if query["reason"])
        return done["sources_compared"], len(rows), reasons

    plain, checked = validate(), validate("--check-urls")
    (folder / "knots.md").unlink()
    gone, missing = validate(), validate("--check-urls")
    (folder / "tides.md").write_text("# Tides\n\nAll new.\n")
    changed = validate()

    assert plain[0] == plain[1] > 0
    assert checked == plain
    assert plain[2] == gone[2] == ""
    assert 0 < gone[0] < gone[1]
    assert f"knots.md: there is no such document in {folder}" in missing[2]
    assert "the text does not occur in its source" in changed[2]


async def test_validation_writes_nothing(cli: Any, handbook: Path) -> None:
    """The command passes for a role that may only read, and only in transactions that only read."""
    async with EmbeddedServer(cli.home) as server:
        admin = await asyncpg.connect(server.url())
        url = server.url().replace("//postgres@", "//only_reads@")
        words = ("--database-url", url, "--json")
        try:
            await admin.execute(_READER)
            before = await _versions(admin)
            result = await asyncio.to_thread(cli, "validate", *words)
            after = await _versions(admin)
            other = await asyncio.to_thread(cli, "search", "hotel in London", *words)
        finally:
            await admin.execute(_NO_READER)
            await admin.close()

    assert result.code == 0, result.err
    assert result.json["load"]["errors"] == 0
    assert after == before
    assert other.code != 0, "a command that may write is noticed"
    assert "may only read" in other.err


#: A role without rights to write, and a rule that refuses its transactions that could write.
_READER = """
CREATE ROLE only_reads LOGIN;
GRANT USAGE ON SCHEMA whence TO only_reads;
GRANT SELECT ON ALL TABLES IN SCHEMA whence TO only_reads;
CREATE FUNCTION public.only_reads() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('transaction_read_only') = 'off' THEN
        RAISE EXCEPTION 'this transaction may only read';
    END IF;
    RETURN true;
END $$;
ALTER TABLE whence.collection ENABLE ROW LEVEL SECURITY;
CREATE POLICY only_reads ON whence.collection USING (public.only_reads());
"""
_NO_READER = """
DROP POLICY only_reads ON whence.collection;
ALTER TABLE whence.collection DISABLE ROW LEVEL SECURITY;
DROP FUNCTION public.only_reads;
DROP OWNED BY only_reads;
DROP ROLE only_reads;
"""


async def _versions(admin: Any) -> str:
    """Return a digest of every row of every table with its version."""
    tables = await admin.fetch(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'whence' ORDER BY 1"
    )
    found = []
    for (table,) in tables:
        row = "concat(t.xmin, t.xmax, t.ctid, t::text)"
        digest = f"SELECT md5(string_agg({row}, '' ORDER BY t.ctid)) FROM whence.{table} AS t"
        found.append(f"{table} {await admin.fetchval(digest)}")
    return "\n".join(found)


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


def test_a_collection_is_validated_with_its_own_encoder(cli: Any, handbook: Path) -> None:
    """A configured encoder that does not answer is not asked: that of the collection is installed."""
    down = {
        "WHENCE_EMBEDDER": "cohere:embed-english-v3.0",
        "COHERE_API_KEY": "secret-key",
        "COHERE_BASE_URL": "http://127.0.0.1:1",
    }
    quick = ("--clients", "0", "--repeats", "0")
    result = cli("validate", *quick, "--json", env=down)

    assert result.code == 0, result.err
    assert "secret-key" not in result.err
    assert result.json["total_queries"] >= 5


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a collection of Qdrant in a folder, made with the local model."""
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


class Service:
    """Embeds texts as counts of their letters; a test can delay or spoil its answers."""

    def __init__(self) -> None:
        self.url = ""
        self._lock = threading.Lock()
        self.behave()

    def behave(
        self,
        delay_s: Callable[[int], float] = lambda _times: 0.0,
        fails: Callable[[int], bool] = lambda _times: False,
    ) -> None:
        """Set how it answers; both functions take the number of times that a text was embedded before."""
        self._delay_s, self._fails = delay_s, fails
        self._seen = Counter[str]()

    def respond(self, body: Any) -> Any:
        """Answer one request."""
        with self._lock:
            times = max(self._seen[text] for text in body["input"])
            self._seen.update(body["input"])
        time.sleep(self._delay_s(times))
        if self._fails(times):
            return 422
        letters = "abcdefghijklmnop"
        rows = [[1.0 + text.count(one) for one in letters] for text in body["input"]]
        return {"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}

    def settings(self) -> dict[str, str]:
        """Return the settings that select the service."""
        base = f"{self.url}/v1"
        return {"WHENCE_EMBEDDER": "openai:m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": base}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Run an embedding service whose answers a test can delay or spoil."""
    running = Service()
    with json_server(running.respond) as url:
        running.url = url
        yield running


@pytest.fixture
def watched(cli: Any, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return `validate` on a small collection that the service embeds."""
    service.behave()
    folder = tmp_path_factory.mktemp("watched")
    for name in ("moon", "sea", "wind"):
        (folder / f"{name}.md").write_text(f"# The {name}\n\nWhat sailors know about the {name}.\n")
    words = ("--collection", "watched", "--json")
    assert cli("index", folder, *words, env=service.settings()).code == 0
    suite = folder / "suite.json"

    def run(*options: str, **limits: Any) -> Any:
        queries = [{"query_text": f"sailors know the {name}"} for name in ("moon", "sea", "wind")]
        found = {"threshold": 0.0} | limits
        suite.write_text(json.dumps({"queries": queries, "limits": found}))
        return cli("validate", "--suite", suite, *words, *options, env=service.settings())

    return run


def failed(result: Any) -> set[str]:
    """Return the failed checks of the whole run."""
    return {name for name, fault in result.json["checks"].items() if fault}


def test_failures_under_load_fail_and_are_logged(watched: Any, service: Service) -> None:
    """Exit 1 though every query passes alone; each failure is a line of the log, without the query's words."""
    service.behave(fails=lambda times: times > 1)
    result = watched("--mode", "dense", "--repeats", "0")
    lines = [line for line in result.err.splitlines() if "validation query failed" in line]

    assert result.code == 1
    assert result.json["passed_queries"] == result.json["total_queries"]
    assert failed(result) == {"load_errors"}
    assert result.json["load"]["errors"] == len(lines) > 0
    assert all(
        f" {name}=" in line for line in lines for name in ("action", "error", "hint", "characters")
    )
    assert service.url in lines[0]
    assert "sailors" not in result.err


def test_a_sequence_that_gets_slower_fails(watched: Any, service: Service) -> None:
    """Exit 1 though p95 is far below its limit; the suite may allow it."""
    quick = ("--repeats", "10", "--clients", "0")
    service.behave(delay_s=lambda times: 0.3 if times > 2 else 0.0)
    result = watched(*quick)
    service.behave(delay_s=lambda times: 0.3 if times > 2 else 0.0)
    allowed = watched(*quick, max_slowdown=1e6)

    assert (result.code, failed(result)) == (1, {"sequence_slower"})
    assert result.json["sequence"]["slower"]
    assert allowed.code == 0, allowed.out


def test_limits_come_from_the_suite_and_from_options(watched: Any) -> None:
    """A limit of the suite fails the validation; an option replaces it."""
    quick = ("--repeats", "0", "--clients", "0")
    strict = watched(*quick, max_p95_ms=0.001)
    option = watched(*quick, "--max-p95-ms", "3000", max_p95_ms=0.001)
    table = watched(*quick, "--top-k", "1")

    assert (strict.code, failed(strict)) == (1, {"p95"})
    assert (option.code, option.json["demands"]["max_p95_ms"]) == (0, 3000)
    assert strict.json["percentiles"] == {"p95": "max of 3", "p99": "max of 3"}
    assert isinstance(strict.json["p99_latency_ms"], float)
    assert all(len(query["results"]) == 3 for query in table.json["results"])


def test_a_query_has_a_time_limit(watched: Any, service: Service) -> None:
    """A search that takes longer than --timeout fails with that reason."""
    service.behave(delay_s=lambda times: 0.5)
    result = watched("--repeats", "0", "--clients", "0", "--timeout", "0.1")

    assert result.code == 1
    assert {query["reason"] for query in result.json["results"]} == {"no answer within 0.1 s"}
    assert all(query["latency_ms"] < 400 for query in result.json["results"])
    assert "validation query failed" in result.err


def test_a_maximum_is_called_so(cli: Any, handbook: Path) -> None:
    """The text names the maximum of few searches as such, and a percentile of enough of them as p95."""
    out = cli("validate", "--clients", "0").out
    lines = {line.split()[0]: line for line in out.splitlines() if " ms" in line}

    assert "(of 8)" in lines["total"]
    assert "p95" not in lines["total"]
    assert "p95" in lines["sequence"]
    assert "p99" not in lines["sequence"]
