"""Synthesis: the answer, and what its markers stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from whence.answering.citations import Passage, map_citations
from whence.answering.evidence import text_digest
from whence.answering.state import Question
from whence.processors.clients import PromptClient
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import CandidateRecord, ModelUse
from whence.provenance.stages import synthesis_triples
from whence.provenance.uris import answer_uris
from whence.schema.document_rag import Citation
from whence.schema.errors import WhenceError
from whence.schema.outdated import outdated
from whence.schema.prompt import PromptResult

__all__ = ("NOTHING_FOUND", "NOTHING_READABLE", "Written", "synthesize")

#: Said when no search returned anything; no model is asked then.
NOTHING_FOUND = "Nothing was found that could answer this question."
#: Said when passages were found but none of their texts could be read; no model is asked then.
NOTHING_READABLE = "Passages were found for this question, but none of their texts could be read."


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as it was written."""

    text: str
    found: bool
    result: PromptResult = PromptResult()
    citations: tuple[Citation, ...] = ()


async def synthesize(question: Question, passages: Sequence[Passage]) -> Written:
    """Have the answer written from passages, best first; without any no model is asked.

    Raises:
        WhenceError: The writer failed.
    """
    trail = question.trail
    trail.begin("synthesis")
    given, dropped = _within_limits(question, passages)
    written = await (_write(question, given) if given else _nothing(question))
    saved = await _save(question, written.text)
    result = written.result
    await trail.end(
        lambda facts: synthesis_triples(
            trail.answer_id,
            reranked=question.focused,
            saved=saved,
            in_token=result.in_token,
            out_token=result.out_token,
            model=result.model or None,
            dropped=dropped if facts else (),
            citations=written.citations if facts else (),
            found=written.found if facts else None,
            answer_digest=text_digest(written.text) if facts else "",
            run=facts,
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
    """Cut to the number of documents and the budget; gives those kept, and accounts of those dropped.

    A text is taken whole or skipped, and scanning goes on; the best one is always taken.
    """
    budget = question.options.max_context_chars
    kept: list[Passage] = []
    codes: dict[str, DropCode] = {}
    used = 0
    for passage in passages:
        if len(kept) >= question.ask.doc_limit:
            codes[passage.chunk_id] = "over_limit"
        elif budget and kept and used + len(passage.text) > budget:
            codes[passage.chunk_id] = "over_budget"
        else:
            kept.append(passage)
            used += len(passage.text)
    dropped = [
        # Only the reason: the rest of the account was told at the stages before.
        CandidateRecord(chunk_id=a.chunk_id, rank=a.rank, reason_code=codes[a.chunk_id])
        for a in question.accounts
        if a.chunk_id in codes
    ]
    return kept, dropped


async def _write(question: Question, passages: Sequence[Passage]) -> Written:
    trail = question.trail
    relay = _Relay(question)
    result = await question.deadline.limit(
        "writing the answer",
        lambda: _document_prompt(question, passages, relay),
        question.options.answer_timeout_s,
    )
    text = result.text or "".join(relay.pieces)
    await relay.finish()
    if not text.strip():
        trail.degrade("prompt", "empty_answer", "the writer gave no text")
    if result.language_model is False:
        trail.degrade(
            "prompt",
            "no_language_model",
            "no language model is configured: the answer is made of quoted sentences",
        )
    if result.model:
        question.models["writer"] = ModelUse(role="writer", name=result.model)
    cited = map_citations(text, result.quotes, passages)
    for fault in cited.faults:
        trail.degrade("prompt", "citation_invalid", fault)
    return Written(text=text, found=True, result=result, citations=cited.citations)


async def _document_prompt(
    question: Question, passages: Sequence[Passage], relay: _Relay
) -> PromptResult:
    # What does not apply is left out: a client written for less is called as it expects.
    more: dict[str, Any] = {}
    old = [n for n, one in enumerate(passages, 1) if one.source and outdated(one.source.metadata)]
    if old:
        more["outdated"] = old
    if relay.active:
        more |= {"streaming": True, "chunk_callback": relay.forward}
    documents = [passage.text for passage in passages]
    prompt = question.clients.prompt
    if isinstance(prompt, PromptClient):
        more["sections"] = [_section(passage) for passage in passages]
    return await prompt.document_prompt(query=question.ask.query, documents=documents, **more)


def _section(passage: Passage) -> str:
    """Give the titles and headings that a passage stands under, the outermost first."""
    metadata = passage.source.metadata if passage.source else {}
    parts = (metadata.get("title"), metadata.get("section_path"))
    title, path = (part if isinstance(part, str) else "" for part in parts)
    return path if path.startswith(title) else f"{title} > {path}".removesuffix(" > ")


class _Relay:
    """Passes pieces on to the reader, keeps them, and sees to it that the stream ends exactly once."""

    def __init__(self, question: Question) -> None:
        self._callback = question.ask.chunk_callback if question.ask.streaming else None
        self._ended = False
        self.active = self._callback is not None
        self.pieces: list[str] = []

    async def forward(self, text: str, end_of_stream: bool = False) -> None:
        """Pass on one piece; nothing is passed on after the end."""
        if self._callback is None or self._ended:
            return
        self.pieces.append(text)
        self._ended = end_of_stream
        await self._callback(text, end_of_stream)

    async def finish(self) -> None:
        """End the stream when the writer did not."""
        await self.forward("", True)


async def _nothing(question: Question) -> Written:
    unread = any(
        account.reason_code in {"fetch_failed", "text_missing"} for account in question.accounts
    )
    text = NOTHING_READABLE if unread else NOTHING_FOUND
    await _Relay(question).forward(text, True)
    return Written(text=text, found=False)


async def _save(question: Question, text: str) -> bool:
    """Save the text where asked to; a failure is told of and does not fail the question."""
    callback = question.ask.save_answer_callback
    if callback is None or not text or not question.trail.wanted:
        return False
    uri = answer_uris(question.trail.answer_id).answer
    try:
        await question.deadline.limit(
            "saving the answer", lambda: callback(uri, text), question.options.save_timeout_s
        )
    except WhenceError as error:
        question.trail.degrade(
            "trace", "answer_not_saved", f"the answer's text was not saved: {error.message}"
        )
        return False
    return True
