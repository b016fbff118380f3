"""Pick the spans that an answer quotes, once all are ordered.

In: spans, and what orders them. Out: the best ones, until they are likely to answer or long enough to read;
of a table the rows that a question asks for.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import zip_longest
from math import exp
from typing import TYPE_CHECKING, NamedTuple

from whence.models.token_codes import cosines
from whence.quoting.evidence_spans import Key, Span, overlaps, whole_around
from whence.text.contradictions import Statement, contradiction, read_statements
from whence.text.scripts import count_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SPANS = 3
#: Most words of an answer of several spans, headings included: when the spans chosen so far are likely to
#: answer, and when they are not.
_SHORT, _LONG = 90, 220
#: Probability, 0 to 1, that the chosen spans answer: from the first value on they are likely to; from the
#: second on no span is added. The third is the least probability of an added span.
_LIKELY, _SURE, _MIN_CHANCE = 0.55, 0.75, 0.08
#: Factor of a unit's score in the logit of the probability that it answers; it comes from the fit of the
#: weights. On sets left out of the fit, first units with a probability of .2, .5 and .9 answer in 66, 76 and
#: 98 %.
_CERTAINTY = 10.0
#: Spans that are tried until the answer is long enough.
_MAX_PICKED = 8
_DUPLICATE = 0.9
#: Spans of other documents that are quoted because they contradict the chosen ones; most terms, values
#: included, that only one of two such spans has.
_MAX_CONTRADICTING, _MAX_DIFFERENT = 2, 12


class Picked(NamedTuple):
    """A span that may be quoted."""

    place: int
    sure: float
    """Chance that one of those before it answers, 0 to 1."""


def pick_spans(
    spans: Sequence[Span],
    order: Sequence[float],
    vectors: NDArray[np.float32] | None,
    unread: Sequence[float] = (),
) -> list[Picked]:
    """Return the best span and others while it is not sure that they answer; ties go to the earlier one.

    Args:
        spans: Those that were read.
        order: What orders them.
        vectors: One row a span; None where there are none.
        unread: About the order of spans that were not read: one of them may answer as well.
    """
    ranked = sorted(range(len(spans)), key=lambda i: (-order[i], i))
    odds = [exp(_CERTAINTY * (one - order[ranked[0]])) for one in order]
    total = sum(odds) + sum(exp(_CERTAINTY * (one - order[ranked[0]])) for one in unread)
    picked: list[Picked] = []
    sure = 0.0
    for i in ranked:
        if picked and (
            len(picked) == _MAX_PICKED or sure >= _SURE or odds[i] < _MIN_CHANCE * total
        ):
            break
        if any(_repeats(spans, vectors, i, one.place) for one in picked):
            continue
        picked.append(Picked(i, sure))
        around = (j for j in range(len(spans)) if overlaps(spans[i], spans[j]))
        sure += sum(odds[j] for j in around) / total
    return picked


def _repeats(spans: Sequence[Span], vectors: NDArray[np.float32] | None, i: int, j: int) -> bool:
    """Return whether a span overlaps another one or says the same."""
    a, b = spans[i], spans[j]
    if overlaps(a, b):
        return True
    common = len(a.terms & b.terms) / max(1, min(len(a.terms), len(b.terms)))
    alike = 0.0 if vectors is None else float(cosines(vectors[i : i + 1], vectors[j : j + 1])[0, 0])
    return max(common, alike) >= _DUPLICATE


def quoted_spans(
    parts: Sequence[Sequence[Picked]],
    spans: Sequence[Span],
    everything: Sequence[Span],
    rows: Sequence[Span],
    strength: Mapping[Key, float],
    asked_terms: Mapping[Key, frozenset[str]],
) -> tuple[Span, ...]:
    """Return the best span of each part of the question, then others while a reader wants to read them.

    Each is quoted with what its author wrote around it, if that fits; of a table the rows that are asked for.
    """
    kept: list[Span] = []
    words = chosen = 0
    for rank, found in enumerate(zip_longest(*parts)):
        for one in filter(None, found):
            allowed = _LONG if one.sure < _LIKELY else _SHORT
            for quoted in _quotable(spans[one.place], everything, rows, strength, asked_terms):
                count = sum(_words_shown(span, kept) for span in quoted)
                fits = rank == 0 or words + count <= allowed
                if fits and not any(overlaps(span, other) for span in quoted for other in kept):
                    kept += quoted
                    words += count
                    chosen += 1
                    break
            if chosen == MAX_SPANS:
                return tuple(kept)
    return tuple(kept)


def contradicting_spans(
    chosen: Sequence[Span], everything: Sequence[Span], language: str, outdated: Container[int]
) -> tuple[Span, ...]:
    """Return the spans of other documents that contradict those chosen, at most two; none that is out of date.

    Args:
        chosen: What is quoted.
        everything: All spans.
        language: Of the documents.
        outdated: Places of the passages that are out of date.
    """
    current = [one for one in chosen if one.document not in outdated]
    said = [(one, statement) for one in current for statement in _statements(one, language)]
    found: list[Span] = []
    for other in everything:
        near = [
            (one, statement)
            for one, statement in said
            if one.source != other.source and len(one.terms ^ other.terms) <= _MAX_DIFFERENT
        ]
        if not near or other.document in outdated or any(overlaps(other, one) for one in found):
            continue
        says = _statements(other, language)
        if any(contradiction(one, each) for _, one in near for each in says):
            found.append(other)
    return tuple(found[:_MAX_CONTRADICTING])


def _statements(span: Span, language: str) -> list[Statement]:
    is_row = span.unit.kind == "row" and span.unit.context
    text = f"{span.unit.context[-1]}\n{span.text}" if is_row else span.text
    return read_statements(text, span.section.rpartition(" > ")[2], language)


def _quotable(
    one: Span,
    everything: Sequence[Span],
    rows: Sequence[Span],
    strength: Mapping[Key, float],
    asked_terms: Mapping[Key, frozenset[str]],
) -> Sequence[tuple[Span, ...]]:
    """Return what may be quoted for a span, the best first.

    A section with a table gives way to the row that is asked for when nothing in it comes nearer.
    """
    asked = tuple(
        row
        for row in rows
        if row.document == one.document
        and (overlaps(row, one) or row.unit.context == one.unit.context)
    )
    if asked and one.unit.kind == "section":
        inside = (
            strength.get(other.key, 0.0)
            for other in everything
            if overlaps(other, one) and other.key != one.key and not overlaps(other, asked[0])
        )
        if strength.get(asked[0].key, 0.0) > max(inside, default=0.0):
            return (asked,)
    if asked and one.unit.kind in ("row", "table"):
        return (asked,)
    whole = whole_around(everything, one)
    if whole.unit.kind == "section" and (part := _answering_part(whole, everything, asked_terms)):
        whole = whole_around([each for each in everything if each.unit.kind != "section"], part)
    return (whole,), (one,)


def _answering_part(
    section: Span, everything: Sequence[Span], asked_terms: Mapping[Key, frozenset[str]]
) -> Span | None:
    """Return the part of a section that alone says all that the section says about a question, if there is one.

    It has the kind of thing that is asked for, and each word of the question that the section has below its
    headings. What explains a way or a reason often stands beside the paragraph that is nearest to the question.
    """
    parts = [one for one in everything if one.unit.kind != "section" and overlaps(one, section)]
    for one in parts:
        said = (asked_terms.get(one.key, frozenset()) - section.above) & section.terms
        others = (other.terms for other in parts if not overlaps(other, one))
        if said and said <= one.terms and not any(said <= terms for terms in others):
            return one
    return None


def _words_shown(span: Span, before: Sequence[Span]) -> int:
    """Return the words of a span and of the headings above it, which are not repeated."""
    above = (span.section, *span.unit.context[-1:])
    repeats = before and before[-1].section == span.section
    return count_words(span.text) + (0 if repeats else sum(map(count_words, above)))
