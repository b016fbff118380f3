"""Checks of one query's results. Pure functions; each returns the first fault as text, or None.

Cost of each: linear in the words of the results, times their number where they are compared in pairs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import PurePosixPath

from whence.evaluation.searcher import Passage
from whence.evaluation.suite import Query
from whence.text.analysis import document_terms

#: Largest share of text that two chunks of one document may have in common; our chunker's is an eighth.
_MAX_OVERLAP = 0.5
#: Smallest share of an excerpt's runs of five words that must be in the page: footnotes and the like interrupt
#: some of them.
_MIN_EXCERPT = 0.9
_RUN = 5

_WORD = re.compile(r"\w+")


def results_fault(query: Query, passages: Sequence[Passage]) -> str | None:
    """Check that there are as many results as the query requires."""
    if not passages and query.min_results:
        return "no results found"
    if len(passages) < query.min_results:
        return f"{len(passages)} results, expected at least {query.min_results}"
    return None


def threshold_fault(query: Query, passages: Sequence[Passage], threshold: float) -> str | None:
    """Check that a result reaches the threshold, for a query that requires results."""
    best = max((passage.score for passage in passages), default=1.0)
    if best >= threshold or not (query.min_results or query.expected_topics):
        return None
    return (
        f"no results found above the threshold {threshold:g}: the best score is {best:.3f};"
        " lower --threshold, or look whether the collection answers this query"
    )


def found_topics(topics: Sequence[str], passages: Sequence[Passage]) -> list[str]:
    """Return the topics that occur in the results, in text, heading or section path.

    A topic occurs when its whole words follow one another, in any case, or when one result has all of them
    in any form and order (`batteries` has the topic `battery`). Parts of words do not count.
    """
    texts = ["\n".join((one.section_path or "", one.heading or "", one.text)) for one in passages]
    return [topic for topic in topics if any(_occurs(topic, text) for text in texts)]


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


def pattern_fault(query: Query, passages: Sequence[Passage]) -> str | None:
    """Check that a result's address matches the query's pattern."""
    pattern = query.source_url_pattern
    if pattern is None or any(re.search(pattern, one.source_url or "") for one in passages):
        return None
    return f"no result's source_url matches {pattern!r}"


def metadata_fault(passages: Sequence[Passage]) -> str | None:
    """Check that every result has all of its metadata."""
    for passage in passages:
        for name in ("source_url", "section_path", "heading"):
            if not (getattr(passage, name) or "").strip():
                return f"{passage.id}: {name} is missing"
        if passage.chunk_index is None or passage.chunk_index < 0:
            return f"{passage.id}: chunk_index is missing"
        if not passage.text.strip():
            return f"{passage.id}: the text is empty"
    return None


def uniqueness_fault(passages: Sequence[Passage], *, sections: bool = False) -> str | None:
    """Check that no place is returned twice; a section may have several chunks, unless `sections` is true."""
    seen: set[object] = set()
    for passage in passages:
        place = (passage.document_id, passage.source_url, passage.section_path, passage.chunk_index)
        if passage.id in seen or place in seen:
            return f"{passage.id}: the same place ({passage.section_path!r}) is returned twice"
        if sections and (passage.section_path,) in seen:
            return f"{passage.id}: the section path {passage.section_path!r} is returned twice"
        seen |= {passage.id, place, (passage.section_path,)}
    return None


def heading_fault(passage: Passage, page: str) -> str | None:
    """Check that the heading occurs in the page or in its title."""
    heading = passage.heading or ""
    # A document without a heading is named after its file.
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
    """Check that the text is the stored one (by its SHA-256) and occurs in its source.

    An `excerpt` is compared with a web page, which has other words around the text.
    """
    stored = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass")).hexdigest()
    if digest and digest != stored:
        return f"{passage.id}: the text is not the one that was stored"
    if original is None:
        return None
    if excerpt:
        inside = _shared(_runs(passage.text), _runs(original)) >= _MIN_EXCERPT
    else:
        inside = " ".join(passage.text.split()) in " ".join(original.split())
    return None if inside else f"{passage.id}: the text does not occur in its source"


def overlap_fault(passages: Sequence[Passage]) -> str | None:
    """Check that no two chunks of one document are mostly the same text."""
    for one, other in combinations(passages, 2):
        if one.document_id == other.document_id and overlap(one.text, other.text) > _MAX_OVERLAP:
            return f"{one.id} and {other.id} overlap by more than half"
    return None


def overlap(one: str, other: str) -> float:
    """Return the share of the shorter text's runs of five words that the other text has, 0 to 1.

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
