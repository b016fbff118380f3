"""What the picture of a trace shows: stages, answer, passages in the order in which they matter, and a scale.

In: a trace. Out: a `Picture` in words and numbers, without places or colours; `svg` draws it, and the page has
that drawing. `docs/provenance.md` lists what a reader must be able to read off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.reasons import DROP_REASONS, OUTCOMES
from whence.provenance.trace import PassageName, Trace
from whence.schema.passages import Passage

State: TypeAlias = Literal["cited", "read", "dropped"]

#: Dropped passages that are shown one by one: those nearest to being read.
NEAR: Final = 5
BINS: Final = 40
#: Why a passage was dropped, in a few words.
_WORDS: Final[Mapping[str, str]] = {
    "below_threshold": "score below the threshold",
    "duplicate": "same text as a better one",
    "near_duplicate": "says the same as a better one",
    "over_fetch_limit": "ranked too low by the search",
    "fetch_failed": "text could not be read",
    "text_missing": "text is no longer there",
    "over_limit": "ranked too low by the search",
    "over_rerank_limit": "not reached by the reranker",
    "reranked_out": "placed too low by the reranker",
    "less_diverse": "too much like those kept",
    "not_scored": "got no score from the reranker",
    "over_text_budget": "too long for the text budget",
    "over_joined_limit": "ranked too low by all searches",
    "over_budget": "too long for the writer",
    "local_only": "not for the writer's machine",
}


class PassageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One passage."""

    chunk_id: str
    name: str
    """Title and heading, or the document where these are not known."""
    state: State
    what: str
    """What happened to it, in a few words."""
    rank: int
    """Rank by the search, 0 when unknown."""
    placed: int
    """Rank after reranking, 0 when there was none."""
    score: float | None
    """Score that ordered it last."""
    markers: tuple[int, ...] = ()
    """Markers of the answer that cite it."""
    queries: tuple[int, ...] = ()
    """Places, from 0, of the queries that found it, where there were several."""


class Group(NamedTuple):
    """Passages of one outcome."""

    title: str
    rows: list[PassageRow]
    more: int
    """Passages of this outcome that only the scale has."""


class Bin(NamedTuple):
    """Passages in one range of scores, by state."""

    cited: int
    read: int
    dropped: int


class Scale(NamedTuple):
    """All passages with a score on one axis."""

    low: float
    high: float
    bins: list[Bin]
    cut: float | None
    """Score of the last passage that was read; None when nothing was dropped by its score."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a picture."""

    groups: list[Group]
    scale: Scale | None
    """None when no passage has a score."""
    reasons: list[str]
    """How many passages were dropped for each reason, in words."""
    found: int
    """All candidates."""
    read: int
    """Those that the writer received."""


def make_picture(trace: Trace, max_rows: int) -> Picture:
    """Return the contents of the picture of a trace.

    Args:
        trace: The trace.
        max_rows: Passages shown one by one at most, beside the cited ones; the scale has all.

    Cost: n log n in the candidates.
    """
    rows = _rows(trace)
    cited = [one for one in rows if one.state == "cited"]
    read = [one for one in rows if one.state == "read"]
    dropped = [one for one in rows if one.state == "dropped"]
    room = max(0, max_rows - min(NEAR, len(dropped)))
    groups = [
        _group("Decided the answer", cited, len(cited)),
        _group("Read by the writer, not cited", read, room),
        _group("Not read, the nearest first", dropped, NEAR),
    ]
    counts = Counter(one.what for one in dropped)
    return Picture(
        groups=[one for one in groups if one.rows or one.more],
        scale=_scale(rows),
        reasons=[f"{count} {what}" for what, count in counts.most_common()],
        found=len(rows),
        read=len(cited) + len(read),
    )


def passage_name(trace: Trace, chunk_id: str, document_id: str = "") -> str:
    """Return what people call a passage: title and heading, else its document, else its id.

    Of several passages with one name each has its place in the document.
    """
    known = trace.names.get(chunk_id, PassageName())
    if not known.text:
        return document_id or trace.documents.get(chunk_id, "") or chunk_id
    alone = sum(one.text == known.text for one in trace.names.values()) == 1
    return known.text if alone or not known.part else f"{known.text} (part {known.part})"


def _group(title: str, rows: list[PassageRow], most: int) -> Group:
    # A line that counts one passage takes the place of that passage.
    most += len(rows) == most + 1
    return Group(title, rows[:most], max(0, len(rows) - most))


def _rows(trace: Trace) -> list[PassageRow]:
    """Return all candidates, the nearest to being cited first."""
    refused = trace.refusal is not None and trace.refusal.code == "term_not_in_documents"
    used = () if refused else trace.used
    places = {chunk_id: place for place, chunk_id in enumerate(used)}
    markers: dict[str, list[int]] = {}
    for citation in trace.citations:
        markers.setdefault(citation.chunk_id, []).append(citation.marker)
    selected = {one.chunk_id: one.order_score for one in trace.selections}
    queries = {text: place for place, text in enumerate(trace.concepts)}
    depths = {node.chunk_id: node.depth for node in read_graph_walk(trace).nodes}
    rows = []
    for one in trace.candidates:
        chunk_id = one.chunk_id
        state: State = "read" if chunk_id in places else "dropped"
        rows.append(
            PassageRow(
                chunk_id=chunk_id,
                name=passage_name(trace, chunk_id, one.document_id),
                state="cited" if chunk_id in markers else state,
                what=_what(one, state, depths.get(chunk_id), refused=refused),
                rank=one.rank,
                placed=one.rerank_rank,
                score=selected.get(chunk_id, one.score)
                if one.final_score is None
                else one.final_score,
                markers=tuple(dict.fromkeys(markers.get(chunk_id, ()))),
                queries=tuple(queries[name] for name in one.concepts if name in queries)
                if len(queries) > 1
                else (),
            )
        )
    last = len(places)
    rows.sort(key=lambda row: (places.get(row.chunk_id, last), _order(row), row.chunk_id))
    return rows


def _order(row: PassageRow) -> tuple[bool, int]:
    """Return a sort key of dropped passages: those that were reranked first."""
    return (not row.placed, row.placed or row.rank)


def _what(one: Passage, state: State, depth: int | None, *, refused: bool) -> str:
    if one.reason_code in DROP_REASONS:
        return _WORDS[one.reason_code]
    if state == "dropped":
        return "question refused first" if refused else _first_words(OUTCOMES["undecided"][1])
    if depth:
        return f"{depth} step{'s' if depth > 1 else ''} from a seed"
    return "seed of the walk" if depth == 0 else ""


def _first_words(text: str) -> str:
    return text.partition(" before ")[0]


def _scale(rows: Sequence[PassageRow]) -> Scale | None:
    known = [(one.score, one.state) for one in rows if one.score is not None]
    if not known:
        return None
    scores = [score for score, _ in known]
    low, high = min(0.0, *scores), max(1.0, *scores)
    counts: list[Counter[str]] = [Counter() for _ in range(BINS)]
    for score, state in known:
        place = int((score - low) / (high - low) * BINS)
        counts[min(BINS - 1, max(0, place))][state] += 1
    return Scale(
        low=low,
        high=high,
        bins=[Bin(one["cited"], one["read"], one["dropped"]) for one in counts],
        cut=_cut(known),
    )


def _cut(known: Iterable[tuple[float, State]]) -> float | None:
    """Return the least score that was read, when only lower ones were dropped."""
    kept = [score for score, state in known if state != "dropped"]
    dropped = [score for score, state in known if state == "dropped"]
    return min(kept) if kept and dropped and max(dropped) <= min(kept) else None
