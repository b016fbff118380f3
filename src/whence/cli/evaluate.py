"""`whence eval`: how good retrieval is, and whether it got worse."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, json_text, note, print_json, progress
from whence.cli.session import access_of, as_json, run_with_engine
from whence.schema.access import Access
from whence.schema.errors import BadInput, ModelMissing

if TYPE_CHECKING:
    from whence.engine import Engine
    from whence.engine.results import RetrievalResult
    from whence.evaluation.beir import BeirDataset
    from whence.evaluation.benchmark import Run
    from whence.evaluation.documents import RankDocuments
    from whence.evaluation.gate.files import Suite
    from whence.evaluation.gate.running import SuiteRun
    from whence.evaluation.searcher import Found, Hit
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.models.base import Reranker

__all__ = ("EngineSearcher", "baseline", "beir", "gate")

_SUITE_MODES = ("bm25", "dense", "hybrid")
_BEIR_MODES = ("all", "bm25", "dense", "semantic", "hybrid", "rerank")


class EngineSearcher:
    """Searches a collection through an engine, without a threshold.

    Args:
        engine: An open engine.
        collection: Collection to search.
        access: Rights to search with.
    """

    def __init__(self, engine: Engine, collection: str, access: Access) -> None:
        self._engine = engine
        self._collection = collection
        self._access = access

    async def __call__(self, query: str, *, mode: str, limit: int) -> Found:
        """Find the best passages.

        Raises:
            WhenceError: As for `Engine.search`.
        """
        from whence.evaluation.searcher import Found

        report = await self._engine.search_report(
            query,
            top_k=limit,
            threshold=0.0,
            mode=mode,
            access=self._access,
            collection=self._collection,
        )
        return Found(
            hits=[_hit(result) for result in report.results],
            latency_ms=report.latency_ms["total"],
            degraded=tuple(fault.reason for fault in report.degraded),
        )


def _hit(result: RetrievalResult) -> Hit:
    from whence.evaluation.searcher import Hit

    metadata = result.chunk.metadata

    def text(*keys: str) -> str:
        return next((metadata[key] for key in keys if isinstance(metadata.get(key), str)), "")

    return Hit(
        document_id=result.document_id,
        score=result.similarity_score,
        path=text("source_file"),
        name=text("name", "title"),
        qualified_name=text("qualified_name"),
        content=result.chunk.content,
    )


def beir(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[str, typer.Option(help="all, bm25, dense, hybrid or rerank.")] = "all",
    top_k: Annotated[int, typer.Option("--top-k", help="Most documents of a query.")] = 100,
    qrels: Annotated[
        Path | None, typer.Option(help="Judgements; qrels/test.tsv in the folder by default.")
    ] = None,
    trec_run_out: Annotated[
        Path | None, typer.Option("--trec-run-out", help="Write the rankings for trec_eval.")
    ] = None,
    trec_qrels_out: Annotated[
        Path | None, typer.Option("--trec-qrels-out", help="Write the judgements for trec_eval.")
    ] = None,
) -> int:
    """Measure retrieval on a test collection in BEIR's layout, in a collection of its own."""
    from whence.evaluation.beir import load_beir
    from whence.evaluation.files import check_folder
    from whence.evaluation.qrels import write_qrels

    if mode not in _BEIR_MODES:
        raise BadInput(f"unknown mode {mode!r}", hint=f"use one of {', '.join(_BEIR_MODES)}")
    if top_k < 1:
        raise BadInput(f"top_k must be positive, not {top_k}")
    check_folder(trec_run_out)
    check_folder(trec_qrels_out)
    dataset = load_beir(folder, qrels)
    if trec_qrels_out is not None:
        write_qrels(trec_qrels_out, dataset.qrels)
    wanted = "dense" if mode == "semantic" else mode
    document = run_with_engine(
        context,
        lambda engine, settings: _measure(engine, settings, dataset, wanted, top_k, trec_run_out),
    )
    print_json(document) if as_json(context) else _tell_beir(document)
    return 1 if document["index"]["failed"] else 0


async def _measure(
    engine: Engine,
    settings: Settings,
    dataset: BeirDataset,
    mode: str,
    top_k: int,
    run_out: Path | None,
) -> dict[str, Any]:
    """Index, run the modes, write the run, and give the document to print."""
    from whence.evaluation.benchmark import run_rows, scores_of
    from whence.evaluation.qrels import write_run
    from whence.flow.resources import Resources

    collection = _collection_of(dataset, settings)
    started = time.perf_counter()
    with progress("indexing") as moved:
        report = await engine.index(
            [dataset.corpus], collection=collection, prune=True, progress=moved
        )
    seconds = round(time.perf_counter() - started, 3)
    search = EngineSearcher(engine, collection, Access.public())
    async with Resources(settings) as resources:
        runs = await _runs(search, resources, dataset, mode, top_k)
    if run_out is not None:
        write_run(run_out, run_rows(runs))
    return {
        "dataset": dataset.name,
        "collection": collection,
        "documents": dataset.documents,
        "queries": len(dataset.queries),
        "left_out": dataset.left_out,
        "top_k": top_k,
        "modes": {name: scores_of(run, dataset) for name, run in runs.items()},
        "index": {
            "seconds": seconds,
            "embedded": report.embedded,
            "skipped": report.documents.skipped,
            "failed": report.documents.failed,
        },
    }


def _collection_of(dataset: BeirDataset, settings: Settings) -> str:
    """Name the collection of a data set: another folder or embedder is another collection."""
    import hashlib
    import re

    place = f"{dataset.corpus.resolve()}\n{settings.embedder}"
    digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", dataset.name.lower()).strip("-")[:40]
    return f"beir-{slug or 'set'}-{digest}"


async def _runs(
    search: EngineSearcher, resources: Resources, dataset: BeirDataset, mode: str, top_k: int
) -> dict[str, Run]:
    from whence.evaluation.benchmark import MODES, run_queries

    runs: dict[str, Run] = {}
    for name in MODES if mode == "all" else (mode,):
        rank = await _ranker(search, resources, name, top_k, optional=mode == "all")
        if rank is not None:
            with progress(name) as moved:
                runs[name] = await run_queries(rank, dataset.queries, moved)
    return runs


async def _ranker(
    search: EngineSearcher, resources: Resources, mode: str, top_k: int, *, optional: bool
) -> RankDocuments | None:
    """Give what ranks documents in a mode; None for an optional reranker that is not there."""
    from whence.evaluation.documents import DocumentRanker, RerankedRanker

    if mode != "rerank":
        return DocumentRanker(search, mode, top_k)
    try:
        reranker = await _reranker(resources)
    except ModelMissing as error:
        if not optional:
            raise
        note(f"note: rerank is left out: {error.message}")
        return None
    return RerankedRanker(DocumentRanker(search, "hybrid", top_k), reranker)


async def _reranker(resources: Resources) -> Reranker:
    """Give the reranker after it has scored something.

    Raises:
        ModelMissing: It is switched off, or its model is not there.
    """
    for switch in resources.absent.values():
        raise ModelMissing(f"there is no reranker: {switch}", hint="choose a reranker")
    reranker: Reranker = await resources.get("reranker")
    await reranker.score("a question", ["a passage"])
    return reranker


def _tell_beir(document: dict[str, Any]) -> None:
    from rich.table import Table

    out = console()
    out.print(f"[bold]{document['dataset']}[/] ", end="")
    out.print(f"{document['documents']} documents, {document['queries']} judged queries")
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("mode")
    for name in ("nDCG@10", "Recall@100", "MRR@10", "p50 ms", "p95 ms"):
        table.add_column(name, justify="right")
    for mode, scores in document["modes"].items():
        shares = (scores.ndcg_at_10, scores.recall_at_100, scores.mrr_at_10)
        times = (scores.latency_ms.p50, scores.latency_ms.p95)
        table.add_row(mode, *(f"{x:.4f}" for x in shares), *(f"{x:.1f}" for x in times))
    out.print(table)


SuiteFile = Annotated[Path, typer.Option("--suite", help="Queries and what they should find.")]
K = Annotated[int, typer.Option("--k", help="Results of each query that count.")]


def gate(
    context: typer.Context,
    suite: SuiteFile,
    baseline: Annotated[Path, typer.Option(help="What a run gave before.")],
    policy: Annotated[Path, typer.Option(help="What a run must reach.")],
    report: Annotated[Path | None, typer.Option(help="Write the report into this file.")] = None,
    k: K = 10,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the verdict and leave with 0 all the same.")
    ] = False,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Run a suite and fail when retrieval got worse than the baseline allows."""
    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.gate.files import load_baseline, load_policy, load_suite
    from whence.evaluation.gate.report import check_comparable, gate_document

    cases, before, limits = load_suite(suite), load_baseline(baseline), load_policy(policy)
    _check_k(k)
    check_comparable(before, cases, k)
    check_folder(report)
    access = access_of(acl, label, clearance)

    async def work(engine: Engine, settings: Settings) -> dict[str, Any]:
        run, digest = await _run_suite(engine, settings, cases, before.mode, k, access)
        return gate_document(
            *(run, cases, before, limits),
            collection=settings.collection,
            digest=digest,
            dry_run=dry_run,
        )

    document = run_with_engine(context, work)
    if report is not None:
        write_text(report, json_text(document))
    print_json(document) if as_json(context) else _tell_gate(document)
    return 0 if dry_run or document["gate"].verdict == "pass" else 1


def baseline(
    context: typer.Context,
    suite: SuiteFile,
    out: Annotated[Path, typer.Option(help="File to write.")],
    mode: Annotated[str, typer.Option(help="hybrid, dense or bm25.")] = "hybrid",
    k: K = 10,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Record what a suite gives now, as the baseline of later gates. Not for CI."""
    from importlib.metadata import version

    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.gate.files import load_suite
    from whence.evaluation.gate.report import record

    if os.environ.get("CI", "").casefold() in ("true", "1", "yes"):
        raise BadInput(
            "a baseline is not recorded in CI",
            hint="record it where you can look at it (CI unset), and commit the file",
        )
    if mode not in _SUITE_MODES:
        raise BadInput(f"unknown mode {mode!r}", hint=f"use one of {', '.join(_SUITE_MODES)}")
    cases = load_suite(suite)
    _check_k(k)
    check_folder(out)
    access = access_of(acl, label, clearance)

    async def work(engine: Engine, settings: Settings) -> Any:
        run, digest = await _run_suite(engine, settings, cases, mode, k, access)
        where = {"collection": settings.collection, "digest": digest}
        return record(run, cases, k=k, mode=mode, version=version("whence"), **where)

    recorded = run_with_engine(context, work)
    write_text(out, json_text(recorded))
    if as_json(context):
        print_json(recorded)
    else:
        note(f"wrote {out}: recall@{k} {recorded.metrics.recall_at_k:.3f}, look at it")
    return 0


def _check_k(k: int) -> None:
    if k < 1:
        raise BadInput(f"k must be positive, not {k}")


async def _run_suite(
    engine: Engine, settings: Settings, suite: Suite, mode: str, k: int, access: Access
) -> tuple[SuiteRun, str]:
    """Give a run of the suite, and the digest of the collection."""
    from whence.evaluation.gate.report import collection_digest
    from whence.evaluation.gate.running import run_suite
    from whence.flow.resources import Resources

    async with Resources(settings) as resources:
        digest = await collection_digest(await resources.get("store"), settings.collection)
    search = EngineSearcher(engine, settings.collection, access)
    with progress("suite") as moved:
        run = await run_suite(
            search, suite, mode=mode, k=k, clock=time.perf_counter, progress=moved
        )
    return run, digest


def _tell_gate(document: dict[str, Any]) -> None:
    from rich.table import Table

    verdict = document["gate"]
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("check", "current", "baseline", "threshold", ""):
        table.add_column(name)
    for check in verdict.checks:
        before = "-" if check.baseline is None else f"{check.baseline:.4g}"
        limit = f"{'≥' if check.direction == 'min' else '≤'} {check.threshold:.4g}"
        passed = "ok" if check.passed else "[red]fail[/]"
        table.add_row(check.metric, f"{check.current:.4g}", before, limit, passed)
    out = console()
    out.print(table)
    out.print(f"verdict [bold]{verdict.verdict}[/] {' '.join(verdict.taxonomy)}")
