"""Reasons why a chunk is or is not in an answer: a closed list of codes, each with its stage and one line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from whence.schema.errors import BadInput

DropCode = Literal[
    "below_threshold",
    "duplicate",
    "over_fetch_limit",
    "fetch_failed",
    "text_missing",
    "over_limit",
    "over_rerank_limit",
    "reranked_out",
    "not_scored",
    "over_text_budget",
    "over_budget",
]
"""Code of a reason to drop a candidate."""


class Reason(msgspec.Struct, frozen=True):
    """One code and what it means."""

    code: str
    stage: str
    explanation: str


def _by_code(*reasons: Reason) -> Mapping[str, Reason]:
    return MappingProxyType({item.code: item for item in reasons})


#: Reasons to drop a candidate, in the order of the stages.
DROP_REASONS: Mapping[str, Reason] = _by_code(
    Reason("below_threshold", "exploration", "its score is below the similarity threshold"),
    Reason("duplicate", "exploration", "a better ranked candidate has the same text"),
    Reason("over_fetch_limit", "exploration", "it is ranked after the last candidate retrieved"),
    Reason("fetch_failed", "exploration", "its text could not be read"),
    Reason("text_missing", "exploration", "its text is no longer there"),
    Reason("over_limit", "exploration", "it is ranked after the last chunk given to the writer"),
    Reason("over_rerank_limit", "focus", "it is ranked after the last one the reranker reads"),
    Reason("reranked_out", "focus", "the reranker placed it after the last chunk kept"),
    Reason("not_scored", "focus", "the reranker gave it no score"),
    Reason("over_text_budget", "focus", "its text did not fit into the budget for texts"),
    Reason("over_budget", "synthesis", "its text did not fit into what the writer may read"),
)

#: Outcomes of a chunk that was not dropped.
OUTCOMES: Mapping[str, Reason] = _by_code(
    Reason("not_retrieved", "exploration", "the search did not return it"),
    Reason("undecided", "exploration", "the question failed before a later stage decided"),
    Reason("used", "synthesis", "its text was given to the writer, which did not cite it"),
    Reason("cited", "synthesis", "the answer cites it"),
)


def describe_reason(code: str) -> Reason:
    """Return the meaning of a code; an unknown code raises `BadInput`."""
    found = DROP_REASONS.get(code) or OUTCOMES.get(code)
    if found is None:
        raise BadInput(
            f"{code!r} is not a reason code", hint="one of " + ", ".join((*DROP_REASONS, *OUTCOMES))
        )
    return found
