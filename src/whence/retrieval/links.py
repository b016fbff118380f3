"""Re-scoring candidates over the passage graph: what a good passage names, or is named by, is good as well.

Questions that need several documents name only some of them; the others are named in the passages that are
found first. A link joins a passage that holds the title or heading of another document with the passage that
bears it. The walk is personalised PageRank (Page and others, "The PageRank Citation Ranking", 1999, section 6;
for multi-hop questions Gutiérrez and others, "HippoRAG", 2024) in its unnormalised form,

    x = p + c W p + c² W² p + ...,   W[i, j] = 1 / degree(j) for linked i, j,   c = 1/2

which differs from the normalised one by the factor 1 - c and gives the same order. `p` is the fourth power of
each passage's own evidence and the result its fourth root, so that a passage without links keeps exactly the
score it had: scores stay on their one scale for every query, and a threshold keeps its meaning. The power makes
the walk start from the few best; powers of 3 to 5 and c of 0.4 to 0.7 rank within two points of each other.
Weight is handed on by passages that have a word of the query, and by those that the query names: a passage that
only resembles the query tells nothing of what it names. What a single passage lifts gets at most two thirds of
its weight (half reaches the neighbours, and 1 / (1 - c²) of that stays), so the one hit of a rare word is not
pushed out by what it does not lead to.

Only what the reader may see is in the graph: hidden passages neither pass weight nor count as neighbours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from whence.schema.search import GraphUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.linked_titles import LinkStatistics, LinkTitle

__all__ = (
    "ENOUGH_LINKS",
    "MOST_PASSAGES",
    "FindNames",
    "Neighbourhood",
    "neighbourhood",
    "page_rank",
    "used",
    "walk_scores",
    "worth_walking",
)

#: Share of linked passages from which on a collection is walked. Measured, with links found the same way: 0.57
#: on encyclopaedia passages, where the walk lifts "all evidence in the top ten" from .58 to .95; 0.18 and below
#: on four collections of abstracts, whose titles are topics or sentences.
ENOUGH_LINKS = 0.4
#: Passages per document up to which a collection is walked. A title names a document, and the link leads to the
#: first of its passages: that is what is meant where there is hardly another. Measured: 1.1 on the passages of
#: encyclopaedias; 4.9 on a handbook whose headings are everyday words (`Costs`), so that 0.86 of its passages
#: have links that mean little and the walk takes ten points of nDCG@10.
MOST_PASSAGES = 1.5

#: Best passages whose links are looked at; 10 to 50 rank the same.
_SEEDS = 20
#: Most passages of the second look; the first by id, so that equal searches give equal answers.
_MOST_SECOND = 200
#: c above: how much of its weight a passage hands on.
_WALK = 0.5
_POWER = 4
#: Terms of the series; what is left out is below 2**-40 of the whole.
_STEPS = 40

FindNames = Callable[[Sequence[str], str], Awaitable[list["LinkTitle"]]]
"""Takes chunk ids and a query; gives the rare names around them, see `SupportsLinks.linked_titles`."""


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the passage graph that a search looks at."""

    documents: dict[str, str]
    """Document of each passage, by chunk id."""
    links: tuple[tuple[str, str], ...]
    """Pairs of chunk ids, the smaller first, sorted, each once; links have no direction."""
    named: frozenset[str]
    """Passages whose title or heading the query holds."""

    def within(self, chunk_ids: Container[str]) -> Neighbourhood:
        """Give the part of the graph that has these passages only."""
        return Neighbourhood(
            documents={key: one for key, one in self.documents.items() if key in chunk_ids},
            links=tuple(pair for pair in self.links if all(key in chunk_ids for key in pair)),
            named=frozenset(key for key in self.named if key in chunk_ids),
        )


def worth_walking(statistics: LinkStatistics) -> bool:
    """Tell whether the walk was measured to help in collections like this one.

    Most of its passages have to be documents of their own, and enough of them linked: then links are between
    things with names of their own.
    """
    return statistics.share >= ENOUGH_LINKS and statistics.passages_per_document <= MOST_PASSAGES


async def neighbourhood(
    find: FindNames, own: Mapping[str, float], query_text: str
) -> Neighbourhood:
    """Give the passages up to two links around the best ones, and those that the query names.

    Args:
        find: Asks the store, with the rights of the reader.
        own: Evidence of each candidate by chunk id.
        query_text: The query.
    """
    seeds = sorted(own, key=lambda chunk_id: (-own[chunk_id], chunk_id))[:_SEEDS]
    names = {one.name: one for one in await find(seeds, query_text)}
    second = sorted(_joined(names.values()).documents.keys() - set(seeds))[:_MOST_SECOND]
    if second:
        for one in await find(second, ""):
            names.setdefault(one.name, one)
    return _joined(names.values())


def _joined(names: Iterable[LinkTitle]) -> Neighbourhood:
    documents: dict[str, str] = {}
    links: set[tuple[str, str]] = set()
    named: set[str] = set()
    for one in names:
        if not one.mentions and not one.in_query:
            continue
        documents |= {
            ref.chunk_id: ref.document_id for ref in (*one.titled_passages, *one.mentions)
        }
        for bearer in one.titled_passages:
            for mention in one.mentions:
                first, last = sorted((bearer.chunk_id, mention.chunk_id))
                links.add((first, last))
        if one.in_query:
            named |= {ref.chunk_id for ref in one.titled_passages}
    return Neighbourhood(documents=documents, links=tuple(sorted(links)), named=frozenset(named))


def walk_scores(
    own: Mapping[str, float], around: Neighbourhood, silent: Container[str] = frozenset()
) -> dict[str, float]:
    """Give the evidence of each passage after the walk, never less than its own and at most 1.

    A passage that the query names starts from the evidence of the best. Cost: 40 passes over the links.

    Args:
        own: Evidence of each passage of the neighbourhood, 0 to 1, by chunk id; more may be in it.
        around: The graph.
        silent: Passages that start without weight to hand on: those without a word of the query. They keep
            their own evidence and may gain more.
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
    handed = weight * starts
    walked = (weight + page_rank(handed, pairs, _WALK) - handed) ** (1 / _POWER)
    # The root of a power may fall short of the number by its last bit; no evidence is lost by walking.
    scores = np.minimum(1.0, np.maximum(walked, start))
    return dict(zip(nodes, scores.tolist(), strict=True))


def page_rank(
    start: NDArray[np.float64], links: Sequence[tuple[int, int]], walk: float
) -> NDArray[np.float64]:
    """Give `start + walk W start + walk² W² start + ...` over links without direction.

    The weights of all nodes that have a link add up to those they start with times 1 / (1 - walk); a node
    without a link keeps its own. The result is linear in `start`, and the same bits for the same links in any
    order.

    Args:
        start: Weights, 0 or more, shape (nodes,).
        links: Pairs of different nodes, each pair once in one of its two orders.
        walk: Share of its weight that a node hands on to its neighbours, 0 to below 1.
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


def used(around: Neighbourhood, share: float) -> GraphUse:
    """Give what is told of a walk; the share in tenths, as well as it is known."""
    return GraphUse(
        passages=len(around.documents),
        links=len(around.links),
        named=len(around.named),
        linked_share=round(share, 1),
    )
