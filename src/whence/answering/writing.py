"""Generation (stage `synthesis`): the answer, and the passages that its markers cite."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from whence.answering.citations import map_citations
from whence.answering.evidence import text_digest
from whence.answering.state import Question
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import CandidateRecord, ModelUse
from whence.provenance.stages import synthesis_triples
from whence.provenance.uris import answer_uris
from whence.retrieval.services import Passage
from whence.schema.document_rag import Citation
from whence.schema.errors import WhenceError
from whence.schema.prompt import PromptResult

#: The answer when no search returned anything; no model is called then.
NOTHING_FOUND = "Nothing was found that could answer this question."
#: The answer when passages were found and none of their texts could be read; no model is called then.
NOTHING_READABLE = "Passages were found for this question, but none of their texts could be read."


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as it was written."""

    text: str
    found: bool
    result: PromptResult = PromptResult()
    citations: tuple[Citation, ...] = ()


async def write_answer(question: Question, passages: Sequence[Passage]) -> Written:
    """Have the answer written from passages, best first; without passages no model is called.

    Raises:
        WhenceError: The writer failed.
    """
    trace = question.trace
    trace.begin("synthesis")
    given, dropped = _within_limits(question, passages)
    written = await (_write(question, given) if given else _write_nothing(question))
    saved = await _save(question, written.text)
    result = written.result
    await trace.end(
        lambda run: synthesis_triples(
            trace.answer_id,
            reranked=question.selected,
            saved=saved,
            in_token=result.in_token,
            out_token=result.out_token,
            model=result.model or None,
            dropped=dropped if run else (),
            citations=written.citations if run else (),
            found=written.found if run else None,
            answer_digest=text_digest(written.text) if run else "",
            run=run,
        ),
        candidates_in=len(passages),
        candidates_out=len(given),
        models=(question.models["writer"],) if "writer" in question.models else (),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return written


def _within_limits(
    question: Question, passages: Sequence[Passage]
) -> tuple[list[Passage], list[CandidateRecord]]:
    """Cut to the number of documents and the budget; return the kept passages and records of the dropped ones.

    A text is taken whole or skipped, and smaller ones after it may still fit; the best one is always taken.
    """
    budget = question.options.max_context_chars
    kept: list[Passage] = []
    codes: dict[str, DropCode] = {}
    used = 0
    for passage in passages:
        if len(kept) >= question.doc_limit:
            codes[passage.chunk_id] = "over_limit"
        elif budget and kept and used + len(passage.text) > budget:
            codes[passage.chunk_id] = "over_budget"
        else:
            kept.append(passage)
            used += len(passage.text)
    dropped = [
        # Only the reason: the stages before recorded everything else.
        CandidateRecord(chunk_id=one.chunk_id, rank=one.rank, reason_code=codes[one.chunk_id])
        for one in question.candidates
        if one.chunk_id in codes
    ]
    return kept, dropped


async def _write(question: Question, passages: Sequence[Passage]) -> Written:
    trace = question.trace
    pieces = _Pieces(question)
    on_piece = None if question.on_piece is None else pieces.send
    result = await question.services.writer.write_answer(question.text, passages, on_piece)
    text = result.text or "".join(pieces.sent)
    await pieces.end()
    if not text.strip():
        trace.degrade("prompt", "empty_answer", "the writer gave no text")
    if result.language_model is False:
        trace.degrade(
            "prompt",
            "no_language_model",
            "no language model is configured: the answer is made of quoted sentences",
        )
    if result.model:
        question.models["writer"] = ModelUse(role="writer", name=result.model)
    cited = map_citations(text, result.quotes, passages)
    for fault in cited.faults:
        trace.degrade("prompt", "citation_invalid", fault)
    return Written(text=text, found=True, result=result, citations=cited.citations)


class _Pieces:
    """Sends pieces of text to the reader, keeps them, and ends the stream exactly once."""

    def __init__(self, question: Question) -> None:
        self._callback = question.on_piece
        self._ended = False
        self.sent: list[str] = []

    async def send(self, text: str, end_of_stream: bool = False) -> None:
        """Send one piece; nothing is sent after the end."""
        if self._callback is None or self._ended:
            return
        self.sent.append(text)
        self._ended = end_of_stream
        await self._callback(text, end_of_stream)

    async def end(self) -> None:
        """End the stream when the writer did not."""
        await self.send("", True)


async def _write_nothing(question: Question) -> Written:
    codes = {one.reason_code for one in question.candidates}
    text = NOTHING_READABLE if codes & {"fetch_failed", "text_missing"} else NOTHING_FOUND
    await _Pieces(question).send(text, True)
    return Written(text=text, found=False)


async def _save(question: Question, text: str) -> bool:
    """Save the text where a callback is given; a failure degrades and does not fail the question."""
    callback = question.save_answer
    if callback is None or not text or not question.trace.wanted:
        return False
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
