"""Queries and what they should find, whichever file they were read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

#: Shortest query of a suite in characters; a test collection may have any that is not blank.
MIN_QUERY = 3

Intent = Literal["symbol", "path", "error", "natural_language"]
INTENTS: tuple[Intent, ...] = ("symbol", "path", "error", "natural_language")


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document that a query should find."""

    hint: Annotated[str, msgspec.Meta(min_length=1)]
    """Document id, path, name or qualified name, whole or its last segments."""


class NegativeTarget(Target, frozen=True, kw_only=True):
    """A document that a query should not find."""

    within: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Lowest rank at which a match is a violation; k when None."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query with its expectations; those that its file says nothing about have their defaults."""

    text: str
    id: str = ""
    intent: Intent = "natural_language"
    expected_targets: Sequence[Target] = ()
    negative_targets: Sequence[NegativeTarget] = ()
    grades: Mapping[str, int] = {}
    """Grade by document id; 0 and below mean judged as not relevant."""
    own_document: str | None = None
    """Document that is the query itself, and is left out of its results."""
    expected_topics: Sequence[str] | None = None
    """Words that must all occur in the results; None when nothing is said about it."""
    min_results: int = 0
    source_url_pattern: str | None = None
    """Regular expression that some result's address must match, anywhere in it."""


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """Queries in the order in which they are asked."""

    queries: Sequence[Query]
    version: str = ""
    digest: str = ""
    """Digest of the values of its file, for comparisons with recorded runs."""
