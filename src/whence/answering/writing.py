"""Write the answer from passages, and find the passages that its markers cite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from whence.answering.answer_check import CheckedAnswer, check_answer, refusal_of
from whence.answering.evidence import text_digest
from whence.answering.locations import locate_citations
from whence.answering.state import Question, SaveAnswerCallback
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import ModelUse
from whence.provenance.stages import synthesis_triples
from whence.provenance.terms import answer_uris
from whence.quoting.tables import header_above
from whence.retrieval.editions import outdated
from whence.schema.document_rag import Answer, BestPassage, Citation, NearestPassage, Refusal
from whence.schema.errors import WhenceError
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult, Quote
from whence.text.claims import MarkerFilter, markers_of

#: The answer when no search returned anything; no model is called then.
NOTHING_FOUND = "Nothing was found that could answer this question."
#: The answer when passages were found and none of their texts could be read; no model is called then.
NOTHING_READABLE = "Passages were found for this question, but none of their texts could be read."


#: Passages beside a refusal.
_MOST_NEAREST = 3


class _Written(msgspec.Struct, frozen=True):
    """What the writer wrote, checked; without a refusal the citations support it."""

    text: str
    citations: tuple[Citation, ...]
    result: PromptResult
    refusal: Refusal | None
    unsupported: tuple[tuple[int, int], ...] = ()


async def write_answer(question: Question, passages: Sequence[Passage]) -> Answer:
    """Have the answer written from passages, best first; without passages no model is called."""
    trace = question.trace
    trace.begin("synthesis")
    given, dropped = _within_limits(question, () if question.refusal else passages)
    written = await _write(question, given)
    text, result = written.text, written.result
    citations = await locate_citations(question, written.citations)
    saved = False
    if question.save_answer is not None and text and trace.wanted:
        saved = await _save(question, question.save_answer, text)
    full: dict[str, Any] = {}
    if trace.full:
        full = {
            "text": text,
            "dropped": dropped,
            "citations": citations,
            "found": written.refusal is None,
            "refusal": written.refusal,
            "answer_digest": text_digest(text),
            "revision_of": question.request.revision_of,
        }
    await trace.end(
        partial(
            synthesis_triples,
            reranked=question.selected,
            saved=saved,
            in_token=result.in_token,
            out_token=result.out_token,
            model=result.model or None,
            **full,
        ),
        candidates_in=len(passages),
        candidates_out=len(given),
        models=(question.models["writer"],) if "writer" in question.models else (),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return Answer(
        answer_id=trace.answer_id,
        question=question.asked or question.text,
        question_used=question.text,
        corrections=question.corrections,
        text=text,
        found=written.refusal is None,
        score=result.score,
        refusal=written.refusal,
        nearest=_nearest(passages) if written.refusal is not None else (),
        citations=citations,
        unsupported=written.unsupported,
        model=result.model or "",
        in_token=_sum(one.in_token for one in question.replies),
        out_token=_sum(one.out_token for one in question.replies),
        degraded=tuple(trace.degraded),
        stages=tuple(trace.reports),
        latency_ms=trace.elapsed_ms(),
    )


def _nearest(passages: Sequence[Passage]) -> tuple[NearestPassage, ...]:
    """Return the best passages of a question without an answer."""
    return tuple(
        NearestPassage(
            chunk_id=one.chunk_id,
            document_id=one.document_id,
            heading=str(one.metadata.get("heading") or ""),
            lead=one.lead,
            text=one.text,
            score=one.score if one.final_score is None else one.final_score,
        )
        for one in passages[:_MOST_NEAREST]
        if one.text.strip()
    )


def _sum(tokens: Iterable[int | None]) -> int | None:
    known = [count for count in tokens if count is not None]
    return sum(known) if known else None


def _within_limits(
    question: Question, passages: Sequence[Passage]
) -> tuple[list[Passage], list[Passage]]:
    """Cut to the number of documents and the budget; return the kept passages and records of the dropped ones.

    A text is taken whole or skipped, and smaller ones after it may still fit; the best one is always taken.
    """
    budget = question.options.max_context_chars
    kept: list[Passage] = []
    dropped: list[Passage] = []
    used = 0
    for passage in passages:
        code: DropCode
        if len(kept) >= question.doc_limit:
            code = "over_limit"
        elif budget and kept and used + len(passage.text) > budget:
            code = "over_budget"
        else:
            kept.append(passage)
            used += len(passage.text)
            continue
        # Only the reason: the stages before recorded everything else.
        dropped.append(Passage(chunk_id=passage.chunk_id, rank=passage.rank, reason_code=code))
    return kept, dropped


async def _write(question: Question, passages: Sequence[Passage]) -> _Written:
    """Have the text written; end the stream of pieces exactly once."""
    trace, callback = question.trace, question.on_piece
    pieces: list[str] = []
    ended = False
    streamed = MarkerFilter(len(passages))

    async def send(text: str, end_of_stream: bool = False) -> None:
        nonlocal ended
        if callback is not None and not ended:
            pieces.append(text)
            ended = end_of_stream
            shown = streamed.add(text, end=end_of_stream)
            if shown or end_of_stream or not text:
                await callback(shown, end_of_stream)

    if not passages:
        without = question.refusal or _refusal_without_passages(question)
        text = NOTHING_READABLE if without.code == "no_text_readable" else NOTHING_FOUND
        await send(text, True)
        return _Written(text, (), PromptResult(), without)
    result = await question.deadline.limit(
        "writing the answer",
        partial(
            question.writer.write_answer,
            question.text,
            passages,
            send if callback else None,
            question.absent,
        ),
        question.options.answer_timeout_s,
    )
    question.replies.append(result)
    await send("", True)
    text = result.text or "".join(pieces)
    if not text.strip():
        trace.degrade("prompt", "empty_answer", "the writer gave no text")
    if result.model:
        question.models["writer"] = ModelUse(
            role="writer", name=result.model, revision=result.revision
        )
    return _checked(question, text, result, passages)


def _checked(
    question: Question, text: str, result: PromptResult, passages: Sequence[Passage]
) -> _Written:
    """Return a text with its citations, without markers of no passage, and what is wrong with it."""
    faults: list[tuple[str, str]] = []
    checked: CheckedAnswer | None = None
    if result.language_model is False:
        reason = "no language model is configured: answers are made of quotes"
        faults.append(("no_language_model", reason))
    else:
        markers = MarkerFilter(len(passages))
        text = markers.add(text, end=True)
        faults += [
            (
                "citation_invalid",
                f"marker [{number}] names none of the {len(passages)} documents and was left out",
            )
            for number in markers.removed
        ]
        checked = check_answer(text, passages)
    citations, invalid = map_citations(text, result.quotes, passages)
    faults += [("citation_invalid", reason) for reason in invalid]
    faults += checked.faults if checked else ()
    for code, reason in faults:
        question.trace.degrade("prompt", code, reason)
    refusal = refusal_of(citations, result, passages, checked)
    return _Written(text, citations, result, refusal, checked.unsupported if checked else ())


def _refusal_without_passages(question: Question) -> Refusal:
    """Return why there is no passage to answer from."""
    candidates = question.candidates.values()
    unread = [one for one in candidates if one.reason_code in ("fetch_failed", "text_missing")]
    if unread:
        reason = f"The texts of {len(unread)} passages that were found could not be read."
        return Refusal(code="no_text_readable", reason=reason)
    best = max(
        (BestPassage(one.chunk_id, one.score) for one in candidates if one.score is not None),
        key=lambda one: one.score,
        default=None,
    )
    if best is None:
        return Refusal(code="nothing_retrieved", reason="The search returned no passages.")
    floor = question.options.threshold
    reason = f"The best passage found scores {best.score:.2f}; a search result needs {floor:.2f}."
    return Refusal(code="nothing_retrieved", reason=reason, best=best, floor=floor)


async def _save(question: Question, callback: SaveAnswerCallback, text: str) -> bool:
    """Save the text; a failure degrades and does not fail the question."""
    uri = answer_uris(question.trace.answer_id).answer
    try:
        await question.deadline.limit(
            "saving the answer", lambda: callback(uri, text), question.options.save_timeout_s
        )
    except WhenceError as error:
        question.trace.degrade(
            "trace", "answer_not_saved", f"the answer's text was not saved: {error.message}"
        )
        return False
    return True


def map_citations(
    text: str, quotes: Sequence[Quote], passages: Sequence[Passage]
) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
    """Map the markers of an answer, any text, to the passages given; marker `[n]` is the n-th, from 1.

    Returns:
        The citations by marker, then in the order of the quotes: one for each quote, or one without. Then a
        line for each marker out of range and quote that is not verbatim in its passage, which are left out.
    """
    quoted: dict[int, dict[str, Quote]] = defaultdict(dict)
    for quote in quotes:
        if quote.text:
            quoted[quote.marker].setdefault(quote.text, quote)
    faults: list[str] = []
    citations: list[Citation] = []
    for marker in sorted(markers_of(text)):
        if not 1 <= marker <= len(passages):
            faults.append(f"marker [{marker}] names none of the {len(passages)} documents")
            continue
        passage = passages[marker - 1]
        verbatim = [quote for text, quote in quoted[marker].items() if text in passage.text]
        if len(verbatim) < len(quoted[marker]):
            faults.append(f"a quote of marker [{marker}] is not in its document")
        citations += [_citation(passage, quote) for quote in verbatim or [Quote(marker, "")]]
    return tuple(citations), tuple(faults)


def _citation(passage: Passage, quote: Quote) -> Citation:
    metadata = passage.metadata
    names = ("title", "source_file", "root", "source_url", "heading")
    sources: dict[str, Any] = {
        name: one for name in names if isinstance(one := metadata.get(name), str)
    }
    return Citation(
        marker=quote.marker,
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        quote=quote.text,
        lead=header_above(passage.lead, passage.text, quote.text),
        highlights=quote.highlights,
        outdated=outdated(metadata),
        **sources,
    )
