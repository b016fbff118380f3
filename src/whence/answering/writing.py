"""Write the answer from passages, and find the passages that its markers cite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from whence.answering.answer_check import (
    CheckedAnswer,
    DoubtfulMarkers,
    check_answer,
    refusal_of,
)
from whence.answering.budget import prompt_tokens
from whence.answering.evidence import text_digest
from whence.answering.locations import locate_citations
from whence.answering.sending import fitting_budget, sendable
from whence.answering.state import Question, SaveAnswerCallback
from whence.models.server_errors import sizes_of
from whence.provenance.stage_records import ModelUse, Scalar
from whence.provenance.stages import synthesis_triples
from whence.provenance.terms import answer_uris
from whence.quoting.tables import header_above
from whence.retrieval.editions import outdated
from whence.schema.document_rag import Answer, BestPassage, Citation, NearestPassage, Refusal
from whence.schema.errors import PromptTooLong, ServerRefused, WhenceError
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult, Quote
from whence.text.claims import markers_of
from whence.text.replies import ReplyStream, clean_reply

#: The answer when no search returned anything; no model is called then.
NOTHING_FOUND = "Nothing was found that could answer this question."
#: The answer when passages were found and none of their texts could be read; no model is called then.
NOTHING_READABLE = "Passages were found for this question, but none of their texts could be read."


#: The answer when no passage may be sent to the writer; the passages stand beside it.
KEPT_LOCAL = "The passages that were found may not leave this machine for the language model."
_WITHOUT = {"no_text_readable": NOTHING_READABLE, "local_only": KEPT_LOCAL}
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
    given, dropped, written = await _write(question, () if question.refusal else passages)
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
            step=question.step,
            saved=saved,
            in_token=result.in_token,
            out_token=result.out_token,
            model=result.model or None,
            **full,
        ),
        candidates_in=len(passages),
        candidates_out=len(given),
        models=(question.models["writer"],) if "writer" in question.models else (),
        settings=_settings(question, result),
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
        **_cost(question.replies),
        degraded=tuple(trace.degraded),
        stages=tuple(trace.reports),
        latency_ms=trace.elapsed_ms(),
    )


def _settings(question: Question, result: PromptResult) -> dict[str, Scalar] | None:
    """Return what the trace records of the writing beside the text."""
    settings: dict[str, Scalar] = {}
    if result.template:
        settings["prompt_template"] = result.template
    if question.options.record_thinking and result.thinking:
        settings["thinking"] = result.thinking
    return settings or None


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


def _cost(replies: Iterable[PromptResult]) -> dict[str, Any]:
    """Return what the calls of language models cost; nothing when the price of one is not known."""
    paid = [one for one in replies if one.in_token is not None]
    costs = [one.cost for one in paid if one.cost is not None]
    if not costs or len(costs) < len(paid):
        return {}
    return {"cost": sum(costs), "currency": paid[-1].currency}


def _sum(tokens: Iterable[int | None]) -> int | None:
    known = [count for count in tokens if count is not None]
    return sum(known) if known else None


async def _write(
    question: Question, passages: Sequence[Passage]
) -> tuple[list[Passage], list[Passage], _Written]:
    """Have the text written; return the passages given, records of those dropped, and the text.

    A prompt that is too long for the model is sent once more, with the passages that fit.
    """
    passages, kept_back = await sendable(question, passages)
    if kept_back:
        _, writer = await question.keeps_local()
        reason = f"{len(kept_back)} passages were not sent to {writer}: their documents stay on this machine"
        question.trace.degrade("prompt", "passages_kept_local", reason)
    read = f"{question.text} {await question.previous_answer()}"
    budget = await fitting_budget(question, passages, read)
    given, dropped = budget.cut(passages)
    stream = _Stream(question, given)
    if not given:
        without = question.refusal or _refusal_without_passages(question, kept_back)
        text = _WITHOUT.get(without.code, NOTHING_FOUND)
        await stream.send(text, True)
        return given, kept_back, _Written(text, (), PromptResult(), without)
    try:
        result = await _ask_writer(question, given, stream)
    except PromptTooLong as error:
        window, prompt = sizes_of(error)
        needed = prompt_tokens(read, given)
        window = window or needed // 2
        fewer = budget.within(window, read, prompt / needed if prompt else 1.0)
        fit, dropped = fewer.cut(passages)
        if len(fit) == len(given):
            raise
        given, stream = fit, _Stream(question, fit)
        result = await _ask_writer(question, given, stream)
    return given, [*kept_back, *dropped], await _read_reply(question, given, result, stream)


async def _ask_writer(
    question: Question, passages: Sequence[Passage], stream: _Stream
) -> PromptResult:
    previous = await question.previous_answer()
    result = await question.deadline.limit(
        "writing the answer",
        partial(
            question.writer.write_answer,
            question.text,
            passages,
            stream.send if question.on_piece else None,
            question.absent,
            {**question.wishes(), **({"previous": previous} if previous else {})},
        ),
        question.options.answer_timeout_s,
    )
    question.replies.append(result)
    if result.model:
        question.models["writer"] = ModelUse(
            role="writer", name=result.model, revision=result.revision
        )
    return result


async def _read_reply(
    question: Question, passages: Sequence[Passage], result: PromptResult, stream: _Stream
) -> _Written:
    """Return what a writer replied, cleaned and checked; end the stream of pieces."""
    text, trace = result.text or stream.received, question.trace
    if result.language_model is False:
        await stream.send("", True)
        return _checked(question, text, result, passages, ())
    cleaned = clean_reply(text, len(passages), stream.cites)
    await stream.send("", True)
    if result.refused:
        reason = result.refused
        return _Written(
            cleaned.text or reason, (), result, Refusal(code="model_refused", reason=reason)
        )
    if not cleaned.text:
        if result.language_model:
            what = "only thought aloud" if cleaned.thinking else "gave no text"
            raise ServerRefused(
                f"the writer {result.model or ''} {what}".replace("  ", " "),
                hint="check the model, or allow it more tokens (WHENCE_WRITER_MAX_TOKENS)",
            )
        trace.degrade("prompt", "empty_answer", "the writer gave no text")
    if result.not_taken:
        names = ", ".join(result.not_taken)
        trace.degrade("prompt", "parameter_not_taken", f"the writer's server does not take {names}")
    if result.cut:
        trace.degrade("prompt", "answer_cut", f"the answer may not be whole: {result.cut}")
    thinking = "\n".join(filter(None, (result.thinking, cleaned.thinking)))
    result = msgspec.structs.replace(result, thinking=thinking)
    return _checked(question, cleaned.text, result, passages, cleaned.removed)


class _Stream:
    """Passes the text of a writer on while it is written, cleaned, and ends it exactly once."""

    def __init__(self, question: Question, passages: Sequence[Passage]) -> None:
        self._callback = question.on_piece
        self.cites = DoubtfulMarkers(passages, question.text)
        quotes = question.only_quotes
        self._cleaned = None if quotes else ReplyStream(len(passages), self.cites)
        self._pieces: list[str] = []
        self._ended = False

    @property
    def received(self) -> str:
        """All pieces as the writer sent them."""
        return "".join(self._pieces)

    async def send(self, text: str, end_of_stream: bool = False) -> None:
        """Pass a piece on; what may be changed by more text waits."""
        if self._callback is None or self._ended:
            return
        self._pieces.append(text)
        self._ended = end_of_stream
        shown = self._cleaned.add(text, end=end_of_stream) if self._cleaned else text
        if shown or end_of_stream or not text:
            await self._callback(shown, end_of_stream)


def _checked(
    question: Question,
    text: str,
    result: PromptResult,
    passages: Sequence[Passage],
    removed: Sequence[int],
) -> _Written:
    """Return a text with its citations, and what is wrong with it."""
    faults: list[tuple[str, str]] = []
    checked: CheckedAnswer | None = None
    quotes = result.quotes
    if result.language_model is False:
        reason = "no language model is configured: answers are made of quotes"
        faults.append(("no_language_model", reason))
    else:
        faults += [
            (
                "citation_invalid",
                f"marker [{number}] names none of the {len(passages)} documents and was left out",
            )
            for number in removed
        ]
        checked = check_answer(text, passages, question.text)
        quotes = quotes or checked.quotes
    citations, invalid = map_citations(text, quotes, passages)
    faults += [("citation_invalid", reason) for reason in invalid]
    if checked is not None:
        added = [
            msgspec.structs.replace(_citation(passages[quote.marker - 1], quote), added=True)
            for quote in checked.added
        ]
        citations = tuple(sorted((*citations, *added), key=lambda one: one.marker))
        faults += checked.faults
    for code, reason in faults:
        question.trace.degrade("prompt", code, reason)
    refusal = refusal_of(citations, result, passages, checked)
    return _Written(text, citations, result, refusal, checked.unsupported if checked else ())


def _refusal_without_passages(question: Question, kept_back: Sequence[Passage]) -> Refusal:
    """Return why there is no passage to answer from; `kept_back` are those that must not be sent."""
    if kept_back:
        _, writer = question.local_only or (frozenset(), "")
        reason = f"The {len(kept_back)} passages that were found must not be sent to {writer}."
        return Refusal(code="local_only", reason=reason)
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
