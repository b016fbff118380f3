"""Grounding: what to search for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from whence.answering.concepts import read_concepts
from whence.answering.prompt_templates import EXTRACT_CONCEPTS
from whence.answering.state import Question
from whence.processors.clients import QueryVector
from whence.provenance.stage_records import ModelUse
from whence.provenance.stages import grounding_triples
from whence.schema.errors import InternalError, WhenceError
from whence.schema.prompt import PromptResult

__all__ = ("Grounding", "embed", "ground")


class Grounding(msgspec.Struct, frozen=True):
    """What to search for."""

    concepts: tuple[str, ...]
    """What a language model made of the question, or the question itself."""
    own_vector: Any
    """The question's vector, or the error that stands in its place."""


async def ground(question: Question) -> Grounding:
    """Have concepts named, and in the meantime embed the question itself.

    Concepts that cannot be had degrade: the question alone is searched. Without a language model the
    question is the only concept.
    """
    trail = question.trail
    trail.begin("grounding")
    result, own = await asyncio.gather(
        _extract_concepts(question), embed(question, "the question", [question.ask.query])
    )
    by_model = result.language_model is not False
    named = read_concepts(result.text or "", limit=question.options.max_concepts)
    concepts = (named if by_model else ()) or (question.ask.query,)
    await trail.end(
        lambda facts: grounding_triples(
            trail.answer_id,
            concepts,
            in_token=result.in_token,
            out_token=result.out_token,
            model=(result.model or None) if by_model else None,
            run=facts,
        ),
        candidates_in=1,
        candidates_out=len(concepts),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return Grounding(concepts, own if isinstance(own, WhenceError) else own[0])


async def _extract_concepts(question: Question) -> PromptResult:
    try:
        return await question.deadline.limit(
            "naming concepts",
            lambda: question.clients.prompt.prompt(
                EXTRACT_CONCEPTS, variables={"query": question.ask.query}
            ),
            question.options.concepts_timeout_s,
            share=0.3,
        )
    except WhenceError as error:
        question.trail.degrade(
            "prompt",
            "concepts_failed",
            f"no concepts were named, the question alone is searched: {error.message}",
        )
        return PromptResult(text="")


async def embed(question: Question, what: str, texts: Sequence[str]) -> Sequence[Any] | WhenceError:
    """Give one vector per text, or the error: whether it can be done without is the caller's matter."""
    what = f"embedding {what}"
    try:
        vectors = await question.deadline.limit(
            what,
            lambda: question.clients.embeddings.embed(texts),
            question.options.embedding_timeout_s,
        )
    except WhenceError as error:
        return error
    count = len(vectors) if hasattr(vectors, "__len__") else 0
    if count != len(texts):
        return InternalError(f"{what} gave {count} vectors for {len(texts)} texts")
    _note_model(question, vectors[0])
    return vectors


def _note_model(question: Question, vector: Any) -> None:
    model = vector.model if isinstance(vector, QueryVector) else None
    if model is not None:
        question.models["embedding"] = ModelUse(
            role="embedding",
            name=model.name,
            revision=model.revision,
            precision=model.precision,
            dimension=model.dimension,
        )
