"""Reasons why a chunk is or is not in an answer: a closed list of codes, each with its stage and one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

DropCode = Literal[
    "below_threshold",
    "duplicate",
    "near_duplicate",
    "over_fetch_limit",
    "fetch_failed",
    "text_missing",
    "over_limit",
    "over_rerank_limit",
    "reranked_out",
    "less_diverse",
    "not_scored",
    "over_text_budget",
    "over_joined_limit",
    "over_budget",
    "local_only",
]
"""Code of a reason to drop a candidate."""


class Reason(NamedTuple):
    """What a code means."""

    stage: str
    explanation: str


#: Reasons to drop a candidate, in the order of the stages.
DROP_REASONS: Mapping[str, Reason] = {
    "below_threshold": Reason("exploration", "its score is below the similarity threshold"),
    "duplicate": Reason("exploration", "a better ranked candidate has the same text"),
    "near_duplicate": Reason("exploration", "a better ranked candidate says the same"),
    "over_fetch_limit": Reason("exploration", "it is ranked after the last candidate retrieved"),
    "fetch_failed": Reason("exploration", "its text could not be read"),
    "text_missing": Reason("exploration", "its text is no longer there"),
    "over_limit": Reason("exploration", "it is ranked after the last chunk given to the writer"),
    "over_rerank_limit": Reason("focus", "it is ranked after the last one the reranker reads"),
    "reranked_out": Reason("focus", "the reranker placed it after the last chunk kept"),
    "less_diverse": Reason("focus", "it has too much in common with the chunks kept"),
    "not_scored": Reason("focus", "the reranker gave it no score"),
    "over_text_budget": Reason("focus", "its text did not fit into the budget for texts"),
    "over_joined_limit": Reason(
        "synthesis", "all searches joined, it is ranked after the last chunk given to the writer"
    ),
    "over_budget": Reason("synthesis", "its text did not fit into what the writer may read"),
    "local_only": Reason("synthesis", "its document must not be sent to the writer's machine"),
}

#: All outcomes of a chunk: reasons to drop it, and those of a chunk that was not dropped.
OUTCOMES: Mapping[str, Reason] = {
    **DROP_REASONS,
    "not_retrieved": Reason("exploration", "the search did not return it"),
    "filtered_out": Reason("exploration", "it does not meet the filters of the question"),
    "beyond_depth": Reason("exploration", "it is more steps away than the walk took"),
    "relation_not_followed": Reason("exploration", "only relations not followed lead to it"),
    "against_direction": Reason("exploration", "only edges against the direction lead to it"),
    "over_node_limit": Reason("exploration", "the walk ended before it, at its limit of nodes"),
    "undecided": Reason("exploration", "the question failed before a later stage decided"),
    "refused": Reason("synthesis", "the question was refused before the writer read it"),
    "used": Reason("synthesis", "its text was given to the writer, which did not cite it"),
    "cited": Reason("synthesis", "the answer cites it"),
}
