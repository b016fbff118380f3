"""Map the markers in an answer to the passages they cite."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from whence.retrieval.services import Passage
from whence.schema.document_rag import Citation
from whence.schema.prompt import Quote
from whence.schema.texts import outdated

#: `[3]`, `[1, 2]` or `[1][2]`, with the other dashes and blanks that models write. At most six digits:
#: no prompt has a million documents.
_MARKERS = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]")


class CitedAnswer(msgspec.Struct, frozen=True):
    """The citations of an answer."""

    citations: tuple[Citation, ...]
    """By marker, then in the order of the quotes; one for each quote, or one without."""
    faults: tuple[str, ...]
    """Invalid markers and quotes, one line each."""


def markers_of(text: str) -> tuple[int, ...]:
    """Return the numbers in square brackets, each once, in order of first use.

    >>> markers_of("Open at nine [2]. Closed on Sunday [1, 2][7].")
    (2, 1, 7)
    """
    numbers = (
        int(number) for group in _MARKERS.findall(text) for number in re.split(r"\D+", group)
    )
    return tuple(dict.fromkeys(numbers))


def map_citations(text: str, quotes: Sequence[Quote], passages: Sequence[Passage]) -> CitedAnswer:
    """Map the markers of an answer to the passages that the writer was given.

    Markers out of range and quotes that are not verbatim in their passage are left out and reported. The
    function accepts any text and any quotes.

    Args:
        text: The answer.
        quotes: What the writer says it used.
        passages: What the writer was given; marker `[n]` is the n-th, from 1.

    Cost: one pass over the text and one substring search per quote.
    """
    faults: list[str] = []
    citations: list[Citation] = []
    by_marker = _quotes_by_marker(quotes)
    for marker in sorted(markers_of(text)):
        if not 1 <= marker <= len(passages):
            faults.append(f"marker [{marker}] names none of the {len(passages)} documents")
            continue
        passage = passages[marker - 1]
        wanted = by_marker.get(marker, [])
        verbatim = list(filter(passage.text.__contains__, wanted))
        if len(verbatim) < len(wanted):
            faults.append(f"a quote of marker [{marker}] is not in its document")
        citations += [_citation(marker, passage, quote) for quote in verbatim or [""]]
    return CitedAnswer(tuple(citations), tuple(faults))


def _quotes_by_marker(quotes: Sequence[Quote]) -> dict[int, list[str]]:
    by_marker: dict[int, list[str]] = {}
    for quote in quotes:
        known = by_marker.setdefault(quote.marker, [])
        if quote.text and quote.text not in known:
            known.append(quote.text)
    return by_marker


def _citation(marker: int, passage: Passage, quote: str) -> Citation:
    metadata = passage.metadata
    return Citation(
        marker=marker,
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        source_file=_text(metadata.get("source_file")),
        source_url=_text(metadata.get("source_url")),
        heading=_text(metadata.get("heading")),
        quote=quote,
        outdated=outdated(metadata),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
