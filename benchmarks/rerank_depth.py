"""Measure how many candidates of a question the reranker must read.

    python -m benchmarks.rerank_depth FOLDER [--home FOLDER] [--sample 30]

FOLDER and home are those of `benchmarks.quality`, which must have indexed the collections. Sixty passages
are retrieved for each query and all are scored; then 20 are selected as if only the first N had been read.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.kept_scores import KeptScores
from benchmarks.quality import cache_folder, collections
from whence.evaluation.beir import load_beir
from whence.evaluation.measures import mean, ndcg, recall
from whence.processors.search import SearchParameters, SearchProcessor
from whence.retrieval.rerank import blended_score, text_to_read
from whence.schema.access import Access
from whence.schema.search import Candidate, SearchRequest
from whence.testing.stub_context import StubContext

_RETRIEVED, _KEPT = 60, 20
_DEPTHS = (0, 10, 15, 20, 25, 30, 40, 60)
_PUBLIC = Access.public()


def kept(candidates: Sequence[Candidate], scores: Sequence[float], depth: int) -> list[Candidate]:
    """Return the candidates that are kept, best first, when the first `depth` are read."""
    pairs = list(zip(candidates, scores, strict=True))[:depth]
    # Python's sort is stable: ties keep the order of retrieval.
    read = sorted(pairs, key=lambda pair: -blended_score(pair[0].score, pair[1]))
    return [*(one for one, _ in read), *candidates[depth:]][:_KEPT]


def measures(judged: dict[str, int], ranking: Sequence[Candidate]) -> tuple[float, float, float]:
    """Return nDCG@10, nDCG@20 and recall@20 of the documents of a ranking."""
    documents = list(dict.fromkeys(one.document_id for one in ranking))
    gains = [judged.get(document, 0) for document in documents]
    relevant = sum(grade > 0 for grade in judged.values())
    grades = judged.values()
    return ndcg(gains, grades, 10), ndcg(gains, grades, 20), recall(gains, relevant, _KEPT)


async def measure(folder: Path, home: Path, sample: int, resources: Any) -> dict[int, Any]:
    """Return by depth the measures of each query, and whether the selection equals that of all candidates."""
    from whence.cli.eval_beir import collection_name
    from whence.flow.settings import Settings

    dataset = load_beir(folder)
    collection = collection_name(dataset, Settings.load().replace(home=str(home)))
    store, embedder = await resources.get("store"), await resources.get("embedder")
    scores_of = KeptScores(
        await resources.get("reranker"), home / "rerank-scores" / f"depth-{dataset.name}.json"
    )
    search = SearchProcessor(SearchParameters(), store=store)
    queries = list(dataset.queries)
    rows: dict[int, Any] = {depth: [] for depth in _DEPTHS}
    for query in queries[:: max(1, len(queries) // sample)][:sample]:
        text = dataset.queries[query]
        vector = (await embedder.embed([text], "query"))[0].tobytes()
        request = SearchRequest(
            access=_PUBLIC, collection=collection, limit=_RETRIEVED, vector=vector,
            model=embedder.model, query_text=text, mode="hybrid",
        )  # fmt: skip
        found = (await search.handle(request, StubContext())).candidates
        ids = [one.chunk_id for one in found]
        texts = await store.chunk_texts(collection, ids, _PUBLIC)
        content = {one.chunk_id: text_to_read(one.content, one.metadata) for one in texts}
        scores = await scores_of.score(text, [content[chunk_id] for chunk_id in ids])
        whole = kept(found, scores, _RETRIEVED)
        for depth in _DEPTHS:
            some = kept(found, scores, depth)
            rows[depth].append((*measures(dataset.qrels[query], some), float(some == whole)))
    scores_of.keep()
    return rows


async def measure_all(folders: Sequence[Path], home: Path, sample: int) -> None:
    """Print means over collections of means over queries."""
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings

    async with Resources(Settings.load().replace(home=str(home))) as resources:
        found = [await measure(folder, home, sample, resources) for folder in folders]
    print(f"{sum(len(rows[0]) for rows in found)} queries, {_RETRIEVED} retrieved, {_KEPT} kept")
    print("read  ndcg@10  ndcg@20  recall@20  same as all")
    for depth in _DEPTHS:
        means = [
            mean([mean([row[place] for row in rows[depth]]) for rows in found])
            for place in range(4)
        ]
        print(f"{depth:4d}" + "".join(f"{value:10.4f}" for value in means))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", type=Path, default=cache_folder() / "home")
    parser.add_argument("--sample", type=int, default=30, help="queries of each collection")
    options = parser.parse_args()
    folders = collections(options.folder, cache_folder())
    asyncio.run(measure_all(folders, options.home, options.sample))


if __name__ == "__main__":
    main()
