"""What one query's results must fulfil. Pure functions; each gives the first fault in words, or None.

Cost of each: linear in the words of the results, times their number where they are compared in pairs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import PurePosixPath

from whence.evaluation.validation.suite import TestQuery
from whence.evaluation.validation.target import Passage
from whence.text.analysis import document_terms

__all__ = (
    "found_topics",
    "heading_fault",
    "metadata_fault",
    "overlap",
    "overlap_fault",
    "pattern_fault",
    "results_fault",
    "threshold_fault",
    "uniqueness_fault",
    "verbatim_fault",
)

#: Two chunks of one document that share more than this overlap significantly: ours share at most an eighth.
_MOST_OVERLAP = 0.5
#: An excerpt is coherent when this share of its runs of five words is in the page: what a page wraps around
#: a text, such as footnotes, interrupts a few of them.
_LEAST_EXCERPT = 0.9
_RUN = 5

_WORD = re.compile(r"\w+")


def results_fault(query: TestQuery, passages: Sequence[Passage]) -> str | None:
    """Tell when there are fewer results than the query demands."""
    if not passages and query.min_results:
        return "no results found"
    if len(passages) < query.min_results:
        return f"{len(passages)} results, expected at least {query.min_results}"
    return None


def threshold_fault(query: TestQuery, passages: Sequence[Passage], threshold: float) -> str | None:
    """Tell when no result reaches the threshold, of a query that demands any."""
    best = max((passage.score for passage in passages), default=1.0)
    if best >= threshold or not (query.min_results or query.expected_topics):
        return None
    return (
        f"no results found above the threshold {threshold:g}: the best score is {best:.3f};"
        " lower --threshold, or look whether the collection answers this query"
    )


def found_topics(topics: Sequence[str], passages: Sequence[Passage]) -> list[str]:
    """Return the topics that occur in the results, in text, heading or section path.

    A topic occurs as its words one after the other, whole and in any case, or when one result has all of them
    in any form and order (`batteries` has the topic `battery`). A part of a word is no occurrence.
    """
    texts = [_all_of(passage) for passage in passages]
    return [topic for topic in topics if any(_occurs(topic, text) for text in texts)]


def _all_of(passage: Passage) -> str:
    return "\n".join((passage.section_path or "", passage.heading or "", passage.text))


def _occurs(topic: str, text: str) -> bool:
    if not _WORD.search(topic):
        return topic.strip() in text
    if _in_words(topic, text):
        return True
    wanted = set(_terms(topic))
    return bool(wanted) and wanted <= set(_terms(text))


@lru_cache(maxsize=1024)
def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


@lru_cache(maxsize=1024)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(document_terms(text))


def _in_words(part: str, text: str) -> bool:
    return _words(part) in _words(text)


def pattern_fault(query: TestQuery, passages: Sequence[Passage]) -> str | None:
    """Tell when no result's address matches the query's pattern."""
    pattern = query.source_url_pattern
    if pattern is None or any(re.search(pattern, one.source_url or "") for one in passages):
        return None
    return f"no result's source_url matches {pattern!r}"


def metadata_fault(passages: Sequence[Passage]) -> str | None:
    """Tell which field of which result is missing."""
    for passage in passages:
        for name in ("source_url", "section_path", "heading"):
            if not (getattr(passage, name) or "").strip():
                return f"{passage.id}: {name} is missing"
        if passage.chunk_index is None or passage.chunk_index < 0:
            return f"{passage.id}: chunk_index is missing"
        if not passage.text.strip():
            return f"{passage.id}: the text is empty"
    return None


def uniqueness_fault(passages: Sequence[Passage]) -> str | None:
    """Tell which result is there twice: one section of one page may hold several chunks, each once."""
    seen: set[object] = set()
    for passage in passages:
        place = (
            passage.document_id,
            passage.source_url,
            passage.section_path,
            passage.chunk_index,
        )
        if passage.id in seen or place in seen:
            return f"{passage.id}: the same place ({passage.section_path!r}) is returned twice"
        seen |= {passage.id, place}
    return None


def heading_fault(passage: Passage, page: str) -> str | None:
    """Tell when the heading is in neither the page nor its title."""
    heading = passage.heading or ""
    # A document without any words of its own for it is named after its file.
    if heading == PurePosixPath(passage.document_id).stem:
        return None
    if any(_in_words(heading, place) for place in (page, passage.title) if _WORD.search(heading)):
        return None
    if heading in page:
        return None
    return f"{passage.id}: the heading {heading!r} does not occur in its document"


def verbatim_fault(
    passage: Passage, digest: str, original: str | None, *, excerpt: bool = False
) -> str | None:
    """Tell when the text is not what was stored, or not in its source.

    Args:
        passage: A result.
        digest: SHA-256 of the text as it was stored; empty when none was.
        original: Text of its source; None when there is none to compare with.
        excerpt: The source is a web page, which wraps other words around its texts.
    """
    stored = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass")).hexdigest()
    if digest and digest != stored:
        return f"{passage.id}: the text is not the one that was stored"
    if original is None:
        return None
    if excerpt:
        inside = _shared(_runs(passage.text), _runs(original)) >= _LEAST_EXCERPT
    else:
        inside = " ".join(passage.text.split()) in " ".join(original.split())
    return None if inside else f"{passage.id}: the text does not occur in its source"


def overlap_fault(passages: Sequence[Passage]) -> str | None:
    """Tell which two chunks of one document are mostly the same text."""
    for one, other in combinations(passages, 2):
        if one.document_id == other.document_id and overlap(one.text, other.text) > _MOST_OVERLAP:
            return f"{one.id} and {other.id} overlap by more than half"
    return None


def overlap(one: str, other: str) -> float:
    """Return the share of the shorter text's runs of five words that the other has, 0 to 1.

    >>> overlap("a b c d e f", "x b c d e f y")
    0.5
    """
    runs = sorted((_runs(one), _runs(other)), key=len)
    return _shared(runs[0], runs[1])


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    count = max(1, len(words) - _RUN + 1)
    return frozenset(tuple(words[start : start + _RUN]) for start in range(count))


def _shared(part: frozenset[tuple[str, ...]], whole: frozenset[tuple[str, ...]]) -> float:
    return len(part & whole) / len(part)
