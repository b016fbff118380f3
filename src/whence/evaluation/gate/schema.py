"""The gate's three files, read strictly: an unknown key is an error, not a wish."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from whence.evaluation.files import read_text
from whence.ingest.strict_json import parse_json
from whence.schema.errors import BadInput, ConfigError

__all__ = (
    "BASELINE_VERSION",
    "INTENTS",
    "Baseline",
    "BaselineQuery",
    "Intent",
    "IntentLatency",
    "LatencyLimits",
    "LatencyPolicy",
    "Metrics",
    "NegativeTarget",
    "Policy",
    "Quality",
    "RetrieverScores",
    "Suite",
    "SuiteQuery",
    "Target",
    "Tolerance",
    "load_baseline",
    "load_policy",
    "load_suite",
    "suite_digest",
)

BASELINE_VERSION: Final = "retrieval-eval-baseline-v1"

Intent = Literal["symbol", "path", "error", "natural_language"]
INTENTS: tuple[Intent, ...] = ("symbol", "path", "error", "natural_language")

#: Limits above this, a day, are mistakes; it also refuses numbers too large for a float.
_MAX_MS = 86_400_000.0
#: Shortest query that can be searched for.
_MIN_QUERY = 3

Text = Annotated[str, msgspec.Meta(min_length=1)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0.0, le=_MAX_MS)]
Count = Annotated[int, msgspec.Meta(ge=0)]

S = TypeVar("S", bound="_Strict")


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses keys that it has not."""


class Target(_Strict, frozen=True, kw_only=True):
    """Something that a query should find, or should not."""

    hint: Text
    """Document id, path, name or qualified name, whole or its last segments."""


class NegativeTarget(Target, frozen=True, kw_only=True):
    """Something that a query should not find."""

    within: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Rank down to which it must not stand; k when None."""


class SuiteQuery(_Strict, frozen=True, kw_only=True):
    """One case of a suite."""

    id: Text
    query: Text
    intent: Intent
    expected_targets: Annotated[list[Target], msgspec.Meta(min_length=1)]
    negative_targets: list[NegativeTarget] = []


class Suite(_Strict, frozen=True, kw_only=True):
    """Queries and what they should find, in order of their ids."""

    version: Text
    queries: Annotated[list[SuiteQuery], msgspec.Meta(min_length=1)]


class Metrics(_Strict, frozen=True, kw_only=True):
    """Means over the queries of a suite."""

    recall_at_k: Share
    mrr: Share
    ndcg_at_k: Share
    zero_result_rate: Share
    clustering_ratio: Share
    degraded_query_rate: Share
    semantic_budget_exhaustion_rate: Share
    """Queries whose search ran out of time."""
    negative_hit_rate: Share | None = None
    """Queries with an unwanted target above its rank; None in a baseline without it."""
    latency_p50_ms: Milliseconds = 0.0
    """0 stands for no baseline."""
    latency_p95_ms: Milliseconds
    latency_mean_ms: Milliseconds


class IntentLatency(_Strict, frozen=True, kw_only=True):
    """Latency of the queries of one intent."""

    sample_count: Count
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    mean_ms: Milliseconds


class RetrieverScores(_Strict, frozen=True, kw_only=True):
    """Means of one way of ranking over the queries of a suite."""

    recall_at_k: Share
    mrr: Share
    ndcg_at_k: Share


class BaselineQuery(_Strict, frozen=True, kw_only=True):
    """What one query gave when the baseline was recorded."""

    id: Text
    hit_rank: Annotated[int, msgspec.Meta(ge=1)] | None
    reciprocal_rank: Share
    recall_at_k: Share
    ndcg_at_k: Share
    cluster_ratio: Share | None
    """None for a list of fewer than two results."""
    found_hints: list[str]


class Baseline(_Strict, frozen=True, kw_only=True):
    """A recorded run to compare with."""

    version: Literal["retrieval-eval-baseline-v1"]
    suite_version: Text
    suite_digest: Text
    k: Annotated[int, msgspec.Meta(ge=1)]
    mode: Literal["bm25", "dense", "hybrid"] = "hybrid"
    collection: str = ""
    """Name it had; no part of what must be equal."""
    collection_digest: str = ""
    """Digest of the documents, empty when unknown."""
    whence_version: str = ""
    metrics: Metrics
    latency_by_intent: dict[Intent, IntentLatency] = {}
    per_query: list[BaselineQuery] = []
    """With it the gate can tell a lost target from one that moved down."""
    legs: dict[str, RetrieverScores] = {}
    """Each way of ranking alone, to tell which one got worse."""


class Quality(_Strict, frozen=True, kw_only=True):
    """Limits that hold whatever the baseline says."""

    min_recall_at_k: Share
    min_mrr: Share
    min_ndcg_at_k: Share
    max_zero_result_rate: Share
    max_clustering_ratio: Share
    max_degraded_query_rate: Share
    enforce_degraded_query_rate: bool = True
    max_negative_hit_rate: Share = 1.0


class LatencyLimits(_Strict, frozen=True, kw_only=True):
    """Limits of one intent."""

    max_p50_latency_ms: Milliseconds
    max_p95_latency_ms: Milliseconds


class LatencyPolicy(_Strict, frozen=True, kw_only=True):
    """Limits of all queries, and of those of an intent."""

    max_p95_latency_ms: Milliseconds
    max_p50_latency_ms: Milliseconds = 500.0
    by_intent: dict[Intent, LatencyLimits] = {}


class Tolerance(_Strict, frozen=True, kw_only=True):
    """How much worse than the baseline is noise."""

    recall_at_k: Share
    mrr: Share
    ndcg_at_k: Share
    zero_result_rate: Share
    clustering_ratio: Share
    degraded_query_rate: Share
    negative_hit_rate: Share = 0.0
    p50_latency_ms: Milliseconds = 25.0
    p95_latency_ms: Milliseconds


class Policy(_Strict, frozen=True, kw_only=True):
    """What a run must reach."""

    version: Literal["retrieval-gate-policy-v1"]
    quality: Quality
    latency: LatencyPolicy
    tolerance: Tolerance


def load_suite(path: Path) -> Suite:
    """Read a suite; its queries come in order of their ids.

    Raises:
        ConfigError: The file is no suite: a key is missing, unknown, of another type or out of range, an id
            or a target occurs twice, a target is wanted and unwanted at once, or a text is blank.
        BadInput: The file cannot be read.
    """
    suite = _load(path, Suite)
    ids = [query.id for query in suite.queries]
    _check_once(f"{path}: queries: the id", ids)
    for query in suite.queries:
        where = f"{path}: query {query.id!r}"
        if not query.id.strip() or not suite.version.strip():
            raise ConfigError(f"{path}: an id or the version is blank")
        if len(query.query.strip()) < _MIN_QUERY:
            raise ConfigError(f"{where}: query has fewer than {_MIN_QUERY} characters")
        hints = [target.hint.strip().casefold() for target in query.expected_targets]
        unwanted = [target.hint.strip().casefold() for target in query.negative_targets]
        if not all([*hints, *unwanted]):
            raise ConfigError(f"{where}: a hint is blank")
        _check_once(f"{where}: the hint", [*hints, *unwanted])
    return Suite(version=suite.version, queries=sorted(suite.queries, key=lambda query: query.id))


def load_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        ConfigError: The file is no baseline.
        BadInput: The file cannot be read.
    """
    baseline = _load(path, Baseline)
    _check_once(f"{path}: per_query: the id", [query.id for query in baseline.per_query])
    return baseline


def load_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        ConfigError: The file is no policy.
        BadInput: The file cannot be read.
    """
    return _load(path, Policy)


def suite_digest(suite: Suite) -> str:
    """Return a digest of what a suite says; spaces and the order of its keys and queries do not matter."""
    return hashlib.sha256(msgspec.json.encode(suite)).hexdigest()


def _load(path: Path, kind: type[S]) -> S:
    try:
        return msgspec.convert(parse_json(read_text(path)), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{path}: {error}", hint=f"correct the {kind.__name__.lower()} file"
        ) from error
    except BadInput as error:
        if error.message.startswith("cannot read") or error.message.startswith(str(path)):
            raise
        raise ConfigError(f"{path}: {error.message}", hint="correct the file") from error


def _check_once(what: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"{what} {value!r} occurs twice", hint="keep one of them")
        seen.add(value)
