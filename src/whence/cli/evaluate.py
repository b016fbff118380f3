"""`whence eval`: how good retrieval is, and whether it got worse."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, json_text, note, plain_table, print_json, progress
from whence.cli.session import access_of, as_json, run_with_engine
from whence.schema.access import Access
from whence.schema.errors import BadInput, ModelMissing

if TYPE_CHECKING:
    from rich.console import Console

    from whence.engine.engine import Engine
    from whence.engine.evaluation_targets import EngineSearcher
    from whence.evaluation.beir import BeirDataset
    from whence.evaluation.benchmark import Run
    from whence.evaluation.document_ranking import Ranker
    from whence.evaluation.gate.run import SuiteRun
    from whence.evaluation.gate.schema import Baseline, RetrieverScores, Suite
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.models.protocols import Reranker

__all__ = ("baseline", "beir", "gate")

_SUITE_MODES = ("bm25", "dense", "hybrid")
_BEIR_MODES = ("all", "bm25", "dense", "semantic", "hybrid", "rerank")


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
    allow_dropped: Annotated[
        bool,
        typer.Option("--allow-dropped", help="Go on without judgements of unknown queries."),
    ] = False,
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
    _refuse_dropped(dataset, allowed=allow_dropped)
    if trec_qrels_out is not None:
        write_qrels(trec_qrels_out, dataset.qrels)
    wanted = "dense" if mode == "semantic" else mode
    document = run_with_engine(
        context,
        lambda engine, settings: _measure(engine, settings, dataset, wanted, top_k, trec_run_out),
    )
    print_json(document) if as_json(context) else _tell_beir(document)
    return 1 if document["index"]["failed"] else 0


def _refuse_dropped(dataset: BeirDataset, *, allowed: bool) -> None:
    """Refuse judgements that take no part, unless the caller knows."""
    dropped = dataset.left_out.judged_queries_missing
    if dropped and not allowed:
        raise BadInput(
            f"{dropped} judged queries are not in queries.jsonl",
            hint="complete the collection, or leave them out with --allow-dropped",
        )


async def _measure(
    engine: Engine,
    settings: Settings,
    dataset: BeirDataset,
    mode: str,
    top_k: int,
    run_out: Path | None,
) -> dict[str, Any]:
    """Index, run the modes, write the run, and give the document to print."""
    from whence.engine.evaluation_targets import EngineSearcher
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
        rank = await _ranker(search, resources, dataset, name, top_k, optional=mode == "all")
        if rank is not None:
            with progress(name) as moved:
                runs[name] = await run_queries(rank, dataset.queries, moved)
    return runs


async def _ranker(
    search: EngineSearcher,
    resources: Resources,
    dataset: BeirDataset,
    mode: str,
    top_k: int,
    *,
    optional: bool,
) -> Ranker | None:
    """Give what ranks documents in a mode; None for an optional reranker that is not there."""
    from whence.evaluation.document_ranking import (
        DocumentRanker,
        RerankedRanker,
        SelfExcludingRanker,
    )

    rank: Ranker
    search_mode = "hybrid" if mode == "rerank" else mode
    if dataset.own_documents:
        rank = DocumentRanker(search, search_mode, top_k + 1)
        rank = SelfExcludingRanker(rank, dataset.own_documents, top_k)
    else:
        rank = DocumentRanker(search, search_mode, top_k)
    if mode != "rerank":
        return rank
    try:
        reranker = await _reranker(resources)
    except ModelMissing as error:
        if not optional:
            raise
        note(f"note: rerank is left out: {error.message}")
        return None
    return RerankedRanker(rank, reranker)


async def _reranker(resources: Resources) -> Reranker:
    """Give the reranker after it has scored something.

    Raises:
        ModelMissing: It is switched off, or its model is not there.
    """
    for switch in resources.disabled.values():
        raise ModelMissing(f"there is no reranker: {switch}", hint="choose a reranker")
    reranker: Reranker = await resources.get("reranker")
    await reranker.score("a question", ["a passage"])
    return reranker


def _tell_beir(document: dict[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{document['dataset']}[/] ", end="")
    out.print(f"{document['documents']} documents, {document['queries']} judged queries")
    if themselves := document["left_out"].queries_in_corpus:
        out.print(f"{themselves} queries are documents: what they are themselves does not count")
    table = plain_table("mode", ">nDCG@10", ">Recall@100", ">MRR@10", ">p50 ms", ">p95 ms")
    for mode, scores in document["modes"].items():
        shares = (scores.ndcg_at_10, scores.recall_at_100, scores.mrr_at_10)
        times = (scores.latency_ms.p50, scores.latency_ms.p95)
        table.add_row(mode, *(f"{x:.4f}" for x in shares), *(f"{x:.1f}" for x in times))
    out.print(table)


SuiteFile = Annotated[Path, typer.Option("--suite", help="Queries and what they should find.")]
K = Annotated[int, typer.Option("--k", help="Results of each query that count.")]
Legs = Annotated[
    bool, typer.Option("--legs/--no-legs", help="Measure each way of ranking alone, too.")
]


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
    legs: Legs = True,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Run a suite and fail when retrieval got worse than the baseline allows."""
    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.gate.report import check_comparable, gate_document
    from whence.evaluation.gate.schema import load_baseline, load_policy, load_suite

    cases, before, limits = load_suite(suite), load_baseline(baseline), load_policy(policy)
    _check_k(k)
    check_comparable(before, cases, k)
    check_folder(report)
    access = access_of(acl, label, clearance)

    async def work(engine: Engine, settings: Settings) -> dict[str, Any]:
        done = await _run_suite(engine, settings, cases, before.mode, k, access, with_legs=legs)
        return gate_document(
            *(done.run, cases, before, limits),
            collection=settings.collection,
            digest=done.digest,
            dry_run=dry_run,
            document_ids=done.document_ids,
            legs=done.legs,
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
    policy: Annotated[
        Path | None, typer.Option(help="What the run must reach to be recorded.")
    ] = None,
    k: K = 10,
    legs: Legs = True,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Record what a suite gives now, as the baseline of later gates. Not for CI."""
    from importlib.metadata import version

    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.gate.gate_result import judge
    from whence.evaluation.gate.report import record
    from whence.evaluation.gate.schema import load_policy, load_suite

    if os.environ.get("CI", "").casefold() in ("true", "1", "yes"):
        raise BadInput(
            "a baseline is not recorded in CI",
            hint="record it where you can look at it (CI unset), and commit the file",
        )
    if mode not in _SUITE_MODES:
        raise BadInput(f"unknown mode {mode!r}", hint=f"use one of {', '.join(_SUITE_MODES)}")
    cases = load_suite(suite)
    limits = None if policy is None else load_policy(policy)
    _check_k(k)
    check_folder(out)
    access = access_of(acl, label, clearance)

    async def work(engine: Engine, settings: Settings) -> tuple[SuiteRun, Baseline]:
        done = await _run_suite(engine, settings, cases, mode, k, access, with_legs=legs)
        where = {"collection": settings.collection, "digest": done.digest}
        made = record(
            done.run, cases, k=k, mode=mode, version=version("whence"), legs=done.legs, **where
        )
        return done.run, made

    run, recorded = run_with_engine(context, work)
    # Compared with itself, only what the policy demands of any run can fail.
    failed = (
        []
        if limits is None
        else [one for one in judge(run, recorded, limits).checks if not one.passed]
    )
    if failed:
        words = ", ".join(f"{one.metric} {one.current:.4g}" for one in failed)
        note(f"not recorded, the policy fails: {words}")
    else:
        _tell_changes(out, recorded)
        write_text(out, json_text(recorded))
    if as_json(context):
        print_json(recorded)
    return 1 if failed else 0


def _tell_changes(out: Path, recorded: Baseline) -> None:
    """Print what a new baseline changes of the one in its place."""
    from whence.evaluation.gate.report import baseline_changes
    from whence.evaluation.gate.schema import load_baseline

    if not out.is_file():
        recall = recorded.metrics.recall_at_k
        note(f"new {out}: recall@{recorded.k} {recall:.3f}, look at it")
        return
    try:
        before = load_baseline(out)
    except BadInput as error:
        note(f"replacing {out}, which was no baseline: {error.message}")
        return
    changes = baseline_changes(before, recorded)
    for change in changes:
        note(f"{change.what}: {_shown(change.before)} -> {_shown(change.after)}")
    if not changes:
        note(f"{out}: no change but of latencies")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _check_k(k: int) -> None:
    if k < 1:
        raise BadInput(f"k must be positive, not {k}")


class _Done(NamedTuple):
    """What a suite gave, and where."""

    run: SuiteRun
    digest: str
    document_ids: list[str]
    legs: dict[str, RetrieverScores]


async def _run_suite(
    engine: Engine,
    settings: Settings,
    suite: Suite,
    mode: str,
    k: int,
    access: Access,
    *,
    with_legs: bool,
) -> _Done:
    """Run a suite, then every way of ranking alone when all of it could take part."""
    from whence.engine.evaluation_targets import EngineSearcher
    from whence.evaluation.gate.report import collection_digest
    from whence.evaluation.gate.run import run_suite
    from whence.flow.resources import Resources

    async with Resources(settings) as resources:
        store = await resources.get("store")
        digest = await collection_digest(store, settings.collection)
        document_ids = await store.document_ids(settings.collection)
        search = EngineSearcher(engine, settings.collection, access)
        with progress("suite") as moved:
            run = await run_suite(
                search, suite, mode=mode, k=k, clock=time.perf_counter, progress=moved
            )
        # With something missing the legs would only say again what the run says.
        whole = not any(query.semantic_degraded for query in run.queries)
        legs = await _legs(search, resources, suite, k) if with_legs and whole else {}
    return _Done(run, digest, document_ids, legs)


async def _legs(
    search: EngineSearcher, resources: Resources, suite: Suite, k: int
) -> dict[str, RetrieverScores]:
    from whence.evaluation.gate.per_retriever import measure_retrievers

    try:
        reranker = await _reranker(resources)
    except ModelMissing as error:
        note(f"note: the leg rerank is left out: {error.message}")
        reranker = None
    with progress("legs") as moved:
        return await measure_retrievers(search, suite, k=k, reranker=reranker, progress=moved)


def _tell_gate(document: dict[str, Any]) -> None:
    verdict, report = document["gate"], document["report"]
    table = plain_table("check", "current", "baseline", "delta", "threshold", "")
    for check in verdict.checks:
        before = "-" if check.baseline is None else f"{check.baseline:.4g}"
        limit = f"{'≥' if check.direction == 'min' else '≤'} {check.threshold:.4g}"
        passed = "ok" if check.passed else "[red]fail[/]"
        delta = "-" if check.delta is None else f"{check.delta:+.4g}"
        table.add_row(check.metric, f"{check.current:.4g}", before, delta, limit, passed)
    out = console()
    out.print(table)
    _tell_legs(report["legs"], out)
    _tell_movers(report["movers"], out)
    for name in report["loose_checks"]:
        note(f"note: {name} is far above its threshold: record a new baseline")
    out.print(f"verdict [bold]{verdict.verdict}[/] {' '.join(verdict.taxonomy)}")


def _tell_legs(legs: dict[str, Any], out: Console) -> None:
    if not legs:
        return
    table = plain_table("leg", "recall", "mrr", "ndcg", "worse")
    for name, leg in legs.items():
        now = leg.current
        shares = ("-",) * 3 if now is None else (now.recall_at_k, now.mrr, now.ndcg_at_k)
        cells = (one if isinstance(one, str) else f"{one:.4f}" for one in shares)
        table.add_row(name, *cells, " ".join(leg.worse))
    out.print(table)


def _tell_movers(movers: list[Any], out: Console) -> None:
    from rich.text import Text

    for mover in movers:
        before, now = mover.hit_rank_before or "-", mover.hit_rank or "-"
        lost = f" lost {', '.join(mover.lost_hints)}" if mover.lost_hints else ""
        gained = f" gained {', '.join(mover.gained_hints)}" if mover.gained_hints else ""
        out.print(Text(f"moved: {mover.id} first hit {before} -> {now}{lost}{gained}"))
