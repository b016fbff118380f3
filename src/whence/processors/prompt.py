"""The prompt service: a template and its variables in, text out, in pieces or whole.

The last reply carries the whole result. Without a language model concepts are not guessed: the only
concept is the question itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from whence.answering.prompts import (
    EXTRACT_CONCEPTS,
    TEMPLATES,
    Template,
    numbered_documents,
)
from whence.processors.base import Context, StreamingProcessor
from whence.processors.services import PROMPT
from whence.processors.streams import closing
from whence.schema.errors import BadInput, InternalError
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult

if TYPE_CHECKING:
    from whence.models.protocols import Writer, WriteRequest

__all__ = ("PromptParameters", "PromptProcessor")


class PromptParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the prompt processor."""

    max_chars: Annotated[int, msgspec.Meta(ge=1)] = 4_000_000
    """Most characters of question and documents in one request; a larger one is refused."""


class PromptProcessor(StreamingProcessor):
    """Fills a template and has a writer answer it."""

    type_name = "prompt"
    summary = "a template and its variables to text"
    serves = PROMPT
    Parameters = PromptParameters
    needs = ("writer",)

    parameters: PromptParameters

    def __init__(self, parameters: PromptParameters | None = None, *, writer: Writer) -> None:
        super().__init__(parameters)
        self._writer = writer

    async def handle_stream(
        self, message: PromptRequest, context: Context
    ) -> AsyncIterator[PromptResponse]:
        """Yield pieces when asked for them, then the whole result.

        Raises:
            BadInput: The template is unknown, or a variable is missing, of a wrong type or too large.
            InternalError: The writer ended without a result.
        """
        template = _template(message.template_id)
        query = _query(message.variables)
        documents = _documents(message.variables)
        outdated = _outdated(message.variables, len(documents))
        sections = _sections(message.variables, len(documents))
        self._check_size(query, (*documents, *sections))
        if template.template_id == EXTRACT_CONCEPTS and not self._writer.is_language_model:
            yield PromptResponse(result=_question_as_concept(query, self._writer.model))
            return
        result: PromptResult | None = None
        request = _filled(template, query, documents, outdated, sections)
        async with closing(self._writer.write(request)) as pieces:
            async for piece in pieces:
                result = piece.result or result
                if message.streaming and piece.text:
                    yield PromptResponse(piece=piece.text)
        if result is None:
            raise InternalError(f"writer {self._writer.model} ended without a result")
        yield PromptResponse(result=self._signed(result, template))

    def _check_size(self, query: str, documents: tuple[str, ...]) -> None:
        size = len(query) + sum(map(len, documents))
        if size > self.parameters.max_chars:
            raise BadInput(
                f"a prompt of {size} characters; at most {self.parameters.max_chars} are taken",
                hint="ask for fewer documents, or raise `max_chars` of the prompt processor",
            )

    def _signed(self, result: PromptResult, template: Template) -> PromptResult:
        """Say who wrote a result and from which template, where the writer did not."""
        known = result.language_model
        return msgspec.structs.replace(
            result,
            model=result.model or self._writer.model,
            language_model=self._writer.is_language_model if known is None else known,
            template=f"{template.template_id}@{template.version}",
        )


def _template(template_id: str) -> Template:
    template = TEMPLATES.get(template_id)
    if template is None:
        raise BadInput(
            f"there is no prompt template {template_id!r}", hint="one of " + ", ".join(TEMPLATES)
        )
    return template


def _query(variables: dict[str, Any]) -> str:
    query = variables.get("query")
    if not isinstance(query, str) or not query.strip():
        raise BadInput("the prompt variable `query` must be a text that is not blank")
    return query


def _documents(variables: dict[str, Any]) -> tuple[str, ...]:
    documents = variables.get("documents", ())
    if not isinstance(documents, list | tuple) or not all(
        isinstance(document, str) for document in documents
    ):
        raise BadInput("the prompt variable `documents` must be a list of texts")
    return tuple(documents)


def _outdated(variables: dict[str, Any], count: int) -> frozenset[int]:
    numbers = variables.get("outdated", ())
    if not isinstance(numbers, list | tuple) or not all(
        type(number) is int and 1 <= number <= count for number in numbers
    ):
        raise BadInput("the prompt variable `outdated` must be a list of numbers of documents")
    return frozenset(numbers)


def _sections(variables: dict[str, Any], count: int) -> tuple[str, ...]:
    sections = variables.get("sections", ())
    if not isinstance(sections, list | tuple) or not all(isinstance(one, str) for one in sections):
        raise BadInput("the prompt variable `sections` must be a list of texts")
    if len(sections) not in (0, count):
        raise BadInput(
            f"the prompt variable `sections` has {len(sections)} texts for {count} documents"
        )
    return tuple(sections)


def _filled(
    template: Template,
    query: str,
    documents: tuple[str, ...],
    outdated: frozenset[int],
    sections: tuple[str, ...],
) -> WriteRequest:
    from whence.models.protocols import WriteRequest

    return WriteRequest(
        template_id=template.template_id,
        query=query,
        documents=documents,
        outdated=outdated,
        sections=sections,
        system=template.system,
        prompt=template.prompt.format(
            query=query, documents=numbered_documents(documents, outdated, sections)
        ),
    )


def _question_as_concept(query: str, model: str) -> PromptResult:
    return PromptResult(text=query, model=model, language_model=False)
