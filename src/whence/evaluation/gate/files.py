"""The files of the gate: suite, baseline and policy. They are read strictly: an unknown key is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from whence.evaluation.files import digest_of, read_struct
from whence.evaluation.suite import MIN_QUERY, Intent, NegativeTarget, Query, Suite, Target
from whence.schema.errors import ConfigError

BASELINE_VERSION: Final = "retrieval-eval-baseline-v1"

#: Limits above this, a day, are mistakes; it also refuses numbers too large for a float.
_MAX_MS = 86_400_000.0

Text = Annotated[str, msgspec.Meta(min_length=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0.0, le=_MAX_MS)]
#: The default is the geometric mean of 1.3, noise that must pass, and 2, a regression that must fail.
Ratio = Annotated[float, msgspec.Meta(ge=1.0, le=1e6)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of structs that refuse unknown keys."""


class SuiteQuery(_Strict, frozen=True, kw_only=True):
    """One case of a suite."""

    id: Text
    text: Text = msgspec.field(name="query")
    intent: Intent
    expected_targets: Annotated[list[Target], msgspec.Meta(min_length=1)]
    negative_targets: list[NegativeTarget] = []
    verdict: str | msgspec.UnsetType = msgspec.UNSET
    """What a reader said of the answer, in a case of `whence eval cases export`, as the rest.

    Unset in other suites, whose digests stay those that baselines name.
    """
    note: str | msgspec.UnsetType = msgspec.UNSET
    answer_id: str | msgspec.UnsetType = msgspec.UNSET
    collection: str | msgspec.UnsetType = msgspec.UNSET
    collection_version: int | msgspec.UnsetType = msgspec.UNSET
    asked_at: str | msgspec.UnsetType = msgspec.UNSET
    given_at: str | msgspec.UnsetType = msgspec.UNSET


class SuiteFile(_Strict, frozen=True, kw_only=True):
    """Queries and their targets, sorted by id."""

    version: Text
    queries: Annotated[list[SuiteQuery], msgspec.Meta(min_length=1)]

    @property
    def suite(self) -> Suite:
        """The queries as they are asked."""
        queries = msgspec.convert(self.queries, list[Query], from_attributes=True)
        return Suite(queries=queries, version=self.version, digest=digest_of(self))


class RetrieverScores(_Strict, frozen=True, kw_only=True):
    """Means of one retriever over the queries of a suite."""

    recall_at_k: Share
    mrr: Share
    ndcg_at_k: Share


class Metrics(RetrieverScores, frozen=True, kw_only=True):
    """Means over the queries of a suite."""

    zero_result_rate: Share
    clustering_ratio: Share
    degraded_query_rate: Share
    semantic_budget_exhaustion_rate: Share
    """Share of queries whose search ran out of time."""
    negative_hit_rate: Share | None = None
    """Share of queries with a negative target within its rank; None in an older baseline."""
    latency_p50_ms: Milliseconds = 0.0
    """0 means that the baseline has no such number."""
    latency_p95_ms: Milliseconds
    latency_mean_ms: Milliseconds
    first_latency_p50_ms: Milliseconds = 0.0
    """Of the first search for each query; 0 as above."""
    first_latency_p95_ms: Milliseconds = 0.0


class IntentLatency(_Strict, frozen=True, kw_only=True):
    """Latency of the queries of one intent."""

    sample_count: Count
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    mean_ms: Milliseconds


class Floor(_Strict, frozen=True, kw_only=True):
    """Times of the fixed work that is done beside the searches, see `reference_work`."""

    work: Text
    """Name of the work."""
    times: dict[str, Annotated[float, msgspec.Meta(gt=0.0, le=_MAX_MS)]]
    """By the name of a latency, such as `latency_p95_ms.path`: the milliseconds that are its unit."""


class BaselineQuery(_Strict, frozen=True, kw_only=True):
    """Result of one query when the baseline was recorded."""

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
    """Name of the collection; it need not be equal."""
    collection_digest: str = ""
    whence_version: str = ""
    metrics: Metrics
    latency_by_intent: dict[Intent, IntentLatency] = {}
    floor: Floor | None = None
    """Without it, latencies are compared as they are, which only the same idle machine allows."""
    per_query: list[BaselineQuery] = []
    """Lets the gate tell a lost target from one that moved down."""
    legs: dict[str, RetrieverScores] = {}


class Quality(_Strict, frozen=True, kw_only=True):
    """Limits that hold for any baseline."""

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
    """Limits of all queries together and of each intent."""

    max_p95_latency_ms: Milliseconds
    max_p50_latency_ms: Milliseconds = 500.0
    by_intent: dict[Intent, LatencyLimits] = {}


class Tolerance(_Strict, frozen=True, kw_only=True):
    """Differences from the baseline that count as noise."""

    recall_at_k: Share
    mrr: Share
    ndcg_at_k: Share
    zero_result_rate: Share
    clustering_ratio: Share
    degraded_query_rate: Share
    negative_hit_rate: Share = 0.0
    p50_latency_ms: Milliseconds = 25.0
    p95_latency_ms: Milliseconds
    p50_latency_ratio: Ratio = 1.6
    """Median latencies may be this many times the baseline's in units of the machine's floor, or longer by
    `p50_latency_ms`, whichever is more."""
    p95_latency_ratio: Ratio = 1.6


class Policy(_Strict, frozen=True, kw_only=True):
    """Requirements of a run."""

    version: Literal["retrieval-gate-policy-v1"]
    quality: Quality
    latency: LatencyPolicy
    tolerance: Tolerance


def load_suite(path: Path) -> Suite:
    """Read a suite; its queries are sorted by id.

    Raises:
        ConfigError: A key is missing, unknown, of another type or out of range, an id or a target occurs twice,
            a target is both expected and negative, or a text is blank.
        BadInput: The file cannot be read.
    """
    suite = read_struct(path, SuiteFile, hint="correct the suite file")
    ids = [query.id for query in suite.queries]
    _check_once(f"{path}: queries: the id", ids)
    for query in suite.queries:
        where = f"{path}: query {query.id!r}"
        if not query.id.strip() or not suite.version.strip():
            raise ConfigError(f"{path}: an id or the version is blank")
        if len(query.text.strip()) < MIN_QUERY:
            raise ConfigError(f"{where}: query has fewer than {MIN_QUERY} characters")
        hints = [target.hint.strip().casefold() for target in query.expected_targets]
        unwanted = [target.hint.strip().casefold() for target in query.negative_targets]
        if not all([*hints, *unwanted]):
            raise ConfigError(f"{where}: a hint is blank")
        _check_once(f"{where}: the hint", [*hints, *unwanted])
    queries = sorted(suite.queries, key=lambda query: query.id)
    return SuiteFile(version=suite.version, queries=queries).suite


def load_baseline(path: Path) -> Baseline:
    """Read a baseline; errors as for `load_suite`."""
    baseline = read_struct(path, Baseline, hint="correct the baseline file")
    _check_once(f"{path}: per_query: the id", [query.id for query in baseline.per_query])
    return baseline


def load_policy(path: Path) -> Policy:
    """Read a policy; errors as for `load_suite`."""
    return read_struct(path, Policy, hint="correct the policy file")


def _check_once(what: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"{what} {value!r} occurs twice", hint="keep one of them")
        seen.add(value)
