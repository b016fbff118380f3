"""Builds the validation report from a run: which queries pass, the reasons, and latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from whence.evaluation.files import digest_of
from whence.evaluation.run import RecordedSearch, Run
from whence.evaluation.searcher import Passage
from whence.evaluation.validation import checks
from whence.evaluation.validation.latencies import (
    Latencies,
    LoadReport,
    SequenceReport,
    report_load,
    report_sequence,
    summarize_latencies,
)
from whence.evaluation.validation.source_texts import SourceTexts
from whence.evaluation.validation.suite_file import Thresholds, ValidationSuite
from whence.evaluation.validation.target import PassageSource, Target, TargetInfo

_CUT = "the time limit cut the validation off; what was not asked is marked so"
#: What each check of a query's results checks.
_RULES = {
    "answered": "the search was answered",
    "whole": "no retriever and no service failed during it",
    "latency": "it took no longer than limits.max_query_ms",
    "results": "it has at least min_results results",
    "threshold": "the best score reaches limits.threshold",
    "topics": "every expected topic occurs in some result, as whole words",
    "source_url": "some result's source_url matches source_url_pattern",
    "metadata": "every result has source_url, section_path, heading, chunk_index and a text",
    "unique": "no chunk, and no place of document, source_url, section_path and chunk_index, occurs twice;"
    " several chunks of one section may occur",
    "heading": "every heading occurs in its document or its title",
    "verbatim": "every text is the stored one, and occurs in its source where that can be read",
    "reachable": "every source_url can be read, if --check-urls was given",
    "overlap": "no two results of one document have more than half of their words in common",
}
_UNIQUE_SECTIONS = "no section_path occurs twice"
#: Fields of a passage that a result shows.
_ROW = ("id", "score", "text", "source_url", "section_path", "heading", "chunk_index")


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """One result."""

    id: str
    score: float
    text: str
    source_url: str | None
    section_path: str | None
    heading: str | None
    chunk_index: int | None
    above_threshold: bool


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one query."""

    query_text: str
    passed: bool
    reason: str
    """First fault; empty when the query passed."""
    latency_ms: float
    embedding_ms: float
    search_ms: float
    expected_topics: list[str]
    missing_topics: list[str]
    min_results: int
    source_url_pattern: str | None
    checks: dict[str, str | None]
    """Fault by name of the check; None for a check that passed."""
    partial: bool
    """True when the search was not complete."""
    notes: tuple[str, ...]
    results: list[ResultRow]


class ValidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A validation. `avg_latency_ms` and the percentiles are over `results[].latency_ms`."""

    version: str = "retrieval-validation-report-v1"
    passed: bool
    checks: dict[str, str | None]
    """Fault of the whole run by name of the check; None for a check that passed, absent when it did not run."""
    total_queries: int
    passed_queries: int
    failed_queries: int
    avg_latency_ms: float
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    percentiles: dict[str, str]
    """Percentiles that are the maximum, because there are too few queries: `{"p95": "max of 8"}`."""
    latency: dict[str, Latencies]
    sequence: SequenceReport | None
    load: LoadReport | None
    partial: bool
    """True when the time limit was reached or a search was not complete."""
    seconds: float
    about: TargetInfo
    suite: dict[str, str]
    """`origin`: `shipped`, `generated` or the file; `digest`."""
    demands: Thresholds
    sources_compared: int
    """Results whose text was compared with its source."""
    warnings: list[str]
    rules: dict[str, str]
    """What each check of a query's results checks."""
    results: list[QueryResult]


async def load_documents(target: Target, run: Run) -> dict[str, PassageSource]:
    """Return for each result the stored data of its document. Cost: one read per result."""
    pages: dict[str, PassageSource] = {}
    for outcome in run.first:
        for passage in outcome.passages:
            if passage.id not in pages:
                pages[passage.id] = await target.document(passage)
    return pages


def build_report(
    run: Run,
    suite: ValidationSuite,
    *,
    origin: str,
    about: TargetInfo,
    thresholds: Thresholds,
    stored: Mapping[str, PassageSource],
    sources: SourceTexts,
) -> ValidationReport:
    """Check the results of a run and summarise its latencies."""
    results = [_check_query(outcome, thresholds, stored, sources) for outcome in run.first]
    total = summarize_latencies([result.latency_ms for result in results])
    complete = [outcome for outcome in run.first if not outcome.error]
    passed = sum(result.passed for result in results)
    sequence, load = report_sequence(run, thresholds), report_load(run)
    too_few = f"{passed} of {len(results)} queries pass, {thresholds.min_pass:.0%} are required"
    verdict = {
        "queries": too_few if passed < thresholds.min_pass * len(results) else None,
        "p95": _slow_fault("", total, thresholds),
        "mean": _too_long("the mean latency", total.avg_ms, thresholds.max_mean_ms),
        **_repeated_faults("sequence", "in a sequence", sequence, thresholds),
        **_repeated_faults("load", "under load", load, thresholds),
    }
    return ValidationReport(
        passed=not any(verdict.values()),
        checks=verdict,
        total_queries=len(results),
        passed_queries=passed,
        failed_queries=len(results) - passed,
        avg_latency_ms=total.avg_ms,
        p50_latency_ms=total.p50_ms,
        p95_latency_ms=total.p95_ms,
        p99_latency_ms=total.p99_ms,
        percentiles=total.percentiles,
        latency={
            "total": total,
            "embedding": summarize_latencies([outcome.embedding_ms for outcome in complete]),
            "search": summarize_latencies([outcome.search_ms for outcome in complete]),
        },
        sequence=sequence,
        load=load,
        partial=run.cut or any(result.partial for result in results),
        seconds=run.seconds,
        about=about,
        suite={"origin": origin, "digest": digest_of(suite)},
        demands=thresholds,
        sources_compared=sum(
            _source_text(passage, sources) is not None
            for outcome in run.first
            for passage in outcome.passages
        ),
        warnings=[_CUT] if run.cut else [],
        rules=_RULES | ({"unique": _UNIQUE_SECTIONS} if thresholds.unique_sections else {}),
        results=results,
    )


def _too_long(what: str, found_ms: float, limit_ms: float) -> str | None:
    if found_ms < limit_ms:
        return None
    return f"{what} is {found_ms:.1f} ms, it must be below {limit_ms:g} ms"


def _slow_fault(where: str, times: Latencies, thresholds: Thresholds) -> str | None:
    name = times.percentiles.get("p95", "95th percentile")
    return _too_long(f"the latency{where} ({name})", times.p95_ms, thresholds.max_p95_ms)


def _repeated_faults(
    name: str, where: str, found: SequenceReport | LoadReport | None, thresholds: Thresholds
) -> dict[str, str | None]:
    if found is None:
        return {}
    counts = (
        ("errors", found.errors, thresholds.max_errors, "failed or were incomplete"),
        ("changed", found.changed, thresholds.max_changed, "had other results than before"),
    )
    faults: dict[str, str | None] = {}
    for what, count, share, words in counts:
        fault = f"{count} of {found.searches} searches {where} {words}, {share:.0%} are allowed"
        faults[f"{name}_{what}"] = fault if count > share * found.searches else None
    faults[f"{name}_p95"] = _slow_fault(f" {where}", found.latency, thresholds)
    if isinstance(found, SequenceReport):
        fault = (
            f"searches in a row took {found.slowdown:.1f} times as long as the same queries before,"
            f" {thresholds.max_slowdown:g} times is allowed"
        )
        faults[f"{name}_slower"] = fault if found.slower else None
    return faults


def _check_query(
    outcome: RecordedSearch,
    thresholds: Thresholds,
    stored: Mapping[str, PassageSource],
    sources: SourceTexts,
) -> QueryResult:
    query, passages = outcome.query, outcome.passages
    topics = list(query.expected_topics or ())
    # A query without words that requires no results has none, and no fault.
    empty = not query.text.strip() and not query.min_results
    found = set(checks.found_topics(topics, passages))
    missing = [topic for topic in topics if topic not in found]
    slow = f"took {outcome.latency_ms:.0f} ms, at most {thresholds.max_query_ms:g} ms are allowed"
    documents = {one.id: stored.get(one.id, PassageSource()) for one in passages}
    faults: dict[str, str | None] = {
        "answered": None if empty else outcome.error or None,
        "whole": "; ".join(outcome.degraded) or None,
        "latency": slow if outcome.latency_ms > thresholds.max_query_ms else None,
        "results": checks.results_fault(query, passages),
        "threshold": checks.threshold_fault(query, passages, thresholds.threshold),
        "topics": f"no result is about {', '.join(map(repr, missing))}" if missing else None,
        "source_url": checks.pattern_fault(query, passages),
        "metadata": checks.metadata_fault(passages),
        "unique": checks.uniqueness_fault(passages, sections=thresholds.unique_sections),
        "heading": _first(checks.heading_fault(one, documents[one.id].text) for one in passages),
        "verbatim": _first(
            _verbatim_fault(one, documents[one.id].digest, sources) for one in passages
        ),
        "reachable": _first(
            page.fault and f"{one.source_url}: {page.fault}"
            for one, page in ((one, sources.page(one)) for one in passages)
        ),
        "overlap": checks.overlap_fault(passages),
    }
    reason = _first(faults.values()) or ""
    return QueryResult(
        passed=not reason,
        reason=reason,
        expected_topics=topics,
        missing_topics=missing,
        checks=faults,
        results=[
            ResultRow(above_threshold=one.score >= thresholds.threshold, **_fields(one, _ROW))
            for one in passages
        ],
        query_text=query.text,
        notes=outcome.degraded,
        **_fields(query, ("min_results", "source_url_pattern")),
        **_fields(outcome, ("latency_ms", "embedding_ms", "search_ms", "partial")),
    )


def _fields(struct: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in names}


def _first(faults: Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)


def _source_text(passage: Passage, sources: SourceTexts) -> str | None:
    """Return the text that a passage should be part of; None when there is none to compare with."""
    text = (sources.documents or {}).get(passage.document_id)
    return sources.page(passage).text if text is None else text


def _verbatim_fault(passage: Passage, digest: str, sources: SourceTexts) -> str | None:
    text = (sources.documents or {}).get(passage.document_id)
    if sources.documents is not None and sources.required and text is None:
        return f"{passage.id}: its document {passage.document_id!r} is not in the sources"
    return checks.verbatim_fault(passage, digest, text) or checks.verbatim_fault(
        passage, digest, sources.page(passage).text, excerpt=True
    )
