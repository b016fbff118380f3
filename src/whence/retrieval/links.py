"""Passage graph: what a good passage links to, or is linked from, ranks higher.

A question that needs several documents names only some of them; the passages found first name the others. A
link joins a passage that contains the title or heading of another document with the passage under that title.
The walk is personalised PageRank (Page and others, "The PageRank Citation Ranking", 1999, section 6; for
multi-hop questions Gutiérrez and others, "HippoRAG", 2024) in its unnormalised form,

    x = p + c W p + c² W² p + ...,   W[i, j] = 1 / degree(j) for linked i, j,   c = 1/2

which differs from the normalised one by the factor 1 - c and gives the same order. `p` is the fourth power of
each passage's own evidence and the result its fourth root: a passage without links keeps exactly its score, so
that a threshold keeps its meaning. The power makes the walk start from the few best; powers of 3 to 5 and c of
0.4 to 0.7 rank within two points of each other. Only passages that contain a word of the query, and those that
the query names, pass weight on. A single passage raises others to at most two thirds of its own weight: half
reaches the neighbours, and 1 / (1 - c²) of that stays.

Only what the reader may see is in the graph: hidden passages neither pass weight nor count as neighbours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from whence.retrieval.fusion import UNCALIBRATED, evidence, score_of
from whence.schema.search import Calibration, Candidate, GraphUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.linked_titles import LinkStatistics, LinkTitle

#: Share of linked passages from which on the graph of a collection is used. Measured: at 0.57, on encyclopaedia
#: passages, "all evidence in the top ten" rises from .58 to .95; at 0.18 and below, on four collections of
#: abstracts, the titles are topics or sentences.
MIN_LINKED_SHARE = 0.4
#: Passages per document up to which the graph of a collection is used. A link leads to the first passage of the
#: document with that title, which is the right one only where there are few others. Measured: 1.1 on passages
#: of encyclopaedias; 4.9 on a handbook whose headings are everyday words (`Costs`), where the walk loses ten
#: points of nDCG@10.
MAX_PASSAGES_PER_DOCUMENT = 1.5

#: Best passages whose links are read; 10 to 50 rank the same.
_SEEDS = 20
#: Most passages of the second step, the first by id, so that equal searches give equal answers.
_MAX_SECOND = 200
#: c above: the share of its weight that a passage passes on.
_WALK = 0.5
_POWER = 4
#: Terms of the series; what is left out is below 2**-40 of the whole.
_STEPS = 40

FindTitles = Callable[[Sequence[str], str], Awaitable[list["LinkTitle"]]]
"""Takes chunk ids and a query; returns the rare titles around them, see `ChunkStore.linked_titles`."""


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the passage graph that a search reads."""

    documents: dict[str, str]
    """Document of each passage, by chunk id."""
    links: tuple[tuple[str, str], ...]
    """Pairs of chunk ids, the smaller first, sorted, each once; links have no direction."""
    named: frozenset[str]
    """Passages whose title or heading the query holds."""

    def within(self, chunk_ids: Container[str]) -> Neighbourhood:
        """Return the part of the graph that has these passages only."""
        return Neighbourhood(
            documents={key: one for key, one in self.documents.items() if key in chunk_ids},
            links=tuple(pair for pair in self.links if all(key in chunk_ids for key in pair)),
            named=frozenset(key for key in self.named if key in chunk_ids),
        )


def is_linked_enough(statistics: LinkStatistics) -> bool:
    """Return whether the walk was measured to help in collections like this one.

    Enough passages must be linked, and most passages must be documents of their own.
    """
    return (
        statistics.share >= MIN_LINKED_SHARE
        and statistics.passages_per_document <= MAX_PASSAGES_PER_DOCUMENT
    )


def _build(titles: Iterable[LinkTitle]) -> Neighbourhood:
    documents: dict[str, str] = {}
    links: set[tuple[str, str]] = set()
    named: set[str] = set()
    for one in titles:
        if not one.mentions and not one.in_query:
            continue
        documents |= {
            ref.chunk_id: ref.document_id for ref in (*one.titled_passages, *one.mentions)
        }
        for titled in one.titled_passages:
            for mention in one.mentions:
                first, last = sorted((titled.chunk_id, mention.chunk_id))
                links.add((first, last))
        if one.in_query:
            named |= {ref.chunk_id for ref in one.titled_passages}
    return Neighbourhood(documents=documents, links=tuple(sorted(links)), named=frozenset(named))


def walk_scores(
    own: Mapping[str, float], around: Neighbourhood, silent: Container[str] = frozenset()
) -> dict[str, float]:
    """Return the evidence of each passage after the walk, never less than its own and at most 1.

    A passage that the query names starts from the evidence of the best. Cost: 40 passes over the links.

    Args:
        own: Evidence by chunk id, 0 to 1, of at least the passages of the neighbourhood.
        around: The graph.
        silent: Passages that pass nothing on, because they contain no word of the query. They keep their own
            evidence and may gain more.
    """
    import numpy as np

    nodes = sorted(around.documents)
    if not nodes:
        return {}
    best = max(own.values(), default=0.0)
    place = {chunk_id: index for index, chunk_id in enumerate(nodes)}
    start = np.array(
        [best if node in around.named else max(0.0, own.get(node, 0.0)) for node in nodes]
    )
    starts = np.array([node in around.named or node not in silent for node in nodes])
    pairs = [(place[first], place[last]) for first, last in around.links]
    weight = start**_POWER
    passed_on = weight * starts
    walked = (weight + page_rank(passed_on, pairs, _WALK) - passed_on) ** (1 / _POWER)
    # The root of a power may fall short of the number by its last bit; no evidence is lost by walking.
    scores = np.minimum(1.0, np.maximum(walked, start))
    return dict(zip(nodes, scores.tolist(), strict=True))


def page_rank(
    start: NDArray[np.float64], links: Sequence[tuple[int, int]], walk: float
) -> NDArray[np.float64]:
    """Return `start + walk W start + walk² W² start + ...` over links without direction.

    The weights of all nodes that have a link add up to those they start with times 1 / (1 - walk); a node
    without a link keeps its own. The result is linear in `start`, and equal to the bit for the same links in
    any order.

    Args:
        start: Weights, 0 or more, shape (nodes,).
        links: Pairs of different nodes, each pair once in one of its two orders.
        walk: Share of its weight that a node passes on to its neighbours, 0 to below 1.
    """
    import numpy as np

    if not links:
        return start.copy()
    ordered = np.array(sorted((min(pair), max(pair)) for pair in links), dtype=np.intp)
    sources = np.concatenate([ordered[:, 0], ordered[:, 1]])
    targets = np.concatenate([ordered[:, 1], ordered[:, 0]])
    share = walk / np.bincount(sources, minlength=len(start))[sources]
    total, step = start.copy(), start
    for _ in range(_STEPS):
        step = np.bincount(targets, step[sources] * share, len(start)).astype(np.float64)
        total = total + step
    return total


class Walk(NamedTuple):
    """What a walk made of the scores, by chunk id."""

    scores: dict[str, float]
    gains: dict[str, float]
    """What links added to each score, 0 to 1."""
    use: GraphUse


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageGraph:
    """The passage graph of one search."""

    find_titles: FindTitles
    query_text: str
    linked_share: float
    """Linked share of the visible passages, 0 to 1."""
    candidates_only: bool = False
    """True leaves out passages that the search did not find, as filters demand."""

    async def neighbourhood(
        self, chunks: Mapping[str, Candidate], calibration: Calibration = UNCALIBRATED
    ) -> Neighbourhood:
        """Return the passages up to two links around the best chunks, and those that the query names."""
        own = {key: evidence(one, calibration) for key, one in chunks.items()}
        seeds = sorted(own, key=lambda chunk_id: (-own[chunk_id], chunk_id))[:_SEEDS]
        names = {one.name: one for one in await self.find_titles(seeds, self.query_text)}
        second = sorted(_build(names.values()).documents.keys() - set(seeds))[:_MAX_SECOND]
        if second:
            for one in await self.find_titles(second, ""):
                names.setdefault(one.name, one)
        around = _build(names.values())
        return around.within(chunks) if self.candidates_only else around

    def walk(
        self,
        around: Neighbourhood,
        chunks: Mapping[str, Candidate],
        calibration: Calibration = UNCALIBRATED,
    ) -> Walk:
        """Return the scores of all of these chunks after the walk."""
        own = {key: evidence(one, calibration) for key, one in chunks.items()}
        silent = {key for key, one in chunks.items() if one.sparse_score == 0.0}
        walked = walk_scores(own, around, silent)
        final = {key: score_of(walked.get(key, total)) for key, total in own.items()}
        gains = {key: score - score_of(own[key]) for key, score in final.items()}
        use = GraphUse(
            passages=len(around.documents),
            links=len(around.links),
            named=len(around.named),
            # A sample gives no more digits.
            linked_share=round(self.linked_share, 1),
        )
        return Walk(final, gains, use)
