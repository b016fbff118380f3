"""`whence eval beir`: measure retrieval on a test collection in BEIR's layout."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.schema.access import Access
from whence.schema.errors import BadInput, ModelMissing
from whence.surfaces.cli.output import console, note, plain_table, print_json, progress
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.evaluation.beir.collection import BeirDataset
    from whence.evaluation.engine_searcher import EngineSearcher
    from whence.evaluation.run import Run
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.models.protocols import Reranker
    from whence.surfaces.python.engine import Engine

_MODES = ("all", "bm25", "dense", "semantic", "hybrid", "rerank")


def beir(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with corpus.jsonl and queries.jsonl.")
    ],
    mode: Annotated[str, typer.Option(help="all, bm25, dense, hybrid or rerank.")] = "all",
    top_k: Annotated[int, typer.Option("--top-k", help="Maximum documents of a query.")] = 100,
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
        bool, typer.Option("--allow-dropped", help="Ignore judgements of unknown queries.")
    ] = False,
) -> int:
    """Measure retrieval on a test collection in BEIR's layout, in a collection of its own."""
    from whence.evaluation.beir.collection import load_beir
    from whence.evaluation.beir.trec import write_qrels
    from whence.operations.output_files import check_folder

    if mode not in _MODES:
        raise BadInput(f"unknown mode {mode!r}", hint=f"use one of {', '.join(_MODES)}")
    if top_k < 1:
        raise BadInput(f"top_k must be positive, not {top_k}")
    check_folder(trec_run_out)
    check_folder(trec_qrels_out)
    dataset = load_beir(folder, qrels)
    dropped = dataset.left_out.judged_queries_missing
    if dropped and not allow_dropped:
        raise BadInput(
            f"{dropped} judged queries are not in queries.jsonl",
            hint="complete the collection, or ignore them with --allow-dropped",
        )
    if trec_qrels_out is not None:
        write_qrels(trec_qrels_out, dataset.qrels)
    wanted = "dense" if mode == "semantic" else mode
    document = run_with_engine(
        context,
        lambda engine, settings: _measure(engine, settings, dataset, wanted, top_k, trec_run_out),
    )
    print_json(document) if as_json(context) else _print_scores(document)
    return 1 if document["index"]["failed"] else 0


async def _measure(
    engine: Engine,
    settings: Settings,
    dataset: BeirDataset,
    mode: str,
    top_k: int,
    run_out: Path | None,
) -> dict[str, Any]:
    from whence.evaluation.beir.scores import run_rows, scores_of
    from whence.evaluation.beir.trec import write_run
    from whence.evaluation.engine_searcher import EngineSearcher
    from whence.flow.resources import Resources

    collection = collection_name(dataset, settings)
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
        write_run(run_out, run_rows(runs, top_k))
    return {
        "dataset": dataset.name,
        "collection": collection,
        "documents": dataset.documents,
        "queries": len(dataset.queries),
        "left_out": dataset.left_out,
        "top_k": top_k,
        "modes": {name: scores_of(run, top_k) for name, run in runs.items()},
        "index": {
            "seconds": seconds,
            "embedded": report.embedded,
            "skipped": report.documents.skipped,
            "failed": report.documents.failed,
        },
    }


def collection_name(dataset: BeirDataset, settings: Settings) -> str:
    """Return the collection of a data set: one for each folder and embedder."""
    key = f"{dataset.corpus.resolve()}\n{settings.embedder}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", dataset.name.lower()).strip("-")[:40]
    return f"beir-{slug or 'set'}-{digest}"


async def _runs(
    search: EngineSearcher, resources: Resources, dataset: BeirDataset, mode: str, top_k: int
) -> dict[str, Run]:
    from whence.evaluation.beir.scores import MODES, run_collection

    runs: dict[str, Run] = {}
    for name in MODES if mode == "all" else (mode,):
        try:
            if name == "rerank":
                await working_reranker(resources)
        except ModelMissing as error:
            if mode != "all":
                raise
            note(f"note: rerank is skipped: {error.message}")
            continue
        with progress(name) as moved:
            runs[name] = await run_collection(
                search, dataset, mode=name, depth=top_k, progress=moved
            )
    return runs


async def working_reranker(resources: Resources) -> Reranker:
    """Return the reranker after a first call."""
    for setting in resources.disabled.values():
        raise ModelMissing(f"there is no reranker: {setting}", hint="choose a reranker")
    reranker: Reranker = await resources.get("reranker")
    await reranker.score("a question", ["a passage"])
    return reranker


def _print_scores(document: dict[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{document['dataset']}[/] ", end="")
    out.print(f"{document['documents']} documents, {document['queries']} judged queries")
    if themselves := document["left_out"].queries_in_corpus:
        out.print(f"{themselves} queries are documents too, and excluded from their own results")
    table = plain_table("mode", ">nDCG@10", ">Recall@100", ">MRR@10", ">p50 ms", ">p95 ms")
    for mode, scores in document["modes"].items():
        shares = (scores.ndcg_at_10, scores.recall_at_100, scores.mrr_at_10)
        times = (scores.latency_ms.p50, scores.latency_ms.p95)
        table.add_values(mode, *(f"{x:.4f}" for x in shares), *(f"{x:.1f}" for x in times))
    out.print(table)
