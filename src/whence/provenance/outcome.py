"""The outcome of one passage for one answer, and the line that tells it to people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from whence.provenance.reasons import OUTCOMES
from whence.provenance.stage_records import Scalar
from whence.schema.document_rag import Refusal


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one chunk."""

    chunk_id: str
    """The chunk; of a document its chunk that came furthest; an unknown id as it was asked for."""
    stage: str
    """Stage that decided: `exploration`, `focus` or `synthesis`; empty for an unknown id."""
    code: str
    """Code of `reasons.OUTCOMES`, or `unknown`."""
    reason: str
    """One line for people, with the numbers that decided."""
    numbers: dict[str, Scalar | None] = {}
    """Ranks, scores and limits that led to the decision, see `docs/provenance.md`."""
    document_id: str = ""
    title: str = ""
    """Title of its document."""
    heading: str = ""
    """Nearest heading above it."""
    missing_words: tuple[str, ...] = ()
    """Words of the question that its index entry lacks; stop words are not counted."""
    excluded_by: tuple[str, ...] = ()
    """Filters of the question that it does not meet."""
    nearest_query: str = ""
    """The query that ranks it best, where the question had several."""
    relations: tuple[str, ...] = ()
    """Relations on the way to a node of code that the walk did not follow."""
    duplicate_of: str = ""
    """Chunk that was kept in its place, when it was dropped because that one says the same."""
    newer_edition: str = ""
    """Chunk of a newer edition of the same document, or of the one asked for, which goes before it."""
    refusal: Refusal | None = None
    """Why the question has no answer, when it has none."""
    nearest: tuple[str, ...] = ()
    """Visible ids that an unknown one resembles, the most similar first."""


def outcome_sentence(told: WhyNot) -> str:
    """Return one line for people: what happened to the passage, by which numbers, what would have let it in."""
    make = _SENTENCES.get(told.code)
    line = make(told) if make else ""
    if not line:
        explanation = OUTCOMES[told.code].explanation
        line = f"{explanation[:1].upper()}{explanation[1:]}."
    if told.missing_words and told.code != "cited":
        words = ", ".join(f"`{word}`" for word in told.missing_words)
        line += f" It lacks {words}."
    if told.newer_edition and told.code != "cited":
        line += f" Another edition goes before it: {told.newer_edition}."
    return line


def _number(told: WhyNot, name: str) -> str:
    """Return a number as people read it; empty when it is not known."""
    value = told.numbers.get(name)
    if value is None or isinstance(value, str):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def _ranked(told: WhyNot) -> str:
    """Return rank and score of a passage, as the beginning of a sentence."""
    rank, score = _number(told, "rank"), _number(told, "score")
    if not rank:
        return "The search does not rank it"
    passages = _number(told, "passages")
    of_all = f" of {passages}" if passages else ""
    with_score = f" with a score of {score}" if score else ""
    return f"It ranks {rank}{of_all}{with_score}"


def _not_retrieved(told: WhyNot) -> str:
    if "rank" not in told.numbers:
        return ""
    if told.numbers.get("retrieved_today"):
        return (
            f"{_ranked(told)} and would be retrieved now; when the question was asked it was not."
        )
    line = _ranked(told) + _cut(told)
    if entering := _entering(told):
        line += entering
    elif _number(told, "threshold") and _number(told, "score"):
        line += f" No limit retrieves it: the threshold is {_number(told, 'threshold')}."
    if told.nearest_query:
        line += f" The nearest query is `{told.nearest_query}`."
    if told.numbers.get("changed"):
        line += " The documents or the rights changed since the question."
    return line


def _entering(told: WhyNot) -> str:
    if limit := _number(told, "enters_at_fetch_limit"):
        return f" A fetch limit of {limit} retrieves it."
    if limit := _number(told, "enters_at_seed_limit"):
        return f" With {limit} seeds it is one of them."
    limit = _number(told, "enters_at_doc_limit")
    return f" With {limit} passages the writer reads it." if limit else ""


def _cut(told: WhyNot) -> str:
    rank, score = _number(told, "cut_rank"), _number(told, "cut_score")
    if not rank:
        return "; nothing was retrieved."
    return f"; the last one retrieved has rank {rank}" + (f" and {score}." if score else ".")


def _reranked_out(told: WhyNot) -> str:
    rank, score = _number(told, "rerank_rank"), _number(told, "final_score")
    if not rank:
        return ""
    cut, least = _number(told, "cut_rank"), _number(told, "cut_score")
    line = f"The reranker placed it {rank} with {score}; the last one kept is {cut} with {least}."
    return line + _entering(told)


def _over_limit(told: WhyNot) -> str:
    return _ranked(told) + _cut(told) + _entering(told) if _number(told, "rank") else ""


def _over_rerank_limit(told: WhyNot) -> str:
    if not _number(told, "place"):
        return ""
    return f"It came {_number(told, 'place')}; the reranker read the first {_number(told, 'cut_rank')}."


def _below_threshold(told: WhyNot) -> str:
    score, least = _number(told, "score"), _number(told, "threshold")
    return f"Its score of {score} is below the threshold of {least}." if score and least else ""


def _used(told: WhyNot) -> str:
    refused = told.code == "refused"
    read = "The writer read it and did not cite it"
    if refused:
        read = "The question was refused before the writer read it"
    support, floor = told.numbers.get("support"), told.numbers.get("floor")
    if not isinstance(support, float) or not isinstance(floor, float):
        return f"{read}."
    line = f"{read}: its best sentence scores {support:.3f}"
    if support < floor:
        return f"{line}, and an answer needs {floor:.3f}."
    best = told.numbers.get("best_support")
    other = f"; the best passage scores {best:.3f}" if isinstance(best, float) else ""
    return f"{line}, above the {floor:.3f} that an answer needs{other}."


def _same(told: WhyNot) -> str:
    what = "has the same text" if told.code == "duplicate" else "says the same"
    return f"A better ranked passage {what}: {told.duplicate_of}." if told.duplicate_of else ""


def _less_diverse(told: WhyNot) -> str:
    overlap = _number(told, "overlap")
    score, least = _number(told, "diversity_score"), _number(told, "lowest_kept_diversity_score")
    if not overlap or not score or not least:
        return ""
    return (
        f"It shares {overlap} of its words with a passage kept before it: it scores {score},"
        f" the least of those kept {least}."
    )


def _filtered_out(told: WhyNot) -> str:
    return (
        f"The filter {', '.join(told.excluded_by)} excludes it. Without filters: {_ranked(told)}."
    )


def _beyond_depth(told: WhyNot) -> str:
    return (
        f"It is {_number(told, 'depth')} steps from the nearest seed;"
        f" the walk took {_number(told, 'graph_max_depth')}."
    )


def _relation_not_followed(told: WhyNot) -> str:
    names = ", ".join(f"`{one}`" for one in told.relations)
    return f"The way to it leads over {names}, which the walk did not follow."


def _against_direction(told: WhyNot) -> str:
    direction = told.numbers.get("graph_direction")
    return f"Edges lead to it only against the direction of the walk, which was `{direction}`."


def _over_node_limit(told: WhyNot) -> str:
    return (
        f"It is node {_number(told, 'walk_rank')} of the walk, which ended at its limit of"
        f" {_number(told, 'graph_max_nodes')}."
    )


_SENTENCES: Final[Mapping[str, Callable[[WhyNot], str]]] = {
    "not_retrieved": _not_retrieved,
    "filtered_out": _filtered_out,
    "reranked_out": _reranked_out,
    "over_fetch_limit": _over_limit,
    "over_limit": _over_limit,
    "over_rerank_limit": _over_rerank_limit,
    "below_threshold": _below_threshold,
    "used": _used,
    "refused": _used,
    "duplicate": _same,
    "near_duplicate": _same,
    "less_diverse": _less_diverse,
    "beyond_depth": _beyond_depth,
    "relation_not_followed": _relation_not_followed,
    "against_direction": _against_direction,
    "over_node_limit": _over_node_limit,
}
