"""From what was asked to a report: which queries pass, why not, and how long things took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from whence.evaluation import measures
from whence.evaluation.files import digest_of
from whence.evaluation.validation import checks
from whence.evaluation.validation.run import QueryOutcome, ValidationRun
from whence.evaluation.validation.source_texts import SourceTexts
from whence.evaluation.validation.suite import ValidationSuite
from whence.evaluation.validation.target import Passage, StoredDocument, Target, TargetInfo

__all__ = (
    "Latencies",
    "LoadReport",
    "QueryResult",
    "ResultRow",
    "SequenceReport",
    "Thresholds",
    "ValidationReport",
    "build_report",
    "load_documents",
)

#: The mean that interactive use allows, in milliseconds; more is a warning.
_MOST_MEAN_MS = 2000.0
#: A sequence gets slower when its second half's median is this much above the first's ...
_SLOWER = 1.5
#: ... and by more than this, in milliseconds: below it the clock measures the machine's other work.
_SLOWER_MS = 20.0


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection must reach."""

    threshold: float = 0.5
    """Least score of each query's best result."""
    min_pass: float = 0.8
    """Least share of queries that pass."""
    max_p95_ms: float = 3000.0
    """The 95th percentile must be below this."""


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
    """One query and what it gave."""

    query_text: str
    passed: bool
    reason: str
    """First fault; empty when it passed."""
    latency_ms: float
    embedding_ms: float
    search_ms: float
    expected_topics: list[str]
    missing_topics: list[str]
    min_results: int
    source_url_pattern: str | None
    checks: dict[str, str | None]
    """Fault of each check by its name, null for one that passed."""
    partial: bool
    """True when the results are not those of a whole search."""
    notes: tuple[str, ...]
    results: list[ResultRow]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds, percentiles by nearest rank."""

    samples: int
    avg_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class SequenceReport(msgspec.Struct, frozen=True, kw_only=True):
    """Queries one after the other."""

    latency: Latencies
    first_half_ms: float
    """Median."""
    second_half_ms: float
    slower: bool
    """True when it degrades: the second half's median is half as much again, and 20 ms above."""
    errors: int
    consistent: bool
    """True when every query gave the same results in the same order as before."""


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Several readers at once."""

    clients: int
    latency: Latencies
    errors: int
    consistent: bool


class ValidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A validation. `avg_latency_ms` and the percentiles are over `results[].latency_ms`."""

    version: str = "retrieval-validation-report-v1"
    passed: bool
    total_queries: int
    passed_queries: int
    failed_queries: int
    avg_latency_ms: float
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    latency: dict[str, Latencies]
    """`total`, `embedding` and `search`."""
    sequence: SequenceReport | None
    load: LoadReport | None
    partial: bool
    """True when the time limit cut something off, or a search was not whole."""
    seconds: float
    about: TargetInfo
    suite: dict[str, str]
    """`origin`: `shipped`, `generated` or the file; `digest`."""
    demands: Thresholds
    sources_compared: int
    """Results whose text was compared with its original."""
    warnings: list[str]
    results: list[QueryResult]


async def load_documents(target: Target, run: ValidationRun) -> dict[str, StoredDocument]:
    """Give, for each result, what the store holds of its document. Cost: one read per result.

    Raises:
        WhenceError: The store does not answer.
    """
    pages: dict[str, StoredDocument] = {}
    for asked in run.first:
        for passage in asked.passages:
            if passage.id not in pages:
                pages[passage.id] = await target.page(passage)
    return pages


def build_report(
    run: ValidationRun,
    suite: ValidationSuite,
    *,
    origin: str,
    about: TargetInfo,
    demands: Thresholds,
    pages: Mapping[str, StoredDocument],
    originals: SourceTexts,
) -> ValidationReport:
    """Judge a run.

    Args:
        run: What was asked.
        suite: The suite it was.
        origin: Where the suite came from.
        about: What was validated.
        demands: What must be reached.
        pages: What the store holds of the document, by id of the result.
        originals: Sources to compare texts with.
    """
    results = [_judged(asked, demands, pages, originals) for asked in run.first]
    times = [result.latency_ms for result in results]
    passed = sum(result.passed for result in results)
    sequence, load = _sequence(run), _load(run)
    p95 = measures.percentile(times, 95)
    return ValidationReport(
        passed=passed >= demands.min_pass * len(results) and p95 < demands.max_p95_ms,
        total_queries=len(results),
        passed_queries=passed,
        failed_queries=len(results) - passed,
        avg_latency_ms=round(measures.mean(times), 3),
        p50_latency_ms=measures.percentile(times, 50),
        p95_latency_ms=p95,
        p99_latency_ms=measures.percentile(times, 99),
        latency={
            "total": _latencies(times),
            "embedding": _latencies([asked.embedding_ms for asked in run.first if _whole(asked)]),
            "search": _latencies([asked.search_ms for asked in run.first if _whole(asked)]),
        },
        sequence=sequence,
        load=load,
        partial=run.cut or any(result.partial for result in results),
        seconds=run.seconds,
        about=about,
        suite={"origin": origin, "digest": digest_of(suite)},
        demands=demands,
        sources_compared=sum(
            _original(passage, originals) is not None
            for asked in run.first
            for passage in asked.passages
        ),
        warnings=list(_warnings(run, times, sequence, load)),
        results=results,
    )


def _whole(asked: QueryOutcome) -> bool:
    return not asked.error and bool(asked.query.query_text.strip())


def _judged(
    asked: QueryOutcome,
    demands: Thresholds,
    pages: Mapping[str, StoredDocument],
    originals: SourceTexts,
) -> QueryResult:
    query, passages = asked.query, asked.passages
    topics = query.expected_topics or []
    found = set(checks.found_topics(topics, passages))
    missing = [topic for topic in topics if topic not in found]

    def _page(passage: Passage) -> StoredDocument:
        return pages.get(passage.id, StoredDocument())

    faults: dict[str, str | None] = {
        "answered": asked.error or None,
        "whole": "; ".join(asked.notes) or None,
        "results": checks.results_fault(query, passages),
        "threshold": checks.threshold_fault(query, passages, demands.threshold),
        "topics": f"no result is about {', '.join(map(repr, missing))}" if missing else None,
        "source_url": checks.pattern_fault(query, passages),
        "metadata": checks.metadata_fault(passages),
        "unique": checks.uniqueness_fault(passages),
        "heading": _each(passages, lambda one: checks.heading_fault(one, _page(one).text)),
        "verbatim": _each(passages, lambda one: _verbatim(one, _page(one).digest, originals)),
        "reachable": _each(passages, lambda one: _unreachable(one, originals)),
        "overlap": checks.overlap_fault(passages),
    }
    reason = next((fault for fault in faults.values() if fault), "")
    return QueryResult(
        query_text=query.query_text,
        passed=not reason,
        reason=reason,
        latency_ms=asked.latency_ms,
        embedding_ms=asked.embedding_ms,
        search_ms=asked.search_ms,
        expected_topics=topics,
        missing_topics=missing,
        min_results=query.min_results,
        source_url_pattern=query.source_url_pattern,
        checks=faults,
        partial=asked.partial,
        notes=asked.notes,
        results=[_row(passage, demands.threshold) for passage in passages],
    )


def _each(passages: Sequence[Passage], check: Callable[[Passage], str | None]) -> str | None:
    return next((fault for fault in map(check, passages) if fault), None)


def _original(passage: Passage, originals: SourceTexts) -> str | None:
    """Return the text that a passage should be part of; None when there is nothing to compare with."""
    if originals.documents is not None:
        by_id = originals.documents.get(passage.document_id)
        return by_id or originals.documents.get(passage.source_url or "")
    page = originals.pages.get(passage.source_url or "")
    return page.text if page and not page.fault else None


def _verbatim(passage: Passage, digest: str, originals: SourceTexts) -> str | None:
    if originals.documents is not None and _original(passage, originals) is None:
        return f"{passage.id}: its document {passage.document_id!r} is not in the sources"
    excerpt = originals.documents is None
    original = _original(passage, originals)
    return checks.verbatim_fault(passage, digest, original, excerpt=excerpt)


def _unreachable(passage: Passage, originals: SourceTexts) -> str | None:
    page = originals.pages.get(passage.source_url or "")
    return f"{passage.source_url}: {page.fault}" if page and page.fault else None


def _row(passage: Passage, threshold: float) -> ResultRow:
    return ResultRow(
        id=passage.id,
        score=passage.score,
        text=passage.text,
        source_url=passage.source_url,
        section_path=passage.section_path,
        heading=passage.heading,
        chunk_index=passage.chunk_index,
        above_threshold=passage.score >= threshold,
    )


def _latencies(times: Sequence[float]) -> Latencies:
    return Latencies(
        samples=len(times),
        avg_ms=round(measures.mean(times), 3),
        p50_ms=measures.percentile(times, 50),
        p95_ms=measures.percentile(times, 95),
        p99_ms=measures.percentile(times, 99),
        max_ms=max(times, default=0.0),
    )


def _sequence(run: ValidationRun) -> SequenceReport | None:
    times = [asked.latency_ms for asked in run.sequence if _whole(asked)]
    if len(times) < 2:
        return None
    half = len(times) // 2
    first, second = statistics.median(times[:half]), statistics.median(times[half:])
    return SequenceReport(
        latency=_latencies(times),
        first_half_ms=round(first, 3),
        second_half_ms=round(second, 3),
        slower=second > _SLOWER * first and second > first + _SLOWER_MS,
        errors=sum(bool(asked.error) for asked in run.sequence),
        consistent=_consistent(run.first, run.sequence),
    )


def _load(run: ValidationRun) -> LoadReport | None:
    if not run.load:
        return None
    times = [asked.latency_ms for asked in run.load if _whole(asked)]
    return LoadReport(
        clients=run.clients,
        latency=_latencies(times),
        errors=sum(bool(asked.error) for asked in run.load),
        consistent=_consistent(run.first, run.load),
    )


def _consistent(first: Sequence[QueryOutcome], again: Sequence[QueryOutcome]) -> bool:
    """Return whether whole searches gave the same results in the same order."""
    known = {asked.query.query_text: _ids(asked) for asked in first if not asked.partial}
    return all(
        known.get(asked.query.query_text, _ids(asked)) == _ids(asked)
        for asked in again
        if not asked.error and not asked.partial
    )


def _ids(asked: QueryOutcome) -> list[str]:
    return [passage.id for passage in asked.passages]


def _warnings(
    run: ValidationRun,
    times: Sequence[float],
    sequence: SequenceReport | None,
    load: LoadReport | None,
) -> list[str]:
    facts = (
        (run.cut, "the time limit cut the validation off; what was not asked is marked so"),
        (measures.mean(times) >= _MOST_MEAN_MS, "the mean latency is not below 2 s"),
        (sequence is not None and sequence.slower, "searches got slower in a sequence"),
        (sequence is not None and sequence.errors > 0, "searches failed in a sequence"),
        (sequence is not None and not sequence.consistent, "a query's results changed"),
        (load is not None and load.errors > 0, "searches failed under load"),
        (load is not None and not load.consistent, "a query's results changed under load"),
    )
    return [words for holds, words in facts if holds]
